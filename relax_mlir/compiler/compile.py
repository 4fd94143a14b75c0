"""``relax_mlir.compile``: entry point of the compiler, in front of the model cache."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relax_mlir.codegen.object_cache import default_cache_dir
from relax_mlir.compiler.model_cache import CachedModel
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.process_exit import awaited_at_exit
from relax_mlir.support.files import check_path_name
from relax_mlir.support.log import INFO, log
from relax_mlir.targets.target import Target, target_device

__all__ = ["cache_entry", "compile"]


@awaited_at_exit
def compile(
    mod: Any,  # Any: modules, functions, models
    target: Any = "cpu",
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Mapping[str, Any] | None = None,
    example_inputs: Sequence[Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    precision: str = "f32",
    library: str = "never",
    winograd: str = "auto",
    checks: str = "none",
    threads: int = 1,
    cache: bool | str | os.PathLike[str] = True,
    tuning: str | os.PathLike[str] | None = None,
    dump: str | os.PathLike[str] | None = None,
    verify: str | None = None,
    inputs: Sequence[Any] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> CompiledModel | Any:  # Any: depends on the module, see Returns
    """Compile a module.

    Args:
        mod: a module, one function of Relax or tensor program; an ONNX model as
            :func:`relax_mlir.import_onnx` takes it; a ``torch.export.ExportedProgram``, or
            a ``torch.nn.Module`` in evaluation mode.
        target: ``cpu`` is this machine, ``cpu:znver3`` another, ``cuda:sm_90`` an NVIDIA
            GPU, ``cuda`` that of this machine. TVM's ``llvm`` and a :class:`Target` are
            accepted, too.
        shapes, values: of an ONNX model: shapes of inputs that replace the declared ones,
            and inputs to fix, as for :func:`relax_mlir.import_onnx`.
        example_inputs: the tensors with which a ``torch.nn.Module`` is traced; the compiled
            model has their shapes. For symbolic sizes, pass an ``ExportedProgram``.
        relax_pipeline: a pass to run first, or the name of a pipeline that is registered,
            such as ``zero`` of :mod:`relax_mlir.tvm.relax`; ``default`` is none.
        tir_pipeline: a pass to run first on the PrimFuncs; ``default`` is none.
        precision: of the operands of matmuls and convolutions: ``f32``; ``bf16``, which
            rounds both operands to 8 significant bits if the machine has bf16
            dot-product instructions, else the weights alone; ``f16``, which rounds the
            weights to 11 bits. On GPUs both round both operands; ``tf32`` rounds operands
            to 11 bits on load, ``f8`` quantises the operands of matmuls with weights to 4
            bits, with scales per row and per column. Accumulation and all other
            operations are f32.
        library: on GPUs, whether NVIDIA's cuBLASLt computes matmuls, and cuDNN
            convolutions: ``never``, ``auto`` (if expected to be faster) or ``always``
            (if supported). Both are run-time dependencies of such models:
            ``pip install nvidia-cublas nvidia-cudnn-cu13``.
        winograd: on CPUs, ``auto`` computes 3x3 convolutions by Winograd F(4x4, 3x3) if
            that is faster, and the error bound of decision 15 holds for each result;
            ``never`` computes all convolutions directly, with a smaller rounding error.
        checks: ``indices`` raises :class:`relax_mlir.errors.IndexOutOfRangeError` at run
            time if an operator reads an index out of range, as other runtimes do;
            constant ones raise here. ``none`` clamps them, or drops their updates, as
            docs/operators.md documents for each operator; memory is safe in any case.
        threads: maximum number of threads per call.
        cache: keep compiled kernels on disk; True for the user's cache folder.
        tuning: the database of :func:`relax_mlir.tune`, which overrides the
            configurations of the kernels that it records.
        dump: a folder for the module after every stage, numbered. Partitioned models and
            modules of PrimFuncs have a subfolder for each subgraph and PrimFunc.
        verify: ``each-pass`` enables differential verification: runs the module after
            every pass and compares. PrimFuncs alone have no results to compare.
        inputs: of differential verification, for models that are compiled ahead of time
            as a whole; random by default.
        progress: callback after every pass of a stage, and after every kernel.

    Returns:
        For a model, a callable of arrays: compiled ahead of time as a whole
        (:class:`relax_mlir.runtime.executable.Executable`, for GPUs
        :class:`relax_mlir.runtime.cuda.executable.CudaExecutable`), or with subgraphs that
        are JIT-compiled at run time (:class:`relax_mlir.tvm.relax.vm.JITModel`). A module
        is a model if its only public function is ``main`` and all of it is compiled ahead
        of time. For PrimFuncs alone, a module of kernels in destination-passing style
        (:class:`relax_mlir.tvm.relax.vm.KernelModule`); else an executable for the virtual
        machine, which calls functions by name
        (:class:`relax_mlir.tvm.relax.vm.VMExecutable`).

    Raises:
        RelaxError: the module cannot be compiled.
    """
    options = CompileOptions(
        target=target,
        precision=precision,
        library=library,
        winograd=winograd,
        checks=checks,
        threads=threads,
        cache=cache,
        tuning=tuning,
        dump=dump,
        verify=verify,
        inputs=inputs,
        progress=progress,
        relax_pipeline=relax_pipeline,
        tir_pipeline=tir_pipeline,
    )
    arguments = {"shapes": shapes, "values": values, "example_inputs": example_inputs}
    entry = cache_entry(mod, options, arguments)
    start = time.perf_counter()
    cached = None if entry is None else entry.load(threads)
    if cached is not None:
        log(INFO, "compile", "loaded from the cache in %.0f ms", _ms_since(start))
        return cached
    # Imported late: a cache hit does not pay for loading the passes.
    from relax_mlir.compiler.dispatch import compile_module
    from relax_mlir.compiler.module_kind import module_of

    compiled = compile_module(module_of(mod, **arguments), options)
    log(INFO, "compile", "compiled for `%s` in %.0f ms", target, _ms_since(start))
    if entry is not None and isinstance(compiled, CompiledModel):
        current = cache_entry(mod, options, arguments)
        # The file may have changed since it was hashed.
        if current is not None and current.key == entry.key:
            entry.store(compiled)
    return compiled


def _ms_since(start: float) -> float:
    """Milliseconds since a time of ``time.perf_counter``."""
    return 1e3 * (time.perf_counter() - start)


def _gpu_capability(target: str | Target) -> int | None:
    """Compute capability of this machine's GPU; None for CPU targets."""
    from relax_mlir.runtime.cuda.devices import compute_capability

    return None if target_device(target) == "cpu" else compute_capability()


