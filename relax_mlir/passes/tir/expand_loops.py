"""``tir-expand-loops``: explicit loops around blocks over whole iteration domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.tir import BlockOp, attribute_names
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.passes.tir.loop_nests import create_loop, move_body
from relax_mlir.rewrite.patterns import Pass

__all__ = ["ExpandLoops", "expand_block", "expand_loops"]


@dataclass(frozen=True)
class ExpandLoops(Pass):
    """Replace blocks over whole iteration domains by loop nests around blocks of one point.

    The inverse of ``tir-collapse-loops`` on unscheduled programs.
    """

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            if function_attributes.is_defined_prim_func(function):
                expand_loops(function)


def expand_loops(function: func.FuncOp) -> None:
    """Expands all blocks of a program that have no loops of their own."""
    for op in list(walk(function)):
        if isinstance(op, BlockOp) and not len(op.bindings) and len(op.kinds.value):
            expand_block(op)


def expand_block(op: BlockOp) -> BlockOp:
    """Replaces ``op`` by a loop per axis around a block of one point."""
    attributes = op.operation.attributes
    extents = op.axis_extents()
    names = _texts(attributes, attribute_names.LOOP_NAMES) or [
        f"i{n}" for n in range(len(extents))
    ]
    types = _texts(attributes, attribute_names.AXIS_DTYPES) or ["int32"] * len(extents)
    point = ir.InsertionPoint(op)
    variables: list[ir.Value] = []
    for extent, name, dtype in zip(extents, names, types, strict=True):
        with point, op.location:
            _, body = create_loop(extent, name, None if dtype == "int32" else dtype)
        variables.append(body.arguments[0])
        point = ir.InsertionPoint(list(own_operations(body))[-1])
    with point, op.location:
        made = _bound(op, variables)
    move_body(op, made)
    op.operation.erase()
    return made.opview  # pyright: ignore[reportReturnType]


def _texts(attributes: Any, name: str) -> list[str]:
    if name not in attributes:
        return []
    return [ir.StringAttr(a).value for a in ir.ArrayAttr(attributes[name])]


def _bound(op: BlockOp, variables: list[ir.Value]) -> ir.Operation:
    """The same block bound to loop variables, with empty regions."""
    dynamic = list(op.extents)
    attributes = {
        name: op.attributes[name]
        for name in op.attributes
        if name != attribute_names.LOOP_NAMES
    }
    segments = [len(dynamic), len(variables)]
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments)
    return ir.Operation.create(
        BlockOp.OPERATION_NAME,
        operands=[*dynamic, *variables],
        attributes=attributes,
        regions=2,
    )
