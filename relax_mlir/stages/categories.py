"""Operators on categories that are named by text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray, as_numpy
from relax_mlir.stages.host_node import HostNode
from relax_mlir.stages.stage import is_text
from relax_mlir.stages.text import Runner, Values, plain, texts

__all__ = ["RUNNERS"]

_UNUSED = "_Unused"


def _elements(node: HostNode, values: Values) -> list[Any]:
    """The elements of the input in order: text, or numbers of Python."""
    value = node.tensor(values, 0)
    if is_text(value):
        return texts(node, values, 0).reshape(-1).tolist()
    return as_numpy(value).reshape(-1).tolist()


def _mapped(node: HostNode, values: Values, table: Mapping[Any, Any], rest: Any) -> Any:
    """What a table says of every element; ``rest`` of those that it does not know."""
    found = [table.get(element, rest) for element in _elements(node, values)]
    kind = object if isinstance(rest, str) else np.asarray(rest).dtype
    return NDArray(np.array(found, kind).reshape(node.tensor(values, 0).shape))


def encode_labels(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX (ai.onnx.ml) LabelEncoder-4."""
    if "classes_strings" in node.attrs:
        return _encode_classes(node, values)
    keys, _ = _given(node, "keys")
    found, kind = _given(node, "values")
    if len(keys) != len(found):
        raise RunError(f"{node}: expected {len(keys)} values as keys, got {len(found)}")
    return [
        _mapped(node, values, dict(zip(keys, found, strict=True)), _default(node, kind))
    ]


