"""Pass context instruments: timing, IR dumps, and the bridge from pipeline instruments."""

import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from relax_mlir.errors import ArgumentValueError
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline.instruments import Instrument, Step, Timing
from relax_mlir.rewrite.pass_context import PassContext, PassInfo, PassInstrument
from relax_mlir.support.files import check_path_name

__all__ = [
    "DumpIR",
    "PassPrintingInstrument",
    "PassTimingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "context_instruments",
    "pass_instrument",
]


class _Bridge(Instrument):
    """Forwards the passes of a pipeline to the instruments of a pass context."""

    def __init__(self, context: PassContext) -> None:
        self._context = context

    def before_pass(self, step: Step, module: IRModule) -> None:
        for instrument in self._context.instruments:
            instrument.run_before_pass(module, PassInfo(0, step.name))

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        self._context.after_pass(module, PassInfo(0, step.name))


def context_instruments() -> list[Instrument]:
    """Pipeline instruments that forward to those of the current pass context."""
    context = PassContext.current()
    return [_Bridge(context)] if context.instruments else []


def pass_instrument(pi_cls: type | None = None) -> Any:  # Any: a class, or a decorator
    """Class decorator that adds the base class :class:`PassInstrument`.

    Raises:
        TypeError: the argument is not a class.
    """

    def decorate(cls: type) -> type[PassInstrument]:
        if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"pass_instrument: expected a class, got {cls!r}")
        body = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        return type(cls.__name__, (cls, PassInstrument), body)

    return decorate if pi_cls is None else decorate(pi_cls)


class PassTimingInstrument(PassInstrument):
    """Measures the time of every pass of the context, including nested passes."""

    def __init__(self) -> None:
        self._timing = Timing()
        self._starts_s: list[float] = []

    def enter_pass_ctx(self) -> None:
        self._timing = Timing()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._timing.before_pass(Step(1, 1, info.name, info.name), mod)
        self._starts_s.append(time.perf_counter())

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if not self._starts_s:
            raise ArgumentValueError(
                f"PassTimingInstrument.run_after_pass: expected `run_before_pass` of "
                f"`{info.name}` first"
            )
        time_s = time.perf_counter() - self._starts_s.pop()
        self._timing.after_pass(Step(1, 1, info.name, info.name), mod, time_s)

    def render(self) -> str:
        """A table of passes and times."""
        return self._timing.report()


class PassPrintingInstrument(PassInstrument):
    """Prints the module around the passes with given names."""

    def __init__(
        self,
        print_before_pass_names: Sequence[str],
        print_after_pass_names: Sequence[str],
        write: Callable[[str], object] = print,
    ) -> None:
        self._before = tuple(print_before_pass_names)
        self._after = tuple(print_after_pass_names)
        self._write = write

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self._before:
            self._write(f"Print IR before: {info.name}\n{mod}\n\n")

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        if info.name in self._after:
            self._write(f"Print IR after: {info.name}\n{mod}\n\n")


class PrintBeforeAll(PassInstrument):
    """Prints the module before every pass."""

    def __init__(self, write: Callable[[str], object] = print) -> None:
        self._write = write

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._write(f"Before Running Pass: {info}\n{mod}")


class PrintAfterAll(PassInstrument):
    """Prints the module after every pass."""

    def __init__(self, write: Callable[[str], object] = print) -> None:
        self._write = write

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._write(f"After Running Pass: {info}\n{mod}")


class DumpIR(PassInstrument):
    """Writes the module after every pass to a numbered file, as a script.

    Args:
        dump_dir: the folder, created on first use.
        refresh: whether to remove the files of an earlier run first, if the folder
            contains nothing else.
    """

    def __init__(self, dump_dir: str | Path, refresh: bool = False) -> None:
        self.dump_dir = Path(dump_dir)
        self.counter = 0
        if refresh and self.dump_dir.is_dir():
            entries = list(self.dump_dir.iterdir())
            if all(e.is_file() and _DUMP.fullmatch(e.name) for e in entries):
                shutil.rmtree(self.dump_dir)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        check_path_name(self.dump_dir)
        self.dump_dir.mkdir(parents=True, exist_ok=True)
        name = re.sub(r'[<>:"/\\|?*]', "_", info.name)
        path = self.dump_dir / f"{self.counter:03d}_{name}.py"
        path.write_text(mod.script(), encoding="utf-8")
        self.counter += 1


_DUMP = re.compile(r"\d{3}_.*\.py")
