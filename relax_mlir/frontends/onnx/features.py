"""Rules for the feature preprocessing operators of ai.onnx.ml."""

import math
from collections.abc import Sequence

import numpy as np
from mlir import ir

from relax_mlir.dialects import dtypes, shapes, tensors
from relax_mlir.dialects.op_interface import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.arithmetic import (
    AbsOp,
    DivideOp,
    MultiplyOp,
    SubtractOp,
)
from relax_mlir.dialects.relax.cast import AstypeOp
from relax_mlir.dialects.relax.compare import EqualOp, GreaterOp, IsnanOp, WhereOp
from relax_mlir.dialects.relax.concat_split import ConcatOp
from relax_mlir.dialects.relax.exp_log import SqrtOp
from relax_mlir.dialects.relax.gather import TakeOp
from relax_mlir.dialects.relax.manipulate import ReshapeOp
from relax_mlir.dialects.relax.reduce import MaxOp, SumOp
from relax_mlir.dialects.relax.searchsorted import FindOp
from relax_mlir.frontends.onnx.indices import checked_indices
from relax_mlir.frontends.onnx.scores import check_choice, scalar_like

_F32, _F64 = dtypes.dtype("float32"), dtypes.dtype("float64")


@onnx_rule("ai.onnx.ml::ArrayFeatureExtractor", since=1)
def array_feature_extractor(node: OnnxNode) -> ir.Value:
    """Gather along the last axis; a vector becomes a matrix of one row.

    Source: ONNX (ai.onnx.ml) ArrayFeatureExtractor-1.
    """
    x, indices = node.input(0), node.input(1)
    shape = tensors.shape_of(x)
    if not shape:
        raise ValueError("expected rank 1 or more, got a scalar")
    indices = checked_indices(node, indices, "Y", shape[-1])
    count = shapes.product(tensors.shape_of(indices))
    flat = ReshapeOp(indices, shape=(count,)).y
    picked = TakeOp(x, flat, axis=len(shape) - 1).y
    return ReshapeOp(picked, shape=(1, count)).y if len(shape) == 1 else picked


@onnx_rule("ai.onnx.ml::Binarizer", since=1)
def binarizer(node: OnnxNode) -> ir.Value:
    """Binarization: 1 for elements above a threshold, else 0.

    Source: ONNX (ai.onnx.ml) Binarizer-1.
    """
    x = node.input(0)
    limit = _comparison_operands(node, node.attrs.get("threshold", 0.0), x)
    return AstypeOp(GreaterOp(*limit).z, dtype=tensors.dtype_of(x)).y


