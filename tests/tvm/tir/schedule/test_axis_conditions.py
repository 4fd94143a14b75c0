"""Conditions on iter vars, against the block instances that loops visit."""

# ruff: noqa: N803  scripts name buffers in capitals

import contextlib
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relax_mlir.errors import ScheduleError
from relax_mlir.symbolic.dims import symbol
from relax_mlir.symbolic.symbols import evaluate, parse, substitute
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import PrimFunc
from relax_mlir.tvm.tir.schedule import Schedule, tree
from relax_mlir.tvm.tir.schedule.axis_conditions import (
    domain_conditions,
    iter_conditions,
    substitute_iters,
)
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.new_axes import iter_symbol
from relax_mlir.tvm.tir.schedule.predicates import Condition, block_conditions
from relax_mlir.tvm.tir.schedule.regions import Interval
from relax_mlir.tvm.tir.schedule.state import iter_extents, loop_bounds, loop_var


@T.prim_func
def whole(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5, 6), "float32")):
    for i, j in T.grid(5, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


@T.prim_func
def corner(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5, 6), "float32")):
    for i, j in T.grid(5, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i < 3 and j >= 2)
            B[vi, vj] = A[vi, vj]


@T.prim_func
def triangle(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5, 6), "float32")):
    for i, j in T.grid(5, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i + j < 6)
            B[vi, vj] = A[vi, vj]


@T.prim_func
def backwards(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5, 6), "float32")):
    for i, j in T.grid(5, 6):
        with T.block("B"):
            vi = T.axis.spatial(5, 4 - i)
            vj = T.axis.spatial(6, j)
            T.where(i < 3 and j < 4)
            B[vi, vj] = A[vi, vj]


