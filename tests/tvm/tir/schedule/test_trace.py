"""Traces are printed, simplified and replayed."""

import math

import pytest

from relax_mlir.dialects import dtypes
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir.schedule import (
    BlockRV,
    Instruction,
    InstructionKind,
    LoopRV,
    Schedule,
    Trace,
)
from relax_mlir.tvm.tir.schedule.testing import verify_trace_roundtrip
from tests.tvm.tir.schedule.programs import matmul_relu, scale_shift


def _instruction(kind, inputs, attrs, outputs):
    return Instruction(InstructionKind.get(kind), inputs, attrs, outputs)


def test_a_trace_is_python():
    schedule = Schedule(matmul_relu)
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    outer, inner = schedule.split(k, [None, 5])
    schedule.reorder(outer, i, j, inner)
    schedule.annotate(block, "note", "text")

    assert schedule.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        (
            "l4, l5 = sch.split(loop=l3, factors=[None, 5], preserve_unit_iters=True, "
            "disable_predication=False)"
        ),
        "sch.reorder(l4, l1, l2, l5)",
        'sch.annotate(block_or_loop=b0, ann_key="note", ann_val="text")',
    ]


def test_a_trace_is_lists():
    schedule = Schedule(scale_shift)
    i, _ = schedule.get_loops(schedule.get_block("B"))
    schedule.split(i, [None, 4])

    assert schedule.trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["Split", ["l1", "None", 4], [True, False], ["l3", "l4"]],
        ],
        [],
    ]


_PADDED = """
@T.prim_func
def program(A: T.Buffer((5,), "{dtype}"), C: T.Buffer((5,), "{dtype}")):
    B = T.alloc_buffer((5,), "{dtype}")
    for i in range(5):
        with T.block("B"):
            v = T.axis.spatial(5, i)
            B[v] = A[v]
    for i in range(5):
        with T.block("C"):
            v = T.axis.spatial(5, i)
            C[v] = B[v]
"""


# No integer type has the 6 bits by which an object is read of a float6.
_DTYPES = [name for name in dtypes.NAMES if not name.startswith("float6")]


@pytest.mark.parametrize("dtype", [*_DTYPES, "-inf"])
def test_numbers_of_padding_have_the_type_of_the_buffer_again(dtype):
    is_infinite = dtype == "-inf"
    number = prim.const(
        -math.inf if is_infinite else 0, "float16" if is_infinite else dtype
    )
    program = from_source(_PADDED.format(dtype=number.dtype))
    schedule = Schedule(program)
    schedule.transform_layout(
        "B", ("write", 0), lambda i: (i // 2, i % 2), pad_value=number
    )

    verify_trace_roundtrip(schedule, program)


def test_newer_spelling_is_kept():
    schedule = Schedule(scale_shift)
    schedule.get_loops(schedule.get_sblock("B"))

    assert str(schedule.trace).splitlines()[1:] == [
        "def apply_trace(sch: s_tir.Schedule) -> None:",
        '  b0 = sch.get_sblock(name="B", func_name="main")',
        "  l1, l2 = sch.get_loops(block=b0)",
    ]


def test_empty_traces_pass():
    trace = Trace([], {})

    assert str(trace).endswith("None:\n  pass")
    assert trace.pop() is None


def test_what_nobody_needs_is_left_out():
    block, other, loop = BlockRV(), BlockRV(), LoopRV()
    trace = Trace(
        [
            _instruction("GetBlock", [], ["B", "main"], [block]),
            _instruction("GetLoops", [block], [], [loop]),
            _instruction("ComputeInline", [block], [], []),
            _instruction("GetBlock", [], ["C", "main"], [other]),
            _instruction("EnterPostproc", [], [], []),
            _instruction("ReverseComputeInline", [other], [], []),
        ]
    )

    assert trace.simplified(remove_postproc=True).as_python() == [
        'b0 = sch.get_block(name="B", func_name="main")',
        "sch.compute_inline(block=b0)",
    ]
    assert len(trace.simplified(remove_postproc=False).insts) == 5


def test_a_trace_plays_on_an_equal_program():
    schedule = Schedule(matmul_relu, seed=7)
    i, _, _ = schedule.get_loops("C")
    schedule.split(i, schedule.sample_perfect_tile(i, 2, 16))
    choice = schedule.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5])
    schedule.annotate(schedule.get_block("C"), "choice", choice)

    again = Schedule(matmul_relu)
    schedule.trace.apply_to_schedule(again)
    from_json = Schedule(matmul_relu)
    Trace.apply_json_to_schedule(schedule.trace.as_json(), from_json)

    assert_structural_equal(again.mod, schedule.mod)
    assert_structural_equal(from_json.mod, schedule.mod)
    assert again.trace.as_python() == schedule.trace.as_python()


def test_axes_may_be_named_as_what_was_sampled():
    program = from_source("""
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i in T.serial(12):
        with T.block("B"):
            v0 = T.axis.spatial(12, i)
            B[v0] = A[v0] * 2.0
""")
    schedule = Schedule(program, seed=7)
    chosen = schedule.sample_categorical([1, 2], [0.5, 0.5])
    block = schedule.get_block("B")
    schedule.annotate_buffer_access(block, 0, "read", lambda v0: ((v0, v0 + 1),))
    schedule.annotate(block, "chosen", chosen)

    again = Schedule(program)
    Trace.apply_json_to_schedule(schedule.trace.as_json(), again)

    assert schedule.trace.as_python()[0].startswith("v0 = ")
    assert_structural_equal(again.mod, schedule.mod)


def test_decisions_can_be_others():
    schedule = Schedule(matmul_relu, seed=3)
    loop = schedule.get_loops("C")[0]
    schedule.split(loop, schedule.sample_perfect_tile(loop, 2))
    again = Schedule(matmul_relu)

    def decide(inst, inputs, attrs, decision):
        return [2, 3] if decision is not None else None

    schedule.trace.apply_to_schedule(again, False, decide)

    extents = [again.get(loop).extent for loop in again.get_loops("C")]
    assert [int(e) for e in extents] == [2, 3, 4, 5]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sampled_factors_multiply_to_the_extent(seed):
    schedule = Schedule(scale_shift, seed=seed)
    loop = schedule.get_loops("B")[0]
    factors = [schedule.get(f) for f in schedule.sample_perfect_tile(loop, 3, 4)]

    assert factors[0] * factors[1] * factors[2] == 12
    assert factors[2] <= 4


def test_unknown_kinds_list_near_misses():
    with pytest.raises(ValueError, match="Did you mean `GetBlock`"):
        InstructionKind.get("GetBlok")


def test_maps_of_indices_depend_on_what_is_sampled():
    schedule = Schedule(scale_shift)
    loop = schedule.get_loops("B")[1]
    _, inner = schedule.sample_perfect_tile(loop, 2, decision=[5, 2])
    schedule.transform_layout("B", "B", lambda i, j: (i, j // inner, j % inner))
    again = Schedule(scale_shift)

    verify_trace_roundtrip(schedule, scale_shift)
    schedule.trace.apply_to_schedule(
        again, False, lambda inst, inputs, attrs, decision: decision and [2, 5]
    )

    assert "j // v4" in schedule.trace.as_python()[-1]
    assert again.get(again.get_block("root")).alloc_buffers[0].shape[2] == 5
