"""A node, its attributes, and the graphs in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from relax_mlir.frontends.onnx.graph import operator_name, read_graph
from relax_mlir.frontends.onnx.stages import CONSTANT
from relax_mlir.stages.stage import NativeCall, Stage

__all__ = ["Body", "HostNode"]


class HostNode:
    """The only node of a model.

    Attributes:
        op_type: the operator, as ``Name``, or ``domain::Name`` outside ai.onnx.
        opset: of its domain.
        attrs: its attributes, but for graphs.
        bodies: the graphs among them.
        names: what it reads, in order.
        inputs: names of its inputs; "" where one is left out.
        wanted: the places of the outputs that are wanted.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        (proto,) = model.graph.node
        self.op_type = operator_name(proto.domain, proto.op_type)
        self.opset = next(
            o.version for o in model.opset_import if o.domain == proto.domain
        )
        self.names = [value.name for value in model.graph.input]
        self.inputs = list(proto.input)
        outputs = list(proto.output)
        self.wanted = [outputs.index(value.name) for value in model.graph.output]
        self.output_count = len(outputs)
        self._name = proto.name
        self._model = model
        self._compiled: Callable[[Sequence[Any]], list[Any]] | None = None
        graphs = {a.name: a for a in proto.attribute if a.type == a.GRAPH}
        self.attrs: dict[str, Any] = {
            a.name: helper.get_attribute_value(a)
            for a in proto.attribute
            if a.name not in graphs
        }
        self.bodies = {name: Body(a.g, model) for name, a in graphs.items()}

    def __str__(self) -> str:
        return f"node `{self._name}` ({self.op_type})"

    def value(self, values: Mapping[str, Any], index: int) -> Any:
        """Input ``index``; None if it is left out."""
        name = self.inputs[index] if index < len(self.inputs) else ""
        return values[name] if name else None

    def compiled(
        self,
        changing: Collection[str] = (),
        rewrite: Callable[[onnx.NodeProto], None] | None = None,
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """The node as compiled code, which takes tensors by ``names``.

        Args:
            changing: names of inputs that differ from call to call, constant or not.
            rewrite: changes the node before that.
        """
        if self._compiled is None:
            model = onnx.ModelProto()
            model.CopyFrom(self._model)
            if rewrite is not None:
                rewrite(model.graph.node[0])
            self._compiled = _compiled(model, changing)
        return self._compiled


def _compiled(
    model: onnx.ModelProto, changing: Collection[str]
) -> Callable[[Sequence[Any]], list[Any]]:
    """A model as code that takes and gives lists of tensors; its marks change."""
    marks = [(m.key, m.value) for m in model.metadata_props]
    del model.metadata_props[:]
    for key, value in marks:
        if key != CONSTANT or value not in changing:
            model.metadata_props.add(key=key, value=value)
    stage, is_one = Stage(model), len(model.graph.output) == 1

    def call(args: Sequence[Any]) -> list[Any]:
        made = stage(args)
        return [made] if is_one else list(made)

    return call


class Body:
    """A graph of a node as something to call."""

    def __init__(self, graph: onnx.GraphProto, model: onnx.ModelProto) -> None:
        self.outputs = list(graph.output)
        self._inputs = [value.name for value in graph.input]
        free = sorted(read_graph(graph).free)
        self._captured = free
        alone = onnx.ModelProto()
        alone.CopyFrom(model)
        alone.graph.CopyFrom(graph)
        alone.graph.input.extend(onnx.ValueInfoProto(name=name) for name in free)
        marks = [(m.key, m.value) for m in model.metadata_props]
        del alone.metadata_props[:]
        for key, value in marks:
            if key == CONSTANT and value in free:
                alone.metadata_props.add(key=key, value=value)
        self._stage = Stage(alone)

    def native(
        self, args: Sequence[Any], values: Mapping[str, Any]
    ) -> NativeCall | None:
        """The graph as a function of tensors, for such inputs; None if it is none."""
        return self._stage.native([*args, *(values[name] for name in self._captured)])

    def __call__(self, args: Sequence[Any], values: Mapping[str, Any]) -> list[Any]:
        """What the graph gives for its inputs, and for what it reads from outside."""
        captured = [values[name] for name in self._captured]
        result = self._stage([*args, *captured])
        return [result] if len(self.outputs) == 1 else list(result)
