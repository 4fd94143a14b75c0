"""Symbolic evaluation of shape computations in ONNX graphs.

Exporters compute shapes in the graph: Shape, Gather, Concat, Reshape. This module
evaluates such nodes at import time on object arrays of static and symbolic sizes. A node
whose result is unknown becomes an operation like any other.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relax_mlir.dialects import shapes
from relax_mlir.dialects.dtypes import DType
from relax_mlir.dialects.shapes import Dim, Expr

__all__ = ["LIMIT", "SizedValue", "as_array", "contents_of", "evaluate"]

LIMIT = 256  # elements; longer tensors are data, not sizes

_RANGES: Mapping[str, tuple[int, int]] = {
    "int64": (-(2**63), 2**63 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "bool": (0, 1),
}
_ONNX_TYPES: Mapping[int, str] = {6: "int32", 7: "int64", 9: "bool"}


@dataclass(eq=False)
class SizedValue:
    """A tensor with the elements that are known at import time.

    Attributes:
        shape: its shape.
        dtype: its element type.
        content: its elements in an object array (int, bool or a symbolic size), if they
            are known and it has at most :data:`LIMIT` of them.
    """

    shape: tuple[Dim, ...]
    dtype: DType
    content: np.ndarray | None = None


class _UnknownError(Exception):
    """A value is not known at import time."""


@dataclass(frozen=True)
class _Node:
    attrs: Mapping[str, Any]  # Any: attribute values
    inputs: Sequence[SizedValue | None]
    outputs: int

    def value(self, index: int) -> SizedValue:
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise ValueError(f"input {index} is missing")
        return found

    def elements(self, index: int) -> np.ndarray:
        content = self.value(index).content
        if content is None:
            raise _UnknownError
        return content

    def numbers(self, index: int) -> list[int]:
        """The static elements of a vector or scalar input.

        Raises:
            ValueError: the rank is above 1.
            _UnknownError: an element is symbolic.
        """
        content = self.elements(index)
        if content.ndim > 1:
            raise ValueError(f"input {index}: expected rank 1, got {content.ndim}")
        return _numbers(content)

    def numbers_or_attr(self, index: int, name: str) -> list[int] | None:
        """An input that was an attribute in older opsets; None if omitted."""
        if name in self.attrs:
            return list(self.attrs[name])
        is_given = index < len(self.inputs) and self.inputs[index] is not None
        return self.numbers(index) if is_given else None

    def all_elements(self) -> list[np.ndarray]:
        return [self.elements(i) for i in range(len(self.inputs))]


_Evaluator = Callable[[_Node], "np.ndarray | list[np.ndarray]"]


def evaluate(
    op_type: str,
    attrs: Mapping[str, Any],  # Any: attribute values
    inputs: Sequence[SizedValue | None],
    *,
    outputs: int = 1,
) -> list[tuple[np.ndarray, str]] | None:
    """Elements and element type of every output, or None if one is unknown.

    Raises:
        ValueError: the node is invalid: an index out of range, or incompatible shapes.
    """
    evaluator = _EVALUATORS.get(op_type)
    if evaluator is None:
        return None
    dtype = _result_type(op_type, attrs, inputs)
    if dtype is None or dtype not in _RANGES:
        return None
    try:
        found = evaluator(_Node(attrs, inputs, outputs))
    except _UnknownError:
        return None
    results = found if isinstance(found, list) else [found]
    if not all(_fits(result, dtype) for result in results):
        return None
    return [(result, dtype) for result in results]


def contents_of(array: np.ndarray) -> np.ndarray | None:
    """The elements of a constant, if it is small and of a type for sizes."""
    if array.dtype.name not in _RANGES or array.size > LIMIT:
        return None
    return array.astype(object)


def as_array(content: np.ndarray, dtype: str) -> np.ndarray | None:
    """The elements as a numeric array; None if one is symbolic."""
    if any(isinstance(item, Expr) for item in content.reshape(-1)):
        return None
    return content.astype(dtype)


def _result_type(
    op_type: str, attrs: Mapping[str, Any], inputs: Sequence[SizedValue | None]
) -> str | None:
    if op_type in _TYPES:
        return _TYPES[op_type]
    if op_type == "Cast":
        return _ONNX_TYPES.get(attrs.get("to", 0))
    if op_type in ("Constant", "ConstantOfShape"):
        value = attrs.get("value")
        if value is None:
            return "int64" if "value_int" in attrs or "value_ints" in attrs else None
        return value.dtype.name
    given = [v for v in inputs if v is not None]
    source = 1 if op_type == "Where" else 0
    return given[source].dtype.name if source < len(given) else None


def _fits(content: np.ndarray, dtype: str) -> bool:
    low, high = _RANGES[dtype]
    return content.size <= LIMIT and all(
        isinstance(item, Expr) or low <= item <= high for item in content.reshape(-1)
    )


def _numbers(content: np.ndarray) -> list[int]:
    items = content.reshape(-1).tolist()
    if any(isinstance(item, Expr) for item in items):
        raise _UnknownError
    return [int(item) for item in items]


def _objects(items: Sequence[Any], shape: Sequence[int] | None = None) -> np.ndarray:
    """An object array of the items; ``np.array`` could convert them."""
    array = np.empty(len(items), object)
    array[:] = items
    return array if shape is None else array.reshape(shape)


def _check_size(shape: Sequence[int]) -> Sequence[int]:
    if any(dim < 0 for dim in shape):
        raise ValueError(f"sizes are negative: got {list(shape)}")
    if math.prod(shape) > LIMIT:
        raise _UnknownError
    return shape


# Shapes and constants.


def _shape(node: _Node) -> np.ndarray:
    dims = node.value(0).shape
    return _objects(dims[node.attrs.get("start", 0) : node.attrs.get("end", len(dims))])


def _size(node: _Node) -> np.ndarray:
    return _objects([shapes.product(node.value(0).shape)], ())


def _constant(node: _Node) -> np.ndarray:
    attrs = node.attrs
    value = attrs.get("value", attrs.get("value_int", attrs.get("value_ints")))
    array = np.asarray(value)
    if array.size > LIMIT:
        raise _UnknownError
    return array.astype(object)


def _constant_of_shape(node: _Node) -> np.ndarray:
    shape = _check_size(node.numbers(0))
    value = np.asarray(node.attrs["value"]).reshape(-1)
    return np.full(shape, value.astype(object)[0], object)


def _range(node: _Node) -> np.ndarray:
    start, limit, delta = (node.numbers(i)[0] for i in range(3))
    if delta == 0:
        raise ValueError("step is wrong: expected any number but 0, got 0")
    items = range(start, limit, delta)
    _check_size([len(items)])
    return _objects(list(items))


def _identity(node: _Node) -> np.ndarray:
    return node.elements(0)


# Data movement.


def _gather(node: _Node) -> np.ndarray:
    source, indices = node.elements(0), node.elements(1)
    axis = shapes.check_axis(node.attrs.get("axis", 0), source.ndim)
    positions = np.array(_numbers(indices), np.int64).reshape(indices.shape)
    rest = [dim for i, dim in enumerate(source.shape) if i != axis]
    _check_size([*indices.shape, *rest])
    try:
        return np.asarray(np.take(source, positions, axis), object)
    except IndexError as error:
        raise ValueError(f"bad index: {error}") from error


def _slice(node: _Node) -> np.ndarray:
    source = node.elements(0)
    starts, ends = node.numbers_or_attr(1, "starts"), node.numbers_or_attr(2, "ends")
    if starts is None or ends is None:
        raise ValueError("starts or ends are missing")
    axes = node.numbers_or_attr(3, "axes") or range(len(starts))
    steps = node.numbers_or_attr(4, "steps") or [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        slices: list[slice] = [slice(None)] * source.ndim
        axis = shapes.check_axis(axis, source.ndim)
        if step < 0:  # ONNX clamps the start to element 0; numpy's slice would be empty
            start = max(start, -source.shape[axis])
        slices[axis] = slice(start, end, step)
        source = source[tuple(slices)]
    return source


def _concat(node: _Node) -> np.ndarray:
    parts = node.all_elements()
    axis = shapes.check_axis(node.attrs.get("axis", 0), parts[0].ndim)
    return np.concatenate(parts, axis)


def _squeeze(node: _Node) -> np.ndarray:
    source = node.elements(0)
    axes = node.numbers_or_attr(1, "axes")
    if axes is None:
        axes = [axis for axis, dim in enumerate(source.shape) if dim == 1]
    return np.squeeze(source, shapes.normalize_axes(axes, source.ndim))


def _unsqueeze(node: _Node) -> np.ndarray:
    source = node.elements(0)
    axes = node.numbers_or_attr(1, "axes") or []
    return np.expand_dims(source, shapes.normalize_axes(axes, source.ndim + len(axes)))


def _reshape(node: _Node) -> np.ndarray:
    source = node.elements(0)
    allowzero = bool(node.attrs.get("allowzero", 0))
    target = node.numbers_or_attr(1, "shape") or []
    return source.reshape(shapes.reshape(source.shape, target, allowzero))


def _flatten(node: _Node) -> np.ndarray:
    source = node.elements(0)
    axis = node.attrs.get("axis", 1)
    axis = axis + source.ndim if axis < 0 else axis
    return source.reshape(
        math.prod(source.shape[:axis]), math.prod(source.shape[axis:])
    )


def _transpose(node: _Node) -> np.ndarray:
    source = node.elements(0)
    return source.transpose(node.attrs.get("perm", range(source.ndim)[::-1]))


def _expand(node: _Node) -> np.ndarray:
    source, target = node.elements(0), node.numbers(1)
    shape = np.broadcast_shapes(source.shape, tuple(_check_size(target)))
    return np.broadcast_to(source, _check_size(shape))


def _tile(node: _Node) -> np.ndarray:
    source, repeats = node.elements(0), node.numbers(1)
    _check_size([d * r for d, r in zip(source.shape, repeats, strict=True)])
    return np.tile(source, repeats)


def _split(node: _Node) -> list[np.ndarray]:
    source = node.elements(0)
    axis = shapes.check_axis(node.attrs.get("axis", 0), source.ndim)
    sizes = node.numbers_or_attr(1, "split")
    parts = shapes.split_sizes(source.shape[axis], sizes or node.outputs)
    ends = np.cumsum(np.array(parts, np.int64))[:-1].tolist()
    return np.split(source, ends, axis)


def _where(node: _Node) -> np.ndarray:
    condition, x, y = node.all_elements()
    _check_size(np.broadcast_shapes(condition.shape, x.shape, y.shape))
    return _apply(lambda c, u, v: u if c else v, condition, x, y)


def _cast(node: _Node) -> np.ndarray:
    source = node.elements(0)
    if node.attrs.get("to") == 9 and node.value(0).dtype.name != "bool":
        return _apply(lambda item: not _equal(item, 0), source)
    return _apply(lambda item: item if isinstance(item, Expr) else int(item), source)


# Arithmetic.


def _apply(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """``function`` applied elementwise, with broadcasting."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    _check_size(shape)
    flat = [np.broadcast_to(array, shape).reshape(-1).tolist() for array in arrays]
    return _objects([function(*items) for items in zip(*flat, strict=True)], shape)


