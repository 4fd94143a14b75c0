"""Whole models against onnxruntime: one table.

``python -m benchmarks.models [NAME ...] [--threads N] [--json]``. Each model is compiled
twice, cold and with the cache of the first time, each in a process of its own, whose peak
memory is that of the cold one, Python included. Latencies are medians of interleaved
rounds in another process, so that both runtimes see the same machine; the spread is the
10th to the 90th percentile of the ratio of rounds. onnxruntime runs with its default
optimisations and as many threads.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

Row = dict[str, float | str]


def main() -> None:
    """Measure the models named on the command line, or all, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--step", choices=_STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        step = _STEPS[options.step]
        print(json.dumps(step(options.names[0], options.folder, options.threads)))
        return
    rows = [_measure(name, options.threads) for name in options.names or _all_names()]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        Console(width=140).print(_table(rows))


def _all_names() -> list[str]:
    from models import zoo

    return [e.name for e in zoo.ENTRIES]


def _measure(name: str, threads: int) -> Row:
    """Everything about one model; with ``error`` where a step failed."""
    with tempfile.TemporaryDirectory() as folder:
        row: Row = {"model": name}
        for step, prefix in (
            ("write", ""),
            ("compile", "cold_"),
            ("compile", "warm_"),
            ("time", ""),
        ):
            found = _in_child(step, name, folder, threads)
            row |= {prefix + key: value for key, value in found.items()}
            if prefix + "error" in row and "ratio" not in row:
                break
    return row


def _in_child(step: str, name: str, folder: str, threads: int) -> Row:
    """One step in a new process, so that memory and caches are its own."""
    command = [sys.executable, "-m", "benchmarks.models", name, "--step", step]
    done = subprocess.run(
        [*command, "--folder", folder, "--threads", str(threads)],
        capture_output=True,
        text=True,
        env=dict(os.environ, OMP_NUM_THREADS=str(threads)),
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"error": lines[-1] if lines else "failed"}
    return json.loads(done.stdout.splitlines()[-1])


def _write(name: str, folder: Path, threads: int) -> Row:
    """Put the model and its inputs into files."""
    from models import zoo

    entry = zoo.entry(name)
    if not isinstance(entry, zoo.Entry):
        raise SystemExit(f"`{name}` is not made on the spot: expected one that is")
    path = folder / "model.onnx"
    path.write_bytes(entry.build().SerializeToString())
    arrays: dict[str, Any] = dict(
        entry.inputs()
    )  # Any: savez has options beside arrays
    np.savez(folder / "inputs.npz", **arrays)
    return {"size_mb": path.stat().st_size / 1e6, "tolerance": entry.tolerance}


def _compile(name: str, folder: Path, threads: int) -> Row:
    """Compile it, and say how long that took and what memory the process had at most."""
    import relax_mlir

    start = time.perf_counter()
    relax_mlir.compile(folder / "model.onnx", cache=folder / "cache", threads=threads)
    taken_s = time.perf_counter() - start
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"s": taken_s, "peak_mb": peak_kb * 1024 / 1e6}


def _time(name: str, folder: Path, threads: int) -> Row:
    """Compare answers and latencies."""
    import relax_mlir
    from relax_mlir.tools.timing import compare, onnxruntime_call

    path = folder / "model.onnx"
    model = relax_mlir.compile(path, cache=folder / "cache", threads=threads)
    theirs = onnxruntime_call(path, threads)
    if theirs is None:
        raise SystemExit("onnxruntime is not installed")
    inputs = dict(np.load(folder / "inputs.npz"))
    arrays = [inputs[n] for n in model.input_names]
    compared = compare(lambda: model(*arrays), lambda: theirs(inputs))
    return {
        "ours_ms": compared.ours_ms.median,
        "onnxruntime_ms": compared.theirs_ms.median,
        "ratio": compared.ratio.median,
        "ratio_p10": compared.ratio.p10,
        "ratio_p90": compared.ratio.p90,
        "error": compared.error,
    }


_STEPS: dict[str, Callable[[str, Path, int], Row]] = {
    "write": _write,
    "compile": _compile,
    "time": _time,
}


def _table(rows: list[Row]) -> Table:
    table = Table(
        "model",
        "MB",
        "cold s",
        "warm s",
        "peak MB",
        "ours ms",
        "onnxruntime ms",
        "ratio",
        "error",
    )
    for row in rows:
        if "ratio" not in row:
            problem = next(v for k, v in row.items() if k.endswith("error"))
            table.add_row(str(row["model"]), *[""] * 7, f"[red]{problem}[/]")
            continue
        spread = f"{row['ratio']:.2f} ({row['ratio_p10']:.2f}-{row['ratio_p90']:.2f})"
        table.add_row(
            str(row["model"]),
            f"{row['size_mb']:.0f}",
            f"{row['cold_s']:.2f}",
            f"{row['warm_s']:.2f}",
            f"{row['cold_peak_mb']:.0f}",
            f"{row['ours_ms']:.3f}",
            f"{row['onnxruntime_ms']:.3f}",
            spread,
            f"{row['error']:.1e}",
        )
    return table


if __name__ == "__main__":
    main()
