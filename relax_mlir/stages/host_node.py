"""A node, its attributes, and the graphs in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper, shape_inference

from relax_mlir.errors import RunError
from relax_mlir.frontends.onnx.graph import (
    operator_name,
    opset_of,
    plain_domain,
    read_graph,
)
from relax_mlir.frontends.onnx.stages import CONSTANT
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.stages.stage import NativeCall, Stage, type_proto

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
        opsets = {plain_domain(o.domain): o.version for o in model.opset_import}
        self.opset = opset_of(proto) or opsets[plain_domain(proto.domain)]
        self.names = [value.name for value in model.graph.input]
        self.inputs = list(proto.input)
        outputs = list(proto.output)
        self.wanted = [outputs.index(value.name) for value in model.graph.output]
        self.output_count = len(outputs)
        self._name = proto.name or next(filter(None, outputs), "")
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

    def attr(self, name: str) -> Any:
        """The attribute called ``name``.

        Raises:
            RunError: it is not given.
        """
        if name not in self.attrs:
            raise RunError(f"{self}: attribute `{name}` is missing, which text needs")
        return self.attrs[name]

    def flag(self, name: str, *, default: bool) -> bool:
        """The attribute called ``name``, which is 0 or 1.

        Raises:
            RunError: it is another number.
        """
        value = self.attrs.get(name, default)
        if value not in (0, 1):
            raise RunError(f"{self}: attribute `{name}`: expected 0 or 1, got {value}")
        return bool(value)

    def scalar(self, values: Mapping[str, Any], index: int) -> Any:
        """Input ``index`` as a number of Python; None if it is left out.

        Raises:
            RunError: it is no tensor of one number.
        """
        value = self.value(values, index)
        if value is None:
            return None
        array = as_numpy(value) if isinstance(value, NDArray) else None
        if array is None or array.size != 1 or array.dtype.kind not in "biuf":
            raise self._wrong(index, "one number", value)
        return array.item()

    def sequence(self, values: Mapping[str, Any], index: int) -> list[Any]:
        """Input ``index``, a list.

        Raises:
            RunError: it is none.
        """
        value = self.value(values, index)
        if not isinstance(value, list):
            raise self._wrong(index, "a sequence", value)
        return value

    def tensor(self, values: Mapping[str, Any], index: int) -> NDArray:
        """Input ``index``, a tensor.

        Raises:
            RunError: it is none.
        """
        value = self.value(values, index)
        if not isinstance(value, NDArray):
            raise self._wrong(index, "a tensor", value)
        return value

    def _wrong(self, index: int, expected: str, value: Any) -> RunError:
        got = "nothing" if value is None else f"a {type(value).__name__}"
        if isinstance(value, NDArray):
            array = as_numpy(value)
            got = f"{array.dtype}{list(array.shape)}"
        name = self.inputs[index] if index < len(self.inputs) else ""
        return RunError(
            f"{self}: input {index} `{name}`: expected {expected}, got {got}"
        )

    def check_axis(self, axis: int, rank: int) -> None:
        """Check that an axis is one of so many.

        Raises:
            RunError: it is none.
        """
        if not -rank <= axis < rank:
            raise RunError(f"{self}: axis: expected {-rank} to {rank - 1}, got {axis}")

    def check_body(self, body: Body, inputs: int, results: int) -> None:
        """Check how much a graph takes, and that it gives so much or more.

        Raises:
            RunError: it takes or gives something else.
        """
        if len(body.inputs) != inputs or len(body.outputs) < results:
            raise RunError(
                f"{self}: the graph in it: expected {inputs} inputs and {results} "
                f"outputs or more, got {len(body.inputs)} and {len(body.outputs)}"
            )

    def check_elements(self, body: Body, args: Sequence[Any]) -> None:
        """Check that tensors have the element types that a graph says of its inputs.

        Raises:
            RunError: one has another.
        """
        for name, said, value in zip(body.inputs, body.elements, args, strict=True):
            got = type_proto(value).tensor_type.elem_type
            if said and got and said != got:
                names = onnx.TensorProto.DataType.Name
                raise RunError(
                    f"{self}: the graph in it: input `{name}`: expected {names(said)}, "
                    f"got {names(got)}"
                )

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
    """A graph of a node as something to call.

    Attributes:
        outputs: as the graph says them.
        inputs: names; elements: their element types, 0 where none is said.
    """

    def __init__(self, graph: onnx.GraphProto, model: onnx.ModelProto) -> None:
        self.outputs = list(graph.output)
        self.inputs = [value.name for value in graph.input]
        self.elements = [v.type.tensor_type.elem_type for v in graph.input]
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
        self._copies = {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type == "Identity" and not node.domain
        }

    def result_types(self, args: Sequence[Any]) -> list[onnx.TypeProto]:
        """What the graph gives for such inputs, as far as that can be told.

        Where the graph does not say it, onnx infers it.
        """
        if all(value.type.tensor_type.elem_type for value in self.outputs):
            return [value.type for value in self.outputs]
        model = onnx.ModelProto()
        model.CopyFrom(self._stage.model)
        for value, argument in zip(model.graph.input, args, strict=False):
            value.type.CopyFrom(type_proto(argument))
        inferred = shape_inference.infer_shapes(model)
        return [value.type for value in inferred.graph.output]

    def passes_on(self, result: int, argument: int) -> bool:
        """Whether a result is always what an argument is."""
        name = self.outputs[result].name
        while name in self._copies:
            name = self._copies[name]
        return name == self.inputs[argument]

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
