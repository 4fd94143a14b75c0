"""Schedule state: srefs and TIR objects of statements."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule, ScheduleState, analysis
from relax_mlir.tvm.tir.schedule.block_scope import DepKind
from tests.tvm.tir.schedule.programs import matmul_relu, scale_shift


@T.prim_func
def _in_turns(A: T.Buffer((5,), "float32"), B: T.Buffer((5,), "float32")):
    for i in range(5):
        with T.block("first"):
            vi = T.axis.spatial(5, i)
            B[vi] = A[vi] * 2.0
        with T.block("again"):
            vi = T.axis.spatial(5, i)
            B[vi] = B[vi] + 1.0
        with T.block("back"):
            vi = T.axis.spatial(5, i)
            A[vi] = 0.0


def test_blocks_depend_on_one_another_for_a_reason():
    state = ScheduleState(_in_turns)
    body = state.mod["main"].body.block.body.body
    first, again, back = (state.get_sref(statement.block) for statement in body.seq)
    root = state.get_sref(state.mod["main"].body.block)

    scope = state.get_block_scope(root)

    found = [(d.dst, d.kind.name) for d in scope.get_deps_by_src(first)]
    assert found == [(again, "RAW"), (again, "WAW"), (back, "WAR")]
    assert [d.src for d in scope.get_deps_by_dst(back)] == [first]
    # The numbers that TVM gives them.
    assert {kind.name: int(kind) for kind in DepKind} == {
        "RAW": 0,
        "WAW": 1,
        "WAR": 2,
        "OPAQUE": 3,
    }


def test_statements_of_other_programs_stand_for_nothing():
    state = ScheduleState(scale_shift)

    assert state.get_sref(matmul_relu.body.block) is None


@pytest.mark.parametrize("shape", [(8,), (2, 4)])
def test_programs_with_two_buffers_in_one_memory_are_not_changed(shape):
    @T.prim_func
    def program(X: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        A = T.alloc_buffer((8,))
        Y = T.decl_buffer(shape, data=X.data)
        for i in range(8):
            with T.block("A"):
                vi = T.axis.spatial(8, i)
                A[vi] = X[vi] * 2.0
        for i in range(8):
            with T.block("Y"):
                vi = T.axis.spatial(8, i)
                if len(shape) == 1:
                    Y[vi] = T.float32(0)
                else:
                    Y[vi // 4, vi % 4] = T.float32(0)
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi]

    schedule = Schedule(program)

    with pytest.raises(ScheduleError, match="`A` reads `X` before block `Y` writes it"):
        schedule.compute_inline("A")
    with pytest.raises(ScheduleError, match="buffer `Y` of `root` aliases another one"):
        schedule.cache_write("Y", 0, "global")


def test_blocks_are_asked_about():
    schedule = Schedule(scale_shift)

    assert analysis.is_output_block(schedule, schedule.get_block("C"))
    assert not analysis.is_output_block(schedule, schedule.get_block("B"))
    assert [analysis.has_block(schedule, n) for n in ("B", "X")] == [True, False]
    assert len(schedule.trace.insts) == 2
