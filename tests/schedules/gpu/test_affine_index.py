"""Affine sums of loop variables and thread indices, and their ranges, against all iterations."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from relax_mlir.ir.traversal import operations_named
from relax_mlir.schedules.gpu.affine_index import (
    STORES,
    access_at,
    accessed_range,
    affine_sum_of,
    argument_range,
    emit_affine_sum,
    span_of,
    structural_key,
    value_range,
)
from relax_mlir.symbolic.affine_forms import AffineForm
from relax_mlir.symbolic.intervals import UNBOUNDED, contains
from tests.analysis.index_programs import (
    compute,
    program,
    used_values,
    values_at,
)
from tests.symbolic.expressions import Tree, points

# `i` from 2 to 5, `j` from 0 to 6 of 7 threads, `n` is any number.
_LOOPS = """
%c1 = arith.constant 1 : index
%c2 = arith.constant 2 : index
%c6 = arith.constant 6 : index
%c7 = arith.constant 7 : index
scf.for %i = %c2 to %c6 step %c1 {
scf.for %j = %c0 to %c7 step %c1 {
"""
_LIMITS = {"i": (2, 5), "j": (0, 6)}
_POINTS = list(points(_LIMITS))
_SUMS = ("arith.addi", "arith.subi", "arith.muli")
_QUOTIENTS = (
    *("arith.divsi", "arith.divui", "arith.floordivsi"),
    *("arith.remsi", "arith.remui"),
)

_leaves = st.sampled_from(["i", "j"]) | st.integers(-3, 6)
trees: st.SearchStrategy[Tree] = st.recursive(
    _leaves,
    lambda inner: (
        st.tuples(st.sampled_from(_SUMS), inner, inner)
        | st.tuples(st.sampled_from(_QUOTIENTS), inner, st.integers(-2, 8))
    ),
    max_leaves=5,
)


def loops(text: str = _LOOPS) -> str:
    return "%c0 = arith.constant 0 : index\n" + text


def at(total: AffineForm[ir.Value], values: dict[ir.Value, int]) -> int:
    return total.constant + sum(f * values[v] for v, f in total.coefficients.items())


def is_sum(tree: Tree) -> bool:
    """Whether it is a sum of multiples of the variables, syntactically."""
    if not isinstance(tree, tuple):
        return True
    name, *operands = tree
    if name in _QUOTIENTS or not all(map(is_sum, operands)):
        return False
    return name != "arith.muli" or any(
        len(set(values_at(operand, _POINTS) or ())) == 1 for operand in operands
    )


@settings(max_examples=20)
@given(st.lists(trees, min_size=8, max_size=8))
def test_sums_and_their_ranges(listed: list[Tree]) -> None:
    with used_values(program(["i", "j", *listed], [], loops())) as found:
        i, j, *values = found
        for tree, value in zip(listed, values, strict=True):
            numbers = values_at(tree, _POINTS)
            if numbers is None:
                continue
            total = affine_sum_of(value)
            assert all(total.coefficients.values())
            if is_sum(tree):
                assert set(total.coefficients) <= {i, j}, tree
            if set(total.coefficients) <= {i, j}:
                made = [at(total, {i: p["i"], j: p["j"]}) for p in _POINTS]
                assert made == numbers, tree
            known = accessed_range([total], [1])
            exact = min(numbers), max(numbers)
            assert contains(known, exact), tree
            if is_sum(tree):
                assert known == exact, tree


@pytest.mark.parametrize("name", _QUOTIENTS)
def test_ranges_of_quotients_and_remainders(name: str) -> None:
    listed: list[Tree] = [
        (name, ("arith.addi", "j", more), divisor)
        for divisor, more in itertools.product([1, 2, 3, 5, 8], range(0, 13, 4))
    ]
    with used_values(program(listed, [], loops())) as found:
        for tree, value in zip(listed, found, strict=True):
            numbers = values_at(tree, _POINTS)
            assert numbers is not None
            ends = (min(numbers), max(numbers))
            is_known = ends == (numbers[0], numbers[-1]) or "rem" not in name
            assert isinstance(tree, tuple)
            assert value_range(value) == (
                ends if is_known else (0, compute(tree[2], {}) - 1)
            )


@pytest.mark.parametrize(
    "tree",
    [
        "n",
        ("arith.divui", "i", 0),
        ("arith.remui", "i", 0),
        ("arith.divsi", "i", -2),
        ("arith.divsi", "i", "n"),
        ("arith.divsi", ("arith.subi", "i", 3), 2),
        ("arith.remsi", ("arith.subi", "i", 3), 2),
        ("arith.divui", "n", 2),
        ("arith.minsi", "i", "j"),
    ],
)
def test_other_ranges_are_not_known(tree: Tree) -> None:
    with used_values(program([tree], ["n"], loops())) as (value,):
        assert value_range(value) == UNBOUNDED
        other = AffineForm({}, 3)
        assert accessed_range([affine_sum_of(value), other], [1, 1]) == UNBOUNDED


def test_spans_of_loop_variables() -> None:
    listed: list[Tree] = ["i", "j", "n", ("arith.remui", "i", 4)]
    with used_values(program(listed, ["n"], loops())) as found:
        assert list(map(span_of, found)) == [3, 6, None, 3]


def test_sums_of_a_single_term() -> None:
    listed: list[Tree] = [
        ("arith.muli", "i", "j"),
        ("arith.minsi", "i", "j"),
        ("arith.subi", "i", "i"),
        ("arith.muli", ("arith.addi", "i", 1), 3),
        ("arith.muli", 3, ("arith.subi", 1, "i")),
        ("arith.muli", "i", 0),
        ("arith.muli", 2, 3),
    ]
    with used_values(program(["i", *listed], [], loops())) as (i, a, b, *found):
        assert [affine_sum_of(a), affine_sum_of(b)] == [
            AffineForm({a: 1}),
            AffineForm({b: 1}),
        ]
        assert list(map(affine_sum_of, found)) == [
            AffineForm({}),
            AffineForm({i: 3}, 3),
            AffineForm({i: -3}, 3),
            AffineForm({}),
            AffineForm({}, 6),
        ]


def test_spans_contain_all_lanes() -> None:
    with used_values(program(["i", "j"], [], loops())) as (i, j):
        first, second = AffineForm({i: 4, j: -1}, 10), AffineForm({j: 2})
        everywhere = [
            {*range(a, a + 4), *range(b, b + 2)}
            for p in _POINTS
            for a, b in [(4 * p["i"] - p["j"] + 10, 2 * p["j"])]
        ]
        touched = set().union(*everywhere)
        found = accessed_range([first, second], [4, 2])
        assert found == (min(touched), max(touched))


def test_sums_are_computed_where_they_are_needed() -> None:
    with used_values(program(["i", "j"], [], loops())) as (i, j):
        use = next(iter(j.uses)).owner
        with ir.InsertionPoint(use):
            emitted = emit_affine_sum(AffineForm({i: 4, j: -1}, 10))
            assert emit_affine_sum(AffineForm({}, 7)) == 7
            assert emit_affine_sum(AffineForm({i: 1})) == i
        assert isinstance(emitted, ir.Value)
        assert affine_sum_of(emitted) == AffineForm({i: 4, j: -1}, 10)


def test_equal_computations() -> None:
    listed: list[Tree] = [
        ("arith.addi", "i", 3),
        ("arith.addi", "i", 3),
        ("arith.addi", "i", 4),
        ("arith.addi", "j", 3),
        ("arith.subi", "i", 3),
        ("arith.addi", 3, "i"),
        ("arith.muli", ("arith.addi", "i", 3), "j"),
        ("arith.muli", ("arith.addi", "i", 3), "j"),
        "i",
        "i",
    ]
    with used_values(program(listed, [], loops())) as found:
        keys = list(map(structural_key, found))
        assert [keys.index(key) for key in keys] == [0, 0, 2, 3, 4, 5, 6, 6, 8, 8]
        assert keys[8] == found[8]


_OPERATIONS = """
func.func @f(%x: memref<8x64xf32>, %n: index) {
  %v = vector.load %x[%n, %n] : memref<8x64xf32>, vector<4xf32>
  %e = memref.load %x[%n, %n] : memref<8x64xf32>
  %r = "test.read"(%x, %n) : (memref<8x64xf32>, index) -> index
  %s = "test.read"(%x, %n) : (memref<8x64xf32>, index) -> index
  vector.store %v, %x[%n, %n] : memref<8x64xf32>, vector<4xf32>
  memref.store %e, %x[%n, %n] : memref<8x64xf32>
  "test.use"(%r, %s) : (index, index) -> ()
  return
}
"""


def test_accesses() -> None:
    with used_values(_OPERATIONS) as (r, s):
        assert structural_key(r) != structural_key(
            s
        )  # what reads may read another number
        assert value_range(r) == UNBOUNDED
        function = r.owner.parent
        assert function is not None
        argument = function.regions[0].blocks[0].arguments[1]
        for name, place, lanes in [
            ("vector.load", 0, 4),
            ("memref.load", 0, 1),
            ("vector.store", STORES["vector.store"], 4),
            ("memref.store", STORES["memref.store"], 1),
        ]:
            (operation,) = operations_named(function, name)
            access = access_at(operation, place)
            assert (access.first, access.lanes) == (place + 1, lanes)
            assert access.indices == (
                AffineForm({argument: 1}),
                AffineForm({argument: 1}),
            )
            assert access.operation == operation


_LAUNCH = """
func.func @f(%n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c3, %gy = %n, %gz = %c0)
             threads(%tx, %ty, %tz) in (%sx = %c5, %sy = %c1, %sz = %n) {
    %r = scf.for %i = %c5 to %c3 step %c1 iter_args(%s = %c0) -> (index) {
      scf.for %a = %c0 to %n step %c1 {
        scf.for %b = %n to %c5 step %c1 {
          "test.use"(%bx, %by, %bz, %tx, %ty, %tz, %gx, %sz, %i, %s, %a, %b)
            : (index, index, index, index, index, index, index, index, index,
               index, index, index) -> ()
        }
      }
      scf.yield %s : index
    }
    gpu.terminator
  }
  return
}
"""


def test_indices_of_blocks_threads_and_loops() -> None:
    with used_values(_LAUNCH) as found:
        assert list(map(argument_range, found)) == [
            *((0, 2), UNBOUNDED, (0, 0)),
            *((0, 4), (0, 0), UNBOUNDED),
            *(UNBOUNDED, UNBOUNDED),  # the dimension
            (5, 5),  # a loop without iterations
            *(UNBOUNDED, UNBOUNDED, UNBOUNDED),
        ]
        assert value_range(found[0]) == (0, 2)
