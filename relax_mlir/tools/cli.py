"""Entry point of ``relax-mlir``, which checks, imports, compiles, runs and measures models."""

import argparse
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol

from relax_mlir.errors import RelaxError
from relax_mlir.tools.arguments import UsageError, tool_version
from relax_mlir.tools.commands import (
    bench,
    check,
    compile_model,
    doctor,
    explain,
    export_model,
    import_model,
    inspect_model,
    keygen,
    profile,
    run_model,
    sign_model,
    tune,
)

__all__ = ["main"]


_PLACE = re.compile(r'loc\("-":(\d+):(\d+)\)')  # MLIR's location of text from a string


class _Command(Protocol):
    """Interface of the modules in :mod:`relax_mlir.tools.commands`; docstrings are the help."""

    __doc__: str | None

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""
        ...

    @staticmethod
    def run(arguments: argparse.Namespace) -> int:
        """Run the command and return the exit status."""
        ...


COMMANDS: Mapping[str, _Command] = {
    "check": check,
    "import": import_model,
    "compile": compile_model,
    "export": export_model,
    "run": run_model,
    "bench": bench,
    "profile": profile,
    "explain": explain,
    "tune": tune,
    "keygen": keygen,
    "sign": sign_model,
    "inspect": inspect_model,
    "doctor": doctor,
}


class _Parser(argparse.ArgumentParser):
    """Argument parser that raises an exception instead of printing the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise a :class:`UsageError`."""
        raise UsageError(f"{message}. See `{self.prog} --help`.")


class _PrintVersion(argparse.Action):
    """Prints the versions, which are looked up only then, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(tool_version("relax-mlir"))
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 1 for an error, 2 for wrong usage."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = _parser().parse_args(given)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except SystemExit as end:  # --help
        return int(end.code or 0)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if "--debug" in given:
            traceback.print_exception(type(error), error, error.__traceback__)
        sys.stderr.write(f"relax-mlir: error: {_describe(error)}\n")
        return 2 if isinstance(error, UsageError) else 1
    return status


def _parser() -> _Parser:
    parser = _Parser(
        prog="relax-mlir",
        description="Check, import, compile, run and measure models.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action=_PrintVersion,
        nargs=0,
        help="print the versions of this package, of MLIR and of Python",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        summary, _, text = (command.__doc__ or "").partition("\n")
        subparser = commands.add_parser(
            name,
            help=summary,
            description=f"{summary}\n{text}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_arguments(subparser)
        subparser.add_argument(
            "--debug", action="store_true", help="print the traceback of an error"
        )
        subparser.set_defaults(run=command.run)
    return parser


def _describe(error: Exception) -> str:
    """An error message for users."""
    if isinstance(error, RelaxError):
        return _PLACE.sub(r"line \1, column \2", str(error))
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}. Hint: `--debug` shows where."


if __name__ == "__main__":
    sys.exit(main())
