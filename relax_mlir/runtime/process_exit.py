"""The end of the process: running calls are waited for, and no other begins.

A daemon thread that asks for Python's lock once the interpreter is being finalised is ended
where it stands (before Python 3.14). If C++ frames are on its stack, that ends the process
by a signal. So whoever calls into native code counts itself here, and a handler of
``atexit`` waits until nobody is inside. Threads of pools live until the process ends.

Functions of the native runtime that are called by themselves, such as ``model["main"]``,
count in the runtime: once all else is done, it lets no other thread return from a call or
begin one (:func:`close_native_calls_at_exit`).

Imports nothing that compiles: files of models for GPUs carry this module.
"""

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import ParamSpec, TypeVar

__all__ = [
    "begin_call",
    "close_native_calls_at_exit",
    "counted",
    "end_call",
    "map_on_threads",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")

_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.001
_GRACE_SECONDS = 0.02

# The threads that are inside, as often as they have entered. Operations of lists are atomic.
_inside: list[int] = []
_ending_thread: list[int] = []  # the one that ends the process, once it does

# Of the native runtime, once it is loaded: what closes calls, and what counts open ones.
_native_gates: list[tuple[Callable[[], object], Callable[[], int]]] = []


def begin_call() -> int:
    """Count this thread as inside native code, until :func:`end_call`.

    Returns:
        What :func:`end_call` takes.

    Raises:
        SystemExit: the process is ending, and this thread is in no call yet. It ends a
            thread of :mod:`threading` without a message.
    """
    thread = threading.get_ident()
    _inside.append(thread)  # first: who drains sees it, or is seen here
    if _ending_thread:
        _refuse_new_call(thread)
    return thread


end_call = _inside.remove
"""Undo one :func:`begin_call`, from what it returned."""


def counted(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function whose calls are waited for when the process ends."""

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
    """Let no thread return from a native call, or begin one, once the process ends.

    Args:
        close: parks threads other than the calling one, where they enter or leave.
        open_calls: how many threads are inside and not parked yet, the calling one left out.
    """
    _native_gates.append((close, open_calls))


def map_on_threads(
    function: Callable[[_T], _R], items: Iterable[_T], thread_count: int
) -> Iterator[_R]:
    """The results of a function for each item, in order, computed on several threads.

    Once the process is ending no thread can be started: the calling thread then computes
    them, so that the call that it is in succeeds.
    """
    pool = ThreadPoolExecutor(thread_count)
    try:
        for result in [_submitted(pool, partial(function, item)) for item in items]:
            yield result()
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ThreadPoolExecutor, task: Callable[[], _R]) -> Callable[[], _R]:
    """What waits for a task; or the task, where no thread can take it."""
    try:
        return pool.submit(task).result
    except RuntimeError:
        return task


def _refuse_new_call(thread: int) -> None:
    is_inner = _inside.count(thread) > 1
    if not is_inner and thread not in _ending_thread:
        _inside.remove(thread)
        raise SystemExit("the process is ending: expected no call to begin, got one")


def _drain() -> None:
    """Refuse new calls of other threads, and wait for those that run."""
    _ending_thread.append(threading.get_ident())
    deadline = time.monotonic() + _WAIT_SECONDS
    while set(_inside).difference(_ending_thread) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    for close, open_calls in _native_gates:
        close()
        while open_calls() > 0 and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        # Threads that had left their call before it was closed take Python's lock here.
        if threading.active_count() > 1:
            time.sleep(_GRACE_SECONDS)


def _forget_other_threads() -> None:
    """A forked child has none of the other threads."""
    own = threading.get_ident()
    _inside[:] = [thread for thread in _inside if thread == own]


# Not before threads that are no daemons have ended: they may call models until then.
atexit.register(_drain)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