def _elementwise(function: Callable[..., Any]) -> _Evaluator:
    return lambda node: _apply(function, *node.all_elements())


def _variadic(function: Callable[[Any, Any], Any]) -> _Evaluator:
    """An evaluator of a variadic operator: a left fold over its inputs."""

    def evaluator(node: _Node) -> np.ndarray:
        total, *rest = node.all_elements()
        for item in rest:
            total = _apply(function, total, item)
        return total

    return evaluator


def _equal(a: Dim, b: Dim) -> bool:
    if shapes.is_known_equal(a, b):
        return True
    if shapes.is_known_unequal(a, b):
        return False
    raise _UnknownError


def _less(a: Dim, b: Dim) -> bool:
    if shapes.is_known_le(a + 1, b):
        return True
    if shapes.is_known_le(b, a):
        return False
    raise _UnknownError


def _divide(a: Dim, b: Dim) -> Dim:
    """Division rounded towards zero; a division by zero is left to the operator.

    A symbolic dividend is assumed to be nonnegative: it is a size, or a size minus a
    number, as in the output size of a convolution.
    """
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise _UnknownError
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    least, _ = shapes.bounds(a)
    is_size = least is not None and not shapes.is_known_le(a, -1)
    if b == 0 or not (is_size and shapes.is_known_le(0, b)):
        raise _UnknownError
    shapes.require_at_least(a, 0)
    shapes.require_at_least(b, 1)
    return shapes.floordiv(a, b)


