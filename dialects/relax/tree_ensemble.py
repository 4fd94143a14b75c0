"""Inference of decision tree ensembles."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from mlir.ir import IntegerAttr, RankedTensorType

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.index_ranges import IndexOperand
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import require_element_type
from relax_mlir.dialects.relax.gather import (
    check_not_empty,
    clamp_indices,
    emit_clamped_index,
)
from relax_mlir.dialects.tir import Buffer, Builder, Index, Scalar

__all__ = ["TreeLeavesOp"]

_INT32 = dtypes.dtype("int32")


class TreeLeavesOp(Relax.Operation, name="tree_leaves"):
    """The leaf that every row of x reaches in each of several decision trees.

    At a node a row goes to the child ``inside`` if the node's feature is in [low, high], to
    ``missing`` if the feature is NaN, else to ``outside``. A leaf is its own child. Indices
    of features and nodes are clamped to the valid range.

    Attributes:
        depth: number of steps from the root.
    Shapes:
        x: [n, f], floats; nodes: [m, 4], int32: feature, inside, outside, missing; bounds:
        [m, 2]: low and high, same float type; roots: [t], int32, node of every root;
        y: [n, t], int32, node of every leaf.
    """

    x: Operand[RankedTensorType]
    nodes: Operand[RankedTensorType]
    bounds: Operand[RankedTensorType]
    roots: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    depth: IntegerAttr

    cases = tuple(
        Case(
            (n, 3, kind),
            (m, 4, "int32"),
            (m, 2, kind),
            (t, "int32"),
            depth=depth,
            low=-1,
            high=9,
        )
        for n, m, t, depth, kind in (
            (7, 9, 5, 4, "float32"),
            (1, 1, 1, 1, "float32"),
            (3, 9, 2, 0, "float64"),
            (0, 4, 2, 3, "float32"),
        )
    )

    index_operands: ClassVar[Mapping[str, IndexOperand]] = {
        # Tables that the importer builds for a whole ensemble.
        name: IndexOperand.unlimited("clamps: picks the nearest node")
        for name in ("nodes", "roots")
    }

    @staticmethod
    def infer(
        x: RankedTensorType,
        nodes: RankedTensorType,
        bounds: RankedTensorType,
        roots: RankedTensorType,
        depth: int,
    ) -> RankedTensorType:
        require_element_type("f", x, bounds)
        for name, part, rank in (("nodes", nodes, 2), ("roots", roots, 1)):
            if part.rank != rank or tensors.dtype_of(part) != _INT32:
                raise ValueError(f"{name}: expected int32 of rank {rank}, got {part}")
        if x.rank != 2 or bounds.rank != 2:
            raise ValueError(f"expected matrices, got rank {x.rank} and {bounds.rank}")
        count, ways = tensors.shape_of(nodes)
        shapes.unify(ways, 4)
        for mine, other in zip(tensors.shape_of(bounds), (count, 2), strict=True):
            shapes.unify(mine, other)
        rows, features = tensors.shape_of(x)
        check_not_empty(features, (rows, *tensors.shape_of(roots)))
        return tensors.tensor_type((rows, tensors.shape_of(roots)[0]), _INT32)

    @staticmethod
    def reference(
        x: np.ndarray,
        nodes: np.ndarray,
        bounds: np.ndarray,
        roots: np.ndarray,
        depth: int,
    ) -> np.ndarray:
        current = np.tile(roots, (len(x), 1))
        for _ in range(depth):
            node = clamp_indices(current, len(nodes))
            feature, inside, outside, missing = np.moveaxis(nodes[node], -1, 0)
            low, high = np.moveaxis(bounds[node], -1, 0)
            value = np.take_along_axis(x, clamp_indices(feature, x.shape[1]), 1)
            current = np.where((low <= value) & (value <= high), inside, outside)
            current = np.where(np.isnan(value), missing, current)
        return current.astype(np.int32)

    def legalize(self, b: Builder) -> Buffer:
        """A sequential descent for every row and tree."""
        x, nodes, bounds, roots = b.inputs
        shape, type_ = b.results[0]
        out, count = b.alloc(shape, type_), nodes.shape[0]

        def body(row: Index, tree: Index) -> None:
            def step(_: Index, current: Scalar) -> list[Scalar]:
                node = emit_clamped_index(b, current, count)
                value = x[row, emit_clamped_index(b, nodes[node, 0], x.shape[1])]
                is_inside = (bounds[node, 0] <= value) & (value <= bounds[node, 1])
                child = b.select(is_inside, nodes[node, 1], nodes[node, 2])
                child = b.select(value.not_equal(value), nodes[node, 3], child)
                out.store(child, (row, tree))
                return [child]

            if self.depth.value:
                b.loop(self.depth.value, [roots[tree]], step)
            else:
                out.store(roots[tree], (row, tree))

        b.block("tree_leaves", shape, "SS", body)
        return out
