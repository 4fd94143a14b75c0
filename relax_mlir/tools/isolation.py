"""Running ``relax-opt`` in a child process, so that C++ may end that one."""

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
from relax_mlir.constant_pool import pool_path
from relax_mlir.errors import PassError

__all__ = ["run_in_child"]

_DEATH_CRY = re.compile(r"^.*(?:Assertion|LLVM ERROR|nanobind error).*$", re.MULTILINE)


def run_in_child(
    text: str,
    flags: Sequence[str],
    crash_dir: str,
    stderr: TextIO,
    private: Sequence[str] = (),
) -> str:
    """Run ``relax-opt`` over ``text`` in a fresh process; never a fork of this one.

    Args:
        text: what it reads.
        flags: its other arguments.
        crash_dir: where the reproducer goes if the process dies.
        stderr: where its dumps and tables go.
        private: arguments that are no part of the command that a reproducer shows.

    Returns:
        What it prints.

    Raises:
        PassError: it failed, or it died.
    """
    with tempfile.TemporaryDirectory() as journal:
        done = _spawn(text, [*flags, *private, "--journal", journal])
        if done.returncode in (0, 1):
            return _outcome(done, stderr)
        left = next(Path(journal).glob("*.mlir"), None)
        kept = _keep(left, text, flags, Path(crash_dir))
    cry = _DEATH_CRY.search(done.stderr)
    reason = f": {cry.group().strip()}" if cry else ""
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
    """What a child printed that ended by itself."""
    if done.returncode == 0:
        stderr.write(done.stderr)
        return done.stdout
    reports, _, message = f"\n{done.stderr}".rpartition("\nerror: ")
    stderr.write(reports.removeprefix("\n"))
    raise PassError(message.strip())


def _keep(left: Path | None, text: str, flags: Sequence[str], crash_dir: Path) -> str:
    """Keep the module before the deadly pass, or all there is.

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
