"""Function calls in child processes, pinned to a number of processors.

A separate process has its own memory peak and cold caches, and may crash without losing
other results.
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
_STAGE = "BENCHMARK_STAGE"  # variable with the file of the current stage


class ChildError(Exception):
    """A process ended without a result.

    Attributes:
        stage: the last stage that it announced.
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
    """Call a function in a new process.

    Args:
        function: a public top-level function.
        *arguments: JSON values, like the result (hence Any).
        threads: the number of processors, the last of the usable ones.
        environment: additional environment variables.
        hidden: packages that appear as not installed.

    Raises:
        ChildError: the process died, timed out or raised an exception.
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
    """Update the status line on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:78]}\r", end="", file=sys.stderr, flush=True)


def _problem(done: "subprocess.CompletedProcess[str]") -> str:
    if done.returncode < 0:
        return f"the process died of signal {-done.returncode}"
    lines = done.stderr.strip().splitlines()
    last = lines[-1] if lines else f"exit status {done.returncode}"
    return last.replace("ModuleNotFoundError", "not installed")


def announce(stage: str) -> None:
    """Record the current stage of this process, for a report if it dies."""
    if path := os.environ.get(_STAGE):
        Path(path).write_text(stage)


def peak_rss_mb() -> float:
    """The peak resident set size of this process, in MB.

    ``ru_maxrss`` is inherited from the parent process; ``VmHWM`` in ``/proc`` is not.
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
