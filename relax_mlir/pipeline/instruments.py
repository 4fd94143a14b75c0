# pyright: strict, reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Pipeline instruments: IR dumps, timing, reproducers."""

import hashlib
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from relax_mlir.ir.constant_pool import pool_path, save_pool
from relax_mlir.ir.module import IRModule

__all__ = [
    "Instrument",
    "Journal",
    "PassCounter",
    "PrintIR",
    "Progress",
    "Reproducer",
    "Step",
    "Timing",
]

Progress = Callable[[str, int, int], object]
"""Progress callback: (task, completed, total)."""


@dataclass(frozen=True)
class Step:
    """One pass of a running pipeline.

    Attributes:
        number: its index among the passes, from 1.
        total: the number of passes in the pipeline.
        name: the name of the pass.
        text: the pass with its options and nesting, as pipeline text.
    """

    number: int
    total: int
    name: str
    text: str

    def __str__(self) -> str:
        """The pass as error messages name it."""
        return f"pass {self.number} of {self.total}, `{self.text}`"


class Instrument:
    """Callbacks around every pass; subclasses override some of them.

    ``after_pass`` may raise to report that the pass misbehaved. Instruments are called in
    the given order before a pass, and in reverse order after it.
    """

    def before_pass(self, step: Step, module: IRModule) -> None:
        """Called before ``step`` runs on ``module``."""

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Called after ``step`` ran in ``time_s`` and ``module`` was verified."""

    def on_failure(self, step: Step, module: IRModule, error: Exception) -> str | None:
        """Called if ``step`` failed; ``module`` may be invalid. The result joins the error."""


class PrintIR(Instrument):
    """Prints the module around passes, in the format of ``mlir-opt``."""

    def __init__(
        self,
        write: Callable[[str], object],
        when: Literal["before-all", "after-all", "after-change"] = "after-change",
        *,
        locations: bool = False,
    ) -> None:
        """Print to ``write``.

        Args:
            write: receives every dump, for instance ``sys.stderr.write``.
            when: before or after passes; ``after-change`` skips passes without effect.
            locations: whether to print locations of operations.
        """
        self._write = write
        self._when = when
        self._locations = locations
        self._last = ""

    def before_pass(self, step: Step, module: IRModule) -> None:
        """Print the module, or keep its text for comparison."""
        if self._when == "before-all":
            self._dump(f"IR Dump Before {step.text}", self._text(module))
        elif self._when == "after-change" and not self._last:
            self._last = self._text(module)

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Print the module, if it changed."""
        if self._when == "before-all":
            return
        text = self._text(module)
        if self._when == "after-all" or text != self._last:
            self._dump(f"IR Dump After {step.text}", text)
        self._last = text

    def on_failure(self, step: Step, module: IRModule, error: Exception) -> str | None:
        """Print the module, which may be invalid."""
        if self._when != "before-all":
            self._dump(f"IR Dump After {step.text} Failed", self._text(module))
        return None

    def _dump(self, title: str, text: str) -> None:
        self._write(f"// -----// {title} //----- //\n{text}\n")

    def _text(self, module: IRModule) -> str:
        return str(module.mlir.operation.get_asm(enable_debug_info=self._locations))


class Timing(Instrument):
    """Measures the time of every pass, without verification and other instruments."""

    def __init__(self) -> None:
        """Start with an empty table."""
        self._passes: list[tuple[str, float]] = []
        self._start_s = 0.0
        self._end_s = 0.0

    def before_pass(self, step: Step, module: IRModule) -> None:
        """Start the clock at the first pass."""
        self._start_s = self._start_s or time.perf_counter()

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Record the time."""
        self._passes.append((step.text, time_s))
        self._end_s = time.perf_counter()

    def report(self) -> str:
        """A table with a line for each pass in order, for the rest, and for the total."""
        total_s = max(self._end_s - self._start_s, 1e-9)
        rest_s = max(total_s - sum(time_s for _, time_s in self._passes), 0.0)
        rows = [*self._passes, ("(verification, dumps)", rest_s), ("total", total_s)]
        lines = [
            f"{1e3 * time_s:>10.3f}  {time_s / total_s:>6.1%}  {name}"
            for name, time_s in rows
        ]
        return "\n".join(["   time_ms   share  pass", *lines]) + "\n"


class PassCounter(Instrument):
    """Reports the number of completed passes of a compilation stage."""

    def __init__(self, stage: str, progress: Progress) -> None:
        """Report to ``progress``, as the task ``stage``."""
        self._stage = stage
        self._progress = progress

    def before_pass(self, step: Step, module: IRModule) -> None:
        """Report the passes before this one as completed."""
        self._progress(self._stage, step.number - 1, step.total)

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Report this pass as completed."""
        self._progress(self._stage, step.number, step.total)