@T.prim_func
def shifted(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(12):
        with T.block("B"):
            vi = T.axis.spatial((2, 9), i + 2)
            T.where(i < 7)
            B[vi] = A[vi]


@T.prim_func
def twice(A: T.Buffer((5,), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 2):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            T.where(k < 1 and i < 4)
            B[vi] = A[vi]


@T.prim_func
def overlapping(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i * 3 + j)
            T.where(i * 3 + j < 8)
            B[vi] = A[vi]


_PROGRAMS = [whole, corner, triangle, backwards, shifted, twice, overlapping]


def check(schedule: Schedule, *, has_gaps: bool = False) -> list[Condition]:
    """Check that the conditions of iter vars hold exactly for the instances that loops visit.

    Iter vars with gaps have values that no loop binds, with or without a predicate.
    """
    (block,) = tree.find_blocks(schedule.state.function("main"), "B")
    indices = IndexSymbols()
    found = iter_conditions(block, indices, "test")
    starts, extents = tree.iter_var_mins(block), iter_extents(indices, block)
    loops = tree.enclosing_loops(block)
    names = [indices.symbol(loop_var(loop)) for loop in loops]
    bounds = [loop_bounds(indices, loop) for loop in loops]
    values = [indices.of(value) for value in tree.bindings(block)]
    guards = block_conditions(block, indices)
    visited, reached = set(), set()
    for steps in product(*(range(int(str(n))) for _, n in bounds)):
        point = {
            name: int(str(low)) + step
            for name, (low, _), step in zip(names, bounds, steps, strict=True)
        }
        axes = tuple(evaluate(value, point) for value in values)
        reached.add(axes)
        if all(evaluate(guard.slack, point) >= 0 for guard in guards):
            visited.add(axes)
    allowed = set()
    for axes in product(
        *(range(s, s + int(str(e))) for s, e in zip(starts, extents, strict=True))
    ):
        point = {iter_symbol(number): value for number, value in enumerate(axes)}
        if all(evaluate(condition.slack, point) >= 0 for condition in found):
            allowed.add(axes)
    assert visited == (allowed & reached if has_gaps else allowed)
    return found


_steps = st.lists(
    st.tuples(
        st.sampled_from(["split", "split", "fuse", "reorder"]),
        st.integers(0, 2),
        st.sampled_from([2, 3, 4]),
    ),
    max_size=3,
)


@settings(max_examples=40)
@given(st.sampled_from(_PROGRAMS), _steps)
def test_conditions_allow_what_loops_visit(
    program: PrimFunc, steps: list[tuple[str, int, int]]
) -> None:
    schedule = Schedule(program)
    for name, which, factor in steps:
        loops = schedule.get_loops("B")
        first, *others = loops[which % len(loops) :]
        try:
            if name == "split":
                schedule.split(first, [None, factor])
            elif name == "fuse" and others:
                schedule.fuse(first, others[0])
            elif name == "reorder" and others:
                schedule.reorder(others[0], first)
        except ScheduleError:
            continue
    with contextlib.suppress(ScheduleError):  # it says something else
        check(schedule)


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda program: program.__name__)
def test_conditions_of_plain_loops(program: PrimFunc) -> None:
    check(Schedule(program))


@pytest.mark.parametrize("factors", [[None, 4], [3, None], [2, 2, None]])
def test_splits_leave_out_no_point(factors: list[int | None]) -> None:
    schedule = Schedule(whole)
    schedule.split(schedule.fuse(*schedule.get_loops("B")), factors)
    check(schedule)


@T.prim_func
def unit(A: T.Buffer((1, 6), "float32"), B: T.Buffer((1, 6), "float32")):
    for j in range(6):
        with T.block("B"):
            vi = T.axis.spatial(1, 0)
            vj = T.axis.spatial(6, j)
            T.where(j < 4)
            B[vi, vj] = A[vi, vj]


@pytest.mark.parametrize(
    ("program", "count"), [(whole, 0), (corner, 2), (triangle, 1), (unit, 1)]
)
def test_ends_of_axes_are_no_conditions(program: PrimFunc, count: int) -> None:
    schedule = Schedule(program)
    schedule.split(schedule.get_loops("B")[-1], [None, 4])
    assert len(check(schedule)) == count
    schedule.split(schedule.get_loops("B")[0], [None, 3])
    assert len(check(schedule)) == count


@pytest.mark.parametrize("program", [corner, triangle])
def test_conditions_of_fused_loops(program: PrimFunc) -> None:
    schedule = Schedule(program)
    schedule.fuse(*schedule.get_loops("B"))
    assert check(schedule)


def test_conditions_at_the_end_of_an_axis_are_kept() -> None:
    assert check(Schedule(shifted)) == []
    assert len(check(Schedule(twice))) == 1
    assert check(Schedule(overlapping)) == []


def refused(program: PrimFunc) -> bool:
    try:
        check(Schedule(program))
    except ScheduleError as error:
        return "the predicate of block `B` does not only constrain" in str(error)
    return False


@T.prim_func
def loaded(A: T.Buffer((5,), "int32"), B: T.Buffer((5,), "int32")):
    for i in range(5):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            T.where(A[i] < 3)
            B[vi] = A[vi]


@T.prim_func
def halves(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, 5 - i)
            T.where(i // 2 < 2)
            B[vi] = A[vi]


@T.prim_func
def late(A: T.Buffer((5,), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 3):
        with T.block("B"):
            vi = T.axis.spatial(5, i)
            T.where(k >= 1)
            B[vi] = A[vi]


@T.prim_func
def once(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi = T.axis.spatial(12, i * 3 + j)
            T.where(j < 3)
            B[vi] = A[vi]


def test_other_predicates_are_refused() -> None:
    assert [refused(p) for p in (loaded, late, once)] == [True] * 3
    assert not refused(halves)


@pytest.mark.parametrize(
    ("slack", "values", "expected"),
    [
        ("4 - a", {0: "x"}, Condition("lt", parse("x"), 5)),
        ("a - 2", {0: "x"}, Condition("le", 2, parse("x"))),
        ("n - 1 - a", {0: "x"}, Condition("le", 1, parse("n - x"))),
        ("b - a", {0: "x", 1: "y"}, Condition("le", 0, parse("y - x"))),
        ("4 - a - b", {0: "2*x", 1: "y"}, Condition("lt", parse("2*x + y"), 5)),
        ("4 - a", {1: "y"}, Condition("lt", symbol(iter_symbol(0)), 5)),
    ],
)
def test_conditions_where_axes_have_values(
    slack: str, values: dict[int, str], expected: Condition
) -> None:
    named = {"a": symbol(iter_symbol(0)), "b": symbol(iter_symbol(1))}
    given_ = {number: parse(value) for number, value in values.items()}
    assert substitute_iters(
        [Condition("le", 0, substitute(parse(slack), named))], given_
    ) == [expected]


@T.prim_func
def upper(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi = T.axis.spatial(12, i * 4 + j)
            T.where(i < 2)
            B[vi] = A[vi]


@T.prim_func
def lower(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i, j in T.grid(3, 4):
        with T.block("B"):
            vi = T.axis.spatial(12, i * 4 + j)
            T.where(i >= 1)
            B[vi] = A[vi]


@T.prim_func
def pairs(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
    for i, j in T.grid(3, 2):
        with T.block("B"):
            vi = T.axis.spatial(6, i * 2 + j)
            T.where(i < 2)
            B[vi] = A[vi]


@T.prim_func
def odd(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(8, i * 2 + 1)
            T.where(i >= 1 and i < 3)
            B[vi] = A[vi]


@pytest.mark.parametrize("program", [upper, lower, pairs])
def test_conditions_of_upper_parts_of_axes(program: PrimFunc) -> None:
    assert len(check(Schedule(program))) == 1


def test_conditions_of_axes_with_gaps() -> None:
    assert len(check(Schedule(odd), has_gaps=True)) == 2


_ranges = st.tuples(st.integers(-3, 3), st.integers(0, 4)).map(
    lambda found: range(found[0], found[0] + found[1])
)


@settings(max_examples=20)
@given(_ranges, _ranges)
def test_axes_are_among_their_values(first: range, second: range) -> None:
    whole = [Interval(numbers.start, numbers.stop - 1) for numbers in (first, second)]
    conditions = domain_conditions([parse("x"), parse("y + 1")], whole)
    for x, y in product(range(-4, 9), repeat=2):
        holds = [evaluate(c.slack, {"x": x, "y": y}) >= 0 for c in conditions]
        assert all(holds) == (x in first and y + 1 in second)
