"""Functions that graphs call by TVM's names: caches of rows, debugging, unique elements."""

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
    """Rows that are added at the end, in memory that grows by doubling.

    Args:
        first: the first rows that are there.
        room: the shape of the memory at first.
        rows: how many of ``first`` count.
    """

    def __init__(self, first: np.ndarray, room: Sequence[int], rows: int) -> None:
        self._memory = np.zeros(tuple(room), first.dtype)
        self._memory[:rows] = first[:rows]
        self.rows = rows

    def append(self, added: np.ndarray) -> None:
        """Add rows.

        Raises:
            RunError: they are of another shape or type.
        """
        expected, got = self._memory.shape[1:], added.shape[1:]
        if expected != got or added.dtype != self._memory.dtype:
            raise RunError(
                f"cache: expected rows {expected} of {self._memory.dtype}, got {got} of "
                f"{added.dtype}"
            )
        end = self.rows + len(added)
        if end > len(self._memory):
            room = max(end, 2 * len(self._memory))
            grown = np.zeros((room, *expected), self._memory.dtype)
            grown[: self.rows] = self._memory[: self.rows]
            self._memory = grown
        self._memory[self.rows : end] = added
        self.rows = end

    def view(self, shape: Sequence[int]) -> np.ndarray:
        """The rows, in memory that later rows share.

        Raises:
            RunError: there are not so many, or they are of another shape.
        """
        there = (self.rows, *self._memory.shape[1:])
        if tuple(shape) != there:
            raise RunError(f"cache: expected a view of {there}, got {tuple(shape)}")
        return self._memory[: self.rows]


def cache_create(first: NDArray, room: Sequence[int], rows: int) -> RowCache:
    """A cache with room for rows of a shape."""
    return RowCache(as_numpy(first), room, rows)


def cache_append(cache: RowCache, added: NDArray) -> RowCache:
    """The cache, with more rows."""
    cache.append(as_numpy(added))
    return cache


def cache_view(cache: RowCache, shape: Sequence[int]) -> NDArray:
    """Its rows."""
    return shared(cache.view(shape))


def invoke_debug_func(state: Any, name: str, line: str, *values: Any) -> Any:
    """Call a registered function of a place in a file and values; ``state`` comes back."""
    get_global_func(name)(line, *values)
    return state


def print_tensor(line: str, tensor: NDArray) -> None:
    """Print a tensor, and where the network that does it stands."""
    head = f"{line}: shape = {tensor.shape}, dtype = {tensor.dtype}, data ="
    print(f"{head}\n{tensor.numpy()}")


def nonzero(tensor: NDArray) -> NDArray:
    """The places of elements that are not 0: of shape (rank, how many), int64."""
    return get_global_func("relax_mlir.nonzero")(tensor)


def unique(
    tensor: NDArray,
    is_sorted: int,
    return_index: int,
    return_inverse: int,
    return_counts: int,
    axis: int | None = None,
) -> Any:
    """Its different elements, or slices along an axis; then what else is asked for.

    Unsorted, they come in the order in which they are met.
    """
    found = get_global_func("relax_mlir.unique")(tensor, axis, bool(is_sorted))
    is_wanted = (True, return_index, return_inverse, return_counts)
    made = [from_ffi(p) for p, wanted in zip(found, is_wanted, strict=True) if wanted]
    return made if len(made) > 1 else made[0]


_PY_FUNCTIONS: dict[str, Any] = {}


def register_py_func(name: str, function: Any) -> None:
    """Let ``call_py_func`` find a Python function."""
    _PY_FUNCTIONS[name] = function


def get_py_func(name: str) -> Any:
    """What ``call_py_func`` calls.

    Raises:
        RunError: nothing has that name.
    """
    if name not in _PY_FUNCTIONS:
        raise RunError(
            f"`{name}`: no such Python function: expected one that was given to "
            f"`vm.builtin.register_py_func`.{near_misses(name, _PY_FUNCTIONS)}"
        )
    return _PY_FUNCTIONS[name]


def copy(tensor: NDArray) -> NDArray:
    """A tensor with the same elements, in memory of its own."""
    return shared(tensor.numpy())


def run_captured(
    function: Callable[..., Any], args: Sequence[Any], number: int, *key: Any
) -> Any:
    """Call what could be captured in a CUDA graph: a CPU has none."""
    return function(*args)


def allocated(function: Callable[..., Any], number: int) -> Any:
    """The memory for what could be captured, new at each call."""
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
    """Register what is not registered yet."""
    known = set(function_names())
    for name, function in _BUILTINS.items():
        if name not in known:
            register_func(name, function)
