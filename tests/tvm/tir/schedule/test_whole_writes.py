"""Copies back from a cache preserve elements that a block does not write."""

# ruff: noqa: N803  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule
from tests.tvm.tir.schedule.apply import check_schedule

_PROGRAM = """
@T.prim_func
def program(
    A: T.Buffer((6, 6), "float32"),
    I: T.Buffer((6,), "int32"),
    C: T.Buffer({shape}, "float32"),
):
    {allocation}
    for i in range(6):
        {inner}
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                {axis}
                {body}
    {reader}
"""
_ROWS = ("for j in range(6):", "vj = T.axis.spatial(6, j)")
_TRIANGLE = ("for j in range(i + 1):", "vj = T.axis.spatial(6, j)")
# The loop and the axis, what the block does, and the shape of its result.
_PARTIAL = {
    "choice": (*_ROWS, "if A[vi, vj] > 0.0: C[vi, vj] = A[vi, vj]", (6, 6)),
    "predicate": (*_ROWS, "T.where(i + j < 6); C[vi, vj] = A[vi, vj]", (6, 6)),
    "triangle": (*_TRIANGLE, "C[vi, vj] = A[vi, vj]", (6, 6)),
    "every other row": (*_ROWS, "C[vi * 2, vj] = A[vi, vj]", (12, 6)),
    "diagonal": (*_ROWS, "C[vi, vi] = A[vi, vj]", (6, 6)),
    "loaded rows": (*_ROWS, "C[T.min(T.max(I[vi], 0), 5), vj] = A[vi, vj]", (6, 6)),
    "inner triangle": (
        "if True:",
        "vz = T.axis.spatial(1, 0)",
        "for k in range(vi + 1): C[vi, k] = A[vi, k]",
        (6, 6),
    ),
    "axis of even numbers": (
        "for j in range(6):",
        "vj = T.axis.spatial(12, j * 2)",
        "C[vi, vj] = 1.0",
        (6, 12),
    ),
    "axes of one loop": (
        "if True:",
        "vj = T.axis.spatial(6, i)",
        "C[vi, vj] = 1.0",
        (6, 6),
    ),
    "uneven quarters": (
        "if True:",
        "vz = T.axis.spatial(1, 0)",
        "for k in range(3, 11): C[vi, (k + 3) // 4, (k + 3) % 4] = A[vi, vi]",
        (6, 4, 4),
    ),
    "diagonal beside rows": (*_ROWS, "C[vi, vi] = 2.0; A[vi, vj] = 1.0", (6, 6)),
    "two rows": (*_ROWS, "C[0, vj] = A[vi, vj]; C[5, vj] = A[vi, vj]", (6, 6)),
}
_WHOLE = {
    "rows": (*_ROWS, "C[vi, vj] = A[vi, vj]", (6, 6)),
    "turned": (*_ROWS, "C[vj, 5 - vi] = A[vi, vj]", (6, 6)),
    "a part": (*_ROWS, "C[vi + 2, vj + 1] = A[vi, vj]", (9, 9)),
    "flat": (*_ROWS, "C[vi * 6 + vj] = A[vi, vj]", (36,)),
    "halves": (*_ROWS, "C[vi // 2, vi % 2, vj] = A[vi, vj]", (3, 2, 6)),
    "quarters": (
        "if True:",
        "vz = T.axis.spatial(1, 0)",
        "for k in range(1, 9): C[vi, (k + 3) // 4, (k + 3) % 4] = A[vi, vi]",
        (6, 4, 4),
    ),
    "inner loop": (
        "if True:",
        "vz = T.axis.spatial(1, 0)",
        "for k in range(6): C[vi, k] = A[vi, k]",
        (6, 6),
    ),
    "one choice of two": (
        *_ROWS,
        "C[vi, vj] = 1.0\n                if A[vi, vj] > 0.0: C[vi, vj] = A[vi, vj]",
        (6, 6),
    ),
}
# Each iteration of the first loop writes a box.
_WHOLE_PER_ITERATION = (
    *("triangle", "every other row", "diagonal", "inner triangle"),
    *("axes of one loop", "diagonal beside rows"),
)
_STEPS = {
    "cache_write": lambda s: s.cache_write("C", 0, "global"),
    "write_at": lambda s: s.write_at(s.get_loops("C")[0], "C", 0, "global"),
    "reindex": lambda s: s.reindex("C", ("write", 0)),
    "pad_einsum": lambda s: s.pad_einsum("C", [4, 4]),
}


