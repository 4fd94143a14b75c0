"""Scopes: the values visible in a graph, and errors for unavailable ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from relax_mlir.frontends.onnx.graph import Node
from relax_mlir.frontends.onnx.values import GraphValue

__all__ = ["BlockedError", "DeferredError", "Scope", "with_default_opsets"]

# Domains that onnxruntime accepts without an opset import, with its default versions.
_ASSUMED_OPSETS = {"com.microsoft": 1, "ai.onnx.ml": 5}


def with_default_opsets(opsets: Mapping[str, int]) -> dict[str, int]:
    """Opset imports, extended by those of domains that need no import."""
    return {**_ASSUMED_OPSETS, **opsets}


class BlockedError(Exception):
    """An input could not be built; the report has the reason already."""


class DeferredError(Exception):
    """A node can be built only when the model runs.

    Attributes:
        needed: the computed value whose contents are needed, if there is one.
        needs_shape_only: whether its shape suffices.
    """

    def __init__(
        self, needed: GraphValue | None = None, *, needs_shape_only: bool = False
    ) -> None:
        """Keep the value that is needed."""
        super().__init__("a value is needed that is computed at run time")
        self.needed = needed
        self.needs_shape_only = needs_shape_only


@dataclass(frozen=True)
class Scope:
    """The names visible in one graph.

    Attributes:
        opsets: versions of the operator domains.
        path: prefix of node names in messages.
        attrs: attributes of the call, if the graph is a function body.
        values: values by name; None for an input that the call leaves out.
        blocked: names of values that could not be built.
        later: names of values that are computed by deferred nodes.
        objects: names of values that are not numeric tensors.
    """

    opsets: Mapping[str, int]
    path: str = ""
    attrs: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)
    values: dict[str, GraphValue | None] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)

    def find(self, name: str) -> GraphValue | None:
        """The value called ``name``; None for an omitted one.

        Raises:
            LaterError: it is computed by a deferred node.
            BlockedError: it could not be built.
            ValueError: it is not a numeric tensor.
        """
        if name in self.objects:
            raise ValueError(
                f"expected a tensor of numbers, got `{name}`, a sequence, "
                "text or nothing"
            )
        if name in self.later:
            raise DeferredError
        if not name or name in self.values:
            return self.values[name] if name else None
        raise BlockedError(name)

    def opset(self, node: Node) -> int:
        """The opset version of a node.

        Raises:
            ValueError: the model does not import its domain.
        """
        if node.opset is not None:
            return node.opset
        if node.domain not in self.opsets:
            raise ValueError(f"the model imports no opset of domain `{node.domain}`")
        return self.opsets[node.domain]
