"""Classification of the backend tests by the types and operators that they use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, TypeProto
from onnx.backend.test import loader

__all__ = ["CORE", "KINDS", "kinds"]

CORE = "core"
KINDS: Mapping[str, str] = {
    CORE: "tensors of common element types",
    "small types": "8-bit floats, and types of less than 8 bits",
    "text": "string tensors",
    "sequences": "sequences of tensors",
    "optional": "optional values",
    "training": "gradients and optimiser steps",
    "images": "compressed images",
    "ai.onnx.ml": "operators of classical models",
    "random": "random numbers",
    "preview": "preview operators",
}
_OPERATORS = {
    "ImageDecoder": "images",
    "TfIdfVectorizer": "text",  # although its suite has numbers
    **dict.fromkeys(("Bernoulli", "RandomUniformLike"), "random"),
    **dict.fromkeys(("Optional", "OptionalGetElement"), "optional"),
    "OptionalHasElement": "optional",
    **dict.fromkeys(("SequenceAt", "SequenceEmpty", "SequenceInsert"), "sequences"),
    **dict.fromkeys(("SequenceMap", "SplitToSequence"), "sequences"),
    **dict.fromkeys(("ConcatFromSequence", "SequenceConstruct"), "sequences"),
}
_DOMAINS = {
    "ai.onnx.ml": "ai.onnx.ml",
    "ai.onnx.preview": "preview",
    "ai.onnx.preview.training": "training",
}
_FIELDS = {"sequence_type": "sequences", "optional_type": "optional"}
_SMALL = frozenset(
    value
    for name, value in TensorProto.DataType.items()
    if name.startswith(("FLOAT8", "FLOAT6", "FLOAT4", "INT4", "UINT4", "INT2", "UINT2"))
)


@cache
def kinds() -> Mapping[str, str]:
    """The kinds of the node and simple tests, by name; other tests are core."""
    cases = [
        *loader.load_model_tests(kind="node"),
        *loader.load_model_tests(kind="simple"),
    ]
    return {case.name: _kind(_model(case)) for case in cases}


def _model(case: Any) -> onnx.ModelProto:  # Any: its class is not exported
    return case.model or onnx.load(Path(case.model_dir) / "model.onnx")


def _kind(model: onnx.ModelProto) -> str:
    found = set(_kinds_of(model))
    return next((kind for kind in [*KINDS][::-1] if kind in found), CORE)


def _kinds_of(model: onnx.ModelProto) -> Iterator[str]:
    """The kinds of the nodes and values of a model."""
    for node in model.graph.node:
        if node.domain in _DOMAINS:
            yield _DOMAINS[node.domain]
        if node.op_type in _OPERATORS:
            yield _OPERATORS[node.op_type]
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        yield _kind_of_type(value.type)


def _kind_of_type(type_: TypeProto) -> str:
    for field, kind in _FIELDS.items():
        if type_.HasField(field):
            return kind
    if type_.tensor_type.elem_type == TensorProto.STRING:
        return "text"
    return "small types" if type_.tensor_type.elem_type in _SMALL else CORE
