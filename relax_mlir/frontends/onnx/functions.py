"""Function bodies: those of the model, and those that the standard defines for operators."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import helper

from relax_mlir.dialects.shapes import Dim
from relax_mlir.frontends.onnx.graph import (
    Graph,
    Node,
    operator_name,
    plain_domain,
    read_function,
)
from relax_mlir.frontends.onnx.quantized_lstm import quantized_lstm_body
from relax_mlir.frontends.onnx.schemas import find_schema
from relax_mlir.frontends.onnx.shape_values import SizedValue

__all__ = ["FUNCTION_BODIES", "Function", "Functions"]

# Custom operators that decompose into standard nodes, with the builders of their bodies.
FUNCTION_BODIES: Mapping[
    str, Callable[[onnx.NodeProto, Iterable[onnx.AttributeProto]], onnx.FunctionProto]
] = {"com.microsoft::DynamicQuantizeLSTM": quantized_lstm_body}


@dataclass(frozen=True, eq=False)
class Function:
    """A function body that defines an operator.

    Attributes:
        graph: the body.
        opsets: versions of the operator domains in it.
        defaults: defaults of optional attributes.
    """

    graph: Graph
    opsets: Mapping[str, int]
    defaults: Mapping[str, onnx.AttributeProto]


class Functions:
    """Finds function bodies for nodes without a rule.

    Args:
        protos: the functions of the model.
    """

    def __init__(self, protos: Sequence[onnx.FunctionProto]) -> None:
        """Index the functions by operator.

        Raises:
            ValueError: two functions define the same operator.
        """
        self.protos = list(protos)
        self._protos: dict[tuple[str, str], onnx.FunctionProto] = {}
        self._read: dict[tuple[str, str], Function] = {}
        for proto in protos:
            key = (operator_name(proto.domain, proto.name), _overload(proto))
            if key in self._protos:
                raise ValueError(f"two functions are called `{key[0]}`")
            self._protos[key] = proto

    def of_model(self, node: Node) -> Function | None:
        """The model's own function for a node.

        Raises:
            ValueError, NotImplementedError: its body is invalid.
        """
        key = (node.op_type, _overload(node.proto))
        if key not in self._protos:
            return None
        if key not in self._read:
            self._read[key] = _function(self._protos[key], {})
        return self._read[key]

    def is_function(self, node: Node, opset: int) -> bool:
        """Whether the operator may have a body, given the types of its inputs."""
        if (node.op_type, _overload(node.proto)) in self._protos:
            return True
        if node.op_type in FUNCTION_BODIES:
            return True
        schema = find_schema(node.op_type, opset)
        if schema is None:
            return False
        versions = (
            *schema.function_opset_versions,
            *schema.context_dependent_function_opset_versions,
        )
        return _newest(versions, opset) is not None

    def of_standard(
        self,
        node: Node,
        opset: int,
        inputs: Sequence[SizedValue | None],
        attributes: Iterable[onnx.AttributeProto],
    ) -> Function | None:
        """The body that the standard, or :data:`FUNCTION_BODIES`, gives a node's operator.

        Args:
            node: the node.
            opset: the version of its domain.
            inputs: its inputs; a context-dependent body depends on their types.
            attributes: its attributes, with references resolved.
        """
        if node.op_type in FUNCTION_BODIES:
            return _function(FUNCTION_BODIES[node.op_type](node.proto, attributes), {})
        schema = find_schema(node.op_type, opset)
        if schema is None:
            return None
        attributes = list(attributes)
        _check_flags(attributes)
        defaults = _defaults(schema)
        version = _newest(schema.function_opset_versions, opset)
        if version is not None:
            data = schema.get_function_with_opset_version(version)
            return _function(onnx.FunctionProto.FromString(data), defaults)
        version = _newest(schema.context_dependent_function_opset_versions, opset)
        if version is None:
            return None
        types = [_type_proto(value).SerializeToString() for value in inputs]
        proto = onnx.NodeProto()
        proto.CopyFrom(node.proto)
        del proto.attribute[:]
        proto.attribute.extend(attributes)
        data = schema.get_context_dependent_function_with_opset_version(
            version, proto.SerializeToString(), types
        )
        if not data:
            return None
        return _function(onnx.FunctionProto.FromString(data), defaults)


def _check_flags(attributes: Iterable[onnx.AttributeProto]) -> None:
    """Check flags that function bodies use in arithmetic.

    Raises:
        ValueError: a flag is neither 0 nor 1.
    """
    for attribute in attributes:
        if attribute.name == "periodic" and attribute.i not in (0, 1):
            raise ValueError(
                f"attribute `periodic`: expected 0 or 1, got {attribute.i}"
            )


def _overload(proto: onnx.FunctionProto | onnx.NodeProto) -> str:
    return getattr(proto, "overload", "")  # since onnx 1.16


def _newest(versions: Sequence[int], opset: int) -> int | None:
    return max((version for version in versions if version <= opset), default=None)


def _defaults(schema: Any) -> dict[str, onnx.AttributeProto]:
    found = {n: a.default_value for n, a in schema.attributes.items()}
    return {name: value for name, value in found.items() if value.name}


def _function(
    proto: onnx.FunctionProto, defaults: Mapping[str, onnx.AttributeProto]
) -> Function:
    opsets = {plain_domain(o.domain): o.version for o in proto.opset_import}
    own = {a.name: a for a in proto.attribute_proto}
    return Function(read_function(proto), opsets, {**defaults, **own})


def _type_proto(value: SizedValue | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    element = helper.np_dtype_to_tensor_dtype(value.dtype.numpy)
    return helper.make_tensor_type_proto(element, [_size(dim) for dim in value.shape])


def _size(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)