def _modulo(node: _Node) -> np.ndarray:
    def remainder(a: Dim, b: Dim) -> Dim:
        is_positive = shapes.is_known_le(0, a) and shapes.is_known_le(0, b)
        if b == 0 or (node.attrs.get("fmod", 0) and not is_positive):
            raise _UnknownError
        if isinstance(b, Expr):
            if not shapes.is_known_le(0, b):
                raise _UnknownError
            shapes.require_at_least(b, 1)
        return shapes.mod(a, b)

    return _apply(remainder, *node.all_elements())


def _magnitude(a: Dim) -> Dim:
    return -a if _less(a, 0) else a


def _reduction(function: Callable[[Any, Any], Any], start: int | None) -> _Evaluator:
    def evaluator(node: _Node) -> np.ndarray:
        source = node.elements(0)
        axes = node.numbers_or_attr(1, "axes")
        if not axes and node.attrs.get("noop_with_empty_axes", 0):
            return source
        if start is None and source.size == 0:
            raise _UnknownError
        reduced = shapes.normalize_axes(axes or range(source.ndim), source.ndim)
        kept = [axis for axis in range(source.ndim) if axis not in reduced]
        rows = source.transpose(*kept, *reduced).reshape(
            math.prod(source.shape[axis] for axis in kept), -1 if source.size else 0
        )
        totals = [_fold(function, start, row) for row in rows.tolist()]
        dims = source.shape
        if node.attrs.get("keepdims", 1):
            shape = [1 if i in reduced else d for i, d in enumerate(dims)]
            return _objects(totals, shape)
        return _objects(totals, [dims[axis] for axis in kept])

    return evaluator


