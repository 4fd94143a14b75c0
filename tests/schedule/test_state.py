"""What is known of the statements of a module that is scheduled."""

# ruff: noqa: N803  scripts name buffers in capitals

from relax_mlir.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tir.schedule import Schedule, ScheduleState, analysis
from relax_mlir.tir.schedule.block_scope import DepKind
from tests.schedule.programs import matmul_relu, scale_shift


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


def test_blocks_are_asked_about():
    schedule = Schedule(scale_shift)

    assert analysis.is_output_block(schedule, schedule.get_block("C"))
    assert not analysis.is_output_block(schedule, schedule.get_block("B"))
    assert [analysis.has_block(schedule, n) for n in ("B", "X")] == [True, False]
    assert len(schedule.trace.insts) == 2
