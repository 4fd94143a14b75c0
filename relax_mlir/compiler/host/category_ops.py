"""Host kernels of operators with string categories: encoders, classifiers, n-grams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from relax_mlir.compiler.host.node_interpreter import HostNode
from relax_mlir.compiler.host.string_ops import Runner, Values, decode_text, text_array
from relax_mlir.compiler.host.subgraph import is_text
from relax_mlir.errors import RunError
from relax_mlir.runtime.ndarray import NDArray, as_numpy

__all__ = ["RUNNERS"]

_UNUSED = "_Unused"  # the standard's default


def _elements(node: HostNode, values: Values) -> list[Any]:
    """The elements of the input in order, as Python strings or numbers."""
    value = node.tensor(values, 0)
    if is_text(value):
        return text_array(node, values, 0).reshape(-1).tolist()
    return as_numpy(value).reshape(-1).tolist()


def _look_up(
    node: HostNode, values: Values, table: Mapping[Any, Any], default: Any
) -> Any:
    """Elementwise table lookup, with a default for unknown elements."""
    results = [table.get(element, default) for element in _elements(node, values)]
    dtype = object if isinstance(default, str) else np.asarray(default).dtype
    return NDArray(np.array(results, dtype).reshape(node.tensor(values, 0).shape))


def encode_labels(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX (ai.onnx.ml) LabelEncoder-4."""
    if "classes_strings" in node.attrs:
        return _encode_classes(node, values)
    keys, _ = _table_attribute(node, "keys")
    labels, dtype = _table_attribute(node, "values")
    if len(keys) != len(labels):
        raise RunError(f"{node}: expected {len(keys)} values, got {len(labels)}")
    return [
        _look_up(
            node, values, dict(zip(keys, labels, strict=True)), _default(node, dtype)
        )
    ]