def _program(inner, axis, body, shape, *, is_own=False):
    text = _PROGRAM.format(
        inner=inner,
        axis=axis,
        body=body.replace("C[", "D[") if is_own else body,
        shape=(6, 6) if is_own else shape,
        allocation=f"D = T.alloc_buffer({shape})" if is_own else "",
        reader=_READER if is_own else "",
    )
    return from_source(text)


_READER = """for i, j in T.grid(6, 6):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            if i + j == 0: C[vi, vj] = D[0, 0]
"""


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *((name, "cache_write") for name in _PARTIAL),
        *((name, "write_at") for name in _PARTIAL if name not in _WHOLE_PER_ITERATION),
    ],
)
def test_elements_that_a_block_leaves_out_are_not_copied_back(name, step):
    schedule = Schedule(_program(*_PARTIAL[name]))

    with pytest.raises(ScheduleError, match="may leave out elements of `C`"):
        _STEPS[step](schedule)


@pytest.mark.parametrize("step", ["reindex", "pad_einsum"])
def test_what_is_stored_by_choice_is_not_copied_back(step):
    schedule = Schedule(_program(*_PARTIAL["choice"]))

    with pytest.raises(ScheduleError, match=r"condition"):
        _STEPS[step](schedule)


def test_a_diagonal_is_not_padded():
    schedule = Schedule(_program(*_PARTIAL["diagonal"]))

    with pytest.raises(ScheduleError, match="may leave out elements of `C`"):
        _STEPS["pad_einsum"](schedule)


@pytest.mark.parametrize("step", ["cache_write", "write_at"])
@pytest.mark.parametrize("name", _WHOLE)
def test_whole_boxes_are_copied_back(name, step):
    program = _program(*_WHOLE[name])
    schedule = Schedule(program)

    _STEPS[step](schedule)

    check_schedule(schedule, program)


@pytest.mark.parametrize("name", _WHOLE_PER_ITERATION)
def test_boxes_complete_per_iteration_are_copied_back(name):
    program = _program(*_PARTIAL[name])
    schedule = Schedule(program)

    _STEPS["write_at"](schedule)

    check_schedule(schedule, program)


@T.prim_func
def columns_of_rounds(
    A: T.Buffer((6,), "float32"),
    C: T.Buffer((12,), "float32"),
    D: T.Buffer((2, 12), "float32"),
):
    for t in range(2):
        for i in range(6):
            with T.block("C"):
                vt, vi = T.axis.remap("SS", [t, i])
                C[vi * 2 + vt] = A[vi]
        for i in range(12):
            with T.block("D"):
                vt, vi = T.axis.remap("SS", [t, i])
                D[vt, vi] = C[vi]


def test_boxes_complete_only_over_all_iterations_are_not_copied_back():
    schedule = Schedule(columns_of_rounds)
    schedule.loop_partition(schedule.get_loops("C")[1], [3])

    with pytest.raises(ScheduleError, match="may leave out elements of `C`"):
        schedule.cache_write("C_i1", 0, "global")


def test_buffers_without_values_from_before_are_copied_back():
    program = _program(*_PARTIAL["choice"], is_own=True)
    schedule = Schedule(program)

    schedule.cache_write("C", 0, "global")

    assert "D_global" in schedule.mod["main"].script()


def test_calls_are_taken_at_their_word():
    regions = "T.reads(A[vi, vj]); T.writes(C[vi, 0:6])"
    call = 'T.evaluate(T.call_extern("void", "f", C.access_ptr("w", offset=vi * 6)))'
    choice = f"if A[vi, vj] > 0.0: {call}"
    body = f"{regions}; C[vi, vi] = 1.0\n                {choice}"
    schedule = Schedule(_program(*_ROWS, body, (6, 6)))

    schedule.cache_write("C", 0, "global")

    assert "C_global" in schedule.mod["main"].script()


@pytest.mark.parametrize("factor", [5, 6])
def test_uneven_tiles_write_all(factor):
    program = _program(*_WHOLE["rows"])
    schedule = Schedule(program)
    row, column = schedule.get_loops("C")
    schedule.split(schedule.fuse(row, column), [None, factor])
    schedule.cache_write("C", 0, "global")

    check_schedule(schedule, program)