def cache_entry(
    mod: Any,
    options: CompileOptions,
    arguments: Mapping[str, Any],  # Any: of the importer
) -> CachedModel | None:
    """Cache entry of a model that is a file, or the bytes of one; else None.

    Args:
        mod: what is compiled.
        options: compile options, some of which exclude caching.
        arguments: of the importer, by name.
    """
    if not options.is_cacheable or not isinstance(mod, (str, os.PathLike, bytes)):
        return None
    target, tuning, cache = options.target, options.tuning, options.cache
    features = target.features if isinstance(target, Target) else ""
    key_options = {
        **options.to_fields(),
        "target": (str(target), target, features, _gpu_capability(target)),
        "threads": None,  # any number of threads runs the same code
        "arguments": {name: _hashable(given) for name, given in arguments.items()},
    }
    if tuning is not None:
        try:
            check_path_name(tuning)
            key_options["tuning"] = Path(tuning).read_bytes()
        except OSError:
            return None  # the compiler reads it again, and reports the error
    folder = (
        Path(cache) if isinstance(cache, (str, os.PathLike)) else default_cache_dir()
    )
    return CachedModel.of(mod, folder, key_options)


def _hashable(value: Any) -> Any:  # Any: arguments of the importer
    """A value whose text differs if the value does: arrays by their bytes."""
    if isinstance(value, Mapping):
        return {str(name): _hashable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hashable(item) for item in value]
    if isinstance(value, np.ndarray):
        is_text = value.dtype == object  # with names of symbolic sizes
        elements = value.tolist() if is_text else value.tobytes()
        return value.dtype.str, value.shape, elements
    return value
