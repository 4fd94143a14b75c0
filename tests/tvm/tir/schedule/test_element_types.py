"""Buffers whose element type is changed."""

import pytest

from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir import Schedule
from relax_mlir.tvm.tir.schedule.testing import verify_trace_roundtrip
from tests.tvm.tir.schedule.apply import script_lines

_PROGRAM = """
@T.prim_func
def main(A: T.Buffer((6,), "{old}"), C: T.Buffer((6,), "{old}")):
    B = T.alloc_buffer((6,), "{old}")
    for i in range(6):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            B[vi] = A[vi] + A[vi]
    for i in range(6):
        with T.block("C"):
            vi = T.axis.spatial(6, i)
            C[vi] = T.max(B[vi], A[vi])
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [("uint8", "int32"), ("uint8", "int8"), ("int8", "uint8"), ("uint16", "uint32")],
)
def test_scripts_say_which_integers_are_unsigned(old: str, new: str) -> None:
    program = from_source(_PROGRAM.format(old=old))
    schedule = Schedule(program)

    schedule.unsafe_set_dtype("B", 0, new)

    lines = script_lines(schedule)
    assert f'B[vi] = T.Cast("{new}", A[vi] + A[vi])' in lines
    assert f'C[vi] = T.max(T.Cast("{old}", B[vi]), A[vi])' in lines
    assert_structural_equal(from_source(schedule.mod.script()), schedule.mod)
    verify_trace_roundtrip(schedule, program)
