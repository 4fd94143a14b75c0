"""What instructions of host programs do: checks, memory, calls, printing.

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
from relax_mlir.relax.vm.builtins import (
    get_py_func,
    nonzero,
    register_builtins,
    unique,
)
from relax_mlir.runtime import registry
from relax_mlir.runtime.cuda.arrays import row_major
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
    """What a caller, or a registered function, gives, as a value of the program."""
    if type(value) in _VALUES or isinstance(value, (NDArray, Shape, str)):
        return value
    if isinstance(value, (tuple, list, tvm_ffi.Array)):
        return [to_value(v) for v in value]
    if isinstance(value, np.generic) and not isinstance(value, np.ndarray):
        return value.item()
    if is_array(value):
        return shared(value)
    return _called(value) if callable(value) else value


_VALUES = frozenset((NDArray, Shape, str, int, float, bool, type(None)))


def _called(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function from outside, which gives values of the program."""
    call = registry.python_caller(function)
    return lambda *args: to_value(call(*args))


# Checks.


def check_tensor(
    value: Any, sizes: Sequence[int | None] | None, dtype: str, where: str
) -> tuple[int, ...]:
    """Refuse what is no tensor of this shape and element type; return its shape.

    Args:
        value: what is there.
        sizes: a number per dimension, None for any; None for any rank.
        dtype: element type; empty for any.
        where: what the value is, for the error.

    Raises:
        TypeError: it is no tensor.
        RunError: it is another.
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
    """Refuse what is no shape of this rank (-1: any); return it."""
    is_shape = isinstance(value, (Shape, list)) and all(
        isinstance(v, int) for v in value
    )
    if not is_shape:
        raise TypeError(f"{where}: expected a shape, got {_kind(value)}")
    if ndim >= 0 and len(value) != ndim:
        raise RunError(f"{where}: expected a shape of ndim {ndim}, got {len(value)}")
    return value


def check_number(value: Any, dtype: str, where: str) -> None:
    """Refuse what is no number of this type."""
    kinds: tuple[type, ...] = (int,)
    if dtype.startswith(("float", "bfloat")):
        kinds = (float, int)
    if not isinstance(value, kinds):
        raise TypeError(f"{where}: expected a number of {dtype}, got {_kind(value)}")


def check_function(value: Any, where: str) -> None:
    """Refuse what cannot be called."""
    if not callable(value):
        raise TypeError(f"{where}: expected a function, got {_kind(value)}")


def check_tuple(value: Any, count: int, where: str) -> None:
    """Refuse what is no tuple of so many fields."""
    if not isinstance(value, list):
        raise TypeError(f"{where}: expected a tuple, got {_kind(value)}")
    if len(value) != count:
        raise RunError(f"{where}: expected {count} fields, got {len(value)}")


def check_size(value: int, expected: int, stated: str, where: str) -> None:
    """Refuse a size that is not what is stated."""
    if value != expected:
        told = stated if stated == str(expected) else f"{stated} = {expected}"
        raise RunError(f"{where}: expected {told}, got {value}")


def require(condition: Any, message: str) -> None:
    """Stop if a condition does not hold.

    Raises:
        AssertionError: it does not.
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
    """The element of an array of rank 0, or of numpy's numbers; other values stay."""
    if isinstance(value, np.generic):
        return value.item()
    is_one = is_array(value) and not value.shape
    return as_numpy(value).item() if is_one else value


def truth(value: Any) -> bool:
    """A condition."""
    if value is True or value is False:
        return value
    return bool(value.numpy()) if isinstance(value, NDArray) else bool(value)


# Functions.


def packed(name: str) -> Callable[..., Any]:
    """The registered function called ``name``.

    Raises:
        ValueError: there is none.
    """
    function = registry.get_global_func(name)
    return lambda *args: to_value(function(*args))


def call_python(name: str, args: Sequence[Any]) -> Any:
    """Call the Python function called ``name``; see :func:`get_py_func`."""
    return to_value(get_py_func(name)(*args))


def bind_arguments(
    function: Callable[..., Any], captured: Sequence[Any]
) -> Callable[..., Any]:
    """A function of which the last arguments are known."""
    return lambda *args: function(*args, *captured)


def call_destinations(
    function: Callable[..., Any],
    args: Sequence[Any],
    made: Sequence[NDArray | None],
    sizes: Sequence[int],
    places: Sequence[int],
) -> list[NDArray]:
    """Let a function write new tensors, and some of its arguments.

    Args:
        made: the new ones; None for a result that is written over an argument.
        sizes: numbers that come after all tensors.
        places: for each result, the number of the argument it is written over, or -1.

    Other arguments in memory that is written over are read from a copy.
    """
    written = [args[place] for place in places if place >= 0]
    given = [arg if n in places else _apart(arg, written) for n, arg in enumerate(args)]
    function(*given, *(m for m in made if m is not None), *sizes)
    pairs = zip(made, places, strict=True)
    return [args[place] if m is None else m for m, place in pairs]


def _apart(value: Any, written: Sequence[NDArray]) -> Any:
    """An argument; a copy if it lies where one of these does."""
    if isinstance(value, NDArray) and any(map(value.shares_memory, written)):
        return value.copied()
    return value


def print_values(text: str, *values: Any) -> None:
    """Print values, by a format with a ``{}`` for each, or one after the other."""
    shown = list(map(_shown, values))
    print(_formatted(text, shown) if text else " ".join(shown))


