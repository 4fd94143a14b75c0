"""Execution of ``relax-opt`` in a child process, to survive crashes in C++."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import relax_mlir
from relax_mlir.errors import PassError
from relax_mlir.ir.constant_pool import pool_path

__all__ = ["run_in_child"]

_FATAL_MESSAGE = re.compile(
    r"^.*(?:Assertion|LLVM ERROR|nanobind error).*$", re.MULTILINE
)


def run_in_child(
    text: str,
    flags: Sequence[str],
    crash_dir: str,
    stderr: TextIO,
    private: Sequence[str] = (),
) -> str:
    """Run ``relax-opt`` on ``text`` in a new process, without a fork.

    Args:
        text: the input.
        flags: further arguments.
        crash_dir: the folder of the reproducer if the process dies.
        stderr: the stream for dumps and tables.
        private: arguments that a reproducer's command omits.

    Returns:
        The standard output of the process.

    Raises:
        PassError: the process failed or died.
    """
    with tempfile.TemporaryDirectory() as journal:
        done = _spawn(text, [*flags, *private, "--journal", journal])
        if done.returncode in (0, 1):
            return _outcome(done, stderr)
        left = next(Path(journal).glob("*.mlir"), None)
        kept = _keep(left, text, flags, Path(crash_dir))
    fatal = _FATAL_MESSAGE.search(done.stderr)
    reason = f": {fatal.group().strip()}" if fatal else ""
    raise PassError(f"{_cause(done.returncode)} ended the process{reason}{kept}")


def _spawn(text: str, flags: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    root = str(Path(relax_mlir.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([root, *([inherited] if inherited else [])])
    return subprocess.run(
        [sys.executable, "-m", "relax_mlir.tools.opt", "-", *flags],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )


def _outcome(done: "subprocess.CompletedProcess[str]", stderr: TextIO) -> str:
    """The output of a child that exited normally."""
    if done.returncode == 0:
        stderr.write(done.stderr)
        return done.stdout
    reports, _, message = f"\n{done.stderr}".rpartition("\nerror: ")
    stderr.write(reports.removeprefix("\n"))
    raise PassError(message.strip())


def _keep(left: Path | None, text: str, flags: Sequence[str], crash_dir: Path) -> str:
    """Save the reproducer of the crashing pass, or the whole input if there is none.

    Returns:
        A line with the command that runs it.
    """
    if "--no-reproducer" in flags:
        return ""
    crash_dir.mkdir(parents=True, exist_ok=True)
    path = crash_dir / (left.name if left else "reproducer.mlir")
    if left is None:
        path.write_text(text)
        command = f"relax-opt %s --isolate {shlex.join(flags)}"
    else:
        shutil.copyfile(left, path)
        if pool_path(left).exists():
            shutil.copyfile(pool_path(left), pool_path(path))
        command = path.read_text().split("\n", 1)[0].removeprefix("// RUN: ")
    return f"\nreproduce with: {command.replace('%s', shlex.quote(str(path)), 1)}"


def _cause(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit code {code}"
