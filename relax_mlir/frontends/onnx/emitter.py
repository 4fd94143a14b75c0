"""Emitter of operations: applies rules to nodes, and materializes graph values."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects.op_interface import OnnxNode, OnnxRule, ValueNotKnownError
from relax_mlir.frontends.onnx import values
from relax_mlir.frontends.onnx.graph import Node
from relax_mlir.frontends.onnx.scope import DeferredError, Scope
from relax_mlir.frontends.onnx.values import GraphValue, Operands

__all__ = ["Emitter"]


class Emitter:
    """Emits operations at the insertion point, and records what is known of their results.

    Args:
        constants: the module's constants, which constant values are added to.
    """

    def __init__(self, constants: MutableMapping[str, np.ndarray]) -> None:
        """Keep the constants."""
        self._constants = constants
        self._known: dict[ir.Value, GraphValue] = {}

    def apply(
        self,
        rule: OnnxRule,
        node: Node,
        inputs: Sequence[GraphValue | None],
        attrs: Mapping[str, Any],  # Any: attribute values
        scope: Scope,
        wanted: Sequence[bool],
    ) -> "Sequence[ir.Value | np.ndarray | None]":
        """The results of a rule applied to a node.

        Raises:
            LaterError: the rule needs the contents of a value that is computed at run time.
        """
        name = scope.path + node.name

        def known(operand: int | ir.Value) -> GraphValue | None:
            is_index = isinstance(operand, int)
            return inputs[operand] if is_index else self._known.get(operand)

        def constants(operand: int | ir.Value) -> np.ndarray | None:
            value = known(operand)
            return None if value is None else value.array

        def contents(operand: int | ir.Value) -> np.ndarray | None:
            value = known(operand)
            return None if value is None else value.content

        view = OnnxNode(
            node.op_type,
            name,
            Operands(inputs, self.read),
            attrs,
            scope.opset(node),
            wanted,
            constants,
            contents,
            constant=lambda array: self.read(values.constant_value(name, array)),
        )
        operator = ir.Location.name(node.op_type)
        with ir.Location.name(name, childLoc=operator):
            try:
                result = rule(view)
            except ValueNotKnownError as error:
                needed = inputs[error.index]
                if needed is not None and needed.array is not None:
                    raise  # its contents are known; deferring the node would not help
                raise DeferredError(
                    needed, needs_shape_only=error.needs_shape_only
                ) from error
        if isinstance(result, (ir.Value, np.ndarray)):
            return [result]
        return list(result.results if isinstance(result, ir.OpView) else result)

    def named(
        self, name: str, result: "GraphValue | ir.Value | np.ndarray"
    ) -> GraphValue:
        """A node's result as a value of the graph."""
        if isinstance(result, GraphValue):
            return result
        if isinstance(result, np.ndarray):
            return values.constant_value(name, result)
        return self._known.get(result) or values.computed_value(name, result)

    def read(self, value: GraphValue | None) -> ir.Value:
        """A value of the graph as an SSA value of the module.

        Raises:
            ValueError: it is an omitted optional input.
        """
        if value is None:
            raise ValueError("a required value is omitted")
        is_new = value.value is None
        found = values.emit_value(value, self._constants)
        if is_new:
            self._known[found] = value
        return found
