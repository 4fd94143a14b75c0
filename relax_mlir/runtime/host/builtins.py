"""TVM's built-in packed functions: KV cache, debugging, CUDA graph stubs, unique."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relax_mlir.errors import RunError, near_misses
from relax_mlir.runtime.ndarray import NDArray, as_numpy, shared
from relax_mlir.runtime.registry import (
    from_ffi,
    function_names,
    get_global_func,
    register_func,
)

__all__ = ["RowCache", "get_py_func", "nonzero", "register_builtins", "unique"]


class RowCache:
    """An append-only array of rows (KV cache), with amortised growth by doubling.

    Args:
        first: initial rows.
        room: initial shape of the memory.
        rows: number of valid rows of ``first``.
    """

    def __init__(self, first: np.ndarray, room: Sequence[int], rows: int) -> None:
        self._memory = np.zeros(tuple(room), first.dtype)
        self._memory[:rows] = first[:rows]
        self.rows = rows

    def append(self, added: np.ndarray) -> None:
        """Append rows.

        Raises:
            RunError: their shape or element type differs.
        """
        expected, got = self._memory.shape[1:], added.shape[1:]
        if expected != got or added.dtype != self._memory.dtype:
            raise RunError(
                f"cache: expected rows {expected} of {self._memory.dtype}, got {got} of "
                f"{added.dtype}"
            )
        end = self.rows + len(added)
        if end > len(self._memory):
            capacity = max(end, 2 * len(self._memory))
            grown = np.zeros((capacity, *expected), self._memory.dtype)
            grown[: self.rows] = self._memory[: self.rows]
            self._memory = grown
        self._memory[self.rows : end] = added
        self.rows = end

    def view(self, shape: Sequence[int]) -> np.ndarray:
        """A view of all rows.

        Raises:
            RunError: the shape differs from that of the rows.
        """
        actual = (self.rows, *self._memory.shape[1:])
        if tuple(shape) != actual:
            raise RunError(f"cache: expected a view of {actual}, got {tuple(shape)}")
        return self._memory[: self.rows]


def cache_create(first: NDArray, room: Sequence[int], rows: int) -> RowCache:
    """Create a cache."""
    return RowCache(as_numpy(first), room, rows)


def cache_append(cache: RowCache, added: NDArray) -> RowCache:
    """Append rows to a cache; returns the cache."""
    cache.append(as_numpy(added))
    return cache


def cache_view(cache: RowCache, shape: Sequence[int]) -> NDArray:
    """The rows of a cache."""
    return shared(cache.view(shape))


def invoke_debug_func(state: Any, name: str, line: str, *values: Any) -> Any:
    """Call a registered debug function with source line and values; returns ``state``."""
    get_global_func(name)(line, *values)
    return state


def print_tensor(line: str, tensor: NDArray) -> None:
    """Print a tensor, and the source line of the print."""
    head = f"{line}: shape = {tensor.shape}, dtype = {tensor.dtype}, data ="
    print(f"{head}\n{tensor.numpy()}")


def nonzero(tensor: NDArray) -> NDArray:
    """Indices of the non-zero elements, int64 [rank, count]."""
    return get_global_func("relax_mlir.nonzero")(tensor)


def unique(
    tensor: NDArray,
    is_sorted: int,
    return_index: int,
    return_inverse: int,
    return_counts: int,
    axis: int | None = None,
) -> Any:
    """Unique elements, or slices along an axis, and the requested further outputs.

    Unsorted, they are in the order of their first occurrence.
    """
    outputs = get_global_func("relax_mlir.unique")(tensor, axis, bool(is_sorted))
    are_wanted = (True, return_index, return_inverse, return_counts)
    pairs = zip(outputs, are_wanted, strict=True)
    results = [from_ffi(output) for output, is_wanted in pairs if is_wanted]
    return results if len(results) > 1 else results[0]


_PY_FUNCTIONS: dict[str, Any] = {}


def register_py_func(name: str, function: Any) -> None:
    """Register a Python function for ``call_py_func``."""
    _PY_FUNCTIONS[name] = function


def get_py_func(name: str) -> Any:
    """The Python function of a name.

    Raises:
        RunError: the name is not registered.
    """
    if name not in _PY_FUNCTIONS:
        raise RunError(
            f"`{name}`: no such Python function: expected one that was registered by "
            f"`vm.builtin.register_py_func`.{near_misses(name, _PY_FUNCTIONS)}"
        )
    return _PY_FUNCTIONS[name]


def copy(tensor: NDArray) -> NDArray:
    """A copy of a tensor."""
    return shared(tensor.numpy())


def run_captured(
    function: Callable[..., Any], args: Sequence[Any], number: int, *key: Any
) -> Any:
    """Call a function that could be captured as a CUDA graph; CPUs just run it."""
    return function(*args)


def allocated(function: Callable[..., Any], number: int) -> Any:
    """Allocate memory for a CUDA graph; CPUs allocate at each call."""
    return function()


_BUILTINS = {
    "vm.builtin.cuda_graph.get_cached_alloc": allocated,
    "vm.builtin.cuda_graph.run_or_capture": run_captured,
    "vm.builtin.register_py_func": register_py_func,
    "vm.builtin.get_py_func": get_py_func,
    "vm.builtin.clear_py_func_registry": _PY_FUNCTIONS.clear,
    "vm.builtin.copy": copy,
    "vm.builtin.attention_kv_cache_create": cache_create,
    "vm.builtin.attention_kv_cache_append": cache_append,
    "vm.builtin.attention_kv_cache_view": cache_view,
    "vm.builtin.invoke_debug_func": invoke_debug_func,
    "vm.builtin.debug_print": print_tensor,
    "effect.print": print_tensor,
    "relax.run.nonzero": nonzero,
    "relax.run.unique": unique,
}


def register_builtins() -> None:
    """Register the functions whose names are not registered yet."""
    known = set(function_names())
    for name, function in _BUILTINS.items():
        if name not in known:
            register_func(name, function)
