"""What a file of a compiled model does as a program: a trial on this machine's GPU.

Inputs are random. Outputs hold NaNs or other numbers that show before the model writes
them. Times are medians, by events of the device.
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

from relax_mlir.dialects import symbols
from relax_mlir.errors import RelaxError
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.archive import Check
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import Device, device, timed_events
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.loading import load
from relax_mlir.runtime.cuda.rivals import Rivals
from relax_mlir.runtime.elements import as_floats, element_type, random_elements
from relax_mlir.runtime.profile import KernelCall, Profile
from relax_mlir.runtime.signature import Signature
from relax_mlir.runtime.sizes import SizeBinder

__all__ = ["main", "poisoned", "random_inputs", "with_check"]

_POISON = 0xFF  # every byte: NaN, or -1
_SEED = 0
_COPIED_BYTES = 1 << 28


def main(arguments: Sequence[str]) -> int:
    """Try a model; 1 if what it computes is wrong, 2 if it cannot run."""
    program, *rest = arguments
    parser = argparse.ArgumentParser(prog=f"python {program}", description=__doc__)
    if not zipfile.is_zipfile(program):
        parser.add_argument("model", help="a compiled model (.rxm)")
    parser.add_argument(
        "--public-key", metavar="KEY.pem", help="refuse a model that it has not signed"
    )
    parser.add_argument("--size", action="append", default=[], metavar="NAME=NUMBER")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the inputs")
    parser.add_argument("--calls", type=int, default=20, help="that are measured")
    parser.add_argument("--device", type=int, default=0, help="the number of the GPU")
    chosen = parser.parse_args(rest)
    try:
        sizes = {
            name: int(number)
            for name, _, number in (text.partition("=") for text in chosen.size)
        }
        file = getattr(chosen, "model", program)
        model = load(file, public_key=chosen.public_key).on(chosen.device)
        return _try(model, sizes, chosen.seed, max(1, chosen.calls))
    except (RelaxError, TypeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _try(model: CudaExecutable, sizes: Mapping[str, int], seed: int, calls: int) -> int:
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
    is_right = _compare(model.signature, targets, outputs, check)
    ways: dict[str, Callable[[], object]] = {
        "a call, kernels one by one": partial(call, graph=False),
        "a call, kernels as a graph": call,
    }
    if not model.contents.plan.calls_host:
        ways["a captured call"] = model.captured(*on_device, out=targets)
    for name, way in ways.items():
        print(f"{name}: {1e3 * median(_times_ms(gpu, way, calls)):.1f} us")
    copies_gb_s = _copy_rate_gb_s(gpu, calls)
    print(f"copies within the GPU, read and write: {copies_gb_s:.0f} GB/s")
    profile = model.profile(*inputs, calls=calls)
    _print_kernels(profile, copies_gb_s, _rivals_of(gpu, profile.kernels, calls))
    _print_torch(model.contents.kernels, calls)
    return 0 if is_right else 1


def random_inputs(
    signature: Signature, sizes: Mapping[str, int], seed: int
) -> list[np.ndarray]:
    """Inputs of a model, the same on all machines.

    Args:
        sizes: the open sizes.

    Raises:
        ValueError: a size is not there, or an element type needs ml_dtypes.
    """
    rng = np.random.default_rng(seed)
    made: list[np.ndarray] = []
    for parameter in signature.inputs:
        shape = [symbols.evaluate(symbols.parse(d), sizes) for d in parameter.shape]
        made.append(random_elements(rng, shape, parameter.dtype))
    return made


def with_check(
    model: CudaExecutable,
    reference: CompiledModel,
    like: Sequence[np.ndarray],
    tolerance: float,
) -> CudaExecutable:
    """A model whose file tells what it is to compute from random inputs.

    Args:
        reference: the same model, which runs here.
        like: arrays of the inputs' shapes.
        tolerance: largest difference, relative to the scale of an output.

    Raises:
        RelaxError: the reference does not run.
        ValueError: an input's type has no random elements.
    """
    sizes = SizeBinder(model.signature).bind([array.shape for array in like])
    outputs = reference(*random_inputs(model.signature, sizes, _SEED))
    check = Check(_SEED, sizes, tolerance, tuple(map(np.asarray, outputs)))
    return CudaExecutable(replace(model.contents, check=check), model.ordinal)


def poisoned(gpu: Device, like: np.ndarray) -> DeviceArray:
    """An array like another one whose every byte shows that nothing was written there."""
    poison = np.full(like.nbytes, _POISON, np.uint8).view(like.dtype)
    return DeviceArray.of(poison.reshape(like.shape), gpu)


def _compare(
    signature: Signature,
    targets: Sequence[DeviceArray],
    outputs: Sequence[np.ndarray],
    check: Check | None,
) -> bool:
    """Whether two ways to call agree, and with what was computed elsewhere."""
    is_right = True
    for number, parameter in enumerate(signature.outputs):
        kind = element_type(parameter.dtype)
        written = as_floats(targets[number].numpy().view(kind), parameter.dtype)
        expected = outputs[number] if check is None else check.outputs[number]
        limit = 0.0 if check is None else check.tolerance
        error = _error(written, as_floats(expected, parameter.dtype))
        is_fine = error <= limit
        is_right &= is_fine
        what = "a second call" if check is None else "the CPU's"
        print(
            f"{'ok   ' if is_fine else 'WRONG'} {parameter.name}: differs from {what} by "
            f"{error:.2g} of its scale"
        )
    return is_right


def _error(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the scale; infinite where only one is NaN."""
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
    """What copies of large memory reach, as a yardstick for kernels that only move."""
    size = min(_COPIED_BYTES, gpu.memory_bytes // 16)
    source, target = (DeviceArray.of(np.zeros(size, np.uint8), gpu) for _ in range(2))
    what = "memory cannot be copied"

    def copy() -> None:
        ends = target.address, source.address
        with gpu.current():
            gpu.driver.call("cuMemcpyDtoDAsync_v2", *ends, size, 0, what=what)

    return 2 * size / median(_times_ms(gpu, copy, calls)) / 1e6


def _times_ms(gpu: Device, call: Callable[[], object], calls: int) -> list[float]:
    """How long calls take on the device, after two that are not measured."""
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


def _rivals_of(
    gpu: Device, kernels: Sequence[KernelCall], calls: int
) -> dict[str, tuple[str, float]]:
    """What NVIDIA's libraries take for what kernels do, by name; in milliseconds."""
    found: dict[str, tuple[str, float]] = {}
    with closing(Rivals(gpu)) as rivals:
        for kernel in {kernel.name: kernel for kernel in kernels}.values():
            rival = rivals.of(kernel)
            if rival is not None:
                time_ms = median(_times_ms(gpu, rival.start, calls))
                found[kernel.name] = rival.name, time_ms
    for problem in rivals.missing:
        print(f"not compared: {problem}")
    return found


def _print_kernels(
    profile: Profile, copies_gb_s: float, rivals: Mapping[str, tuple[str, float]]
) -> None:
    for time in profile.by_kernel():
        speed = ""
        if time.rate_gflop_s is not None:
            speed += f", {time.rate_gflop_s / 1e3:.2f} TFLOP/s"
        if time.rate_gb_s is not None:
            share = time.rate_gb_s / copies_gb_s
            speed += f", {time.rate_gb_s:.0f} GB/s ({share:.0%} of copies)"
        if time.name in rivals:
            name, rival_ms = rivals[time.name]
            speed += f", {time.runs * rival_ms / time.time_ms:.2f} of {name}"
        print(
            f"{1e3 * time.time_ms:10.1f} us {time.share:6.1%} {time.runs:4}x "
            f"{time.name} ({time.rule}){speed}"
        )


def _print_torch(kernels: Sequence[KernelCall], calls: int) -> None:
    """How long PyTorch's products of the same sizes take, which are cuBLAS's; if it is there."""
    products = dict.fromkeys(k.product for k in kernels if k.product is not None)
    if not products:
        return
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        print("no PyTorch to compare products with")
        return
    if not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} has no GPU to compare products with")
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    for product in products:
        outer, rows, columns, terms, element = product
        kind = getattr(torch, _TORCH_TYPES.get(element, ""), None)
        if kind is None:
            continue
        a, b = (
            torch.randn(outer, *shape, device="cuda").to(kind)
            for shape in ((rows, terms), (terms, columns))
        )
        time_ms = median(_torch_times_ms(torch, lambda a=a, b=b: a @ b, calls))
        rate = 2 * outer * rows * columns * terms / time_ms / 1e9
        print(
            f"{1e3 * time_ms:10.1f} us torch {outer} x [{rows}, {terms}] @ "
            f"[{terms}, {columns}] of {element}, {rate:.2f} TFLOP/s"
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
