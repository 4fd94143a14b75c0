"""Semantics of host instructions: checks, allocation, calls, printing, tensor queries.

Tensors are :class:`NDArray`, shapes are :class:`Shape`, tuples are lists, and numbers
and strings are Python's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any

import numpy as np
import tvm_ffi
from tvm_ffi import Shape

from relax_mlir.errors import FailedAssertionError, RunError
from relax_mlir.runtime import registry
from relax_mlir.runtime.cuda.arrays import row_major_strides
from relax_mlir.runtime.host.builtins import (
    get_py_func,
    nonzero,
    register_builtins,
    unique,
)
from relax_mlir.runtime.ndarray import (
    NDArray,
    as_numpy,
    empty,
    is_array,
    is_on_gpu,
    shared,
)

__all__ = ["empty", "nonzero", "to_value", "unique"]

register_builtins()


def to_value(value: Any) -> Any:
    """Convert a value of a caller or registered function to a value of the program."""
    if type(value) in _VALUE_TYPES or isinstance(value, (NDArray, Shape, str)):
        return value
    if isinstance(value, (tuple, list, tvm_ffi.Array)):
        return [to_value(v) for v in value]
    if isinstance(value, np.generic) and not isinstance(value, np.ndarray):
        return value.item()
    if is_array(value):
        return shared(value)
    return _imported(value) if callable(value) else value


_VALUE_TYPES = frozenset((NDArray, Shape, str, int, float, bool, type(None)))


def _imported(function: Callable[..., Any]) -> Callable[..., Any]:
    """A foreign function whose results are converted to values of the program."""
    call = registry.python_caller(function)
    return lambda *args: to_value(call(*args))


# Checks.


def check_tensor(
    value: Any, sizes: Sequence[int | None] | None, dtype: str, where: str
) -> tuple[int, ...]:
    """Check the shape and element type of a tensor; returns its shape.

    Args:
        value: the value.
        sizes: a number per dimension, None for any; None for any rank.
        dtype: element type; empty for any.
        where: description of the value, for errors.

    Raises:
        TypeError: the value is not a tensor.
        RunError: its shape or element type differs.
    """
    if not isinstance(value, NDArray):
        raise TypeError(f"{where}: expected a tensor, got {_kind(value)}")
    shape = value.shape
    if sizes is not None and len(shape) != len(sizes):
        raise RunError(f"{where}: expected ndim {len(sizes)}, got {len(shape)}")
    if dtype and value.dtype != dtype:
        raise RunError(f"{where}: expected dtype {dtype}, got {value.dtype}")
    for axis, size in enumerate(sizes or ()):
        if size is not None and shape[axis] != size:
            raise RunError(f"{where}, size {axis}: expected {size}, got {shape[axis]}")
    return shape


def check_shape(value: Any, ndim: int, where: str) -> Sequence[int]:
    """Check that a value is a shape of a rank (-1 for any); returns it."""
    is_shape = isinstance(value, (Shape, list)) and all(
        isinstance(v, int) for v in value
    )
    if not is_shape:
        raise TypeError(f"{where}: expected a shape, got {_kind(value)}")
    if ndim >= 0 and len(value) != ndim:
        raise RunError(f"{where}: expected a shape of ndim {ndim}, got {len(value)}")
    return value


def check_number(value: Any, dtype: str, where: str) -> None:
    """Check that a value is a number of a type."""
    types: tuple[type, ...] = (int,)
    if dtype.startswith(("float", "bfloat")):
        types = (float, int)
    if not isinstance(value, types):
        raise TypeError(f"{where}: expected a number of {dtype}, got {_kind(value)}")


def check_function(value: Any, where: str) -> None:
    """Check that a value is callable."""
    if not callable(value):
        raise TypeError(f"{where}: expected a function, got {_kind(value)}")


def check_tuple(value: Any, count: int, where: str) -> None:
    """Check that a value is a tuple with a number of fields."""
    if not isinstance(value, list):
        raise TypeError(f"{where}: expected a tuple, got {_kind(value)}")
    if len(value) != count:
        raise RunError(f"{where}: expected {count} fields, got {len(value)}")


def check_size(value: int, expected: int, stated: str, where: str) -> None:
    """Check a size against the value of a stated expression."""
    if value != expected:
        wanted = stated if stated == str(expected) else f"{stated} = {expected}"
        raise RunError(f"{where}: expected {wanted}, got {value}")


def require(condition: Any, message: str) -> None:
    """Check a condition.

    Raises:
        AssertionError: the condition is false.
    """
    if not condition:
        raise FailedAssertionError(message)


def _kind(value: Any) -> str:
    if isinstance(value, NDArray):
        return "a tensor"
    names = {list: "a tuple", Shape: "a shape"}
    return names.get(type(value), f"`{type(value).__name__}`")


# Conditions and numbers.


def scalar(value: Any) -> Any:
    """Convert an array of rank 0, or a numpy scalar, to a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    is_one = is_array(value) and not value.shape
    return as_numpy(value).item() if is_one else value


