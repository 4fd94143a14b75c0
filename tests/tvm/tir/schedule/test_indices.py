"""Index arithmetic as expressions and back, against its values."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.ir.context import new_context
from relax_mlir.ir.traversal import walk
from relax_mlir.symbolic.dims import Dim, floordiv, mod
from relax_mlir.symbolic.symbols import evaluate, parse
from relax_mlir.tvm.tir.schedule.indices import (
    Call,
    IndexSymbols,
    contains_symbol,
    summands,
)
from tests.analysis.index_programs import ARITHMETIC, compute, program, used_values
from tests.schedules.kernels import number
from tests.symbolic.expressions import Tree, build, calls, points, sums

_NAMES = ("n", "m", "k")
_POINTS = list(points({"n": (0, 6), "m": (0, 4), "k": (1, 3)}))
_READ = (
    *("arith.addi", "arith.subi", "arith.muli", "arith.floordivsi"),
    *("arith.divui", "arith.remui", "arith.minsi", "arith.maxsi"),
)
_operations: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(_NAMES) | st.integers(-2, 5),
    lambda inner: (
        st.tuples(st.sampled_from(_READ[:3] + _READ[6:]), inner, inner)
        | st.tuples(st.sampled_from(_READ[3:6]), inner, st.sampled_from([1, 2, 3]))
    ),
    max_leaves=6,
)


@contextmanager
def read(
    listed: list[Tree],
) -> Iterator[tuple[IndexSymbols, list[ir.Value], list[ir.Value]]]:
    """The values of trees, and their sizes."""
    with used_values(program([*_NAMES, *listed], _NAMES)) as found:
        indices = IndexSymbols()
        for name, value in zip(_NAMES, found[:3], strict=True):
            indices.bind(name, value)
        yield indices, found[3:], found[:3]


def is_defined(tree: Tree, point: dict[str, int]) -> bool:
    """Whether no unsigned operation has a negative operand."""
    if not isinstance(tree, tuple):
        return True
    name, *operands = tree
    if not all(is_defined(operand, point) for operand in operands):
        return False
    return not name.endswith("ui") or compute(operands[0], point) >= 0


@settings(max_examples=20)
@given(st.lists(_operations, min_size=6, max_size=6))
def test_operations_are_read_as_expressions(listed: list[Tree]) -> None:
    with read(listed) as (indices, found, _):
        for tree, value in zip(listed, found, strict=True):
            dim = indices.of(value)
            for point in _POINTS:
                if is_defined(tree, point):
                    assert evaluate(dim, point) == compute(tree, point), (tree, point)


_trees = st.recursive(
    st.sampled_from(_NAMES) | st.integers(-4, 8),
    lambda inner: sums(inner) | calls(["//", "%"], inner, st.sampled_from([2, 3, 4])),
    max_leaves=6,
)


@settings(max_examples=30)
@given(st.lists(_trees, min_size=6, max_size=6))
def test_expressions_are_emitted_as_operations(listed: list[Tree]) -> None:
    with read([]) as (indices, _, sizes):
        use = next(iter(sizes[0].uses)).owner
        for tree in listed:
            dim = build(tree)
            with ir.InsertionPoint(use):
                value = indices.emit(dim)
            for point in _POINTS[::3]:
                known = {v: point[n] for n, v in zip(_NAMES, sizes, strict=True)}
                assert number(value, known) == evaluate(dim, point), (str(dim), point)


@settings(max_examples=60)
@given(_trees)
def test_addends_sum_to_the_expression(tree: Tree) -> None:
    dim = build(tree)
    found = summands(dim)
    for point in _POINTS:
        total = 0
        for by, part in found:
            assert by
            total += by * _factors(part, point)
        assert total == evaluate(dim, point)


def _factors(part: object, point: dict[str, int]) -> int:
    if isinstance(part, Call):
        sides = [evaluate(arg, point) for arg in part.args]
        assert part.name != "arith.remui" or min(sides) >= 0
        return ARITHMETIC[part.name](*sides)
    assert isinstance(part, tuple)
    product = 1
    for atom in part:
        if atom.op == "symbol":
            product *= point[atom.text]
        else:
            product *= _factors(Call.of(atom), point)
    return product


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n", ""),
        ("0", "constant"),
        ("7", "constant"),
        ("n + 3", "constant addi"),
        ("n - 3", "constant subi"),
        ("n - m", "subi"),
        ("3*n", "constant muli"),
        ("n*m", "muli"),
        ("2*n*m + 1", "muli constant muli constant addi"),
        ("0 - n", "constant subi"),
        ("n%4", "constant remui"),
        ("3*(n%4)", "constant remui constant muli"),
        ("n//4", "constant floordivsi"),
        ("n//4%3", "constant remui constant floordivsi"),
        ("n%12//4", "constant remui constant floordivsi"),
        ("n//4%3 + m", "constant remui constant floordivsi addi"),
        ("(n + m)%4", "addi constant remui"),
        ("4*(n//4)", "constant floordivsi constant muli"),
        ("min(n, 3)", "constant minsi"),
        ("min(n, m, 3)", "constant minsi minsi"),
        ("max(n, m)", "addi minsi subi"),
        ("n//4 - 2*(n//8)", "constant remui constant floordivsi"),
        (
            "n//4 - 3*(n//8)",
            "constant floordivsi constant floordivsi constant muli subi",
        ),
        (
            "(5 - n)//3 + n",
            "constant muli constant addi constant floordivsi constant addi",
        ),
        ("min(n, m)*k", "minsi muli"),
        # Reversed indices.
        ("(7 - n)%4", "constant muli constant addi constant remui"),
        ("n//m", "constant maxsi floordivsi"),
        ("n%m", "constant maxsi floordivsi muli subi"),
    ],
)
def test_expressions_are_emitted_concisely(text: str, expected: str) -> None:
    with read([]) as (indices, _, sizes):
        use = next(iter(sizes[0].uses)).owner
        before = len(list(walk(use.operation.block)))
        with ir.InsertionPoint(use):
            value = indices.emit(parse(text))
        found = [o.operation.name for o in walk(use.operation.block)]
        new = [name for name in found if name.startswith("arith.")]
        assert len(found) == before + len(new)
        assert sorted(new) == sorted(f"arith.{name}" for name in expected.split())
        for point in _POINTS[::3]:
            if text.endswith("m") and ("//" in text or "%" in text) and not point["m"]:
                continue
            known = {v: point[n] for n, v in zip(_NAMES, sizes, strict=True)}
            assert number(value, known) == evaluate(parse(text), point)


def test_symbolic_divisors_are_read_without_their_guard() -> None:
    guarded: Tree = ("arith.maxsi", "m", 1)
    listed: list[Tree] = [
        ("arith.floordivsi", "n", guarded),
        ("arith.divui", "n", guarded),
        ("arith.remui", "n", guarded),
        ("arith.addi", "n", guarded),
        ("arith.floordivsi", "n", ("arith.maxsi", "m", 2)),
        ("arith.floordivsi", "n", ("arith.minsi", "m", 1)),
        ("arith.floordivsi", "n", "m"),
    ]
    texts = ["n//m", "n//m", "n%m", "n + max(m, 1)", "n//max(m, 2)"]
    with read(listed) as (indices, found, _):
        dims: list[Dim] = [indices.of(value) for value in found]
        assert dims[:5] == list(map(parse, texts))
        assert dims[5] != parse("n//m")
        assert dims[6] == parse("n//m")


@pytest.mark.parametrize(
    "divisor", ["n - 9", "m - 2", "2 - m", "m - n", "3 - n*m", "min(n, 2) - m"]
)
@pytest.mark.parametrize("divide", [floordiv, mod])
def test_divisors_of_either_sign_keep_it(
    divisor: str, divide: Callable[[Dim, Dim], Dim]
) -> None:
    with read([]) as (indices, _, sizes):
        use = next(iter(sizes[0].uses)).owner
        dims = [
            divide(dividend, parse(divisor)) for dividend in map(parse, ("n", "-k"))
        ]
        for dim in dims:
            with ir.InsertionPoint(use):
                value = indices.emit(dim)
            assert indices.of(value) == dim
            for point in _POINTS:
                if evaluate(parse(divisor), point):
                    known = {v: point[n] for n, v in zip(_NAMES, sizes, strict=True)}
                    assert number(value, known) == evaluate(dim, point), (dim, point)


def test_clamps_of_divisors_that_may_be_negative_are_kept() -> None:
    clamped: Tree = ("arith.maxsi", ("arith.subi", "m", 3), 1)
    with read([("arith.floordivsi", "n", clamped)]) as (indices, (value,), _):
        assert indices.of(value) == parse("n//max(m - 3, 1)")


_PROGRAM = """
func.func @f(%x: memref<?xf32> {tir.shape = #relax.shape<["n"]>},
             %n: index {tir.symbol = "n"}, %m: index, %t: i32) {
  %c0 = arith.constant 0 : index
  scf.for %i = %c0 to %n step %n {
    scf.for %j = %c0 to %n step %n {
      %s = arith.shli %j, %i : index
      %a = arith.addi %s, %j : index
      "test.use"(%i, %j, %s, %a, %n, %m) : (index, index, index, index, index, index) -> ()
    }
  }
  return
}
"""


def test_names_of_values() -> None:
    context = new_context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(_PROGRAM)
        (use,) = (o for o in walk(module.operation) if o.operation.name == "test.use")
        i, j, s, a, n, m = use.operation.operands
        indices = IndexSymbols()
        names = [indices.symbol(value) for value in (j, i, s, n, m)]

        assert names == [indices.symbol(value) for value in (j, i, s, n, m)]
        assert len(set(names)) == 5
        assert names[3] == "n"
        assert [indices.values[name] for name in names] == [j, i, s, n, m]
        # By the depth at which they are defined.
        inner, outer, shifted, _, argument = names
        assert argument < outer < min(inner, shifted)
        assert indices.of(a) == parse(inner) + parse(shifted)
        assert contains_symbol(indices.of(a), [inner])
        assert not contains_symbol(indices.of(a), [outer])

        other = IndexSymbols()
        (function,) = module.body.operations
        other.add_size_symbols(function.operation)
        assert set(other.values.values()) == {n, m}
        assert other.values["n"] == n
        other.bind("z", i)
        assert (other.symbol(i), other.values["z"]) == ("z", i)
