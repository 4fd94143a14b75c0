"""Calls every command with random files and options.

``python -m tests.argument_sweep.commands 0 30``: the seed, how often each command is called,
and names of commands, all by default. Prints the calls that end by accident; fails if there
are some.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from relax_mlir.tools import cli, opt
from tests.argument_sweep.calls import TookTooLong, limited
from tests.argument_sweep.texts import damaged
from tests.argument_sweep.values import model

__all__ = ["complaint", "judged", "main"]

_SECONDS = 20  # for a call

# Options that are left out, each with the reason.
LEFT_OUT = {
    "help": "prints, and ends",
    "debug": "prints the traceback that no other call may",
    "isolate": "starts a process, which takes a second",
}

_MLIR = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "relax.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
_SUFFIXES = ("rxm", "onnx", "mlir", "npz", "npy", "json", "pem", "safetensors", "pub")
_GOOD = ("model.onnx", "model.rxm", "text.mlir", "x.npy", "x.npz")
_ODD_NAMES = (
    *("none.onnx", "none/none.rxm", "model.onnx/x", "/dev/null", "/proc/self/mem", ""),
    *("-", "a\nb", "é\ud800", "\0", "." * 300, "folder", "."),
)
_WORDS = (
    *("", "x", "-1", "0", "1", "2", "nan", "inf", "1e400", "99999999999999999999"),
    *("1.5", "a=b", "x=2,4", "x=-1", "x=n", "n=0", "x:2", "cpu", "cuda", "cpu:no"),
    *("cuda:sm_1", "none", "é\ud800", "%", "{", "x=x.npy", "x=garbage.npy", "x=[1,2]"),
    *("f16", "auto", "never", "indices", "main", "linalg", "x=none.npy", "x=x.npz"),
    *("relax-fuse-ops", "relax-fuse-ops{max-ops=x}", "cse", "func.func(cse)", "a,,b"),
)

# What a message must not be: the text of an exception of Python or of a library.
_BARE = re.compile(
    r"error: \w+(Error|Exception|Exit): |object has no attribute|not supported between"
    r"|unsupported operand|codec can't|incompatible function|is not subscriptable"
    r"|argument must be|takes \d+ positional|required positional|index out of range"
)


def main(seed: int, count: int, *names: str) -> int:
    """Call each command a number of times; returns the exit status."""
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    accidents: dict[str, Sequence[str]] = {}
    calls = 0
    with tempfile.TemporaryDirectory() as folder, _alone_in(folder):
        files = _write_files(rng)
        kept = {Path(name): Path(name).read_bytes() for name in _GOOD}
        for name, parser in _parsers().items():
            for _ in range(count if not names or name in names else 0):
                for path, data in kept.items():
                    path.write_bytes(data)  # a call may have written to it
                given = _arguments(parser, rng, files)
                calls += 1
                if problem := complaint(name, given):
                    accidents.setdefault(f"{name}: {problem}", given)
    for problem, given in sorted(accidents.items()):
        print(f"{problem}\n    {given!a}".encode("ascii", "backslashreplace").decode())
    print(f"{calls} calls of commands, {len(accidents)} accidents")
    return bool(accidents)


@contextlib.contextmanager
def _alone_in(folder: str) -> Any:  # Any: a context
    """With this as the working directory and the place of all caches."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": f"{folder}/cache"}):
            yield
    finally:
        os.chdir(before)


def complaint(name: str, given: Sequence[str]) -> str:
    """What is wrong with how a call ended; empty if nothing is.

    It returns 0, or it returns 1 or 2 and says in one line that begins with ``error:`` what
    is wrong, in words that are no exception's of Python.
    """
    printed, said = io.StringIO(), io.StringIO()
    call: Callable[[Sequence[str]], int] = cli.main
    arguments = [name, *given]
    if name == "relax-opt":
        call, arguments = opt.main, [*given]
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
            mock.patch("sys.stdin", io.StringIO(_MLIR)),
            limited(_SECONDS),
        ):
            status = call(arguments)
    except TookTooLong:
        return f"took longer than {_SECONDS} s"
    except SystemExit as end:
        return f"ends the process: {end.code!r}"
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"
    return "" if status == 0 else judged(status, said.getvalue())


def judged(status: int, said: str) -> str:
    """What is wrong with the status and the messages of a call that did not return 0."""
    lines = [line for line in said.split("\n") if line]
    errors = [n for n in lines if re.match(r"(relax-mlir: )?error: ", n)]
    if status not in (1, 2):
        return f"returns {status!r}"
    if "Traceback" in said:
        return f"prints a traceback: {lines[-1]}"
    if len(errors) != 1:
        return f"{len(errors)} lines with `error:`: {said[:100]!r}"
    if _BARE.search(said) or errors[0].endswith(("error: ", ": ")):
        return f"a message that tells nothing: {errors[0]}"
    return ""


def _parsers() -> Mapping[str, argparse.ArgumentParser]:
    """Every command, and what it takes."""
    found = {"relax-opt": opt._parser()}
    for action in cli._parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _arguments(
    parser: argparse.ArgumentParser, rng: random.Random, files: Sequence[str]
) -> list[str]:
    found: list[str] = []
    for action in parser._actions:
        if action.dest in LEFT_OUT:
            continue
        if action.option_strings:
            if not action.required and rng.random() > 0.25:
                continue
            found.append(rng.choice(action.option_strings))
        if action.nargs != 0:
            found.append(_value(action, rng, files))
    if rng.random() < 0.05:
        found.append("--no-option")
    if rng.random() < 0.05 and found:
        found.pop()
    return found


def _value(action: argparse.Action, rng: random.Random, files: Sequence[str]) -> str:
    if action.choices and rng.random() < 0.6:
        return str(rng.choice(list(action.choices)))
    if action.option_strings and rng.random() < 0.6:
        return rng.choice(_WORDS)
    right = ["model.onnx"] * 8 + ["model.rxm"] * 4 + ["text.mlir"] * 2
    return rng.choice([*files, *right])


def _write_files(rng: random.Random) -> list[str]:
    """Good and damaged files of every kind, in the working directory; their names."""
    Path("model.onnx").write_bytes(model().SerializeToString())
    silent = io.StringIO()
    with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        cli.main(["compile", "model.onnx", "-o", "model.rxm"])
    Path("text.mlir").write_text(_MLIR)
    np.save("x.npy", np.ones((2, 4), np.float32))
    np.savez("x.npz", x=np.ones((2, 4), np.float32))
    for name in ("model.onnx", "model.rxm", "x.npy", "x.npz"):
        _damage(Path(name), rng)
    for number in range(4):
        text = damaged(damaged(_MLIR, rng), rng)
        Path(f"damaged{number}.mlir").write_text(text, errors="replace")
    for suffix in _SUFFIXES:
        Path(f"garbage.{suffix}").write_bytes(rng.randbytes(500))
        Path(f"empty.{suffix}").write_bytes(b"")
    for number, text in enumerate(("{", "[1]", '{"records": 3}', "null")):
        Path(f"{number}.json").write_text(text)
    Path("zip.rxm").write_bytes(b"PK\3\4" + b"\0" * 40)
    Path("folder").mkdir()
    return [*sorted(p.name for p in Path().iterdir()), *_ODD_NAMES]


def _damage(path: Path, rng: random.Random) -> None:
    """Copies of a file that end early, or have other bytes."""
    whole = path.read_bytes()
    for number in range(3):
        changed = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.with_stem(f"changed{number}").write_bytes(changed)
        end = rng.randrange(len(whole))
        path.with_stem(f"cut{number}").write_bytes(whole[:end])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