def truth(value: Any) -> bool:
    """The truth value of a condition."""
    if value is True or value is False:
        return value
    return bool(value.numpy()) if isinstance(value, NDArray) else bool(value)


# Functions.


def packed(name: str) -> Callable[..., Any]:
    """The registered function called ``name``.

    Raises:
        ValueError: the name is not registered.
    """
    function = registry.get_global_func(name)
    return lambda *args: to_value(function(*args))


def call_python(name: str, args: Sequence[Any]) -> Any:
    """Call the Python function called ``name``; see :func:`get_py_func`."""
    return to_value(get_py_func(name)(*args))


def bind_arguments(
    function: Callable[..., Any], captured: Sequence[Any]
) -> Callable[..., Any]:
    """Partial application: binds the last arguments of a function."""
    return lambda *args: function(*args, *captured)


def call_destinations(
    function: Callable[..., Any],
    args: Sequence[Any],
    destinations: Sequence[NDArray | None],
    sizes: Sequence[int],
    inplace: Sequence[int],
) -> list[NDArray]:
    """Call a function in destination-passing style, possibly in place.

    Other arguments that alias an argument written in place are copied first.

    Args:
        destinations: new tensors; None for a result that is written in place.
        sizes: further arguments after all tensors.
        inplace: for each result, the index of the argument that it overwrites, or -1.
    """
    overwritten = [args[index] for index in inplace if index >= 0]
    inputs = [
        arg if n in inplace else _unaliased(arg, overwritten)
        for n, arg in enumerate(args)
    ]
    function(*inputs, *(d for d in destinations if d is not None), *sizes)
    pairs = zip(destinations, inplace, strict=True)
    return [args[index] if d is None else d for d, index in pairs]


def _unaliased(value: Any, overwritten: Sequence[NDArray]) -> Any:
    """An argument, copied if it aliases an overwritten array."""
    if isinstance(value, NDArray) and any(map(value.shares_memory, overwritten)):
        return value.copied()
    return value


def print_values(text: str, *values: Any) -> None:
    """Print values, by a format string with a ``{}`` per value, or space-separated."""
    texts = list(map(_to_text, values))
    print(_formatted(text, texts) if text else " ".join(texts))


def _formatted(text: str, texts: Sequence[str]) -> str:
    """Fill in a format string, restricted to the fields ``{}`` and ``{0}``.

    Python's other fields can read attributes, and produce texts of any length.

    Raises:
        RunError: the format has another field, or one without a value.
    """
    try:
        for _, name, spec, conversion in Formatter().parse(text):
            if spec or conversion or not (name or "0").isdecimal():
                raise ValueError(f"got the field `{{{name}}}`")
        return text.format(*texts)
    except (IndexError, ValueError) as error:
        raise RunError(
            f"format {text!r:.60}: expected a field `{{}}` per value: {error}"
        ) from error


def _to_text(value: Any) -> str:
    if isinstance(value, NDArray):
        return str(value.numpy())
    if isinstance(value, list):
        fields = ", ".join(map(_to_text, value))
        return f"({fields},)" if len(value) == 1 else f"({fields})"
    return str(value)


def assert_true(condition: Any, text: str, *values: Any) -> None:
    """Check a condition, with a formatted message.

    Raises:
        AssertionError: the condition is false.
    """
    if not truth(condition):
        texts = list(map(_to_text, values))
        rest = "" if "{" in text else ", ".join(texts)
        message = "".join(f": {t}" for t in (_formatted(text, texts), rest) if t)
        raise FailedAssertionError(f"Assertion Failed{message}")


# Tuples, shapes and memory.


def item(value: Any, index: int) -> Any:
    """A field of a tuple.

    Raises:
        TypeError: the value is not a tuple.
        RunError: the index is out of range.
    """
    if not isinstance(value, list):
        raise TypeError(f"field {index}: expected a tuple, got {_kind(value)}")
    if index >= len(value):
        raise RunError(
            f"field {index}: expected a tuple of more than {len(value)} fields"
        )
    return value[index]


