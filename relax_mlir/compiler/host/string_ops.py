"""Host kernels of operators on strings, which have no compiled representation.

Operators that only move or compare elements run compiled on order-preserving integer codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from relax_mlir.compiler.host.node_interpreter import HostNode
from relax_mlir.compiler.host.regular_expressions import compile_pattern
from relax_mlir.compiler.host.subgraph import is_tensor
from relax_mlir.errors import RunError, UnsupportedError
from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["RUNNERS", "decode_text", "text_array"]

Values = Mapping[str, Any]
Runner = Callable[[HostNode, Values], Sequence[Any]]


def decode_text(value: str | bytes) -> str:
    """Text from a string, or from UTF-8 bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def text_array(node: HostNode, values: Values, index: int) -> np.ndarray:
    """An input as an array of ``str`` objects.

    Raises:
        RunError: its elements are not text.
    """
    value = node.value(values, index)
    array = np.asarray(as_numpy(value))
    if is_tensor(value) or array.dtype.kind not in "OSU":
        raise RunError(f"{node}: input {index}: expected text, got {array.dtype}")
    return _map_elements(decode_text, array, object)


def _map_elements(
    function: Callable[..., Any], array: np.ndarray, dtype: Any
) -> np.ndarray:
    """Apply a function elementwise."""
    result = np.empty(array.shape, dtype)
    result.reshape(-1)[:] = [function(element) for element in array.reshape(-1)]
    return result


def concatenate(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX StringConcat-20."""
    left, right = (text_array(node, values, index) for index in range(2))
    try:
        return [NDArray(np.asarray(left + right, dtype=object))]
    except ValueError as error:
        raise RunError(
            f"{node}: expected shapes that broadcast, got {left.shape} and {right.shape}"
        ) from error


def split(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX StringSplit-20."""
    array = text_array(node, values, 0)
    delimiter = decode_text(node.attrs.get("delimiter", "")) or None
    max_split = int(node.attrs.get("maxsplit", -1))
    parts = [text.split(delimiter, max_split) for text in array.reshape(-1)]
    counts = np.array([len(part) for part in parts], np.int64)
    padded = np.full((len(parts), counts.max(initial=0)), "", object)
    for row, part in zip(padded, parts, strict=True):
        row[: len(part)] = part
    shape = array.shape
    return [
        NDArray(padded.reshape(*shape, padded.shape[1])),
        NDArray(counts.reshape(shape)),
    ]


def matches(node: HostNode, values: Values) -> Sequence[Any]:
    """Full match of a regular expression of RE2, elementwise.

    Source: ONNX RegexFullMatch-20.
    """
    expression = compile_pattern(node, "pattern", decode_text(node.attr("pattern")))
    array = text_array(node, values, 0)
    return [
        NDArray(_map_elements(lambda t: bool(expression.fullmatch(t)), array, bool))
    ]


_CASES: Mapping[str, Callable[[str], str]] = {
    "NONE": str,
    "LOWER": str.lower,
    "UPPER": str.upper,
}


def normalize(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX StringNormalizer-10."""
    array = text_array(node, values, 0)
    if array.ndim not in (1, 2) or (array.ndim == 2 and len(array) != 1):
        raise RunError(f"{node}: expected [n] or [1, n], got {list(array.shape)}")
    action = decode_text(node.attrs.get("case_change_action", b"NONE"))
    if action not in _CASES:
        raise RunError(
            f"{node}: case_change_action: expected {', '.join(_CASES)}, got {action!r}"
        )
    fold = str if node.attrs.get("is_case_sensitive", 0) else str.lower
    stops = {fold(decode_text(word)) for word in node.attrs.get("stopwords", ())}
    kept = [text for text in array.reshape(-1) if fold(text) not in stops]
    result = np.array([_CASES[action](text) for text in kept] or [""], object)
    return [NDArray(result.reshape((1, -1) if array.ndim == 2 else -1))]


def constant(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX Constant-25."""
    if "value" in node.attrs:
        array = onnx.numpy_helper.to_array(node.attrs["value"])
    else:
        value = node.attrs.get("value_string", node.attrs.get("value_strings"))
        array = np.array(value, object)
    return [NDArray(_map_elements(decode_text, array, object))]


def cast(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX Cast-25, to and from text."""
    value = node.value(values, 0)
    to = _target(node, values)
    if to == TensorProto.STRING:
        return [NDArray(_map_elements(_to_text, as_numpy(value), object))]
    dtype = helper.tensor_dtype_to_np_dtype(to)
    array = text_array(node, values, 0)
    parse = int if dtype.kind in "iu" else float
    try:
        return [NDArray(_map_elements(parse, array, dtype))]
    except ValueError as error:
        raise RunError(f"{node}: expected numbers: {error}") from error


def _target(node: HostNode, values: Values) -> int:
    """The target element type: the attribute ``to``, or the type of the second input."""
    if "to" in node.attrs:
        return int(node.attrs["to"])
    like = node.value(values, 1)
    if not is_tensor(like):
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(as_numpy(like).dtype)


def _to_text(element: Any) -> str:  # Any: a number of numpy, or text
    """A number as text; a float in the shortest form that round-trips."""
    if isinstance(element, (str, bytes)):
        return decode_text(element)
    if isinstance(element, (bool, np.bool_)):
        return str(int(element))
    text = str(element)
    return {"nan": "NaN", "inf": "INF", "-inf": "-INF"}.get(text, text)


def run_on_codes(node: HostNode, values: Values) -> Sequence[Any]:
    """Run a node compiled on integer codes of strings, and decode its results.

    A code is the rank among the sorted strings, so codes compare like strings.
    """
    names = [n for n in dict.fromkeys(node.inputs) if n and not is_tensor(values[n])]
    if not names:
        raise UnsupportedError(
            f"{node}: the host interpreter does not support it on numbers"
        )
    arrays = {n: text_array(node, values, node.inputs.index(n)) for n in names}
    texts = sorted({text for array in arrays.values() for text in array.reshape(-1)})
    codes = {text: code for code, text in enumerate(texts)}
    encoded = {
        name: NDArray(_map_elements(codes.__getitem__, array, np.int64))
        for name, array in arrays.items()
    }
    outputs = node.compiled(set(names))([{**values, **encoded}[n] for n in node.names])
    text_outputs = _TEXT_OUTPUTS[node.op_type]
    decoded = np.array([*texts, ""], object)
    results: list[Any] = [None] * node.output_count
    for index, result in zip(node.wanted, outputs, strict=True):
        is_text = text_outputs is None or index in text_outputs
        results[index] = NDArray(decoded[as_numpy(result)]) if is_text else result
    return results


# Indices of the outputs that hold elements of inputs; None for all.
_TEXT_OUTPUTS: Mapping[str, tuple[int, ...] | None] = {
    **dict.fromkeys(("Compress", "Concat", "Expand", "Flatten", "Gather")),
    **dict.fromkeys(
        ("GatherElements", "GatherND", "Identity", "Reshape", "ScatterElements")
    ),
    **dict.fromkeys(("Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze")),
    **dict.fromkeys(("ScatterND", "Where", "ai.onnx.ml::ArrayFeatureExtractor")),
    **dict.fromkeys(("Equal", "Shape", "Size"), ()),
    "Unique": (0,),
}

RUNNERS: Mapping[str, Runner] = {
    **dict.fromkeys(_TEXT_OUTPUTS, run_on_codes),
    "Cast": cast,
    "CastLike": cast,
    "Constant": constant,
    "RegexFullMatch": matches,
    "StringConcat": concatenate,
    "StringNormalizer": normalize,
    "StringSplit": split,
}
