"""Fuzzer: thousands of damaged models, each imported, compiled and run in a child process.

``python -m tests.frontends.onnx.fuzz`` runs 2,000 and prints how many ended how. An outcome is
good if there is a result or a clear exception, within ``SECONDS`` of computing and
``MEMORY_BYTES``, in a process that lives on. A loop that goes on because its model says so is
interrupted. ``--replay SEED`` shows one mutant, in this process.
"""

import argparse
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import EncodeError

import relax_mlir
from relax_mlir.errors import RelaxError
from tests.frontends.onnx import fuzz_models, mutations
from tests.helpers.seed_pool import try_seeds

__all__ = ["GOOD", "Outcome", "attempt", "mutant", "run"]

SECONDS = 10.0
MEMORY_BYTES = 2 << 30
_LOOP = "loop, interrupted"  # it goes on for as long as its model says
GOOD = ("ran", "refused at import", "refused at compile", "refused at run", _LOOP)
# What Python and C++ say of their own mistakes; a message with one tells nothing.
_INTERNAL = re.compile(
    r"\b(Assertion|Attribute|Index|Key|Lookup|Memory|Name|Overflow|Recursion|Runtime"
    r"|System|Type|UnboundLocal|ZeroDivision)Error: |std::|bad_alloc|Traceback|zip\(\)"
    r"|has no attribute '|NoneType|out of range for|index out of range|subscriptable"
)
_WALL = 6 * SECONDS  # of a machine that does other things, too
_MOST_MUTANTS = 250  # of one process
# What arrays a call may refuse with, beside our own errors.
_CALL_ERRORS = (RelaxError, ValueError, TypeError, NotImplementedError, OSError)


class _TooLongError(BaseException):
    """A mutant exceeded its time limit and was interrupted."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a mutant.

    Attributes:
        seed: what it was made of.
        base: the name of the model.
        kind: one of ``GOOD``, or what is wrong.
        message: what was raised, if anything.
        seconds: of computing.
        peak_bytes: of memory, beyond what there was before.
    """

    seed: int
    base: str
    kind: str
    message: str = ""
    seconds: float = 0.0
    peak_bytes: int = 0

    @property
    def is_good(self) -> bool:
        """Whether the outcome is acceptable for users."""
        return self.kind in GOOD

    def __str__(self) -> str:
        message = (
            self.message if len(self.message) < 400 else self.message[:400] + "..."
        )
        took = f"{self.seconds:.1f} s, {self.peak_bytes >> 20} MiB"
        return f"seed {self.seed} ({self.base}, {took}): {self.kind}: {message}"


def mutant(
    seed: int, folder: Path
) -> tuple[Path | bytes | onnx.ModelProto, Mapping[str, Any], fuzz_models.Base]:
    """A damaged model with damaged inputs, and their originals.

    Args:
        seed: says how they are damaged.
        folder: where a model with a file of weights may be written.
    """
    rng = np.random.default_rng(seed)
    found = fuzz_models.bases()
    base = found[seed % len(found)]
    source: Path | bytes | onnx.ModelProto = base.model
    kind = rng.random()
    if kind < 0.15:
        source = mutations.mutated_bytes(rng, base.model.SerializeToString())
    elif kind < 0.6:
        source = mutations.mutated_model(rng, base.model)
    feeds = base.feeds
    if kind > 0.45:
        feeds = mutations.mutated_feeds(rng, base.feeds)
    if base.name == "external":
        (folder / "weights.bin").write_bytes(rng.bytes(int(rng.integers(6, 9))))
        is_message = isinstance(source, onnx.ModelProto)
        data = source.SerializeToString() if is_message else source
        source = folder / "model.onnx"
        source.write_bytes(data)
    return source, feeds, base


def attempt(seed: int, folder: Path) -> Outcome:
    """Import, compile and run a mutant."""
    try:
        source, feeds, base = mutant(seed, folder)
    except EncodeError:  # its text is no UTF-8
        return Outcome(seed, "", "refused at import", "no message")
    before, begin = _memory("VmRSS"), time.process_time()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    kind, message = _ended(source, feeds)
    took, peak = time.process_time() - begin, _memory("VmHWM") - before
    if kind in GOOD and _INTERNAL.search(message.partition(": ")[2]):
        kind = "unclear"
    elif kind in GOOD and peak > MEMORY_BYTES:
        kind = "memory"
    return Outcome(seed, base.name, kind, message, took, peak)


