"""Applies the steps of a golden file to its PrimFunc and prints the result.

``python -m tests.tvm.tir.schedule.apply FILE [STEPS] [--style script|mlir|trace]``

A file contains the PrimFunc ``before`` and functions of a schedule such as ``steps``. The
result also has to verify, to replay from its trace, and to compute what ``before`` computes.
"""

import argparse
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.tir.schedule import Schedule
from relax_mlir.tvm.tir.schedule.testing import verify_trace_roundtrip
from tests.tvm.tir.schedule.evaluate import evaluate

__all__ = ["check_same_results", "check_schedule", "run", "script_lines"]


def run(arguments: Sequence[str]) -> str:
    """The output of the command: TVMScript, MLIR, the trace, or the error of a primitive."""
    parser = argparse.ArgumentParser(prog="tests.tvm.tir.schedule.apply")
    parser.add_argument("file", type=Path)
    parser.add_argument("steps", nargs="?", default="steps")
    parser.add_argument("--style", choices=("script", "mlir", "trace"))
    options = parser.parse_args(arguments)
    golden = _load(options.file)
    schedule = Schedule(golden.before, seed=0)
    try:
        getattr(golden, options.steps)(schedule)
    except ScheduleError as error:
        return f"error: {error}\n"
    check_schedule(schedule, golden.before)
    if options.style == "mlir":
        return str(schedule.mod)
    if options.style == "trace":
        return f"{schedule.trace}\n"
    return schedule.mod["main"].script()


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"golden_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_schedule(schedule, before):
    """Check that the scheduled module verifies, replays from its trace, and computes the same."""
    schedule.mod.verify()
    verify_trace_roundtrip(schedule, before)
    check_same_results(before, schedule.mod["main"])


def script_lines(schedule):
    """The lines of the PrimFunc, dedented."""
    return [line.strip() for line in schedule.mod["main"].script().splitlines()]


def check_same_results(before, after):
    """Check that two PrimFuncs compute the same from random inputs."""
    random = np.random.default_rng(0)
    shapes = [[int(s) for s in b.shape] for b in before.buffer_map.values()]
    arrays = [random.integers(-9, 9, shape) for shape in shapes]
    for left, right in zip(
        evaluate(before, *arrays), evaluate(after, *arrays), strict=True
    ):
        np.testing.assert_allclose(left, right)


if __name__ == "__main__":
    print(run(sys.argv[1:]), end="")
