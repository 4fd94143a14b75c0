"""Running ``relax-opt`` in a child process, so that C++ may end that one."""

import os
import re
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

__all__ = ["run_in_child"]

_DEATH_CRY = re.compile(r"^.*(?:Assertion|LLVM ERROR|nanobind error).*$", re.MULTILINE)
_ERROR = re.compile(r"^error: ", re.MULTILINE)


def run_in_child(
    text: str, flags: Sequence[str], crash_dir: Path, stderr: TextIO
) -> str:
    """Run ``relax-opt`` over ``text`` in a fresh process; never a fork of this one.

    Args:
        text: what it reads.
        flags: its other arguments.
        crash_dir: where the reproducer goes if the process dies.
        stderr: where its dumps and tables go.

    Returns:
        What it prints.

    Raises:
        PassError: it failed, or it died.
    """
    with tempfile.TemporaryDirectory() as journal:
        done = _spawn(text, [*flags, "--journal", journal])
        if done.returncode in (0, 1):
            return _outcome(done, stderr)
        left = sorted(Path(journal).iterdir())
        command = _save(left[0] if left else None, text, flags, crash_dir)
    cry = _DEATH_CRY.search(done.stderr)
    reason = f": {cry.group().strip()}" if cry else ""
    raise PassError(
        f"{_cause(done.returncode)} ended the process{reason}\nreproduce with: {command}"
    )


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
    reports, _, message = _last_error(done.stderr)
    stderr.write(reports)
    raise PassError(message.strip())


def _last_error(text: str) -> tuple[str, str, str]:
    found = [match.start() for match in _ERROR.finditer(text)]
    start = found[-1] if found else 0
    return text[:start], "error: ", text[start:].removeprefix("error: ")


def _save(left: Path | None, text: str, flags: Sequence[str], crash_dir: Path) -> str:
    """Keep the module before the deadly pass, or all there is; the command to run it."""
    crash_dir.mkdir(parents=True, exist_ok=True)
    if left is None:
        path = crash_dir / "reproducer.mlir"
        path.write_text(text)
        return f"relax-opt {path} --isolate {subprocess.list2cmdline(flags)}"
    path = crash_dir / left.name
    shutil.move(left, path)
    first = path.read_text().split("\n", 1)[0]
    return first.removeprefix("// RUN: ").replace("%s", str(path), 1)


def _cause(code: int) -> str:
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"exit code {code}"
