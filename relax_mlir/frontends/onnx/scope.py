"""Names as one graph sees them, and why one cannot be read yet."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx

from relax_mlir.frontends.onnx.graph import Node
from relax_mlir.frontends.onnx.values import GraphValue

__all__ = ["BlockedError", "LaterError", "Scope", "with_assumed"]

# Of domains that onnxruntime takes without an import: the version that it takes.
_ASSUMED_OPSETS = {"com.microsoft": 1, "ai.onnx.ml": 5}


def with_assumed(opsets: Mapping[str, int]) -> dict[str, int]:
    """Opsets, and those of domains that need no import."""
    return {**_ASSUMED_OPSETS, **opsets}


class BlockedError(Exception):
    """An input could not be made; why is in the report already."""


class LaterError(Exception):
    """A node can be built once the model runs, and more is known.

    Attributes:
        needed: the value that has to be known, if it is one that is computed.
        is_of_sizes: whether its sizes are enough.
    """

    def __init__(
        self, needed: GraphValue | None = None, *, is_of_sizes: bool = False
    ) -> None:
        """Say which value is needed."""
        super().__init__("a value is needed that is computed at run time")
        self.needed = needed
        self.is_of_sizes = is_of_sizes


@dataclass(frozen=True)
class Scope:
    """Names as one graph sees them.

    Attributes:
        opsets: of the operators in it.
        path: put before the names of nodes.
        attrs: of the call, if the graph is a function's.
        values: by name; None for an input that the call leaves out.
        blocked: names of values that could not be made.
        later: names of values that nodes make of which more has to be known.
        objects: names of inputs that are no tensors.
    """

    opsets: Mapping[str, int]
    path: str = ""
    attrs: Mapping[str, onnx.AttributeProto] = field(default_factory=dict)
    values: dict[str, GraphValue | None] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    objects: set[str] = field(default_factory=set)

    def find(self, name: str) -> GraphValue | None:
        """The value called ``name``; None if it is left out.

        Raises:
            LaterError: it is not known before the model runs.
            BlockedError: it could not be made.
            ValueError: it is no tensor of numbers.
        """
        if name in self.objects:
            raise ValueError(
                f"expected a tensor of numbers, got `{name}`, a sequence, "
                "text or nothing"
            )
        if name in self.later:
            raise LaterError
        if not name or name in self.values:
            return self.values[name] if name else None
        raise BlockedError(name)

    def opset(self, node: Node) -> int:
        """The opset of a node.

        Raises:
            ValueError: the model imports none of its domain.
        """
        if node.opset is not None:
            return node.opset
        if node.domain not in self.opsets:
            raise ValueError(f"the model imports no opset of domain `{node.domain}`")
        return self.opsets[node.domain]
