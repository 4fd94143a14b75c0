"""Validation of nodes against the operator schemas of the installed onnx."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from onnx import AttributeProto, defs

from relax_mlir.errors import near_misses
from relax_mlir.frontends.onnx.attributes import attribute_type
from relax_mlir.frontends.onnx.graph import Node

__all__ = ["check_inputs", "check_node", "find_schema"]


@dataclass(frozen=True)
class _Signature:
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    attributes: Mapping[str, tuple[int, bool]]  # type, is required


def find_schema(op_type: str, opset: int) -> Any:  # Any: its stub lacks the functions
    """The ``OpSchema`` of ``Name`` or ``domain::Name`` in an opset, or None."""
    domain, _, name = op_type.rpartition("::")
    try:
        return defs.get_schema(name, opset, domain)
    except defs.SchemaError:
        return None


def check_node(node: Node, opset: int) -> None:
    """Check a node against its operator's schema; operators without one are accepted.

    Raises:
        ValueError: the number of inputs or outputs is wrong, or an attribute is unknown,
            missing or of a wrong type.
    """
    signature = _signature(node.op_type, opset)
    if signature is None:
        return
    _check_count("input", len(node.inputs), signature.inputs)
    _check_count("output", len(node.outputs), signature.outputs)
    given = {attribute.name: attribute for attribute in node.proto.attribute}
    for name, attribute in given.items():
        if name not in signature.attributes:
            hint = near_misses(name, signature.attributes)
            raise ValueError(f"opset {opset} has no attribute `{name}`.{hint}")
        expected, _ = signature.attributes[name]
        if attribute.ref_attr_name:  # some function bodies do not declare its type
            continue
        kind = attribute_type(attribute)
        if kind != expected:
            names = AttributeProto.AttributeType.Name
            raise ValueError(
                f"attribute `{name}` has the wrong type: expected {names(expected)}, "
                f"got {names(kind)}"
            )
    for name, (_, is_required) in signature.attributes.items():
        if is_required and name not in given:
            raise ValueError(f"attribute `{name}` is missing")
    if node.op_type == "Constant" and len(given) != 1:
        raise ValueError(
            f"expected one attribute, the value, got {len(given)}: {', '.join(given)}"
        )


def check_inputs(node: Node, opset: int) -> None:
    """Check that only optional inputs are omitted.

    Rules check that themselves; this is for nodes without a rule.

    Raises:
        ValueError: a required input is omitted.
    """
    schema = find_schema(node.op_type, opset)
    if schema is None or not schema.inputs:
        return
    for index, name in enumerate(node.inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        is_optional = formal.option == defs.OpSchema.FormalParameterOption.Optional
        if not name and not is_optional:
            raise ValueError(f"input {index} (`{formal.name}`) is omitted")


def _check_count(what: str, got: int, allowed: tuple[int, int]) -> None:
    low, high = allowed
    if not low <= got <= high:
        several = f"{low}" if low == high else f"{low} to {high}"
        raise ValueError(f"wrong number of {what}s: expected {several}, got {got}")


@lru_cache(maxsize=1024)
def _signature(op_type: str, opset: int) -> _Signature | None:
    schema = find_schema(op_type, opset)
    if schema is None:
        return None
    attributes = {
        name: (attribute.type.value, attribute.required)
        for name, attribute in schema.attributes.items()
    }
    return _Signature(
        (schema.min_input, schema.max_input),
        (schema.min_output, schema.max_output),
        attributes,
    )