def _ended(
    source: Path | bytes | onnx.ModelProto, feeds: Mapping[str, Any]
) -> tuple[str, str]:
    where, allowed = "import", (RelaxError,)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        module = relax_mlir.import_onnx(source)
        where = "compile"
        exe = relax_mlir.compile(module)
        where, allowed = "run", _CALL_ERRORS
        exe(*_inputs(module, feeds))
    except allowed as error:
        return f"refused at {where}", f"{type(error).__name__}: {error}"[:9999]
    except _TooLongError as error:
        is_loop = any(
            frame.name == "run" and frame.filename.endswith("repetition.py")
            for frame in traceback.extract_tb(error.__traceback__)
        )
        return (_LOOP, "") if is_loop else ("slow", _last_calls(error))
    except Exception as error:
        return f"{type(error).__name__} at {where}", _last_calls(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "ran", ""


def _last_calls(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-3:])[:9999]


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _TooLongError


def _inputs(module: relax_mlir.IRModule, feeds: Mapping[str, Any]) -> list[Any]:
    """Inputs by the remaining names, or else by position."""
    names = module.func_op("main").attributes["relax.input_names"]
    rest = list(feeds.values())
    found = []
    for place, name in enumerate(attribute.value for attribute in names):
        if name in feeds:
            found.append(feeds[name])
        elif place < len(rest):
            found.append(rest[place])
    return [*found, *(v for n, v in feeds.items() if n == mutations.EXTRA)]


def _memory(field: str) -> int:
    """A size of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise ValueError(f"/proc/self/status has no {field}")


def _begin() -> None:
    """Prepare a worker: no warnings, an alarm, and a bound on its memory."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _interrupt)
    relax_mlir.compile(fuzz_models.bases()[0].model)
    limit = _memory("VmSize") + MEMORY_BYTES + (1 << 30)  # and room for code
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _attempt_alone(seed: int) -> Outcome:
    """:func:`attempt`, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return attempt(seed, Path(folder))


def run(seeds: Iterable[int], workers: int = 1) -> list[Outcome]:
    """Run mutants in child processes; yields their outcomes in any order."""
    names = [base.name for base in fuzz_models.bases()]
    found = try_seeds(
        _attempt_alone,
        seeds,
        workers=workers,
        seconds=_WALL,
        most_seeds=_MOST_MUTANTS,
        begin=_begin,
    )
    return [
        outcome
        if isinstance(outcome, Outcome)
        else Outcome(
            seed,
            names[seed % len(names)],
            outcome.kind,
            f"exit {outcome.exit_code}: {outcome.log}",
        )
        for seed, outcome in found
    ]


def _replay(seed: int) -> None:
    """Print a mutant, and propagate its exception."""
    with tempfile.TemporaryDirectory() as folder:
        source, feeds, base = mutant(seed, Path(folder))
        print(base.name)
        if isinstance(source, onnx.ModelProto):
            print(onnx.printer.to_text(source))
        print(feeds, flush=True)
        module = relax_mlir.import_onnx(source)
        print(relax_mlir.compile(module)(*_inputs(module, feeds)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 1 if an outcome is bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=2000, help="how many seeds")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", type=int, help="show this seed alone")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        _replay(options.replay)
        return 0
    seeds = range(options.first, options.first + options.count)
    outcomes = run(seeds, options.workers)
    for kind, number in Counter(o.kind for o in outcomes).most_common():
        print(f"{number:6} {kind}")
    slowest = max(outcomes, key=lambda o: o.seconds)
    largest = max(outcomes, key=lambda o: o.peak_bytes)
    print(f"slowest: {slowest}\nlargest: {largest}")
    bad = sorted((o for o in outcomes if not o.is_good), key=lambda o: (o.kind, o.seed))
    for outcome in bad:
        print(outcome)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
