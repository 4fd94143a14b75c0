"""Reports of whole models and matmuls against the baselines, and mean speedups vs goals."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.baselines import BF16, DIRECT, OURS
from benchmarks.baselines.ours import has_precisions
from benchmarks.latency import Found, latencies, measure
from benchmarks.networks import CONVOLUTIONS, MATMULS, NETWORKS, network
from benchmarks.report import Report

__all__ = ["lines", "matmuls_report", "means", "models_report", "winograd_report"]

# Goals by baseline: the mean speedup, and the minimum speedup of every model.
_TARGETS: dict[tuple[str, str], tuple[float, float | None]] = {
    ("onnxruntime", "f32"): (1.3, 1.0),
    ("openvino", "f32"): (1.2, None),
    ("inductor", "f32"): (1.2, None),
    ("openvino", "bf16"): (1.0, None),
}
_SHARE = 0.9  # goal for matmuls: share of peak
_CONVOLUTIONAL = ("resnet50", "vgg19", "unet")  # networks of many 3x3 convolutions
_ONNXRUNTIME, _F64 = "against onnxruntime without optimizations", "against f64"

_COLUMNS = (
    *("model", "runtime", "ms", "share of peak"),
    *("our speedup", "p10-p90", "error"),
)
_NOTE = (
    "Medians of interleaved rounds. The share of peak is relative to a loop of "
    "independent multiply-adds in the same round ({peak:.0f} GFLOP/s at the median). "
    "The error is relative to the largest output, {reference}. {count} a call."
)


def models_report(
    names: Sequence[str], runtimes: Sequence[str], threads: int, rounds: int
) -> tuple[Report, Report]:
    """Measure networks; returns all results, and mean speedups.

    Args:
        names: the networks; all if empty.
        runtimes: the baselines, without ours.
        threads: threads per runtime.
        rounds: measurements per runtime.
    """
    networks = [network(n) for n in names] if names else NETWORKS
    found: list[Found] = []
    for one in networks:
        found.append(_measured(one.name, "f32", runtimes, threads, rounds))
        if one.bf16 and has_precisions():
            found.append(_measured(one.name, "bf16", runtimes, threads, rounds))
    return lines("Whole models", found, threads), means(found)


def matmuls_report(runtimes: Sequence[str], threads: int, rounds: int) -> Report:
    """Measure matmuls; arguments as for :func:`models_report`."""
    found = [_measured(n, "f32", runtimes, threads, rounds) for n in MATMULS]
    report = lines("Matmuls with a constant matrix", found, threads)
    note = f"{report.note} Goal: {_SHARE:.0%} of peak."
    return replace(report, note=note)


def winograd_report(runtimes: Sequence[str], threads: int, rounds: int) -> Report:
    """Measure networks and chains of 3x3 convolutions with and without Winograd.

    Errors are relative to f64; those of onnxruntime are listed, too.
    """
    selected = [r for r in runtimes if r == "onnxruntime"]
    names = (*_CONVOLUTIONAL, *CONVOLUTIONS)
    found = [_measured(n, "f32", selected, threads, rounds, in_f64=True) for n in names]
    return lines("Winograd and direct convolutions", found, threads, _F64)


def _measured(
    name: str,
    precision: str,
    runtimes: Sequence[str],
    threads: int,
    rounds: int,
    *,
    in_f64: bool = False,
) -> Found:
    """Measure a network; one with Winograd convolutions also without Winograd, in f32."""
    direct = [DIRECT] if network(name).winograd else []
    selected = [OURS, *direct, *runtimes]
    selected = [r for r in selected if precision == "f32" or r in BF16]
    options = (precision, threads, rounds, in_f64)
    return measure(latencies, name, selected, *options, threads=threads)


def lines(
    title: str, found: Sequence[Found], threads: int, reference: str = _ONNXRUNTIME
) -> Report:
    """A report with a line per network and runtime.

    Args:
        title: the title.
        found: the measurements.
        threads: threads per runtime, for the note.
        reference: the reference of errors, for the note.
    """
    rows = [row for one in found for row in _rows(one)]
    peaks = sorted(one["peak_gflop_s"] for one in found if "peak_gflop_s" in one)
    peak = peaks[len(peaks) // 2] if peaks else math.nan
    count = "One thread" if threads == 1 else f"{threads} threads"
    return Report(
        title,
        _NOTE.format(peak=peak, count=count, reference=reference),
        _COLUMNS,
        rows,
        list(found),
        2,
    )


def _rows(found: Found) -> Iterator[tuple[str, ...]]:
    """A line per runtime, also for those that failed."""
    name = found["model"] + (" bf16" if found.get("precision") == "bf16" else "")
    if "problem" in found:
        yield (name, "", *[""] * 4, found["problem"])
    for runtime, figures in found["runtimes"].items():
        if "problem" in figures:
            yield (name, runtime, *[""] * 4, figures["problem"])
            continue
        faster, spread = "", ""
        if "speedup" in figures:
            median, p10, p90 = figures["speedup"]
            faster, spread = f"{median:.2f}", f"{p10:.2f}-{p90:.2f}"
        wrong = "" if figures["is_right"] else " wrong"
        share = f"{figures['share_of_peak']:.1%}"
        error = f"{figures['error']:.0e}{wrong}"
        yield name, runtime, f"{figures['ms']:.4g}", share, faster, spread, error


def means(found: Sequence[Found]) -> Report:
    """Geometric mean speedups over the networks that count."""
    rows, values = [], []
    for (baseline, precision), (target, least) in _TARGETS.items():
        counted = [one for one in found if _counts(one, precision)]
        ratios = {one["model"]: r for one in counted if (r := _ratio(one, baseline))}
        if not ratios:
            continue
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        worst = min(ratios, key=lambda name: ratios[name])
        goal = f"{target}" + (f", each {least}" if least else "")
        is_whole = len(ratios) == len(counted)
        reached = is_whole and mean >= target and ratios[worst] >= (least or 0)
        rows.append(
            (
                f"{baseline} {precision}",
                f"{len(ratios)} of {len(counted)}",
                f"{mean:.2f}",
                goal,
                "yes" if reached else "no",
                f"{worst} {ratios[worst]:.2f}",
            )
        )
        values.append(
            {"baseline": baseline, "precision": precision, "mean": mean} | ratios
        )
    note = (
        "Geometric means of our speedup, over the models that count and that both "
        "compute correctly."
    )
    columns = ("baseline", "models", "mean", "goal", "reached", "worst model")
    return Report("Means", note, columns, rows, values)


def _counts(found: Found, precision: str) -> bool:
    return found.get("precision", "f32") == precision and network(found["model"]).counts


def _ratio(found: Found, baseline: str) -> float | None:
    """Our speedup over a baseline; None if one of them is missing or wrong."""
    pair = [found["runtimes"].get(r, {}) for r in (OURS, baseline)]
    if not all(figures.get("is_right") for figures in pair):
        return None
    return pair[1]["speedup"][0]
