"""Whole models: ours against every rival, and the means against what they are to be."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.latency import Found, latencies, measure
from benchmarks.networks import CONVOLUTIONS, NETWORKS, PRODUCTS, network
from benchmarks.report import Report
from benchmarks.rivals import BF16, DIRECT, OURS
from benchmarks.rivals.ours import has_precisions

__all__ = ["lines", "means", "models_report", "products_report", "winograd_report"]

# The mean speed-up over a rival that is to be reached, and that of every single model.
_TARGETS: dict[tuple[str, str], tuple[float, float | None]] = {
    ("onnxruntime", "f32"): (1.3, 1.0),
    ("openvino", "f32"): (1.2, None),
    ("inductor", "f32"): (1.2, None),
    ("openvino", "bf16"): (1.0, None),
}
_SHARE = 0.9  # of the peak, for products
_CONVOLUTIONAL = ("resnet50", "vgg19", "unet")  # networks of many 3x3 convolutions
_ONNXRUNTIME, _F64 = "against onnxruntime without optimisations", "against f64"

_COLUMNS = (
    *("model", "runtime", "ms", "share of peak"),
    *("ours is faster by", "p10-p90", "error"),
)
_NOTE = (
    "Medians of rounds in which all take turns. The share is of the multiply-adds that "
    "a loop of nothing else does in the same round ({peak:.0f} GFLOP/s at the median). "
    "The error is relative to the largest output, {reference}. {count} a call."
)


def models_report(
    names: Sequence[str], runtimes: Sequence[str], threads: int, rounds: int
) -> tuple[Report, Report]:
    """Measure networks; all lines, and the means over them.

    Args:
        names: of networks; all if empty.
        runtimes: rivals, without ours.
        threads: how many each may use.
        rounds: how often each is measured.
    """
    networks = [network(n) for n in names] if names else NETWORKS
    found: list[Found] = []
    for one in networks:
        found.append(_measured(one.name, "f32", runtimes, threads, rounds))
        if one.bf16 and has_precisions():
            found.append(_measured(one.name, "bf16", runtimes, threads, rounds))
    return lines("Whole models", found, threads), means(found)


def products_report(runtimes: Sequence[str], threads: int, rounds: int) -> Report:
    """Measure products of matrices; arguments as there."""
    found = [_measured(n, "f32", runtimes, threads, rounds) for n in PRODUCTS]
    report = lines("Products by a constant matrix", found, threads)
    note = f"{report.note} To be reached: {_SHARE:.0%} of the peak."
    return replace(report, note=note)


def winograd_report(runtimes: Sequence[str], threads: int, rounds: int) -> Report:
    """Measure networks and chains of 3x3 convolutions with and without Winograd.

    Errors are those against f64: onnxruntime's own is part of them, too.
    """
    asked = [r for r in runtimes if r == "onnxruntime"]
    names = (*_CONVOLUTIONAL, *CONVOLUTIONS)
    found = [_measured(n, "f32", asked, threads, rounds, in_f64=True) for n in names]
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
    """Measure a network; one of f32 with convolutions by Winograd without it, too."""
    direct = [DIRECT] if network(name).winograd else []
    asked = [OURS, *direct, *runtimes]
    asked = [r for r in asked if precision == "f32" or r in BF16]
    options = (precision, threads, rounds, in_f64)
    return measure(latencies, name, asked, *options, threads=threads)


def lines(
    title: str, found: Sequence[Found], threads: int, reference: str = _ONNXRUNTIME
) -> Report:
    """A line for every network and runtime.

    Args:
        reference: of the errors.
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
    """A line for every runtime, also for one that did not run."""
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
    """Geometric means of speed-ups over the networks that count."""
    rows, values = [], []
    for (rival, precision), (target, least) in _TARGETS.items():
        counted = [one for one in found if _counts(one, precision)]
        ratios = {one["model"]: r for one in counted if (r := _ratio(one, rival))}
        if not ratios:
            continue
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        worst = min(ratios, key=lambda name: ratios[name])
        aim = f"{target}" + (f", each {least}" if least else "")
        is_whole = len(ratios) == len(counted)
        reached = is_whole and mean >= target and ratios[worst] >= (least or 0)
        rows.append(
            (
                f"{rival} {precision}",
                f"{len(ratios)} of {len(counted)}",
                f"{mean:.2f}",
                aim,
                "yes" if reached else "no",
                f"{worst} {ratios[worst]:.2f}",
            )
        )
        values.append({"rival": rival, "precision": precision, "mean": mean} | ratios)
    note = (
        "Geometric means of how many times faster ours is, over the models that count "
        "and that both compute right."
    )
    columns = ("against", "models", "mean", "to be reached", "reached", "worst model")
    return Report("Means", note, columns, rows, values)


def _counts(found: Found, precision: str) -> bool:
    return found.get("precision", "f32") == precision and network(found["model"]).counts


def _ratio(found: Found, rival: str) -> float | None:
    """How many times faster ours is; None where one of both is absent or wrong."""
    pair = [found["runtimes"].get(r, {}) for r in (OURS, rival)]
    if not all(figures.get("is_right") for figures in pair):
        return None
    return pair[1]["speedup"][0]
