"""Smoke run of a compiled model on this machine's GPU, the entry point of its file.

Runs random inputs into poisoned outputs, compares with expected outputs if the file has
them, and prints median times by device events.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from relax_mlir.errors import RelaxError
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.archive import Check
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import Device, device, timed_events
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.library_baselines import LibraryBaselines
from relax_mlir.runtime.cuda.loading import load
from relax_mlir.runtime.elements import as_floats, element_type, random_elements
from relax_mlir.runtime.profile import KernelCall, Profile
from relax_mlir.runtime.signature import Signature
from relax_mlir.runtime.sizes import SizeBinder
from relax_mlir.symbolic import symbols

__all__ = ["main", "poisoned", "random_inputs", "with_expected_outputs"]

_POISON = 0xFF  # of every byte: NaN, or -1
_SEED = 0
_COPIED_BYTES = 1 << 28


def main(arguments: Sequence[str]) -> int:
    """Run a model; exit status 1 for wrong outputs, 2 if it cannot run."""
    program, *rest = arguments
    parser = argparse.ArgumentParser(prog=f"python {program}", description=__doc__)
    if not zipfile.is_zipfile(program):
        parser.add_argument("model", help="a compiled model (.rxm)")
    parser.add_argument(
        "--public-key", metavar="KEY.pem", help="require a signature by this key"
    )
    parser.add_argument("--size", action="append", default=[], metavar="NAME=NUMBER")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the random inputs")
    parser.add_argument("--calls", type=int, default=20, help="measured calls")
    parser.add_argument("--device", type=int, default=0, help="ordinal of the GPU")
    options = parser.parse_args(rest)
    try:
        sizes = {
            name: int(number)
            for name, _, number in (text.partition("=") for text in options.size)
        }
        file = getattr(options, "model", program)
        model = load(file, public_key=options.public_key).on(options.device)
        return _run(model, sizes, options.seed, max(1, options.calls))
    except (RelaxError, TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(model: CudaExecutable, sizes: Mapping[str, int], seed: int, calls: int) -> int:
    print(f"{model.signature}, {model.target}")
    gpu = device(model.ordinal)
    major, minor = gpu.driver.version
    print(
        f"GPU {gpu.ordinal}: {gpu.name}, sm_{gpu.compute_capability}, "
        f"{gpu.memory_bytes / 1e9:.0f} GB, driver of CUDA {major}.{minor}"
    )
    check = model.contents.check
    if check is not None and not sizes:
        sizes, seed = check.sizes, check.seed
    else:
        check = None
        sizes = {**dict.fromkeys(model.signature.symbols, 1), **sizes}
    shown = ", ".join(f"{name} = {number}" for name, number in sizes.items())
    print(f"random inputs, seed {seed}{', ' if shown else ''}{shown}")
    inputs = random_inputs(model.signature, sizes, seed)
    outputs = model(*inputs)
    on_device = [DeviceArray.of(array, gpu) for array in inputs]
    targets = [poisoned(gpu, array) for array in outputs]
    call = partial(model, *on_device, out=targets)
    call(graph=False)
    is_correct = _compare(model.signature, targets, outputs, check)
    modes: dict[str, Callable[[], object]] = {
        "a call, individual launches": partial(call, graph=False),
        "a call, CUDA graph": call,
    }
    if not model.contents.plan.calls_host:
        modes["a captured call"] = model.captured(*on_device, out=targets)
    for name, mode in modes.items():
        print(f"{name}: {1e3 * median(_times_ms(gpu, mode, calls)):.1f} us")
    copies_gb_s = _copy_rate_gb_s(gpu, calls)
    print(f"copies within the GPU, read and write: {copies_gb_s:.0f} GB/s")
    profile = model.profile(*inputs, calls=calls)
    _print_kernels(profile, copies_gb_s, _baseline_times(gpu, profile.kernels, calls))
    _print_torch(model.contents.kernels, calls)
    return 0 if is_correct else 1


def random_inputs(
    signature: Signature, sizes: Mapping[str, int], seed: int
) -> list[np.ndarray]:
    """Random inputs of a model, reproducible across machines.

    Args:
        sizes: values of the symbolic sizes.

    Raises:
        ValueError: a size is missing, or an element type needs ml_dtypes.
    """
    rng = np.random.default_rng(seed)
    inputs: list[np.ndarray] = []
    for parameter in signature.inputs:
        shape = [symbols.evaluate(symbols.parse(d), sizes) for d in parameter.dims]
        inputs.append(random_elements(rng, shape, parameter.dtype))
    return inputs


def with_expected_outputs(
    model: CudaExecutable,
    reference: CompiledModel,
    like: Sequence[np.ndarray],
    tolerance: float,
) -> CudaExecutable:
    """A model with expected outputs for random inputs in its file.

    Args:
        reference: the same model, for this machine.
        like: arrays of the inputs' shapes.
        tolerance: largest difference, relative to the scale of an output.

    Raises:
        RelaxError: the reference fails.
        ValueError: an input's element type has no random generator.
    """
    sizes = SizeBinder(model.signature).bind([array.shape for array in like])
    outputs = reference(*random_inputs(model.signature, sizes, _SEED))
    check = Check(_SEED, sizes, tolerance, tuple(map(np.asarray, outputs)))
    return CudaExecutable(replace(model.contents, check=check), model.ordinal)


def poisoned(gpu: Device, like: np.ndarray) -> DeviceArray:
    """An array with poisoned bytes, which reveal missing writes."""
    poison = np.full(like.nbytes, _POISON, np.uint8).view(like.dtype)
    return DeviceArray.of(poison.reshape(like.shape), gpu)


def _compare(
    signature: Signature,
    targets: Sequence[DeviceArray],
    outputs: Sequence[np.ndarray],
    check: Check | None,
) -> bool:
    """Whether outputs agree between two calls, and with the expected ones."""
    is_correct = True
    for number, parameter in enumerate(signature.outputs):
        kind = element_type(parameter.dtype)
        written = as_floats(targets[number].numpy().view(kind), parameter.dtype)
        expected = outputs[number] if check is None else check.outputs[number]
        limit = 0.0 if check is None else check.tolerance
        error = _error(written, as_floats(expected, parameter.dtype))
        is_fine = error <= limit
        is_correct &= is_fine
        what = "a second call" if check is None else "the CPU's"
        print(
            f"{'ok   ' if is_fine else 'WRONG'} {parameter.name}: differs from {what} by "
            f"{error:.2g} of its scale"
        )
    return is_correct


def _error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest difference relative to the scale; infinite if only one value is NaN."""
    if actual.size == 0:
        return 0.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(actual - expected)
    difference[actual == expected] = 0  # infinities
    difference[np.isnan(actual) & np.isnan(expected)] = 0
    finite = np.abs(expected[np.isfinite(expected)])
    worst = float(np.max(difference)) / max(1e-30, float(np.max(finite, initial=0)))
    return worst if worst == worst else float("inf")


