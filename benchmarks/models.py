"""Whole models against onnxruntime: one table.

``python -m benchmarks.models [NAME ...] [--threads N] [--json]``. Each model runs in a
process of its own. Latencies are medians of interleaved rounds in that process, so that
both runtimes see the same machine; the spread is the 10th to the 90th percentile of the
ratio of rounds. onnxruntime runs with its default optimisations and as many threads.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from relax_mlir.tools.timing import compare, onnxruntime_call


def main() -> None:
    """Measure the models named on the command line, or all, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.threads)))
        return
    rows = [_in_child(name, options.threads) for name in options.names or _all_names()]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        Console(width=140).print(_table(rows))


def _all_names() -> list[str]:
    from models import zoo

    return [e.name for e in zoo.ENTRIES]


def _in_child(name: str, threads: int) -> dict[str, object]:
    """One model in a new process, so that memory is its own."""
    command = [sys.executable, "-m", "benchmarks.models", "--child", name]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run(
        [*command, "--threads", str(threads)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"model": name, "error": lines[-1] if lines else "failed"}
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, threads: int) -> dict[str, object]:
    """Compile, check and time one model of the zoo."""
    import relax_mlir
    from models import zoo

    entry = zoo.entry(name)
    if not isinstance(entry, zoo.Entry):
        raise SystemExit(f"`{name}` is not made on the spot: expected one that is")
    data = entry.build().SerializeToString()
    inputs = entry.inputs()
    before_mb = _peak_mb()
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        model = relax_mlir.compile(data, cache=cache, threads=threads)
        cold_s = time.perf_counter() - start
        compile_mb = _peak_mb() - before_mb
        start = time.perf_counter()
        relax_mlir.compile(data, cache=cache, threads=threads)
        warm_s = time.perf_counter() - start
    theirs = onnxruntime_call(data, threads)
    if theirs is None:
        raise SystemExit("onnxruntime is not installed")
    arrays = [inputs[n] for n in model.input_names]
    compared = compare(lambda: model(*arrays), lambda: theirs(inputs))
    return {
        "model": name,
        "size_mb": len(data) / 1e6,
        "cold_s": cold_s,
        "warm_s": warm_s,
        "compile_mb": compile_mb,
        "ours_ms": compared.ours_ms.median,
        "onnxruntime_ms": compared.theirs_ms.median,
        "ratio": compared.ratio.median,
        "ratio_p10": compared.ratio.p10,
        "ratio_p90": compared.ratio.p90,
        "error": compared.error,
        "tolerance": entry.tolerance,
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _table(rows: list[dict[str, object]]) -> Table:
    table = Table(
        "model", "cold s", "warm s", "MB", "ours ms", "onnxruntime ms", "ratio", "error"
    )
    for row in rows:
        if "ratio" not in row:
            table.add_row(str(row["model"]), *[""] * 6, f"[red]{row['error']}[/]")
            continue
        spread = f"{row['ratio']:.2f} ({row['ratio_p10']:.2f}-{row['ratio_p90']:.2f})"
        table.add_row(
            str(row["model"]),
            f"{row['cold_s']:.2f}",
            f"{row['warm_s']:.2f}",
            f"{row['compile_mb']:.0f}",
            f"{row['ours_ms']:.3f}",
            f"{row['onnxruntime_ms']:.3f}",
            spread,
            f"{row['error']:.1e}",
        )
    return table


if __name__ == "__main__":
    main()