class Reproducer(Instrument):
    """Writes the module before a failing pass to a file, with the command to run it.

    The module's constants go to a second file next to it.
    """

    def __init__(
        self, directory: str | Path = ".", *, flags: Sequence[str] = ()
    ) -> None:
        """Write to ``directory``.

        Args:
            directory: the folder of the file, created on first use.
            flags: further arguments of ``relax-opt`` that reproduce the failure.
        """
        self._directory = Path(directory)
        self._flags = tuple(flags)
        self._before: IRModule | None = None

    def before_pass(self, step: Step, module: IRModule) -> None:
        """Keep a copy of the module."""
        self._before = module.clone()

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Drop the copy."""
        self._before = None

    def on_failure(self, step: Step, module: IRModule, error: Exception) -> str | None:
        """Write the reproducer."""
        if self._before is None:
            return None
        try:
            path = self._write(step, self._before, str(error))
        except OSError as problem:
            return f"a reproducer cannot be written: {problem}"
        return f"reproduce with: {self._command(shlex.quote(str(path)), step)}"

    def _write(self, step: Step, module: IRModule, problem: str) -> Path:
        body = str(module.mlir.operation.get_asm(enable_debug_info=True))
        summary = (problem.splitlines() or [""])[0]
        digest = hashlib.sha256(f"{step.text}{body}".encode()).hexdigest()[:8]
        path = self._directory / f"reproducer-{step.name}-{digest}.mlir"
        self._directory.mkdir(parents=True, exist_ok=True)
        self._write_constants(module, path)
        path.write_text(
            f"// RUN: {self._command('%s', step)}\n// error: {summary}\n{body}"
        )
        return path

    def _write_constants(self, module: IRModule, path: Path) -> None:
        module.save_constants(path)

    def _command(self, file: str, step: Step) -> str:
        return " ".join(["relax-opt", file, *self._flags, "-p", shlex.quote(step.text)])


class Journal(Reproducer):
    """Keeps a reproducer on disk while a pass runs, in case the process dies."""

    def __init__(self, directory: str | Path, *, flags: Sequence[str] = ()) -> None:
        """Write to ``directory``; see :class:`Reproducer`."""
        super().__init__(directory, flags=flags)
        self._path = self._directory / "none.mlir"
        self._pool = self._directory.absolute() / "constants.safetensors"
        self._keys: set[str] = set()

    def before_pass(self, step: Step, module: IRModule) -> None:
        """Write the reproducer."""
        self._path = self._write(step, module, "the process died")

    def after_pass(self, step: Step, module: IRModule, time_s: float) -> None:
        """Remove the reproducer."""
        self._remove()

    def on_failure(self, step: Step, module: IRModule, error: Exception) -> str | None:
        """Remove the reproducer."""
        self._remove()
        return None

    def _write_constants(self, module: IRModule, path: Path) -> None:
        """Link to the constants; they are rewritten only if a pass added some."""
        named = module.named_constants()
        if not named.keys() <= self._keys:
            save_pool(self._pool, named)
            self._keys = set(named)
        if named:
            pool_path(path).symlink_to(self._pool)

    def _remove(self) -> None:
        for path in (self._path, pool_path(self._path)):
            path.unlink(missing_ok=True)
