"""Values of a graph as values of a module, and nodes as what rules make of them."""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects.hooks import NotKnownError, OnnxNode, OnnxRule
from relax_mlir.frontends.onnx import values
from relax_mlir.frontends.onnx.graph import Node
from relax_mlir.frontends.onnx.scope import LaterError, Scope
from relax_mlir.frontends.onnx.values import GraphValue, Operands

__all__ = ["Emitter"]


class Emitter:
    """Writes operations at the insertion point, and remembers what is known of results.

    Args:
        constants: of the module.
    """

    def __init__(self, constants: MutableMapping[str, np.ndarray]) -> None:
        """Write nothing yet."""
        self._constants = constants
        self._known: dict[ir.Value, GraphValue] = {}

    def apply(
        self,
        rule: OnnxRule,
        node: Node,
        inputs: Sequence[GraphValue | None],
        attrs: Mapping[str, Any],  # Any: as many types as attributes
        scope: Scope,
        wanted: Sequence[bool],
    ) -> "Sequence[ir.Value | np.ndarray | None]":
        """What a rule makes of a node.

        Raises:
            LaterError: it needs a value that is computed.
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

        seen = OnnxNode(
            node.op_type,
            name,
            Operands(inputs, self.read),
            attrs,
            scope.opset(node),
            wanted,
            constants,
            contents,
            constant=lambda array: self.read(values.constant(name, array)),
        )
        operator = ir.Location.name(node.op_type)
        with ir.Location.name(name, childLoc=operator):
            try:
                result = rule(seen)
            except NotKnownError as error:
                needed = inputs[error.index]
                if needed is not None and needed.array is not None:
                    raise  # it is known, and nothing else will be
                raise LaterError(needed, is_of_sizes=error.is_of_sizes) from error
        if isinstance(result, (ir.Value, np.ndarray)):
            return [result]
        return list(result.results if isinstance(result, ir.OpView) else result)

    def named(
        self, name: str, result: "GraphValue | ir.Value | np.ndarray"
    ) -> GraphValue:
        """A result of a node as a value of the graph."""
        if isinstance(result, GraphValue):
            return result
        if isinstance(result, np.ndarray):
            return values.constant(name, result)
        return self._known.get(result) or values.computed(name, result)

    def read(self, value: GraphValue | None) -> ir.Value:
        """A value of the graph as one of the module.

        Raises:
            ValueError: it is left out.
        """
        if value is None:
            raise ValueError("a value is left out that is needed")
        is_new = value.value is None
        found = values.emit(value, self._constants)
        if is_new:
            self._known[found] = value
        return found
