"""Operators on text, which no program computes with.

Where elements are only moved or compared, numbers stand for them, in the same order: what
moves numbers is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from relax_mlir.errors import RunError, UnsupportedError
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.stages.host_node import HostNode
from relax_mlir.stages.patterns import pattern
from relax_mlir.stages.stage import is_tensor

__all__ = ["RUNNERS", "plain", "texts"]

Values = Mapping[str, Any]
Runner = Callable[[HostNode, Values], Sequence[Any]]


def plain(value: str | bytes) -> str:
    """Text that may come as bytes of UTF-8."""
    return value.decode() if isinstance(value, bytes) else str(value)


def texts(node: HostNode, values: Values, index: int) -> np.ndarray:
    """An input as an array of ``str`` objects.

    Raises:
        RunError: its elements are no text.
    """
    value = node.value(values, index)
    array = np.asarray(as_numpy(value))
    if is_tensor(value) or array.dtype.kind not in "OSU":
        raise RunError(f"{node}: input {index}: expected text, got {array.dtype}")
    return _each(plain, array, object)


def _each(make: Callable[..., Any], array: np.ndarray, dtype: Any) -> np.ndarray:
    """What a function makes of every element."""
    made = np.empty(array.shape, dtype)
    made.reshape(-1)[:] = [make(element) for element in array.reshape(-1)]
    return made


def concatenate(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX StringConcat-20."""
    left, right = (texts(node, values, index) for index in range(2))
    try:
        return [NDArray(np.asarray(left + right, dtype=object))]
    except ValueError as error:
        raise RunError(
            f"{node}: expected shapes that broadcast, got {left.shape} and {right.shape}"
        ) from error


def split(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX StringSplit-20."""
    array = texts(node, values, 0)
    delimiter = plain(node.attrs.get("delimiter", "")) or None
    most = int(node.attrs.get("maxsplit", -1))
    parts = [text.split(delimiter, most) for text in array.reshape(-1)]
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
    """Whether texts match a pattern of RE2, in time linear in their length.

    Source: ONNX RegexFullMatch-20.
    """
    expression = pattern(node, "pattern", plain(node.attr("pattern")))
    array = texts(node, values, 0)
    return [NDArray(_each(lambda t: bool(expression.fullmatch(t)), array, bool))]


_CASES: Mapping[str, Callable[[str], str]] = {
    "NONE": str,
    "LOWER": str.lower,
    "UPPER": str.upper,
}


def normalize(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX StringNormalizer-10."""
    array = texts(node, values, 0)
    if array.ndim not in (1, 2) or (array.ndim == 2 and len(array) != 1):
        raise RunError(f"{node}: expected [n] or [1, n], got {list(array.shape)}")
    action = plain(node.attrs.get("case_change_action", b"NONE"))
    if action not in _CASES:
        raise RunError(
            f"{node}: case_change_action: expected {', '.join(_CASES)}, got {action!r}"
        )
    fold = str if node.attrs.get("is_case_sensitive", 0) else str.lower
    stops = {fold(plain(word)) for word in node.attrs.get("stopwords", ())}
    kept = [text for text in array.reshape(-1) if fold(text) not in stops]
    made = np.array([_CASES[action](text) for text in kept] or [""], object)
    return [NDArray(made.reshape((1, -1) if array.ndim == 2 else -1))]


def constant(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX Constant-25."""
    if "value" in node.attrs:
        array = onnx.numpy_helper.to_array(node.attrs["value"])
    else:
        given = node.attrs.get("value_string", node.attrs.get("value_strings"))
        array = np.array(given, object)
    return [NDArray(_each(plain, array, object))]


def cast(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX Cast-25, to and from text."""
    value = node.value(values, 0)
    to = _target(node, values)
    if to == TensorProto.STRING:
        return [NDArray(_each(_written, as_numpy(value), object))]
    dtype = helper.tensor_dtype_to_np_dtype(to)
    array = texts(node, values, 0)
    read = int if dtype.kind in "iu" else float
    try:
        return [NDArray(_each(read, array, dtype))]
    except ValueError as error:
        raise RunError(f"{node}: expected numbers: {error}") from error


def _target(node: HostNode, values: Values) -> int:
    """The element type that is wanted: told, or that of the second input."""
    if "to" in node.attrs:
        return int(node.attrs["to"])
    like = node.value(values, 1)
    if not is_tensor(like):
        return TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(as_numpy(like).dtype)


def _written(element: Any) -> str:  # Any: a number of numpy, or text
    """A number as text; of a float what tells it from others of its type."""
    if isinstance(element, (str, bytes)):
        return plain(element)
    if isinstance(element, (bool, np.bool_)):
        return str(int(element))
    text = str(element)
    return {"nan": "NaN", "inf": "INF", "-inf": "-INF"}.get(text, text)


def as_numbers(node: HostNode, values: Values) -> Sequence[Any]:
    """Run a node on numbers in place of texts; those of its results are texts again.

    The numbers are places among the sorted texts, so they compare as those do.
    """
    names = [n for n in dict.fromkeys(node.inputs) if n and not is_tensor(values[n])]
    if not names:
        raise UnsupportedError(f"{node}: it cannot run by itself on numbers")
    given = {name: texts(node, values, node.inputs.index(name)) for name in names}
    found = sorted({text for array in given.values() for text in array.reshape(-1)})
    number = {text: place for place, text in enumerate(found)}
    replaced = {
        name: NDArray(_each(number.__getitem__, array, np.int64))
        for name, array in given.items()
    }
    made = node.compiled(set(names))([{**values, **replaced}[n] for n in node.names])
    moved = _MOVED[node.op_type]
    known = np.array([*found, ""], object)
    results: list[Any] = [None] * node.output_count
    for place, result in zip(node.wanted, made, strict=True):
        is_text = moved is None or place in moved
        results[place] = NDArray(known[as_numpy(result)]) if is_text else result
    return results


# Which outputs hold elements of inputs; None says all.
_MOVED: Mapping[str, tuple[int, ...] | None] = {
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
    **dict.fromkeys(_MOVED, as_numbers),
    "Cast": cast,
    "CastLike": cast,
    "Constant": constant,
    "RegexFullMatch": matches,
    "StringConcat": concatenate,
    "StringNormalizer": normalize,
    "StringSplit": split,
}
