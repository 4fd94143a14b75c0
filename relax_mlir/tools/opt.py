"""Entry point of ``relax-opt``, which is ``mlir-opt`` extended by our passes."""

import argparse
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np

from relax_mlir.compiler.driver import lower
from relax_mlir.errors import RelaxError
from relax_mlir.ir.constant_pool import load_pool, pool_path, save_beside, save_pool
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import Instrument, Journal, PrintIR, Reproducer, Timing, opt
from relax_mlir.pipeline.catalog import LEVELS, list_passes
from relax_mlir.pipeline.options import describe_options
from relax_mlir.support.files import atomic_file, check_path_name, utf8_problem
from relax_mlir.tools.arguments import tool_version
from relax_mlir.tools.isolation import run_in_child

__all__ = ["main", "run"]

_SEPARATOR = re.compile(r"^// -----[ \t]*\n", re.MULTILINE)
_STDIN_LOCATION = re.compile(r'loc\("-":(\d+):(\d+)\)')


class _UsageError(RelaxError):
    """The command line is invalid."""


class _Parser(argparse.ArgumentParser):
    """Argument parser that raises an exception instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise a usage error."""
        raise _UsageError(f"{message}. See `relax-opt --help`.")


def run(
    argv: Sequence[str], stdin: str | None = None, stderr: TextIO | None = None
) -> str:
    """Run ``relax-opt`` in this process.

    Args:
        argv: the arguments, without the name of the tool.
        stdin: the text to read for ``-``; None for the process's standard input.
        stderr: the stream for dumps and tables; None for the process's standard error.

    Returns:
        The standard output of the tool.

    Raises:
        RelaxError: the arguments, the text or the pipeline are invalid, or a pass failed.
        OSError: a file cannot be read or written.
    """
    arguments = _parser().parse_args(argv)
    if arguments.version:
        return tool_version("relax-opt") + "\n"
    if arguments.list_passes:
        return _pass_list()
    if arguments.target is not None and arguments.to is None:
        raise _UsageError("--target needs --to, the level to lower to")
    name, text = _read(arguments.input, stdin)
    parts = _split(text) if arguments.split_input_file else [text]
    outputs = [_process(p, name, arguments, stderr or sys.stderr) for p in parts]
    printed = "// -----\n".join(output.text for output in outputs)
    if arguments.output is None:
        return printed
    save_beside(arguments.output, _joined([o.constants for o in outputs]))
    with atomic_file(arguments.output) as file:
        file.write_text(printed)
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        sys.stdout.write(run(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
    add("-o", dest="output", metavar="FILE", help="output file")
    add("-p", "--pass-pipeline", dest="pipeline", default="", metavar="PIPELINE")
    add("--constants", metavar="FILE", help="constants (default: INPUT.safetensors)")
    add("--to", metavar="LEVEL", help="lower to this level, after the pipeline")
    add("--target", help="the target to lower for (default: cpu)")
    add(
        "--split-input-file",
        action="store_true",
        help="process parts separated by `// -----`",
    )
    add("--verify-each", nargs="?", const=True, default=True, type=_switch)
    add("--no-verify", dest="verify_each", action="store_false")
    add(
        "--expect-error",
        action="store_true",
        help="print the error; fail if there is none",
    )
    add(
        "--isolate",
        action="store_true",
        help="run in a child process, to survive crashes",
    )
    add("--crash-dir", default=".", metavar="DIR", help="folder of reproducers")
    add("--no-reproducer", action="store_true", help="write no file on failure")
    add("--journal", help=argparse.SUPPRESS)  # read by --isolate after a crash
    add("--constants-output", help=argparse.SUPPRESS)  # read by --isolate
    for when in ("before-all", "after-all", "after-change"):
        add(f"--mlir-print-ir-{when}", dest="dumps", action="append_const", const=when)
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    add("--mlir-timing", action="store_true", help="print the time of each pass")
    add("--list-passes", action="store_true", help="list our passes and their options")
    add("--debug", action="store_true", help="print the traceback of an error")
    add("--version", action="store_true")
    return parser


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise argparse.ArgumentTypeError(f"expected 0 or 1, got `{text}`")
    return text == "1"


def _read(path: str, stdin: str | None) -> tuple[str, str]:
    """The input's name for messages, and its text."""
    if path == "-":
        return "<stdin>", sys.stdin.read() if stdin is None else stdin
    try:
        check_path_name(path)
        return path, Path(path).read_text(encoding="utf-8")
    except OSError as error:  # read errors do not name the file
        raise type(error)(error.errno, error.strerror, path) from error
    except UnicodeDecodeError as error:
        raise _UsageError(f"{path}: {utf8_problem(error)}") from error


def _split(text: str) -> list[str]:
    """The parts, with leading empty lines that keep their line numbers."""
    parts = _SEPARATOR.split(text)
    starts = [0, *(match.end() for match in _SEPARATOR.finditer(text))]
    return [
        "\n" * text.count("\n", 0, start) + part
        for start, part in zip(starts, parts, strict=True)
    ]


@dataclass(frozen=True)
class _Output:
    """The output of a part of the input: its text and its constants."""

    text: str
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)


def _joined(pools: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The constants of all parts."""
    joined: dict[str, np.ndarray] = {}
    for pool in pools:
        for key, array in pool.items():
            if joined.setdefault(key, array).tobytes() != array.tobytes():
                raise _UsageError(
                    f"constant `{key}` differs between parts, which share one file of "
                    "constants. Write the parts to separate files."
                )
    return joined


def _process(
    text: str, name: str, arguments: argparse.Namespace, stderr: TextIO
) -> _Output:
    """The output for one part of the input."""
    transform = _transform_in_child if arguments.isolate else _transform
    try:
        printed = transform(text, arguments, stderr)
    except Exception as error:
        if isinstance(error, RelaxError):
            error.args = (_with_file_name(str(error), name),)
        if not arguments.expect_error:
            raise
        return _Output(_describe(error))
    if arguments.expect_error:
        raise _UsageError(f"{name}: expected an error, got none")
    return printed


def _with_file_name(message: str, name: str) -> str:
    """Replace the input's name in locations: MLIR and child processes call it "-"."""
    message = _STDIN_LOCATION.sub(r"<stdin>:\1:\2", message)
    return message.replace("<stdin>:", f"{name}:")


def _transform(text: str, arguments: argparse.Namespace, stderr: TextIO) -> _Output:
    """Run the pipeline on one part of the input."""
    module = IRModule.parse(text)
    _adopt_constants(module, arguments)
    timing = Timing()
    instruments = [*_instruments(arguments, stderr), timing]
    try:
        module = opt(
            module,
            arguments.pipeline,
            verify=arguments.verify_each,
            instruments=instruments,
        )
        if arguments.to is not None:
            target = arguments.target or "cpu"
            module = lower(
                module, target=target, to=arguments.to, instruments=instruments
            )
    finally:
        if arguments.mlir_timing:
            stderr.write(timing.report())
    locations: bool = arguments.mlir_print_debuginfo
    printed = str(module.mlir.operation.get_asm(enable_debug_info=locations))
    named = module.named_constants()
    if arguments.constants_output is not None and named:
        save_pool(arguments.constants_output, named)
    return _Output(printed.rstrip("\n") + "\n", named)


def _adopt_constants(module: IRModule, arguments: argparse.Namespace) -> None:
    """Load the module's constants if their file exists; most passes do not need them."""
    pool = _pool(arguments)
    if pool is not None and module.constant_types():
        module.adopt(load_pool(pool), str(pool))


def _pool(arguments: argparse.Namespace) -> Path | None:
    """The path of the constants, or None."""
    if arguments.constants is not None:
        return Path(arguments.constants)
    beside = pool_path(arguments.input)
    return beside if arguments.input != "-" and beside.exists() else None


def _instruments(arguments: argparse.Namespace, stderr: TextIO) -> list[Instrument]:
    instruments: list[Instrument] = [
        PrintIR(stderr.write, when, locations=arguments.mlir_print_debuginfo)
        for when in arguments.dumps or ()
    ]
    flags = [] if arguments.verify_each else ["--no-verify"]
    if not (arguments.expect_error or arguments.no_reproducer):
        instruments.append(Reproducer(arguments.crash_dir, flags=flags))
    if arguments.journal is not None:
        instruments.append(Journal(arguments.journal, flags=["--isolate", *flags]))
    return instruments


def _transform_in_child(
    text: str, arguments: argparse.Namespace, stderr: TextIO
) -> _Output:
    """Run the pipeline on one part of the input in a child process, which may crash."""
    flags = ["-p", arguments.pipeline, "--crash-dir", arguments.crash_dir]
    flags += [f"--verify-each={int(arguments.verify_each)}"]
    flags += [f"--mlir-print-ir-{when}" for when in arguments.dumps or ()]
    flags += ["--mlir-print-debuginfo"] * arguments.mlir_print_debuginfo
    flags += ["--mlir-timing"] * arguments.mlir_timing
    flags += ["--no-reproducer"] * (arguments.expect_error or arguments.no_reproducer)
    for option in ("to", "target"):
        if getattr(arguments, option) is not None:
            flags += [f"--{option}", getattr(arguments, option)]
    if (pool := _pool(arguments)) is not None:
        flags += ["--constants", str(pool)]
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "constants.safetensors"
        private = ["--constants-output", str(kept)]
        printed = run_in_child(text, flags, arguments.crash_dir, stderr, private)
        return _Output(printed, load_pool(kept) if kept.exists() else {})


def _describe(error: Exception) -> str:
    """The error as `error:` and `note:` lines."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, RelaxError):
        text = str(error)
    elif isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    notes = (f"note: {note}\n" for note in getattr(error, "__notes__", ()))
    return f"error: {text}\n{''.join(notes)}"


def _pass_list() -> str:
    """Our passes by level: name, first line of the docstring, options."""
    lines: list[str] = []
    for level in LEVELS:
        lines.append(f"{level}:")
        for name, kind in list_passes().items():
            if name.startswith(f"{level}-"):
                summary = (kind.__doc__ or "").strip().split("\n")[0]
                lines.append(f"  {name:<28} {summary}")
                lines += [f"      {option}" for option in describe_options(kind)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
