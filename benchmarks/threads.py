"""Speedup of two threads over one."""

from collections.abc import Sequence

from benchmarks import child
from benchmarks.baselines import OURS
from benchmarks.latency import measure, scaling
from benchmarks.report import Report

__all__ = ["threads_report"]

_NAMES = ("resnet50", "bert_base")
_THREADS = 2
_TARGET = 1.85


def threads_report(runtimes: Sequence[str], rounds: int) -> Report:
    """Measure every runtime with one and with two threads, interleaved."""
    columns = (
        "model",
        "runtime",
        "1 thread ms",
        "2 threads ms",
        "speedup",
        "p10-p90",
    )
    note = (
        "The line `peak` is the speedup of the FMA loop, the limit of the machine. Our "
        f"goal: {_TARGET}."
    )
    title, count = "Two threads", len(child.usable_cpus())
    if count < _THREADS:
        row = ("", "", "", "", f"needs {_THREADS} processors, got {count}", "")
        return Report(title, note, columns, [row], [], 2)
    rows, values = [], []
    for name in _NAMES:
        found = measure(
            scaling, name, [OURS, *runtimes], _THREADS, rounds, threads=_THREADS
        )
        values.append(found)
        if "problem" in found:
            rows.append((name, "", "", "", found["problem"], ""))
            continue
        for runtime, figures in found["runtimes"].items():
            if "problem" in figures:
                rows.append((name, runtime, "", "", figures["problem"], ""))
                continue
            times = (f"{ms:.4g}" for ms in figures["ms"])
            rows.append((name, runtime, *times, *_shown(figures["speedup"])))
        rows.append((name, "peak", "", "", *_shown(found["peak_speedup"])))
    return Report(title, note, columns, rows, values, 2)


def _shown(spread: Sequence[float]) -> tuple[str, str]:
    median, p10, p90 = spread
    return f"{median:.2f}", f"{p10:.2f}-{p90:.2f}"
