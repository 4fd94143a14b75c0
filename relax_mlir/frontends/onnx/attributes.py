"""Node attributes as Python values."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import onnx
from onnx import AttributeProto

from relax_mlir.frontends.onnx.weights import Weights

__all__ = ["attribute_type", "attribute_value", "resolve_references"]

_FIELDS: Mapping[int, str] = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
}


def attribute_type(attribute: onnx.AttributeProto) -> int:
    """The ``AttributeProto.AttributeType``, inferred from the set field for IR version 1.

    Raises:
        ValueError: the attribute has no value, or a type that ONNX does not define.
    """
    kind = attribute.type
    if kind == AttributeProto.UNDEFINED:
        set_fields = {field.name for field, _ in attribute.ListFields()}
        kind = next((k for k, f in _FIELDS.items() if f in set_fields), kind)
    if kind == AttributeProto.UNDEFINED:
        raise ValueError(f"attribute `{attribute.name}` has no value")
    return kind


def attribute_value(attribute: onnx.AttributeProto, weights: Weights) -> Any:
    """The value as int, float, str (bytes if not UTF-8), array, or a list of one of these.

    Raises:
        ValueError: the value is corrupt.
        NotImplementedError: values of this type are not supported.
    """
    kind = attribute_type(attribute)
    if kind not in _FIELDS or kind == AttributeProto.GRAPH:
        name = AttributeProto.AttributeType.Name(kind)
        raise NotImplementedError(
            f"attribute `{attribute.name}`: values of type {name} are not supported"
        )
    value = getattr(attribute, _FIELDS[kind])
    try:
        return _DECODERS[kind](value, weights)
    except ValueError as error:
        raise ValueError(f"attribute `{attribute.name}`: {error}") from error


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


_Decoder = Callable[[Any, Weights], Any]  # Any: a field's value, a Python value
_DECODERS: Mapping[int, _Decoder] = {
    AttributeProto.FLOAT: lambda value, _: value,
    AttributeProto.INT: lambda value, _: value,
    AttributeProto.STRING: lambda value, _: _text(value),
    AttributeProto.TENSOR: lambda value, weights: weights.array(value),
    AttributeProto.FLOATS: lambda value, _: list(value),
    AttributeProto.INTS: lambda value, _: list(value),
    AttributeProto.STRINGS: lambda value, _: [_text(text) for text in value],
    AttributeProto.TENSORS: lambda value, weights: [weights.array(t) for t in value],
}


def resolve_references(
    attributes: Iterable[onnx.AttributeProto],
    given: Mapping[str, onnx.AttributeProto],
) -> dict[str, onnx.AttributeProto]:
    """Attributes by name, with references to function attributes resolved.

    Args:
        attributes: those of a node in the body of a function.
        given: those of the call; references to attributes missing here are dropped.
    """
    found: dict[str, onnx.AttributeProto] = {}
    for proto in attributes:
        if not proto.ref_attr_name:
            found[proto.name] = proto
        elif proto.ref_attr_name in given:
            copy = onnx.AttributeProto()
            copy.CopyFrom(given[proto.ref_attr_name])
            copy.name = proto.name
            found[proto.name] = copy
    return found