def _comparison_operands(
    node: OnnxNode, value: float, x: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """x and a float of one type, to be compared; integers are converted to f64."""
    if not tensors.dtype_of(x).is_float:
        x = AstypeOp(x, dtype=_F64).y
    return x, scalar_like(node, value, x)


@onnx_rule("ai.onnx.ml::Scaler", since=1)
def scaler(node: OnnxNode) -> ir.Value:
    """Feature scaling: (x - offset) * scale, in f32.

    Source: ONNX (ai.onnx.ml) Scaler-1.
    """
    x, counts = node.input(0), [len(node.attrs.get(n, [])) for n in ("offset", "scale")]
    if counts[0] != counts[1]:
        raise ValueError(f"expected equal numbers of offsets and scales, got {counts}")
    wide = x if tensors.dtype_of(x) in (_F32, _F64) else AstypeOp(x, dtype=_F32).y
    for name, op in (("offset", SubtractOp), ("scale", MultiplyOp)):
        parameters = _per_feature(node, name, node.attrs.get(name, []), x)
        if parameters is not None:
            kind = tensors.dtype_of(wide).numpy
            wide = op(wide, node.constant(parameters.astype(kind))).z
    return AstypeOp(wide, dtype=_F32).y


def _per_feature(
    node: OnnxNode, name: str, given: Sequence[float], x: ir.Value
) -> np.ndarray | None:
    """Attribute values as a scalar or as one per feature; None if there are none.

    Raises:
        ValueError: the number of values is neither 1 nor that of the features.
    """
    values = np.array(given)
    width = tensors.shape_of(x)[-1:] or (1,)
    if values.size > 1 and isinstance(width[0], int) and values.size != width[0]:
        raise ValueError(
            f"attribute `{name}`: expected 1 or {width[0]} numbers, got {values.size}"
        )
    return None if values.size == 0 else values.reshape(() if values.size == 1 else -1)


@onnx_rule("ai.onnx.ml::Normalizer", since=1)
def normalizer(node: OnnxNode) -> ir.Value:
    """Rows divided by a norm, if that is not 0; in f32.

    Source: ONNX (ai.onnx.ml) Normalizer-1; as onnxruntime does, MAX is the largest
    element, not the largest size.
    """
    x = AstypeOp(node.input(0), dtype=_F32).y
    norm = check_choice("norm", node.attr("norm", "MAX"), ("MAX", "L1", "L2"))
    last = (len(tensors.shape_of(x)) - 1,)
    if norm == "MAX":
        size = MaxOp(x, axis=last, keepdims=True).y
    elif norm == "L1":
        size = SumOp(AbsOp(x).y, axis=last, keepdims=True).y
    else:
        size = SqrtOp(SumOp(MultiplyOp(x, x).z, axis=last, keepdims=True).y).y
    one, zero = scalar_like(node, 1, x), scalar_like(node, 0, x)
    return DivideOp(x, WhereOp(EqualOp(size, zero).z, one, size).z).z


@onnx_rule("ai.onnx.ml::Imputer", since=1)
def imputer(node: OnnxNode) -> ir.Value:
    """Imputation: replaces a marker of missing values, such as NaN.

    Source: ONNX (ai.onnx.ml) Imputer-1.
    """
    x = node.input(0)
    kind = "float" if tensors.dtype_of(x).is_float else "int64"
    marker = node.attrs.get(f"replaced_value_{kind}", 0)
    if {"imputed_value_floats", "imputed_value_int64s"} <= set(node.attrs):
        raise ValueError("expected one list of imputed values, got floats and integers")
    values = _per_feature(node, "imputed", node.attr(f"imputed_value_{kind}s"), x)
    if values is None:
        raise ValueError(f"attribute `imputed_value_{kind}s` is empty")
    imputed = node.constant(values.astype(tensors.dtype_of(x).numpy))
    is_missing = (
        IsnanOp(x).y
        if math.isnan(marker)
        else EqualOp(x, scalar_like(node, marker, x)).z
    )
    return WhereOp(is_missing, imputed, x).z


@onnx_rule("ai.onnx.ml::FeatureVectorizer", since=1)
def feature_vectorizer(node: OnnxNode) -> ir.Value:
    """Concatenation of feature matrices, in f32; a vector is a row.

    Source: ONNX (ai.onnx.ml) FeatureVectorizer-1.
    """
    parts = []
    widths = node.attrs.get("inputdimensions") or [None] * len(node.inputs)
    if len(widths) != len(node.inputs):
        raise ValueError(
            f"attribute `inputdimensions`: expected {len(node.inputs)} numbers, got "
            f"{len(widths)}"
        )
    for index, width in enumerate(widths):
        x = AstypeOp(node.input(index), dtype=_F32).y
        shape = tensors.shape_of(x)
        if len(shape) not in (1, 2):
            got = shapes.format_shape(shape)
            raise ValueError(f"input {index}: expected rank 1 or 2, got {got}")
        rows, features = (1, *shape)[-2:]
        if width is not None:
            if shapes.is_known_unequal(features, width):
                raise ValueError(
                    f"input {index}: expected {width} features, got {features}"
                )
            features = shapes.unify(features, width)
        parts.append(ReshapeOp(x, shape=(rows, features)).y)
    return ConcatOp(parts, axis=1).y


@onnx_rule("ai.onnx.ml::OneHotEncoder", since=1)
def one_hot_encoder(node: OnnxNode) -> ir.Value:
    """One-hot encoding of categories.

    Source: ONNX (ai.onnx.ml) OneHotEncoder-1; an unknown category gives zeros, even if
    ``zeros`` is 0, which asks for an error.
    """
    x, known = node.input(0), np.array(node.attr("cats_int64s"), np.int64)
    shape = tensors.shape_of(x)
    integers = AstypeOp(x, dtype=dtypes.dtype("int64")).y
    column = ReshapeOp(integers, shape=(*shape, 1)).y
    return AstypeOp(EqualOp(column, node.constant(known)).z, dtype=_F32).y


@onnx_rule("ai.onnx.ml::LabelEncoder", since=2)
def label_encoder(node: OnnxNode) -> ir.Value:
    """Table lookup from numbers to numbers.

    Source: ONNX (ai.onnx.ml) LabelEncoder-4.
    """
    x = node.input(0)
    keys = _table_column(node, "keys").astype(tensors.dtype_of(x).numpy)
    values = _table_column(node, "values")
    if len(keys) != len(values):
        raise ValueError(f"expected {len(keys)} values, one per key, got {len(values)}")
    default = _default(node, values.dtype)
    # The last of equal keys wins; NaN sorts last, and is found, too.
    unique, last = np.unique(keys[::-1], return_index=True)
    table = np.append(values[::-1][last], default).astype(values.dtype)
    index = FindOp(x, node.constant(unique)).y
    return TakeOp(node.constant(table), index, axis=0, mode="clip").y


def _table_column(node: OnnxNode, name: str) -> np.ndarray:
    named = [other for other in node.attrs if other.startswith(f"{name}_")]
    if len(named) != 1:
        raise ValueError(f"expected one of the attributes `{name}_*`, got {named}")
    given = node.attrs[named[0]]
    kinds = {f"{name}_int64s": np.int64, f"{name}_floats": np.float32}
    return np.asarray(given, kinds.get(named[0])).reshape(-1)


def _default(node: OnnxNode, kind: np.dtype) -> np.ndarray:
    given = node.attrs.get("default_tensor")
    if given is not None:
        return np.asarray(given).reshape(())
    name, usual = ("float", -0.0) if kind.kind == "f" else ("int64", -1)
    return np.array(node.attrs.get(f"default_{name}", usual))


@onnx_rule("ai.onnx.ml::DictVectorizer", since=1)
def dict_vectorizer(node: OnnxNode) -> ir.Value:
    """Not supported: the input is a map, not a tensor.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "a map is not a tensor. Hint: build the feature matrix outside of the model"
    )
