"""Loops that visit part of an iter domain: primitives that move or copy the block reject them."""

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir.schedule import Schedule
from tests.tvm.tir.schedule.apply import check_schedule

_PROGRAM = """
@T.prim_func
def program(A: T.Buffer((6, 6), "float32"), C: T.Buffer({shape}, "float32")):
    B = T.alloc_buffer((6, 6))
    for i, j in T.grid(6, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i in range(6):
        for j in range({extent}):
            with T.block("C"):
                {axes}
                {body}
"""
_SUM = "with T.init(): C[vi] = 0.0\n                C[vi] = C[vi] + B[vi, vj]"
# Where axes are as long as the loops are in a step, where loops go over a triangle, and
# where they end, or begin, inside of an axis.
_LOOPS = {
    "remapped triangle": (
        "i + 1",
        'vi, vj = T.axis.remap("S{kind}", [i, j])',
        "the extent of axis `vj` of block `C` depends on variables around",
    ),
    "triangle": (
        "i + 1",
        "vi = T.axis.spatial(6, i); vj = T.axis.{name}(6, j)",
        "the bounds of loop `j` around block `C` depend on a loop around it",
    ),
    "first part": (
        3,
        "vi = T.axis.spatial(6, i); vj = T.axis.{name}(6, j)",
        "loops bind axis `vj` of block `C` to 0 to 2 only",
    ),
    "last part": (
        4,
        "vi = T.axis.spatial(6, i); vj = T.axis.{name}(6, j + 2)",
        "loops bind axis `vj` of block `C` to 2 to 5 only",
    ),
    "wrapped part": (
        4,
        "vi = T.axis.spatial(6, i); vj = T.axis.{name}(6, (i + j) % 6)",
        "the loops around block `C` may leave out instances of it|quasi-affine",
    ),
}
_STEPS = {
    "reverse_compute_at": lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
    "reverse_compute_inline": lambda s: s.reverse_compute_inline("C"),
    "reindex_read": lambda s: s.reindex("C", ("read", 0)),
    "reindex_write": lambda s: s.reindex("C", ("write", 0)),
    "transform_block_layout": lambda s: s.transform_block_layout(
        "C", lambda i, j: i * 6 + j
    ),
    "pad_einsum": lambda s: s.pad_einsum("C", [4, 4]),
    "rfactor": lambda s: s.rfactor(s.get_loops("C")[1], 0),
}
_OF_SUMS_ONLY = ("rfactor", "pad_einsum")
_OF_MAPS_ONLY = ("reverse_compute_inline",)


def _program(extent, axes, *, is_sum):
    kind = {"kind": "R" if is_sum else "S", "name": "reduce" if is_sum else "spatial"}
    body = _SUM if is_sum else "C[vi, vj] = B[vi, vj] + 1.0"
    shape = "(6,)" if is_sum else "(6, 6)"
    text = _PROGRAM.format(
        extent=extent, axes=axes.format(**kind), body=body, shape=shape
    )
    return from_source(text)


@pytest.mark.parametrize(
    ("step", "is_sum"),
    [
        (step, is_sum)
        for step in _STEPS
        for is_sum in (False, True)
        if step not in (_OF_MAPS_ONLY if is_sum else _OF_SUMS_ONLY)
    ],
)
@pytest.mark.parametrize("loops", _LOOPS)
def test_parts_of_a_block_are_refused(loops, step, is_sum):
    extent, axes, message = _LOOPS[loops]
    schedule = Schedule(_program(extent, axes, is_sum=is_sum))
    before = schedule.mod.script()

    with pytest.raises(ScheduleError, match=message):
        _STEPS[step](schedule)

    assert schedule.mod.script() == before


@pytest.mark.parametrize("loops", _LOOPS)
def test_loops_of_a_part_are_split_and_read_from_caches(loops):
    extent, axes, _ = _LOOPS[loops]
    program = _program(extent, axes, is_sum=False)
    schedule = Schedule(program)

    schedule.split(schedule.get_loops("C")[1], [None, 4])
    schedule.compute_at("B", schedule.get_loops("C")[0])
    schedule.cache_read("C", 0, "global")

    check_schedule(schedule, program)