def dim(value: Any, axis: int) -> int:
    """A dimension of any array.

    Raises:
        TypeError: the value is not an array, or its rank is too low.
    """
    shape = getattr(value, "shape", ())
    if axis >= len(shape):
        raise TypeError(
            f"size {axis}: expected an array of higher rank, got {_kind(value)}"
        )
    return int(shape[axis])


def shape_of(tensor: NDArray) -> Shape:
    """The shape of a tensor."""
    return Shape(tensor.shape)


def size_of(tensor: NDArray) -> NDArray:
    """The number of elements of a tensor, as a tensor."""
    return shared(np.array(math.prod(tensor.shape), "int64"))


def tensor_to_shape(tensor: NDArray) -> Shape:
    """Convert a vector to a shape."""
    return Shape(tuple(int(v) for v in tensor.numpy()))


def shape_to_tensor(shape: Sequence[int]) -> NDArray:
    """Convert a shape to a vector."""
    return shared(np.array(list(shape), "int64"))


def alloc_storage(
    size: Sequence[int], device: int, scope: str, dtype: str
) -> np.ndarray:
    """Allocate bytes; ``size`` is a product."""
    return np.empty(math.prod(size), np.uint8)


def alloc_vm_storage(
    shape: Sequence[int], device: int, dtype: str, scope: str = "global"
) -> np.ndarray:
    """Allocate storage for a tensor of a shape and element type."""
    count = math.prod(shape)
    return np.empty(count * empty((), dtype).numpy().itemsize, np.uint8)


def alloc_tensor(
    shape: Sequence[int], dtype: str, device: int, scope: str = "global"
) -> NDArray:
    """An uninitialised tensor in host memory."""
    return empty(shape, dtype)


def tensor_in(
    storage: np.ndarray | NDArray,
    offset: int,
    shape: Sequence[int],
    dtype: str,
    device: int = 0,
) -> NDArray:
    """A tensor at an offset of a storage.

    Raises:
        RunError: the storage is too small.
    """
    element = np.dtype(empty((), dtype).numpy().dtype)
    end = offset + math.prod(shape) * element.itemsize
    memory = as_numpy(storage)  # registered functions return `NDArray`
    if end > memory.nbytes:
        raise RunError(
            f"tensor of {math.prod(shape)} elements of {dtype} at byte {offset}: expected "
            f"at most {memory.nbytes} bytes, got {end}"
        )
    return shared(memory[offset:end].view(element).reshape(tuple(shape)))


def view(tensor: NDArray, shape: Any, dtype: Any, offset: Any) -> NDArray:
    """Reinterpret the memory of a tensor; an empty list keeps the shape or dtype.

    Raises:
        RunError: the memory is too small.
    """
    array = as_numpy(tensor)
    start = offset if isinstance(offset, int) else 0
    sizes = list(shape) if isinstance(shape, Shape) or shape else list(tensor.shape)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return tensor_in(data, start, sizes, dtype or tensor.dtype)


# Tensor queries.


def _axis(tensor: NDArray, axis: int) -> int:
    if not 0 <= axis < tensor.ndim:
        raise RunError(f"axis {axis}: expected 0 to {tensor.ndim - 1}")
    return axis


def shape_i(tensor: NDArray, axis: int) -> int:
    """A dimension of a tensor."""
    return tensor.shape[_axis(tensor, axis)]


def stride_i(tensor: NDArray, axis: int) -> int:
    """The stride of an axis, in elements."""
    axis = _axis(tensor, axis)
    if is_on_gpu(tensor):
        return row_major_strides(tensor.shape)[axis]
    array = as_numpy(tensor)
    return array.strides[axis] // array.itemsize


def byte_offset(tensor: NDArray) -> int:
    """The byte offset of DLPack: always 0, the pointer includes it."""
    return 0


def ndim(tensor: NDArray) -> int:
    """The rank of a tensor."""
    return tensor.ndim


def dtype_code(tensor: NDArray) -> int:
    """DLPack's code of the element type."""
    return tvm_ffi.dtype(tensor.dtype).type_code


def dtype_bits(tensor: NDArray) -> int:
    """Bits of an element."""
    return tvm_ffi.dtype(tensor.dtype).bits


def dtype_lanes(tensor: NDArray) -> int:
    """Lanes of an element."""
    return 1
