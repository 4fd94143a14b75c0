"""Descriptions of inputs and outputs by onnxruntime's type strings."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx

__all__ = ["ModelMetadata", "NodeArg", "element_name", "node_arg"]

# Names that differ from ONNX's in lower case.
_NAMES = {
    "FLOAT8E4M3FN": "float8e4m3fn",
    "FLOAT8E4M3FNUZ": "float8e4m3fnuz",
    "FLOAT8E5M2": "float8e5m2",
    "FLOAT8E5M2FNUZ": "float8e5m2fnuz",
}


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a model.

    Attributes:
        name: in the model.
        type: such as ``tensor(float)``.
        shape: integers, names of symbolic sizes, None for unknown ones.
    """

    name: str
    type: str
    shape: list[int | str | None]


@dataclass
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


def element_name(number: int) -> str:
    """onnxruntime's name of an element type of ONNX."""
    name = onnx.TensorProto.DataType.Name(number)
    return _NAMES.get(name, name.lower())


def node_arg(value: onnx.ValueInfoProto) -> NodeArg:
    """The description of a value of a graph."""
    shape: list[int | str | None] = []
    kind = value.type
    if kind.HasField("tensor_type") and kind.tensor_type.HasField("shape"):
        for dim in kind.tensor_type.shape.dim:
            size: int | str | None = dim.dim_param or None
            shape.append(dim.dim_value if dim.HasField("dim_value") else size)
    return NodeArg(value.name, _type_name(kind), shape)


def _type_name(kind: onnx.TypeProto) -> str:
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return f"seq({_type_name(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({_type_name(kind.optional_type.elem_type)})"
    if which == "map_type":
        key = element_name(kind.map_type.key_type)
        return f"map({key},{_type_name(kind.map_type.value_type)})"
    if which == "sparse_tensor_type":
        return f"sparse_tensor({element_name(kind.sparse_tensor_type.elem_type)})"
    return f"tensor({element_name(kind.tensor_type.elem_type)})"
