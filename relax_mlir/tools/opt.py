"""``relax-opt``: run passes over MLIR text, like ``mlir-opt`` with our passes in it."""

import argparse
import re
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import NoReturn, TextIO

from relax_mlir.errors import RelaxError
from relax_mlir.module import IRModule
from relax_mlir.pipeline import Instrument, PrintIR, Reproducer, Timing, opt
from relax_mlir.pipeline.catalog import LEVELS, is_ours, list_passes
from relax_mlir.pipeline.options import describe_options
from relax_mlir.tools.isolation import run_isolated

__all__ = ["main", "run"]

_SEPARATOR = re.compile(r"^// -----[ \t]*\n", re.MULTILINE)
_STDIN_LOCATION = re.compile(r'loc\("-":(\d+):(\d+)\)')


class _UsageError(RelaxError):
    """The command line makes no sense."""


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        """Turn a complaint about the arguments into an exception."""
        raise _UsageError(f"{message}. See `relax-opt --help`.")


def run(
    argv: Sequence[str], stdin: str | None = None, stderr: TextIO | None = None
) -> str:
    """Do what ``relax-opt`` does, in this process.

    Args:
        argv: the arguments, without the name of the tool.
        stdin: the text to read for ``-``; None reads from the process's own.
        stderr: where dumps and tables go; None means to the process's own.

    Returns:
        What the tool prints.

    Raises:
        RelaxError: the arguments, the text, the pipeline or a pass is at fault.
        OSError: a file cannot be read or written.
    """
    arguments = _parser().parse_args(argv)
    if arguments.version:
        return _versions()
    if arguments.list_passes:
        return _pass_list()
    name, text = _read(arguments.input, stdin)
    parts = _split(text) if arguments.split_input_file else [text]
    outputs = [_process(p, name, arguments, stderr or sys.stderr) for p in parts]
    printed = "// -----\n".join(outputs)
    if arguments.output is None:
        return printed
    Path(arguments.output).write_text(printed)
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        sys.stdout.write(run(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has enough
        sys.stdout = None
        return 0
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exception(type(error), error, error.__traceback__)
        sys.stderr.write(_describe(error))
        return 1
    return 0


def _parser() -> _Parser:
    parser = _Parser(
        prog="relax-opt",
        description="Run passes over MLIR text.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="?", default="-", help="a file, or `-` for standard input")
    add("-o", dest="output", metavar="FILE", help="write the module there")
    add("-p", "--pass-pipeline", dest="pipeline", default="", metavar="PIPELINE")
    add("--to", metavar="LEVEL", help="lower to this level, after the pipeline")
    add("--target", help="what to lower for; `cpu` if not given")
    add("--split-input-file", action="store_true", help="parts between `// -----`")
    add("--verify-each", nargs="?", const=True, default=True, type=_switch)
    add("--no-verify", dest="verify_each", action="store_false")
    add("--expect-error", action="store_true", help="print the error; fail without")
    add("--isolate", action="store_true", help="survive passes that end the process")
    add("--crash-dir", default=None, metavar="DIR", help="where reproducers go")
    add("--keep-reproducer", action="store_true", help=argparse.SUPPRESS)
    for when in ("before-all", "after-all", "after-change"):
        add(f"--mlir-print-ir-{when}", dest="dumps", action="append_const", const=when)
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    add("--mlir-timing", action="store_true", help="print how long passes take")
    add("--list-passes", action="store_true", help="our passes and their options")
    add("--debug", action="store_true", help="print the traceback of an error")
    add("--version", action="store_true")
    return parser


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise argparse.ArgumentTypeError(f"expected 0 or 1, got `{text}`")
    return text == "1"


def _read(path: str, stdin: str | None) -> tuple[str, str]:
    """What messages call the input, and its text."""
    if path == "-":
        return "<stdin>", sys.stdin.read() if stdin is None else stdin
    try:
        return path, Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _UsageError(f"{path}: expected text in UTF-8: {error}") from error


def _split(text: str) -> list[str]:
    """The parts, each after as many empty lines as make its line numbers right."""
    parts = _SEPARATOR.split(text)
    starts = [0, *(match.end() for match in _SEPARATOR.finditer(text))]
    return [
        "\n" * text.count("\n", 0, start) + part
        for start, part in zip(starts, parts, strict=True)
    ]


def _process(
    text: str, name: str, arguments: argparse.Namespace, stderr: TextIO
) -> str:
    """What is printed for one part of the input."""
    transform = run_isolated if arguments.isolate else _transform
    if not arguments.expect_error:
        return _with_name(name, transform, text, arguments, stderr)
    try:
        _with_name(name, transform, text, arguments, stderr)
    except Exception as error:
        return _describe(error)
    raise _UsageError(f"{name}: expected an error, got none")
