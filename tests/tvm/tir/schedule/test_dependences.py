"""Loop-carried dependences and must-write boxes, against enumeration of all iterations."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.symbolic import dims
from relax_mlir.symbolic.symbols import evaluate, parse
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir.schedule import Schedule, accesses, dependences, tree
from relax_mlir.tvm.tir.schedule.accesses import Access
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import loop_var

_PLACES = (
    *("i", "j", "k", "i", "j", "k", "0", "i + 1", "j + 2", "4 - i", "5 - j"),
    *("i + j", "i * 3 + j", "i * 4 + k", "j * 2 + k", "i * 2", "i // 2", "j % 2"),
    *("(i * 3 + j) // 2", "(i * 3 + j) % 2", "i * 6 + j * 2 + k", "3 * i - j + 4"),
)
_CONDITIONS = (
    *(
        "",
        "",
        "i * 3 + j < 7",
        "j < 2",
        "k >= 1",
        "i + k < 3",
        "j < i + 1",
        "i * 2 + k < 5",
    ),
)
_PROGRAM = """
@T.prim_func
def main(A: T.Buffer((40, 40), "float32"), B: T.Buffer((4, 4, 4), "float32")):
    for i in range({start}, {start} + {sizes[0]}):
        for j in range({sizes[1]}):
            for k in range({sizes[2]}):
                with T.block("W"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.spatial(4, k)
                    {where}
                    A[{first}] = 1.0
            for k in range({sizes[2]}):
                with T.block("R"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.spatial(4, k)
                    B[vi, vj, vk] = A[{second}]
"""
_pairs = st.tuples(st.sampled_from(_PLACES), st.sampled_from(_PLACES))
_options = {
    "start": st.sampled_from([0, 0, 1]),
    "sizes": st.tuples(*[st.integers(1, 3)] * 3),
    "first": _pairs,
    "second": _pairs,
    "condition": st.sampled_from(_CONDITIONS),
}


class _Nest:
    """Three loops around a block that writes elements, and one that reads some."""

    def __init__(
        self,
        start: int,
        sizes: Sequence[int],
        first: Sequence[str],
        second: Sequence[str],
        condition: str,
    ) -> None:
        self.start, self.sizes = start, sizes
        self.places = {"W": first, "R": second}
        self.condition = condition
        self.schedule = Schedule(
            from_source(
                _PROGRAM.format(
                    start=start,
                    sizes=sizes,
                    where=f"T.where({condition})" if condition else "",
                    first=", ".join(map(_of_axes, first)),
                    second=", ".join(map(_of_axes, second)),
                )
            )
        )
        function = self.schedule.state.function("main")
        self.blocks = {n: tree.find_blocks(function, n)[0] for n in "WR"}
        self.loops = tree.enclosing_loops(self.blocks["W"])

    def accesses(self, name: str) -> list[Access]:
        """The accesses of a block to the shared buffer."""
        found = accesses.accesses_in(self.blocks[name])
        return [a for a in found if accesses.buffer_name(a.buffer) == "A"]

    def steps(self) -> list[dict[str, int]]:
        """All values of the loops."""
        i, j, k = self.sizes
        ranges = range(self.start, self.start + i), range(j), range(k)
        return [dict(zip("ijk", step, strict=True)) for step in product(*ranges)]

    def element(self, name: str, step: Mapping[str, int]) -> tuple[int, ...]:
        """The elements that a block touches in an iteration."""
        return tuple(_value(place, step) for place in self.places[name])


def _of_axes(place: str) -> str:
    for name in "ijk":
        place = place.replace(name, f"v{name}")
    return place


def _value(text: str, step: Mapping[str, int]) -> int:
    return evaluate(parse(text), dict(step))


def _holds(condition: str, step: Mapping[str, int]) -> bool:
    if not condition:
        return True
    left, sign, right = (
        condition.replace(" >= ", "|>=|").replace(" < ", "|<|").split("|")
    )
    lhs, rhs = _value(left, step), _value(right, step)
    return lhs >= rhs if sign == ">=" else lhs < rhs


@settings(max_examples=150, deadline=None)
@given(
    depth=st.integers(1, 2), both=st.booleans(), options=st.fixed_dictionaries(_options)
)
def test_loops_without_dependences_access_distinct_elements(
    depth: int, both: bool, options: dict[str, Any]
) -> None:
    nest = _Nest(**options)
    names = "WR" if both else "W"
    found = [a for name in names for a in nest.accesses(name)]
    loops = nest.loops[:depth]

    carrying = dependences.carrying_loops(found, loops, IndexSymbols())

    telling = [v for v, loop in zip("ijk", loops, strict=False) if loop not in carrying]
    touched: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for step in nest.steps():
        for name in names:
            told = tuple(step[v] for v in telling)
            touched.setdefault(nest.element(name, step), set()).add(told)
    assert all(len(told) == 1 for told in touched.values())


@settings(max_examples=150, deadline=None)
@given(depth=st.integers(0, 2), options=st.fixed_dictionaries(_options))
def test_must_write_boxes_are_written(depth: int, options: dict[str, Any]) -> None:
    nest = _Nest(**options)
    (store,) = nest.accesses("W")
    indices = IndexSymbols()
    place = [tree.scope_of(nest.blocks["W"]), *nest.loops][depth]

    box = dependences.must_write_region(store, place, indices)

    if box is None:
        return
    names = {
        indices.symbol(loop_var(o)): v for o, v in zip(nest.loops, "ijk", strict=True)
    }
    for around in nest.steps():
        written = {
            nest.element("W", step)
            for step in nest.steps()
            if all(step[v] == around[v] for v in "ijk"[:depth])
            and _holds(nest.condition, step)
        }
        known = {n: around[v] for n, v in names.items()}
        assert set(_elements(box, known)) <= written


def _elements(
    box: Sequence[Interval], known: Mapping[str, int]
) -> list[tuple[int, ...]]:
    runs = [(evaluate(r.low, dict(known)), evaluate(r.high, dict(known))) for r in box]
    return list(product(*(range(low, high + 1) for low, high in runs)))


@settings(max_examples=150, deadline=None)
@given(depth=st.integers(1, 2), options=st.fixed_dictionaries(_options))
def test_covered_elements_are_written_before(
    depth: int, options: dict[str, Any]
) -> None:
    nest = _Nest(**options)
    place = nest.loops[depth - 1]

    covered = dependences.is_region_covered(
        nest.accesses("R"), nest.blocks["W"], place, IndexSymbols()
    )

    shared = "ijk"[:depth]
    if not covered:
        return
    for around in nest.steps():
        same = [s for s in nest.steps() if all(s[v] == around[v] for v in shared)]
        written = {nest.element("W", s) for s in same if _holds(nest.condition, s)}
        assert {nest.element("R", s) for s in same} <= written


def _carrying(first: str, second: str = "", **options: Any) -> str:
    given_ = {"start": 0, "sizes": (3, 3, 2), "condition": ""} | options
    nest = _Nest(
        first=first.split(", "), second=(second or first).split(", "), **given_
    )
    found = nest.accesses("W") + nest.accesses("R")
    carrying = dependences.carrying_loops(found, nest.loops[:2], IndexSymbols())
    return "".join(v for v, o in zip("ijk", nest.loops, strict=True) if o in carrying)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("i, j", "", ""),
        ("j, 4 - i", "", ""),
        ("i * 3 + j, k", "", ""),
        ("i * 6 + j * 2 + k, 0", "", ""),
        ("(i * 3 + j) // 2, (i * 3 + j) % 2", "", ""),
        ("i, k", "", "j"),
        ("k, j + 2", "", "i"),
        ("0, 0", "", "ij"),
        ("i // 2, j", "", "i"),
        ("i + j, 0", "", "ij"),
        ("i, j", "i, j + 1", "j"),
        ("i, j", "j, i", "ij"),
        ("i * 2, j", "", ""),
        ("j * 2 + k, i", "j * 2 + k, i", ""),
        ("j * 2 + k, i", "j * 2, i", ""),
        ("j + k, i", "", "j"),
    ],
)
def test_carrying_loops(first: str, second: str, expected: str) -> None:
    assert _carrying(first, second) == expected
    if "//" not in first:  # a sum with an offset is not divided
        assert _carrying(first, second, start=1) == expected


def test_a_loop_of_one_iteration_carries_no_dependence() -> None:
    assert _carrying("i, k", sizes=(3, 1, 2)) == ""
    assert _carrying("0, 0", sizes=(1, 3, 1)) == "j"


@pytest.mark.parametrize(
    ("first", "condition", "expected"),
    [
        ("i, j", "", [(2, 2), (0, 2)]),
        ("j, i * 4 + k", "", [(0, 2), (8, 9)]),
        ("5 - j, k", "", [(3, 5), (0, 1)]),
        ("i * 6 + j * 2 + k, 0", "", [(12, 17), (0, 0)]),
        ("i, j", "j < 2", [(2, 2), (0, 1)]),
        ("i * 3 + j, 0", "i * 3 + j < 7", [(6, 6), (0, 0)]),
        ("k, j", "k >= 1", [(1, 1), (0, 2)]),
        ("k, j", "i * 2 + k < 5", [(0, 0), (0, 2)]),
        ("k, i", "j < 2", [(0, 1), (2, 2)]),
        ("k, i", "j < i", None),
        ("k, i", "j + i < 4", [(0, 1), (2, 2)]),
        ("k, i", "j + i < 2", None),
        ("j * 2 + k, 0", "j < 2", [(0, 3), (0, 0)]),
        ("i * 2, j % 2", "", [(4, 4), (0, 1)]),
        ("j, j", "", None),
        ("j + 2, i", "j < i + 1", [(2, 4), (2, 2)]),
    ],
)
def test_must_write_boxes(
    first: str, condition: str, expected: list[tuple[int, int]] | None
) -> None:
    nest = _Nest(0, (3, 3, 2), first.split(", "), ("0", "0"), condition)
    (store,) = nest.accesses("W")
    indices = IndexSymbols()

    box = dependences.must_write_region(store, nest.loops[0], indices)

    known = {indices.symbol(loop_var(nest.loops[0])): 2}
    ends = box and [(evaluate(r.low, known), evaluate(r.high, known)) for r in box]
    assert ends == expected


def test_boxes_of_iterations() -> None:
    i, n = dims.symbol("i"), dims.symbol("n")
    limits = {"i": (0, 7)}

    def are_disjoint(low: dims.Dim, high: dims.Dim, extent: dims.Dim = 8) -> bool:
        return dependences.are_iterations_disjoint(
            [Interval(low, high)], {"i": extent}, limits
        )

    assert are_disjoint(i, i)
    assert are_disjoint(2 * i, 2 * i + 1)
    assert not are_disjoint(2 * i, 2 * i + 2)
    assert are_disjoint(n - 3 * i, n - 3 * i + 2)
    assert not are_disjoint(n, n)
    assert dependences.are_iterations_disjoint([Interval(n, n)], {}, limits)
