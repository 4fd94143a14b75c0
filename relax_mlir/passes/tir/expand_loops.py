"""``tir-expand-loops``: blocks that stand for grids get their loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import BlockOp, marks
from relax_mlir.module import IRModule
from relax_mlir.passes.tir.nests import create_loop, move_body
from relax_mlir.rewriting import Pass
from relax_mlir.traversal import own_operations, walk

__all__ = ["ExpandLoops", "expand_block", "expand_loops"]


@dataclass(frozen=True)
class ExpandLoops(Pass):
    """Write a loop per axis around every block that stands for its grid.

    On programs that nobody scheduled it undoes ``tir-collapse-loops``.
    """

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            if "tir.prim_func" in function.attributes and not function.is_external:
                expand_loops(function)


def expand_loops(function: func.FuncOp) -> None:
    """Write the loops of all blocks of a program that stand for their grids."""
    for op in list(walk(function)):
        if isinstance(op, BlockOp) and not len(op.bindings) and len(op.kinds.value):
            expand_block(op)


def expand_block(op: BlockOp) -> BlockOp:
    """Put loops with a block of one point in them in place of ``op``."""
    attributes = op.operation.attributes
    extents = op.axis_extents()
    names = _texts(attributes, marks.LOOP_NAMES) or [
        f"i{n}" for n in range(len(extents))
    ]
    types = _texts(attributes, marks.AXIS_DTYPES) or ["int32"] * len(extents)
    point = ir.InsertionPoint(op)
    steps: list[ir.Value] = []
    for extent, name, dtype in zip(extents, names, types, strict=True):
        with point, op.location:
            _, body = create_loop(extent, name, None if dtype == "int32" else dtype)
        steps.append(body.arguments[0])
        point = ir.InsertionPoint(list(own_operations(body))[-1])
    with point, op.location:
        made = _bound(op, steps)
    move_body(op, made)
    op.operation.erase()
    return made.opview  # pyright: ignore[reportReturnType]


def _texts(attributes: Any, name: str) -> list[str]:
    if name not in attributes:
        return []
    return [ir.StringAttr(a).value for a in ir.ArrayAttr(attributes[name])]


def _bound(op: BlockOp, steps: list[ir.Value]) -> ir.Operation:
    """The same block at one point, without what stands in it."""
    dynamic = list(op.extents)
    attributes = {
        name: op.attributes[name] for name in op.attributes if name != marks.LOOP_NAMES
    }
    segments = [len(dynamic), len(steps)]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments)
    return ir.Operation.create(
        BlockOp.OPERATION_NAME,
        operands=[*dynamic, *steps],
        attributes=attributes,
        regions=2,
    )