def _encode_classes(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX (ai.onnx.ml) LabelEncoder-1."""
    names = list(map(plain, node.attrs["classes_strings"]))
    if is_text(node.value(values, 0)):
        table = {name: place for place, name in enumerate(names)}
        rest = np.int64(node.attrs.get("default_int64", -1))
        return [_mapped(node, values, table, rest)]
    unknown = plain(node.attrs.get("default_string", _UNUSED))
    return [_mapped(node, values, dict(enumerate(names)), unknown)]


_KINDS = {"int64s": "int64", "floats": "float32", "strings": "object"}


def _given(node: HostNode, what: str) -> tuple[list[Any], str]:
    """Keys or values of a table, and the name of their element type."""
    named = [name for name in node.attrs if name.startswith(f"{what}_")]
    if len(named) != 1:
        raise RunError(
            f"{node}: expected one of the attributes `{what}_*`, got {named}"
        )
    if f"{what}_tensor" in node.attrs:
        array = onnx.numpy_helper.to_array(node.attrs[f"{what}_tensor"]).reshape(-1)
        kind = "object" if array.dtype.kind in "OSU" else array.dtype.name
        return [plain(v) if kind == "object" else v for v in array.tolist()], kind
    given, kind = node.attrs[named[0]], _KINDS[named[0].removeprefix(f"{what}_")]
    if kind == "object":
        return list(map(plain, given)), kind
    return np.array(given, kind).tolist(), kind


def _default(node: HostNode, kind: str) -> Any:  # Any: text or a number
    tensor = node.attrs.get("default_tensor")
    if tensor is not None and tensor.data_type:
        (value,) = onnx.numpy_helper.to_array(tensor).reshape(-1)
        return plain(value) if kind == "object" else value
    if kind == "object":
        return plain(node.attrs.get("default_string", _UNUSED))
    is_float = np.dtype(kind).kind == "f"
    name, usual = ("default_float", -0.0) if is_float else ("default_int64", -1)
    return np.dtype(kind).type(node.attrs.get(name, usual))


def map_categories(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX (ai.onnx.ml) CategoryMapper-1."""
    names = list(map(plain, node.attrs.get("cats_strings", ())))
    numbers = list(node.attrs.get("cats_int64s", ()))
    if len(names) != len(numbers):
        raise RunError(
            f"{node}: expected as many strings as integers, got {len(names)} and "
            f"{len(numbers)}"
        )
    if is_text(node.value(values, 0)):
        rest = np.int64(node.attrs.get("default_int64", -1))
        return [_mapped(node, values, dict(zip(names, numbers, strict=True)), rest)]
    unknown = plain(node.attrs.get("default_string", _UNUSED))
    return [_mapped(node, values, dict(zip(numbers, names, strict=True)), unknown)]


def classify(node: HostNode, values: Values) -> Sequence[Any]:
    """Classes by number, then by name.

    Source: ONNX (ai.onnx.ml) LinearClassifier-1, SVMClassifier-1,
    TreeEnsembleClassifier-5.
    """
    names = list(map(plain, node.attr("classlabels_strings")))
    is_trees = node.op_type == "ai.onnx.ml::TreeEnsembleClassifier"
    numbers = "classlabels_int64s" if is_trees else "classlabels_ints"
    if len(names) < 2:
        raise RunError(f"{node}: expected two classes or more, got {len(names)}")

    def rewrite(proto: onnx.NodeProto) -> None:
        kept = [a for a in proto.attribute if a.name != "classlabels_strings"]
        del proto.attribute[:]
        proto.attribute.extend(kept)
        proto.attribute.append(helper.make_attribute(numbers, range(len(names))))

    made = node.compiled(rewrite=rewrite)([values[name] for name in node.names])
    results: list[Any] = [None] * node.output_count
    for place, result in zip(node.wanted, made, strict=True):
        results[place] = result
    if 0 in node.wanted:
        results[0] = NDArray(np.array(names, object)[as_numpy(results[0])])
    return results


def count_ngrams(node: HostNode, values: Values) -> Sequence[Any]:
    """Numbers in place of words, n-grams of which are counted.

    Source: ONNX TfIdfVectorizer-9.
    """
    words = list(map(plain, node.attr("pool_strings")))
    place = {word: number for number, word in enumerate(dict.fromkeys(words))}

    def rewrite(proto: onnx.NodeProto) -> None:
        kept = [a for a in proto.attribute if a.name != "pool_strings"]
        del proto.attribute[:]
        proto.attribute.extend(kept)
        numbers = [place[word] for word in words]
        proto.attribute.append(helper.make_attribute("pool_int64s", numbers))

    array = texts(node, values, 0)
    numbers = np.array([place.get(t, -1) for t in array.reshape(-1)], np.int64)
    run = node.compiled(set(node.names), rewrite)
    return run([NDArray(numbers.reshape(array.shape))])


def encode_one_hot(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX (ai.onnx.ml) OneHotEncoder-1."""
    if "cats_int64s" in node.attrs:
        raise RunError(f"{node}: expected categories that are texts, got cats_int64s")
    names = list(map(plain, node.attr("cats_strings")))
    array = texts(node, values, 0)
    unknown = set(array.reshape(-1).tolist()).difference(names)
    if unknown and not node.attrs.get("zeros", 1):
        raise RunError(f"{node}: expected one of the categories, got {min(unknown)!r}")
    is_category = array[..., None] == np.array(names, object)
    return [NDArray(is_category.astype(np.float32))]


def zip_map(node: HostNode, values: Values) -> Sequence[Any]:
    """For every row the numbers of its columns by name, as a dictionary.

    Source: ONNX (ai.onnx.ml) ZipMap-1.
    """
    names = node.attrs.get("classlabels_int64s")
    if names is None:
        names = list(map(plain, node.attr("classlabels_strings")))
    array = as_numpy(node.tensor(values, 0))
    if array.ndim not in (1, 2) or array.shape[-1] != len(names):
        raise RunError(
            f"{node}: expected [n, {len(names)}] or [{len(names)}], got "
            f"{list(array.shape)}"
        )
    rows = array.reshape(-1, len(names)).tolist()
    return [[dict(zip(names, row, strict=True)) for row in rows]]


RUNNERS: Mapping[str, Runner] = {
    "ai.onnx.ml::LinearClassifier": classify,
    "ai.onnx.ml::OneHotEncoder": encode_one_hot,
    "ai.onnx.ml::SVMClassifier": classify,
    "ai.onnx.ml::TreeEnsembleClassifier": classify,
    "TfIdfVectorizer": count_ngrams,
    "ai.onnx.ml::CategoryMapper": map_categories,
    "ai.onnx.ml::LabelEncoder": encode_labels,
    "ai.onnx.ml::ZipMap": zip_map,
}
