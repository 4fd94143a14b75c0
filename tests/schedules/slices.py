"""Kernels that read and write slices: networks whose tensors lie inside of larger buffers.

:func:`widened` changes a network at the level ``tir``: one tensor of ``main`` becomes larger along
an axis, and every program that touches it does so at an offset. What the network computes stays
the same, whatever is in the rest of the buffer, which is NaN in constants and inputs.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from mlir import ir
from mlir.dialects import func

from relax_mlir import IRModule
from relax_mlir.compiler.driver import run_stage, target_of
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.ir.traversal import operations_named, own_operations
from relax_mlir.pipeline import Pipeline
from relax_mlir.rewrite.functions import pooled_constant
from relax_mlir.rewrite.patterns import replace
from relax_mlir.targets import LoweringOptions, Target, stages

__all__ = [
    "POINTS",
    "Slice",
    "at_point",
    "at_points",
    "check_slice",
    "slices_of",
    "widened",
]

POINTS = ("fused", "planned")  # before the passes that choose layouts, and after them


@dataclass(frozen=True)
class Slice:
    """Where a tensor lies in a larger buffer.

    Attributes:
        value: its number among the tensors of ``main``.
        axis: along which the buffer is larger; before, after: by how much.
    """

    value: int
    axis: int
    before: int
    after: int

    def buffer(self, array: np.ndarray) -> np.ndarray:
        """The buffer of an array, whose other elements are NaN, or the largest integer."""
        pads = [(0, 0)] * array.ndim
        pads[self.axis] = self.before, self.after
        return np.pad(array, pads, constant_values=poisoned(array.dtype))

    def inside(self, buffer: np.ndarray) -> np.ndarray:
        """The array of a buffer."""
        end = buffer.shape[self.axis] - self.after
        return np.take(buffer, range(self.before, end), self.axis)


def poisoned(dtype: np.dtype) -> Any:  # Any: of any type
    """What no result may depend on."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return True if dtype.kind == "b" else np.nan


def at_points(names: Iterable[str]) -> list[ParameterSet]:
    """Names of networks with points of the pipeline; one of these in turn by default."""
    return [
        pytest.param(name, point, marks=[pytest.mark.every_case] * ((i + j) % 2))
        for i, name in enumerate(names)
        for j, point in enumerate(POINTS)
    ]


def at_point(
    module: IRModule, target: str | Target, point: str, **options: str
) -> tuple[IRModule, str]:
    """A module whose operators are programs, and the passes that are left at that level.

    Args:
        point: ``fused`` or ``planned``.
        options: of the target's stages.
    """
    relax, tir = stages(target_of(target), LoweringOptions(**options))[:2]
    made = module.clone()
    run_stage(made, relax)
    passes = tir.pipeline.split(",")
    count = passes.index("tir-fuse") + 1 if point == "fused" else len(passes)
    Pipeline.parse(",".join(passes[:count])).run(made)
    return made, ",".join(passes[count:])


def slices_of(
    module: IRModule, offsets: Sequence[tuple[int, int]], *, every: bool = True
) -> list[Slice]:
    """Every tensor of ``main``, sliced along every axis.

    Args:
        offsets: how much larger the buffer is before and after the tensor.
        every: whether each axis is sliced with all offsets; with one of them in turn
            otherwise.
    """
    sliced = [
        (number, axis)
        for number, value in enumerate(_values(module))
        if _places(module, value) is not None
        for axis in range(ir.RankedTensorType(value.type).rank)
    ]
    return [
        Slice(number, axis, before, after)
        for turn, (number, axis) in enumerate(sliced)
        for place, (before, after) in enumerate(offsets)
        if every or place == turn % len(offsets)
    ]


def widened(module: IRModule, where: Slice) -> tuple[bool, bool]:
    """Put a tensor of ``main`` into a larger buffer.

    Returns:
        Whether it is an input, and whether it is the first result.
    """
    with module.context, ir.Location.unknown():
        value = _values(module)[where.value]
        places = _places(module, value)
        assert places is not None
        old = ir.RankedTensorType(value.type)
        shape = list(old.shape)
        shape[where.axis] += where.before + where.after
        new = ir.RankedTensorType.get(shape, old.element_type)
        is_input = isinstance(value.owner, ir.Block)
        value = _retyped(module, value, new, where)
        for name, number in places:
            _widen_argument(module.func_op(name), number, shape, where)
        is_result = any(u.owner.operation.name == "func.return" for u in value.uses)
        _update_types(module.func_op("main"), value)
    module.verify()
    return is_input, is_result


