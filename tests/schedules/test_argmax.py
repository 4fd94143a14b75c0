"""Selecting combiners (argmax), against all groupings and orders of a few values."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.ir.traversal import operations_named
from relax_mlir.schedules.argmax import is_weak_order

Point = tuple[int, ...]


@contextmanager
def selection(lines: str) -> Iterator[ir.Value]:
    """The condition ``%c``; results are old ``%a0``, ``%a1`` and new ``%b0``, ``%b1``."""
    text = f"""func.func @f(
        %a0: i8, %a1: i8, %b0: i8, %b1: i8, %p: f32, %q: f32, %other: i8
      ) {{
      {lines}
      "test.use"(%c) : (i1) -> ()
      return }}"""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        (use,) = operations_named(module.operation, "test.use")
        yield use.operation.operands[0]


def _side(value: ir.Value) -> tuple[int, bool] | None:
    if not isinstance(value.owner, ir.Block):
        return None
    number = ir.BlockArgument(value).arg_number
    sides = [(0, True), (1, True), (0, False), (1, False), (2, True), (2, False), None]
    return sides[number]


def _is_order(lines: str) -> bool:
    with selection(lines) as condition:
        return is_weak_order(condition, _side)


_COMPARISONS = st.tuples(
    st.sampled_from(["eq", "ne", "slt", "sle", "sgt", "sge"]),
    st.sampled_from(["%a0, %b0", "%b0, %a0", "%a1, %b1", "%b1, %a1"]),
)
_LOGIC = st.sampled_from(["andi", "ori", "xori"])


def _kept(table: dict[tuple[Point, Point], bool], points: list[Point]) -> Point:
    """The result of a reduction over points."""
    best, *rest = points
    for point in rest:
        best = best if table[best, point] else point
    return best


def _in_groups(table: dict[tuple[Point, Point], bool], points: list[Point]) -> Point:
    """The combined results of the first point and of the others."""
    first, *rest = points
    return _kept(table, [first, _kept(table, rest)])


@given(st.lists(_COMPARISONS, min_size=1, max_size=3), st.lists(_LOGIC, min_size=2))
def test_weak_orders_keep_one_of_the_best_in_any_grouping(
    comparisons: list[tuple[str, str]], logic: list[str]
) -> None:
    lines = [
        f"%t{n} = arith.cmpi {test}, {operands} : i8"
        for n, (test, operands) in enumerate(comparisons)
    ]
    name = "%t0"
    for n in range(1, len(comparisons)):
        lines.append(f"%u{n} = arith.{logic[n - 1]} {name}, %t{n} : i1")
        name = f"%u{n}"
    lines.append(f"%true = arith.constant true\n%c = arith.andi {name}, %true : i1")

    def selects(a: Point, b: Point) -> bool:
        values = {"%a0": a[0], "%a1": a[1], "%b0": b[0], "%b1": b[1]}
        found = None
        for n, (test, operands) in enumerate(comparisons):
            left, right = (values[o] for o in operands.split(", "))
            one = _compared(test, left, right)
            found = one if found is None else _joined(logic[n - 1], found, one)
        assert found is not None
        return found

    points = list(product(range(3), repeat=2))
    table = {(a, b): selects(a, b) for a, b in product(points, points)}

    assert _is_order("\n".join(lines)) == _has_order(table, points)


def _compared(test: str, left: int, right: int) -> bool:
    tests = {
        "eq": left == right,
        "ne": left != right,
        "slt": left < right,
        "sle": left <= right,
        "sgt": left > right,
        "sge": left >= right,
    }
    return tests[test]


def _joined(logic: str, left: bool, right: bool) -> bool:
    return {"andi": left and right, "ori": left or right, "xori": left != right}[logic]


def _has_order(table: dict[tuple[Point, Point], bool], points: list[Point]) -> bool:
    """Whether a ranking of the points explains each selection.

    Points rank equal where the condition selects both or neither; the result for three
    points, in all orders and both groupings, has one rank.
    """
    better = {
        (a, b) for a, b in product(points, points) if table[a, b] and not table[b, a]
    }
    ranks = {a: sum((b, a) in better for b in points) for a in points}
    if any(((a, b) in better) != (ranks[a] < ranks[b]) for a in points for b in points):
        return False
    if not better:
        return False  # the first value is kept
    for chosen in product(points, repeat=3):
        kept = {
            ranks[take(table, list(order))]
            for order in permutations(chosen)
            for take in (_kept, _in_groups)
        }
        assert kept == {min(ranks[p] for p in chosen)}
    return True


@pytest.mark.parametrize(
    ("operation", "prefix", "operands"),
    [
        ("cmpi", "s", "%a0, %b0 : i8"),
        ("cmpi", "u", "%a0, %b0 : i8"),
        ("cmpf", "o", "%p, %q : f32"),
        ("cmpf", "u", "%p, %q : f32"),
    ],
)
def test_predicates_are_those_of_all_orders(
    operation: str, prefix: str, operands: str
) -> None:
    """Of any two on one result and one on another, joined."""
    points = list(product(range(3), repeat=2))
    tests = ("eq", "ne", "slt", "sle", "sgt", "sge")
    spelled = [t if t in ("eq", "ne") else prefix + t[1:] for t in tests]
    if operation == "cmpf":
        spelled[:2] = [f"{prefix}eq", f"{prefix}ne"]
    for (first, one), (second, two) in product(
        zip(tests, spelled, strict=True), repeat=2
    ):
        for logic in ("andi", "ori"):
            lines = f"""%x = arith.{operation} {one}, {operands}
                %y = arith.{operation} {two}, {operands}
                %z = arith.cmpi sgt, %a1, %b1 : i8
                %w = arith.xori %x, %y : i1
                %c = arith.{logic} %w, %z : i1"""
            table = {
                (a, b): _joined(
                    logic,
                    _compared(first, a[0], b[0]) != _compared(second, a[0], b[0]),
                    a[1] > b[1],
                )
                for a, b in product(points, points)
            }
            assert _is_order(lines) == _has_order(table, points), lines


_LEXICOGRAPHIC = """%x = arith.cmpi ugt, %a0, %b0 : i8
    %y = arith.cmpi eq, %a0, %b0 : i8
    %z = arith.cmpi slt, %a1, %b1 : i8
    %t = arith.cmpi eq, %a1, %b1 : i8
    %u = arith.cmpf ogt, %p, %q : f32
    %v = arith.andi %t, %u : i1
    %s = arith.ori %z, %v : i1
    %w = arith.andi %y, %s : i1
    %r = arith.ori %x, %w : i1"""
_WIDER = """%a2 = arith.extsi %a0 : i8 to i16
    %b2 = arith.extsi %b0 : i8 to i16
    %n = arith.cmpi sgt, %a2, %b2 : i16"""


def test_orders_of_up_to_three_values_are_tried() -> None:
    assert _is_order(f"{_LEXICOGRAPHIC}\n%c = arith.ori %r, %r : i1")
    assert not _is_order(
        f"{_LEXICOGRAPHIC}\n{_WIDER}\n%c = arith.select %r, %r, %r : i1"
    )
    assert not _is_order(f"{_LEXICOGRAPHIC}\n{_WIDER}\n%c = arith.ori %r, %n : i1")


@pytest.mark.parametrize(
    "lines",
    [
        "%c = arith.cmpf oge, %p, %q : f32",
        "%c = arith.cmpf ult, %q, %p : f32",
        "%c = arith.cmpi ugt, %a0, %b0 : i8",
        """%x = arith.extsi %a0 : i8 to i32
           %y = arith.extsi %b0 : i8 to i32
           %c = arith.cmpi sgt, %x, %y : i32""",
        """%x = arith.extui %a0 : i8 to i32
           %y = arith.extui %b0 : i8 to i32
           %c = arith.cmpi sgt, %x, %y : i32""",
        """%x = arith.extf %p : f32 to f64
           %y = arith.extf %q : f32 to f64
           %c = arith.cmpf ogt, %x, %y : f64""",
        """%x = arith.cmpi ugt, %a0, %b0 : i8
           %y = arith.cmpi eq, %a0, %b0 : i8
           %z = arith.cmpi slt, %a1, %b1 : i8
           %w = arith.andi %y, %z : i1
           %c = arith.ori %x, %w : i1""",
    ],
)
def test_orders_of_all_types_are_read(lines: str) -> None:
    assert _is_order(lines)


@pytest.mark.parametrize(
    "lines",
    [
        "%c = arith.constant true",
        "%c = arith.cmpi eq, %a0, %a0 : i8",
        "%c = arith.cmpi ne, %a0, %b0 : i8",
        "%c = arith.cmpi slt, %a0, %b1 : i8",
        "%c = arith.cmpi slt, %a0, %other : i8",
        "%c = arith.cmpf ord, %p, %q : f32",
        "%c = arith.cmpf uno, %p, %q : f32",
        "%c = arith.cmpf true, %p, %q : f32",
        """%x = arith.addi %a0, %a0 : i8
           %c = arith.cmpi sgt, %x, %b0 : i8""",
        """%x = arith.extsi %a0 : i8 to i32
           %y = arith.extui %b0 : i8 to i32
           %c = arith.cmpi sgt, %x, %y : i32""",
        """%x = arith.cmpi ugt, %a0, %b0 : i8
           %y = arith.cmpi sgt, %a0, %b0 : i8
           %c = arith.ori %x, %y : i1""",
        """%x = arith.cmpi sgt, %a0, %b0 : i8
           %y = arith.cmpi sgt, %a1, %b1 : i8
           %c = arith.andi %x, %y : i1""",
        '%c = "test.any"() : () -> i1',
    ],
)
def test_other_comparisons_are_no_orders(lines: str) -> None:
    assert not _is_order(lines)
