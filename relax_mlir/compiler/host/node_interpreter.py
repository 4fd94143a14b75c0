"""Single ONNX nodes for the host interpreter: attributes, inputs and body graphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper, shape_inference

from relax_mlir.compiler.host.subgraph import JITSubgraph, NativeCall, type_proto
from relax_mlir.errors import RunError
from relax_mlir.frontends.onnx.graph import (
    operator_name,
    opset_of,
    plain_domain,
    read_graph,
)
from relax_mlir.frontends.onnx.stages import CONSTANT
from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["Body", "HostNode"]


class HostNode:
    """The node of a single-node model.

    Attributes:
        op_type: the operator, as ``Name``, or ``domain::Name`` outside ai.onnx.
        opset: version of its domain.
        attrs: its attributes except graphs.
        bodies: its graph attributes.
        names: of the values that it reads, including captured ones, in order.
        inputs: names of its inputs; "" for an omitted one.
        wanted: indices of the outputs that are used.
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
        """Input ``index``; None if it is omitted."""
        name = self.inputs[index] if index < len(self.inputs) else ""
        return values[name] if name else None

    def attr(self, name: str) -> Any:
        """The attribute called ``name``.

        Raises:
            RunError: the attribute is missing.
        """
        if name not in self.attrs:
            raise RunError(f"{self}: attribute `{name}` is missing, required for text")
        return self.attrs[name]

    def flag(self, name: str, *, default: bool) -> bool:
        """The boolean attribute called ``name``, encoded as 0 or 1.

        Raises:
            RunError: it is another number.
        """
        value = self.attrs.get(name, default)
        if value not in (0, 1):
            raise RunError(f"{self}: attribute `{name}`: expected 0 or 1, got {value}")
        return bool(value)

    def scalar(self, values: Mapping[str, Any], index: int) -> Any:
        """Input ``index`` as a Python number; None if it is omitted.

        Raises:
            RunError: it is not a tensor of one number.
        """
        value = self.value(values, index)
        if value is None:
            return None
        array = as_numpy(value) if isinstance(value, NDArray) else None
        if array is None or array.size != 1 or array.dtype.kind not in "biuf":
            raise self._type_error(index, "one number", value)
        return array.item()

    def sequence(self, values: Mapping[str, Any], index: int) -> list[Any]:
        """Input ``index``, a sequence.

        Raises:
            RunError: it is not a sequence.
        """
        value = self.value(values, index)
        if not isinstance(value, list):
            raise self._type_error(index, "a sequence", value)
        return value

    def tensor(self, values: Mapping[str, Any], index: int) -> NDArray:
        """Input ``index``, a tensor.

        Raises:
            RunError: it is not a tensor.
        """
        value = self.value(values, index)
        if not isinstance(value, NDArray):
            raise self._type_error(index, "a tensor", value)
        return value

    def _type_error(self, index: int, expected: str, value: Any) -> RunError:
        got = "nothing" if value is None else f"a {type(value).__name__}"
        if isinstance(value, NDArray):
            array = as_numpy(value)
            got = f"{array.dtype}{list(array.shape)}"
        name = self.inputs[index] if index < len(self.inputs) else ""
        return RunError(
            f"{self}: input {index} `{name}`: expected {expected}, got {got}"
        )

    def check_axis(self, axis: int, rank: int) -> None:
        """Check that an axis is in range for a rank.

        Raises:
            RunError: it is out of range.
        """
        if not -rank <= axis < rank:
            raise RunError(f"{self}: axis: expected {-rank} to {rank - 1}, got {axis}")

    def check_body(self, body: Body, inputs: int, results: int) -> None:
        """Check the number of inputs, and the minimum number of outputs, of a body graph.

        Raises:
            RunError: a number is wrong.
        """
        if len(body.inputs) != inputs or len(body.outputs) < results:
            raise RunError(
                f"{self}: body graph: expected {inputs} inputs and {results} "
                f"outputs or more, got {len(body.inputs)} and {len(body.outputs)}"
            )

    def check_element_types(self, body: Body, args: Sequence[Any]) -> None:
        """Check tensors against the declared element types of a body graph's inputs.

        Raises:
            RunError: an element type differs.
        """
        declared = zip(body.inputs, body.element_types, args, strict=True)
        for name, expected, value in declared:
            got = type_proto(value).tensor_type.elem_type
            if expected and got and expected != got:
                names = onnx.TensorProto.DataType.Name
                raise RunError(
                    f"{self}: body graph: input `{name}`: expected {names(expected)}, got "
                    f"{names(got)}"
                )

    def compiled(
        self,
        changing: Collection[str] = (),
        rewrite: Callable[[onnx.NodeProto], None] | None = None,
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """The node as a JIT-compiled function of the tensors in ``names``.

        Args:
            changing: names of inputs to treat as variable even if marked constant.
            rewrite: modifies the node before compilation.
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
    """A model as a JIT-compiled function on lists of tensors; its marks change."""
    marks = [(m.key, m.value) for m in model.metadata_props]
    del model.metadata_props[:]
    for key, value in marks:
        if key != CONSTANT or value not in changing:
            model.metadata_props.add(key=key, value=value)
    subgraph, is_single = JITSubgraph(model), len(model.graph.output) == 1

    def call(args: Sequence[Any]) -> list[Any]:
        result = subgraph(args)
        return [result] if is_single else list(result)

    return call


class Body:
    """A graph attribute of a node, as a JIT-compiled function.

    Attributes:
        outputs: declarations of the graph's outputs.
        inputs: names of the graph's inputs.
        element_types: declared element types of the inputs; 0 if undeclared.
    """

    def __init__(self, graph: onnx.GraphProto, model: onnx.ModelProto) -> None:
        self.outputs = list(graph.output)
        self.inputs = [value.name for value in graph.input]
        self.element_types = [v.type.tensor_type.elem_type for v in graph.input]
        self._captured = sorted(read_graph(graph).free)
        alone = onnx.ModelProto()
        alone.CopyFrom(model)
        alone.graph.CopyFrom(graph)
        alone.graph.input.extend(
            onnx.ValueInfoProto(name=name) for name in self._captured
        )
        marks = [(m.key, m.value) for m in model.metadata_props]
        del alone.metadata_props[:]
        for key, value in marks:
            if key == CONSTANT and value in self._captured:
                alone.metadata_props.add(key=key, value=value)
        self._subgraph = JITSubgraph(alone)
        self._identities = {
            node.output[0]: node.input[0]
            for node in graph.node
            if node.op_type == "Identity" and not node.domain
        }

    def result_types(self, args: Sequence[Any]) -> list[onnx.TypeProto]:
        """Result types for given arguments: declared, or inferred by onnx if possible."""
        if all(value.type.tensor_type.elem_type for value in self.outputs):
            return [value.type for value in self.outputs]
        model = onnx.ModelProto()
        model.CopyFrom(self._subgraph.model)
        for value, argument in zip(model.graph.input, args, strict=False):
            value.type.CopyFrom(type_proto(argument))
        inferred = shape_inference.infer_shapes(model)
        return [value.type for value in inferred.graph.output]

    def forwards(self, result: int, argument: int) -> bool:
        """Whether a result is an argument, through Identity nodes alone."""
        name = self.outputs[result].name
        while name in self._identities:
            name = self._identities[name]
        return name == self.inputs[argument]

    def native(
        self, args: Sequence[Any], values: Mapping[str, Any]
    ) -> NativeCall | None:
        """The graph as a native function for given arguments; None if it calls back."""
        return self._subgraph.native(
            [*args, *(values[name] for name in self._captured)]
        )

    def __call__(self, args: Sequence[Any], values: Mapping[str, Any]) -> list[Any]:
        """Run the graph on its inputs, with captured values by name."""
        captured = [values[name] for name in self._captured]
        result = self._subgraph([*args, *captured])
        return [result] if len(self.outputs) == 1 else list(result)