def _values(module: IRModule) -> list[ir.Value]:
    block = module.func_op("main").entry_block
    made = [
        op.results[0]
        for op in own_operations(block)
        if isinstance(op, (CallTirOp, ConstantOp))
    ]
    found: list[ir.Value] = [*block.arguments, *made]
    return [v for v in found if isinstance(v.type, ir.RankedTensorType)]


def _places(module: IRModule, value: ir.Value) -> list[tuple[str, int]] | None:
    """The programs' arguments that a tensor is; None where other calls share one of them."""
    calls: list[Any] = [  # Any: the stubs do not know the members of calls
        op.operation.opview
        for op in own_operations(module.func_op("main").entry_block)
        if isinstance(op, CallTirOp)
    ]
    callees = [call.callee.value for call in calls]
    found: list[tuple[str, int]] = []
    if not isinstance(value.owner, ir.Block) and value.owner.opview in calls:
        call = calls[calls.index(value.owner.opview)]
        found.append((call.callee.value, len(tensors.tuple_elements(call.args))))
    for use in value.uses:
        name = use.owner.operation.name
        if name == "func.return":
            continue
        if name != tensors.TUPLE_PACK:
            return None  # a view, whose size follows from the buffer's
        outer = [u.owner.operation.opview for u in use.owner.operation.results[0].uses]
        found += [
            (call.callee.value, use.operand_number) for call in calls if call in outer
        ]
    is_shared = any(callees.count(name) > 1 for name, _ in found)
    return None if is_shared or not found else list(dict.fromkeys(found))


def _retyped(
    module: IRModule, value: ir.Value, type_: ir.RankedTensorType, where: Slice
) -> ir.Value:
    owner = value.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, ConstantOp):
        value.set_type(type_)
        return value
    array = where.buffer(owner.opview.array(module.constants))
    with ir.InsertionPoint(owner):
        made = pooled_constant(module, array, f"sliced.{len(module.constants)}")
    replace(owner.opview, made)
    return made


def _widen_argument(
    program: func.FuncOp, number: int, shape: Sequence[int], where: Slice
) -> None:
    block = program.entry_block
    argument = block.arguments[number]
    element = ir.MemRefType(argument.type).element_type
    argument.set_type(ir.MemRefType.get(list(shape), element))
    index = ir.IndexType.get()
    for use in list(argument.uses):
        op = use.owner.operation
        first = {"memref.load": 1, "memref.store": 2}[op.name]
        with ir.InsertionPoint(op):
            begin = ir.Operation.create(
                "arith.constant",
                results=[index],
                attributes={"value": ir.IntegerAttr.get(index, where.before)},
            ).results[0]
            place = op.operands[first + where.axis]
            moved = ir.Operation.create(
                "arith.addi", results=[index], operands=[place, begin]
            ).results[0]
        op.operands[first + where.axis] = moved
    types = [a.type for a in block.arguments]
    program.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(types, [])
    )


def _update_types(main: func.FuncOp, value: ir.Value) -> None:
    for use in value.uses:
        op = use.owner.operation
        if op.name == tensors.TUPLE_PACK:
            packed = ir.TupleType.get_tuple([o.type for o in op.operands])
            op.results[0].set_type(packed)
    block = main.entry_block
    (end,) = operations_named(main, "func.return")
    inputs, results = ([v.type for v in vs] for vs in (block.arguments, end.operands))
    main.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(inputs, results)
    )


def check_slice(
    module: IRModule,
    where: Slice,
    rest: str,
    arrays: Sequence[np.ndarray],
    expected: np.ndarray,
    run: Callable[[IRModule, Sequence[np.ndarray]], tuple[np.ndarray, set[str]]],
    tolerance: float,
) -> set[str]:
    """Widen one tensor, run, and compare the first result.

    Args:
        rest: passes that are left before the module is compiled.
        run: gives the first result, and the rules that wrote kernels.
        tolerance: largest difference, relative to the scale of the result.

    Returns:
        The rules.
    """
    is_input, is_result = widened(module, where)
    if rest:
        Pipeline.parse(rest).run(module)
    given = [
        where.buffer(a) if is_input and n == where.value else a
        for n, a in enumerate(arrays)
    ]
    actual, rules = run(module, given)
    actual = where.inside(actual) if is_result else actual
    scale = max(float(np.abs(expected.astype(np.float64)).max(initial=0)), 1e-9)
    difference = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    assert difference.max(initial=0) <= tolerance * scale, (where, rules)
    return rules
