"""Process exit: waits for running native calls, and prevents new ones.

A daemon thread that acquires the GIL during interpreter finalisation is terminated (before
Python 3.14). With C++ frames on its stack, that kills the process by a signal. So calls of
native code are counted here, and an ``atexit`` handler waits until all have returned.
Threads of pools live until the process ends.

Direct calls of native functions, such as ``model["main"]``, are counted in the native
runtime: as the last step, it blocks other threads from returning from a call or beginning
one (:func:`close_native_calls_at_exit`).

Does not import the compiler: model files for GPUs bundle this module.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = [
    "awaited_at_exit",
    "begin_call",
    "close_native_calls_at_exit",
    "end_call",
    "map_on_threads",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")

_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.001
_GRACE_SECONDS = 0.02

# Identifiers of the threads inside native code, once per nested call. List operations are
# atomic.
_inside: list[int] = []
_ending_thread: list[int] = []  # the thread that runs the exit handler, if any

# Functions of the native runtime that block new calls, and count open ones.
_native_gates: list[tuple[Callable[[], object], Callable[[], int]]] = []


def begin_call() -> int:
    """Register this thread as inside native code, until :func:`end_call`.

    Returns:
        The argument for :func:`end_call`.

    Raises:
        SystemExit: the process is ending, and this is not a nested call. The exception
            ends threads of :mod:`threading` silently.
    """
    thread = threading.get_ident()
    _inside.append(thread)  # before the check, to avoid a race with `_drain`
    if _ending_thread:
        _refuse_new_call(thread)
    return thread


end_call = _inside.remove
"""Undo one :func:`begin_call`, given its result."""


def awaited_at_exit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorator: the exit of the process waits for calls of the function."""

    @wraps(function)
    def call(*args: _P.args, **named: _P.kwargs) -> _R:
        thread = begin_call()
        try:
            return function(*args, **named)
        finally:
            end_call(thread)

    return call


def close_native_calls_at_exit(
    close: Callable[[], object], open_calls: Callable[[], int]
) -> None:
    """Block threads from returning from native calls, or beginning one, at exit.

    Args:
        close: parks threads other than the calling one on entry and return.
        open_calls: number of other threads inside that are not parked yet.
    """
    _native_gates.append((close, open_calls))


def map_on_threads(
    function: Callable[[_T], _R], items: Iterable[_T], thread_count: int
) -> Iterator[_R]:
    """Map a function over items on several threads; yields results in order.

    While the process is ending no thread can start, so the calling thread runs the function.
    """
    # Late: processes that only run models have no use for it.
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(thread_count)
    try:
        for result in [_submitted(pool, partial(function, item)) for item in items]:
            yield result()
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ThreadPoolExecutor, task: Callable[[], _R]) -> Callable[[], _R]:
    """A function that waits for a task's result, or runs the task if no thread can start."""
    try:
        return pool.submit(task).result
    except RuntimeError:
        return task


def _refuse_new_call(thread: int) -> None:
    is_inner = _inside.count(thread) > 1
    if not is_inner and thread not in _ending_thread:
        _inside.remove(thread)
        raise SystemExit("the process is ending: expected no new call, got one")


def _drain() -> None:
    """Reject new calls of other threads, and wait for running ones."""
    _ending_thread.append(threading.get_ident())
    deadline = time.monotonic() + _WAIT_SECONDS
    while set(_inside).difference(_ending_thread) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    for close, open_calls in _native_gates:
        close()
        while open_calls() > 0 and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        # Threads that returned just before acquire the GIL here.
        if threading.active_count() > 1:
            time.sleep(_GRACE_SECONDS)


def _forget_other_threads() -> None:
    """Reset the counts in a forked child, which has only the forking thread."""
    own = threading.get_ident()
    _inside[:] = [thread for thread in _inside if thread == own]


# Runs after non-daemon threads have ended, which may call models until then.
atexit.register(_drain)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