def _copy_rate_gb_s(gpu: Device, calls: int) -> float:
    """Bandwidth of large device copies, a roofline for memory-bound kernels."""
    size = min(_COPIED_BYTES, gpu.memory_bytes // 16)
    source, target = (DeviceArray.of(np.zeros(size, np.uint8), gpu) for _ in range(2))
    what = "memory cannot be copied"

    def copy() -> None:
        ends = target.address, source.address
        with gpu.current():
            gpu.driver.call("cuMemcpyDtoDAsync_v2", *ends, size, 0, what=what)

    return 2 * size / median(_times_ms(gpu, copy, calls)) / 1e6


def _times_ms(gpu: Device, call: Callable[[], object], calls: int) -> list[float]:
    """Device times of calls, after two warm-up calls."""
    what = "events cannot be used"
    driver = gpu.driver
    times: list[float] = []
    with timed_events(gpu, 2, what) as events:
        for number in range(calls + 2):
            with gpu.current():
                driver.call("cuEventRecord", events[0], 0, what=what)
            call()
            with gpu.current():
                driver.call("cuEventRecord", events[1], 0, what=what)
                driver.call("cuEventSynchronize", events[1], what=what)
                time_ms = driver.handle("cuEventElapsedTime", *events, what=what)
            if number >= 2:
                times.append(time_ms)
    return times


def _baseline_times(
    gpu: Device, kernels: Sequence[KernelCall], calls: int
) -> dict[str, tuple[str, float]]:
    """Library and time in milliseconds of each kernel's baseline, by kernel name."""
    times: dict[str, tuple[str, float]] = {}
    with closing(LibraryBaselines(gpu)) as baselines:
        for kernel in {kernel.name: kernel for kernel in kernels}.values():
            baseline = baselines.of(kernel)
            if baseline is not None:
                time_ms = median(_times_ms(gpu, baseline.start, calls))
                times[kernel.name] = baseline.name, time_ms
    for problem in baselines.missing:
        print(f"not compared: {problem}")
    return times


def _print_kernels(
    profile: Profile, copies_gb_s: float, baselines: Mapping[str, tuple[str, float]]
) -> None:
    for time in profile.by_kernel():
        speed = ""
        if time.rate_gflop_s is not None:
            speed += f", {time.rate_gflop_s / 1e3:.2f} TFLOP/s"
        if time.rate_gb_s is not None:
            share = time.rate_gb_s / copies_gb_s
            speed += f", {time.rate_gb_s:.0f} GB/s ({share:.0%} of copies)"
        if time.name in baselines:
            name, baseline_ms = baselines[time.name]
            speed += f", {time.runs * baseline_ms / time.time_ms:.2f} of {name}"
        print(
            f"{1e3 * time.time_ms:10.1f} us {time.share:6.1%} {time.runs:4}x "
            f"{time.name} ({time.rule}){speed}"
        )


def _print_torch(kernels: Sequence[KernelCall], calls: int) -> None:
    """Print times of PyTorch's matmuls (cuBLAS) of the same sizes, if installed."""
    matmuls = dict.fromkeys(k.product for k in kernels if k.product is not None)
    if not matmuls:
        return
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        print("no PyTorch to compare matmuls with")
        return
    if not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} has no GPU to compare matmuls with")
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    for batch, m, n, k, element in matmuls:
        dtype = getattr(torch, _TORCH_TYPES.get(element, ""), None)
        if dtype is None:
            continue
        a, b = (
            torch.randn(batch, *shape, device="cuda").to(dtype)
            for shape in ((m, k), (k, n))
        )
        time_ms = median(_torch_times_ms(torch, lambda a=a, b=b: a @ b, calls))
        rate = 2 * batch * m * n * k / time_ms / 1e9
        print(
            f"{1e3 * time_ms:10.1f} us torch {batch} x [{m}, {k}] @ [{k}, {n}] of "
            f"{element}, {rate:.2f} TFLOP/s"
        )


_TORCH_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}


def _torch_times_ms(
    torch: Any,  # Any: the module
    call: Callable[[], object],
    calls: int,
) -> list[float]:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times: list[float] = []
    for number in range(calls + 2):
        begin.record()
        call()
        end.record()
        end.synchronize()
        if number >= 2:
            times.append(begin.elapsed_time(end))
    return times