def _fold(
    function: Callable[[Any, Any], Any], start: int | None, row: list[Any]
) -> Any:
    total, rest = (row[0], row[1:]) if start is None else (start, row)
    for item in rest:
        total = function(total, item)
    return total


_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("Shape", "Size"), "int64"),
    **dict.fromkeys(("Equal", "Less", "Greater", "LessOrEqual"), "bool"),
    **dict.fromkeys(("GreaterOrEqual", "Not", "And", "Or"), "bool"),
}

_EVALUATORS: Mapping[str, _Evaluator] = {
    "Shape": _shape,
    "Size": _size,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Identity": _identity,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Transpose": _transpose,
    "Expand": _expand,
    "Tile": _tile,
    "Split": _split,
    "Where": _where,
    "Cast": _cast,
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_divide),
    "Mod": _modulo,
    "Neg": _elementwise(lambda a: -a),
    "Abs": _elementwise(_magnitude),
    "Sum": _variadic(lambda a, b: a + b),
    "Max": _variadic(shapes.maximum),
    "Min": _variadic(shapes.minimum),
    "Equal": _elementwise(_equal),
    "Less": _elementwise(_less),
    "Greater": _elementwise(lambda a, b: _less(b, a)),
    "LessOrEqual": _elementwise(lambda a, b: not _less(b, a)),
    "GreaterOrEqual": _elementwise(lambda a, b: not _less(a, b)),
    "Not": _elementwise(lambda a: not a),
    "And": _elementwise(lambda a, b: a and b),
    "Or": _elementwise(lambda a, b: a or b),
    "ReduceProd": _reduction(lambda a, b: a * b, 1),
    "ReduceSum": _reduction(lambda a, b: a + b, 0),
    "ReduceMax": _reduction(shapes.maximum, None),
    "ReduceMin": _reduction(shapes.minimum, None),
}
