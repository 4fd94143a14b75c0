"""Measurement of compiled cases against PyTorch: ``python benchmarks/gpu/measure.py FOLDER``.

Needs PyTorch, onnx, a GPU and the files written by ``python -m benchmarks.gpu FOLDER``, which
contain the runtime. Ours and PyTorch are measured interleaved on one device by its events;
ratios are per round, and their median is reported.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

_ROOT = Path(__file__).parents[2]
_SECONDS = 0.02  # duration of a measurement
_COPIED_BYTES = 1 << 30
_HOST_CALLS = 300
_STD = 0.02  # standard deviation of random weights
_TOLERANCE = 2e-2  # relative to the largest output

# Any: PyTorch and its tensors below; it may not be installed.
Function = Callable[[], Any]
Inputs = Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """The measurements of one case.

    Attributes:
        name: the case.
        ours_us, baseline_us: median times of a call.
        copies_gb_s: bandwidth of device copies.
        ratios: by round, the baseline's time divided by ours, or our bandwidth divided by
            that of copies.
        host_us: host time of a call.
        rate: our FLOP/s or bandwidth as text.
        goal: the minimum ratio.
    """

    name: str
    ours_us: float
    baseline_us: float
    copies_gb_s: float
    ratios: Sequence[float]
    host_us: float
    rate: str
    goal: float

    @property
    def row(self) -> tuple[str, ...]:
        """The line of the table."""
        low, middle, high = quantiles(self.ratios, n=4)
        return (
            self.name,
            f"{self.ours_us:.1f}",
            f"{self.baseline_us:.1f}",
            f"{middle:.2f} ({low:.2f} to {high:.2f})",
            f"{self.goal:.2f}",
            self.rate,
            f"{self.host_us:.1f}",
        )


_COLUMNS = (
    *("case", "us per call", "PyTorch us", "ratio (quartiles)", "goal"),
    *("rate", "host us"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all cases in a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--page", type=Path, help="a Markdown page to write")
    parser.add_argument("--json", type=Path, help="a file for all numbers")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        models = dict(_unpacked(chosen.folder, Path(folder)))
        sys.path[:0] = [str(path) for path in models.values()][:1]  # the runtime
        sys.path.append(str(_ROOT))  # after it, for benchmarks and models
        found: list[Measured] = []
        for case in import_module("benchmarks.gpu.cases").CASES:
            is_selected = not chosen.cases or case.name in chosen.cases
            if case.name in models and is_selected:
                found.append(_measure(case, models[case.name], chosen.rounds))
                print(*found[-1].row, sep="  ", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps([vars(one) for one in found], indent=1))
    if chosen.page:
        chosen.page.write_text(_page(found))


def _unpacked(folder: Path, to: Path) -> Iterator[tuple[str, Path]]:
    """Compiled models by case."""
    for path in sorted(folder.glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            (name,) = archive.namelist()
            yield path.stem, Path(archive.extract(name, to))


def _measure(case: Any, path: Path, rounds: int) -> Measured:  # Any: a Case
    torch = import_module("torch")
    executable = import_module("relax_mlir.runtime.cuda.executable")
    loading = import_module("relax_mlir.runtime.cuda.loading")
    contents = loading.load(path).contents
    model = executable.CudaExecutable(
        replace(contents, constants=_with_random_weights(contents))
    )
    given = model.signature.inputs
    inputs = {p.name: _random(torch, p, case.bounds) for p in given}
    outputs = [_empty(torch, p) for p in model.signature.outputs]
    stream = torch.cuda.current_stream()

    ours = model.captured(*inputs.values(), out=outputs, stream=stream)
    baseline = _BASELINES[case.baseline](torch, case, inputs)
    ours()
    expected = baseline()
    if case.baseline != "network":  # its weights are random
        _compare(case.name, outputs[0], expected)
    copies = _copier(torch)
    kinds = (ours, baseline, copies)
    counts = [_count(torch, kind) for kind in kinds]
    times = [
        [_seconds(torch, f, n) for f, n in zip(kinds, counts, strict=True)]
        for _ in range(rounds)
    ]
    our_times, baseline_times, copy_times = zip(*times, strict=True)
    ratios = [b / a for a, b, _ in times]
    ours_s, copies_s = median(our_times), median(copy_times)
    rate = f"{case.flops / ours_s / 1e12:.0f} TFLOP/s" if case.flops else ""
    if case.moved_bytes:
        ratios = [case.moved_bytes / a / (2 * _COPIED_BYTES / c) for a, _, c in times]
        rate = f"{case.moved_bytes / ours_s / 1e9:.0f} GB/s"
    return Measured(
        case.name,
        1e6 * ours_s,
        1e6 * median(baseline_times),
        2 * _COPIED_BYTES / copies_s / 1e9,
        ratios,
        1e6 * _host_seconds(torch, ours),
        rate,
        case.goal,
    )


def _with_random_weights(
    contents: Any,
) -> dict[str, np.ndarray]:  # Any: a runtime's Contents
    """The constants, with random numbers for those that are all zeros."""
    rng = np.random.default_rng(0)
    return {
        key: array
        if array.any()
        else (_STD * rng.standard_normal(array.shape, np.float32)).astype(array.dtype)
        for key, array in contents.constants.items()
    }


def _random(torch: Any, parameter: Any, bounds: Any) -> Any:
    """A random input on the GPU."""
    shape, kind = [int(n) for n in parameter.shape], getattr(torch, parameter.dtype)
    if not kind.is_floating_point:
        return torch.randint(0, bounds[parameter.name], shape, device="cuda").to(kind)
    return torch.randn(shape, dtype=torch.float32, device="cuda").to(kind)


def _empty(torch: Any, parameter: Any) -> Any:
    """An output on the GPU, filled with NaN."""
    shape, kind = [int(n) for n in parameter.shape], getattr(torch, parameter.dtype)
    return torch.full(shape, float("nan"), dtype=kind, device="cuda")


def _compare(name: str, ours: Any, theirs: Any) -> None:
    """Compare our output with the baseline's.

    Raises:
        ValueError: they differ.
    """
    largest = theirs.float().abs().max().item()
    error = (ours.float() - theirs.float()).abs().max().item()
    if not error <= _TOLERANCE * largest:
        raise ValueError(f"{name}: off by {error}, of numbers up to {largest}")


def _copier(torch: Any) -> Function:
    source, target = (
        torch.zeros(_COPIED_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)
    )
    return lambda: target.copy_(source)


def _count(torch: Any, call: Function) -> int:
    """The number of calls per measurement, after a warm-up."""
    for _ in range(3):
        call()
    return max(1, int(_SECONDS / max(_seconds(torch, call, 3), 1e-6)))


def _seconds(torch: Any, call: Function, count: int) -> float:
    """Device time per call."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(count):
        call()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1e3 / count