def _formatted(text: str, shown: Sequence[str]) -> str:
    """A format filled in; it has no fields but ``{}`` and ``{0}``.

    Python's other fields read attributes, and make texts of any length.

    Raises:
        RunError: it has another field, or one without a value.
    """
    try:
        for _, name, spec, conversion in Formatter().parse(text):
            if spec or conversion or not (name or "0").isdecimal():
                raise ValueError(f"got the field `{{{name}}}`")
        return text.format(*shown)
    except (IndexError, ValueError) as error:
        raise RunError(
            f"format {text!r:.60}: expected a field `{{}}` per value: {error}"
        ) from error


def _shown(value: Any) -> str:
    if isinstance(value, NDArray):
        return str(value.numpy())
    if isinstance(value, list):
        fields = ", ".join(map(_shown, value))
        return f"({fields},)" if len(value) == 1 else f"({fields})"
    return str(value)


def assert_true(condition: Any, text: str, *values: Any) -> None:
    """Stop if a condition does not hold.

    Raises:
        AssertionError: it does not.
    """
    if not truth(condition):
        shown = list(map(_shown, values))
        rest = "" if "{" in text else ", ".join(shown)
        told = "".join(f": {t}" for t in (_formatted(text, shown), rest) if t)
        raise FailedAssertionError(f"Assertion Failed{told}")


# Tuples, shapes and memory.


def item(value: Any, index: int) -> Any:
    """A field of a tuple.

    Raises:
        TypeError: it is no tuple.
        RunError: it has fewer fields.
    """
    if not isinstance(value, list):
        raise TypeError(f"field {index}: expected a tuple, got {_kind(value)}")
    if index >= len(value):
        raise RunError(
            f"field {index}: expected a tuple of more than {len(value)} fields"
        )
    return value[index]


def dim(value: Any, axis: int) -> int:
    """A size of anything that is an array.

    Raises:
        TypeError: it is no array, or of lower rank.
    """
    shape = getattr(value, "shape", ())
    if axis >= len(shape):
        raise TypeError(
            f"size {axis}: expected an array that has it, got {_kind(value)}"
        )
    return int(shape[axis])


def shape_of(tensor: NDArray) -> Shape:
    """Its sizes."""
    return Shape(tensor.shape)


def size_of(tensor: NDArray) -> NDArray:
    """How many elements it has, as a tensor."""
    return shared(np.array(math.prod(tensor.shape), "int64"))


def tensor_to_shape(tensor: NDArray) -> Shape:
    """The elements of a vector as sizes."""
    return Shape(tuple(int(v) for v in tensor.numpy()))


def shape_to_tensor(shape: Sequence[int]) -> NDArray:
    """Sizes as a vector."""
    return shared(np.array(list(shape), "int64"))


def alloc_storage(
    size: Sequence[int], device: int, scope: str, dtype: str
) -> np.ndarray:
    """So many bytes."""
    return np.empty(math.prod(size), np.uint8)


def alloc_vm_storage(
    shape: Sequence[int], device: int, dtype: str, scope: str = "global"
) -> np.ndarray:
    """The bytes of a tensor of a shape and a type."""
    count = math.prod(shape)
    return np.empty(count * empty((), dtype).numpy().itemsize, np.uint8)


def alloc_tensor(
    shape: Sequence[int], dtype: str, device: int, scope: str = "global"
) -> NDArray:
    """A tensor of the host whose elements are not set."""
    return empty(shape, dtype)


def tensor_in(
    storage: np.ndarray | NDArray,
    offset: int,
    shape: Sequence[int],
    dtype: str,
    device: int = 0,
) -> NDArray:
    """A tensor in a piece of memory.

    Raises:
        RunError: it does not fit.
    """
    kind = np.dtype(empty((), dtype).numpy().dtype)
    end = offset + math.prod(shape) * kind.itemsize
    memory = as_numpy(storage)  # functions of the registry give `NDArray`s
    if end > memory.nbytes:
        raise RunError(
            f"tensor of {math.prod(shape)} elements of {dtype} at byte {offset}: expected "
            f"at most {memory.nbytes} bytes, got {end}"
        )
    return shared(memory[offset:end].view(kind).reshape(tuple(shape)))


def view(tensor: NDArray, shape: Any, dtype: Any, offset: Any) -> NDArray:
    """The memory of a tensor as another one; an empty list stands for what stays.

    Raises:
        RunError: it does not fit.
    """
    array = as_numpy(tensor)
    start = offset if isinstance(offset, int) else 0
    sizes = list(shape) if isinstance(shape, Shape) or shape else list(tensor.shape)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return tensor_in(data, start, sizes, dtype or tensor.dtype)


# What a tensor is.


def _axis(tensor: NDArray, axis: int) -> int:
    if not 0 <= axis < tensor.ndim:
        raise RunError(f"axis {axis}: expected 0 to {tensor.ndim - 1}")
    return axis


def shape_i(tensor: NDArray, axis: int) -> int:
    """One of its sizes."""
    return tensor.shape[_axis(tensor, axis)]


def stride_i(tensor: NDArray, axis: int) -> int:
    """How many elements apart neighbours along an axis are."""
    place = _axis(tensor, axis)
    if is_on_gpu(tensor):
        return row_major(tensor.shape)[place]
    array = as_numpy(tensor)
    return array.strides[place] // array.itemsize


def byte_offset(tensor: NDArray) -> int:
    """Where it begins in its memory: an array begins where its pointer points."""
    return 0


def ndim(tensor: NDArray) -> int:
    """Its rank."""
    return tensor.ndim


def dtype_code(tensor: NDArray) -> int:
    """DLPack's code of its element type."""
    return tvm_ffi.dtype(tensor.dtype).type_code


def dtype_bits(tensor: NDArray) -> int:
    """Bits of an element."""
    return tvm_ffi.dtype(tensor.dtype).bits


def dtype_lanes(tensor: NDArray) -> int:
    """Lanes of an element."""
    return 1