def _encode_classes(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX (ai.onnx.ml) LabelEncoder-1."""
    names = list(map(decode_text, node.attrs["classes_strings"]))
    if is_text(node.value(values, 0)):
        table = {name: index for index, name in enumerate(names)}
        default = np.int64(node.attrs.get("default_int64", -1))
        return [_look_up(node, values, table, default)]
    unknown = decode_text(node.attrs.get("default_string", _UNUSED))
    return [_look_up(node, values, dict(enumerate(names)), unknown)]


_DTYPES = {"int64s": "int64", "floats": "float32", "strings": "object"}


def _table_attribute(node: HostNode, prefix: str) -> tuple[list[Any], str]:
    """Keys or values of a table, and their element type, from ``<prefix>_<type>``."""
    names = [name for name in node.attrs if name.startswith(f"{prefix}_")]
    if len(names) != 1:
        raise RunError(
            f"{node}: expected one of the attributes `{prefix}_*`, got {names}"
        )
    if f"{prefix}_tensor" in node.attrs:
        array = onnx.numpy_helper.to_array(node.attrs[f"{prefix}_tensor"]).reshape(-1)
        dtype = "object" if array.dtype.kind in "OSU" else array.dtype.name
        return [
            decode_text(v) if dtype == "object" else v for v in array.tolist()
        ], dtype
    elements, dtype = node.attrs[names[0]], _DTYPES[names[0].removeprefix(f"{prefix}_")]
    if dtype == "object":
        return list(map(decode_text, elements)), dtype
    return np.array(elements, dtype).tolist(), dtype


def _default(node: HostNode, dtype: str) -> Any:  # Any: text or a number
    tensor = node.attrs.get("default_tensor")
    if tensor is not None and tensor.data_type:
        (value,) = onnx.numpy_helper.to_array(tensor).reshape(-1)
        return decode_text(value) if dtype == "object" else value
    if dtype == "object":
        return decode_text(node.attrs.get("default_string", _UNUSED))
    is_float = np.dtype(dtype).kind == "f"
    name, fallback = ("default_float", -0.0) if is_float else ("default_int64", -1)
    return np.dtype(dtype).type(node.attrs.get(name, fallback))


def map_categories(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX (ai.onnx.ml) CategoryMapper-1."""
    names = list(map(decode_text, node.attrs.get("cats_strings", ())))
    numbers = list(node.attrs.get("cats_int64s", ()))
    if len(names) != len(numbers):
        raise RunError(
            f"{node}: expected equally many strings and integers, got {len(names)} and "
            f"{len(numbers)}"
        )
    if is_text(node.value(values, 0)):
        default = np.int64(node.attrs.get("default_int64", -1))
        table = dict(zip(names, numbers, strict=True))
        return [_look_up(node, values, table, default)]
    unknown = decode_text(node.attrs.get("default_string", _UNUSED))
    return [_look_up(node, values, dict(zip(numbers, names, strict=True)), unknown)]


def classify(node: HostNode, values: Values) -> Sequence[Any]:
    """Classification with string labels: compiled with indices, which then map to labels.

    Source: ONNX (ai.onnx.ml) LinearClassifier-1, SVMClassifier-1,
    TreeEnsembleClassifier-5.
    """
    names = list(map(decode_text, node.attr("classlabels_strings")))
    is_trees = node.op_type == "ai.onnx.ml::TreeEnsembleClassifier"
    numbers = "classlabels_int64s" if is_trees else "classlabels_ints"
    if len(names) < 2:
        raise RunError(f"{node}: expected two classes or more, got {len(names)}")

    def rewrite(proto: onnx.NodeProto) -> None:
        kept = [a for a in proto.attribute if a.name != "classlabels_strings"]
        del proto.attribute[:]
        proto.attribute.extend(kept)
        proto.attribute.append(helper.make_attribute(numbers, range(len(names))))

    outputs = node.compiled(rewrite=rewrite)([values[name] for name in node.names])
    results: list[Any] = [None] * node.output_count
    for index, result in zip(node.wanted, outputs, strict=True):
        results[index] = result
    if 0 in node.wanted:
        results[0] = NDArray(np.array(names, object)[as_numpy(results[0])])
    return results


def count_ngrams(node: HostNode, values: Values) -> Sequence[Any]:
    """Counts of n-grams of words, which are mapped to integers and counted compiled.

    Source: ONNX TfIdfVectorizer-9.
    """
    words = list(map(decode_text, node.attr("pool_strings")))
    ids = {word: number for number, word in enumerate(dict.fromkeys(words))}

    def rewrite(proto: onnx.NodeProto) -> None:
        kept = [a for a in proto.attribute if a.name != "pool_strings"]
        del proto.attribute[:]
        proto.attribute.extend(kept)
        numbers = [ids[word] for word in words]
        proto.attribute.append(helper.make_attribute("pool_int64s", numbers))

    array = text_array(node, values, 0)
    numbers = np.array([ids.get(t, -1) for t in array.reshape(-1)], np.int64)
    run = node.compiled(set(node.names), rewrite)
    return run([NDArray(numbers.reshape(array.shape))])


def encode_one_hot(node: HostNode, values: Values) -> Sequence[Any]:
    """Source: ONNX (ai.onnx.ml) OneHotEncoder-1."""
    if "cats_int64s" in node.attrs:
        raise RunError(f"{node}: expected string categories, got cats_int64s")
    names = list(map(decode_text, node.attr("cats_strings")))
    array = text_array(node, values, 0)
    unknown = set(array.reshape(-1).tolist()).difference(names)
    if unknown and not node.attrs.get("zeros", 1):
        raise RunError(f"{node}: expected one of the categories, got {min(unknown)!r}")
    is_category = array[..., None] == np.array(names, object)
    return [NDArray(is_category.astype(np.float32))]


def zip_map(node: HostNode, values: Values) -> Sequence[Any]:
    """The rows of a matrix as dictionaries from column name to value.

    Source: ONNX (ai.onnx.ml) ZipMap-1.
    """
    names = node.attrs.get("classlabels_int64s")
    if names is None:
        names = list(map(decode_text, node.attr("classlabels_strings")))
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
