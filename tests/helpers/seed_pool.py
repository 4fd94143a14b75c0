"""Worker processes that try seeds, and are replaced when a seed ends them."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import queue
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

__all__ = ["Death", "try_seeds"]

_Seed = TypeVar("_Seed")
_Result = TypeVar("_Result")
_LOG_CHARACTERS = 1 << 16  # of what a process wrote last
_SHOWN_CHARACTERS = 3000
_STACKS = ("Fatal Python error", "Current thread ", "Thread 0x")  # faulthandler's


@dataclass(frozen=True)
class Death:
    """The end of a worker process.

    Attributes:
        kind: ``crash``, or ``hang`` of one that was silent for too long and was killed.
        exit_code: of the process; None if it had to be killed.
        log: the end of what it wrote to its standard error, with the stacks of its threads.
        before: how many seeds the process had tried.
    """

    kind: str
    exit_code: int | None
    log: str
    before: int = 0

    def __str__(self) -> str:
        return (
            f"{self.kind}, exit {self.exit_code}, after {self.before} seeds of the process: "
            f"{self._shown()}"
        )

    def _shown(self) -> str:
        """The stacks and what was written before them; else the end of the log."""
        places = [self.log.find(text) for text in _STACKS if text in self.log]
        half = _SHOWN_CHARACTERS // 2
        first = min(places) - half if places else len(self.log) - _SHOWN_CHARACTERS
        return self.log[max(first, 0) :][:_SHOWN_CHARACTERS]


def try_seeds(
    attempt: Callable[[_Seed], _Result],
    seeds: Iterable[_Seed],
    *,
    workers: int,
    seconds: float,
    most_seeds: int | None = None,
    begin: Callable[[], object] | None = None,
) -> Iterator[tuple[_Seed, _Result | Death]]:
    """Try seeds in worker processes.

    Args:
        attempt: a function of a module, with results that can be pickled; new processes
            do not know those of a package's ``__main__``.
        seeds: what to try: numbers, or anything that can be pickled.
        workers: how many processes.
        seconds: of silence after which a worker is killed.
        most_seeds: after which a worker is replaced.
        begin: what a worker calls first.

    Yields:
        Each seed with its result, in the order in which they are done.
    """
    waiting: queue.SimpleQueue[_Seed] = queue.SimpleQueue()
    listed = list(seeds)
    for seed in listed:
        waiting.put(seed)
    results: queue.SimpleQueue[tuple[_Seed, Any]] = queue.SimpleQueue()

    def work(log: Path) -> None:
        worker = _Worker(attempt, begin, log, seconds, most_seeds)
        with suppress(queue.Empty):
            while True:
                seed = waiting.get_nowait()
                results.put((seed, worker.attempt(seed)))
        worker.stop()

    with tempfile.TemporaryDirectory() as folder:
        threads = [
            threading.Thread(target=work, args=(Path(folder, f"{n}.log"),), daemon=True)
            for n in range(min(workers, len(listed)))
        ]
        for thread in threads:
            thread.start()
        for _ in listed:
            yield results.get()
        for thread in threads:
            thread.join()


class _Worker(Generic[_Seed, _Result]):
    """A process that tries seeds; a new one takes its place when it ends."""

    def __init__(
        self,
        attempt: Callable[[_Seed], _Result],
        begin: Callable[[], object] | None,
        log: Path,
        seconds: float,
        most_seeds: int | None,
    ) -> None:
        self._task = attempt, begin, str(log)
        self._log, self._seconds, self._most = log, seconds, most_seeds
        self._log.touch()
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other, *self._task), daemon=True
        )
        self._process.start()
        other.close()
        self._done = 0

    def stop(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.kill()
        self._process.join()

    def attempt(self, seed: _Seed) -> _Result | Death:
        """The result of a seed."""
        if self._done == self._most:
            self.stop()
            self._start()
        self._done += 1
        kind = "hang"
        try:
            self._pipe.send(seed)
            if self._pipe.poll(self._seconds):
                return self._pipe.recv()
        except (EOFError, OSError):
            kind = "crash"
        if kind == "hang":
            with suppress(OSError, TypeError):  # it has just ended
                os.kill(self._process.pid, signal.SIGUSR1)  # pyright: ignore[reportArgumentType]
        self._process.join(1)
        code = self._process.exitcode
        text = self._log.read_text(errors="replace")[-_LOG_CHARACTERS:]
        before = self._done - 1
        self.stop()
        self._start()
        return Death(kind, code, text, before)


def _serve(
    pipe: Connection,
    attempt: Callable[[Any], object],
    begin: Callable[[], object] | None,
    log: str,
) -> None:
    """A worker: seeds in, results out."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_TRUNC | os.O_CREAT), 2)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)  # sent to one that is silent for too long
    if begin is not None:
        begin()
    with suppress(EOFError):
        while True:
            pipe.send(attempt(pipe.recv()))