def _host_seconds(torch: Any, call: Function) -> float:
    """Host time of a call, which may return before the device finishes."""
    times = []
    for _ in range(_HOST_CALLS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    torch.cuda.synchronize()
    return median(times)


def _matmul(torch: Any, case: Any, inputs: Inputs) -> Function:
    out = torch.matmul(*inputs.values())
    return lambda: torch.matmul(*inputs.values(), out=out)


def _attention(
    torch: Any, case: Any, inputs: Inputs, *, is_causal: bool = False
) -> Function:
    attend = torch.nn.functional.scaled_dot_product_attention
    query, key, value = inputs.values()
    shared = {} if len(query[0]) == len(key[0]) else {"enable_gqa": True}
    return lambda: attend(query, key, value, is_causal=is_causal, **shared)


def _softmax(torch: Any, case: Any, inputs: Inputs) -> Function:
    (x,) = inputs.values()
    return lambda: torch.softmax(x, -1)


def _layer_norm(torch: Any, case: Any, inputs: Inputs) -> Function:
    x, scale, bias = inputs.values()
    norm = torch.nn.functional.layer_norm
    return lambda: norm(x, x.shape[-1:], scale, bias)


def _network(torch: Any, case: Any, inputs: Inputs) -> Function:
    """``torch.compile`` with CUDA graphs, on the same graph of operators."""
    to_torch = import_module("benchmarks.onnx_to_torch").to_torch
    plain = to_torch(case.build()).cuda()
    given = [inputs[name] for name in plain.input_names]
    settings = import_module("torch._inductor.config")
    failure = import_module("torch._dynamo.exc").BackendCompilerFailed
    module = torch.compile(plain, mode="reduce-overhead")

    def call() -> Any:
        with torch.inference_mode():
            return module(*given)

    try:
        call()
    except failure as error:  # an attention pattern that fails its own check
        (why,) = str(error).splitlines()[1:2] or [""]
        print(f"{case.name}: torch.compile without its pattern matcher: {why}")
        torch.compiler.reset()
        module = torch.compile(plain, mode="reduce-overhead")
        with settings.patch(pattern_matcher=False):
            call()
    return call


_BASELINES: dict[str, Callable[[Any, Any, Inputs], Function]] = {
    "matmul": _matmul,
    "attention": _attention,
    "causal_attention": partial(_attention, is_causal=True),
    "softmax": _softmax,
    "layernorm": _layer_norm,
    "network": _network,
}


def _page(found: Sequence[Measured]) -> str:
    torch = import_module("torch")
    rule = ("---", *["---:"] * (len(_COLUMNS) - 1))
    lines = (_COLUMNS, rule, *(one.row for one in found))
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    copies = median(one.copies_gb_s for one in found)
    return f"""# Benchmarks on a GPU

{torch.cuda.get_device_name()}, {datetime.date.today()}, PyTorch {torch.__version__}, CUDA
{torch.version.cuda}. Copies within the device, read and written: {copies:.0f} GB/s. Written by `benchmarks/gpu/measure.py`.

The ratio is PyTorch's time divided by ours, interleaved; for `gemv`, `softmax` and `layernorm` it is our bandwidth divided by that of
copies. Networks are in f16, against `torch.compile(mode="reduce-overhead")`. Ours are CUDA graphs (`model.captured`); `host us` is the
host time of a call.

{table}
"""


if __name__ == "__main__":
    main()
