"""Functions in processes of their own, on as many processors as they are to use.

A process has its own peak of memory, nothing of earlier models in its caches, and may
die without taking the others' results along.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["ChildError", "announce", "call", "peak_rss_mb", "usable_cpus"]

_LIMIT_S = 1800
_ROOT = Path(__file__).parents[1]
_STAGE = "BENCHMARK_STAGE"  # names the file that says what a process is at


class ChildError(Exception):
    """A process ended without a result.

    Attributes:
        stage: what it announced last.
    """

    def __init__(self, message: str, stage: str) -> None:
        super().__init__(message)
        self.stage = stage


def usable_cpus() -> list[int]:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def call(
    function: Callable[..., Any],
    *arguments: Any,
    threads: int = 1,
    environment: Mapping[str, str] | None = None,
    hidden: Sequence[str] = (),
) -> Any:
    """What a function of a module returns, called in a new process.

    Args:
        function: public, at the top of a module.
        *arguments: what JSON can say, as is the result (hence Any).
        threads: how many processors the process gets, the last of those usable.
        environment: variables in addition to ours.
        hidden: packages that cannot be imported there, as if they were not installed.

    Raises:
        ChildError: it died, took too long or raised an exception.
    """
    name = f"{function.__module__}:{function.__name__}"
    _show(f"{function.__name__} {' '.join(map(str, arguments))}")
    with tempfile.TemporaryDirectory() as folder:
        result, stage = Path(folder) / "result", Path(folder) / "stage"
        pools = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        options = json.dumps({"threads": threads, "hidden": list(hidden)})
        command = [sys.executable, "-m", "benchmarks.child", name, options]
        try:
            done = subprocess.run(
                [*command, json.dumps(arguments), str(result)],
                capture_output=True,
                text=True,
                cwd=_ROOT,
                env={**os.environ, **pools, _STAGE: str(stage), **(environment or {})},
                timeout=_LIMIT_S,
                check=False,
            )
            problem = _problem(done)
        except subprocess.TimeoutExpired:
            problem = f"took more than {_LIMIT_S} s"
        if not result.exists():
            reached = stage.read_text() if stage.exists() else ""
            raise ChildError(problem, reached)
        return json.loads(result.read_text())


def _show(text: str) -> None:
    """Replace the line of a terminal that says what is measured."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:78]}\r", end="", file=sys.stderr, flush=True)


def _problem(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode < 0:
        return f"the process died of signal {-done.returncode}"
    lines = done.stderr.strip().splitlines()
    last = lines[-1] if lines else f"exit status {done.returncode}"
    return last.replace("ModuleNotFoundError", "not installed")


def announce(stage: str) -> None:
    """Say what this process does next: what is to blame if it dies."""
    if path := os.environ.get(_STAGE):
        Path(path).write_text(stage)


def peak_rss_mb() -> float:
    """The most memory that this process had, in MB.

    The kernel's own count of a process starts with what its parent had; the one in
    ``/proc`` does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        (line,) = (line for line in lines if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _main() -> None:
    name, text, arguments, result = sys.argv[1:]
    options = json.loads(text)
    sys.modules.update(dict.fromkeys(options["hidden"]))  # None fails to import
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, usable_cpus()[-options["threads"] :])
    module, function = name.split(":")
    value = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    Path(result).write_text(json.dumps(value))


if __name__ == "__main__":
    _main()
