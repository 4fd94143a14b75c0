"""``relax_mlir.compile``: what was compiled before is loaded, the rest is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from relax_mlir.errors import text_of
from relax_mlir.files import check_path_name
from relax_mlir.model_cache import CachedModel
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.object_cache import default_cache_dir
from relax_mlir.runtime.process_exit import counted

__all__ = ["compile"]


@counted
def compile(
    mod: Any,  # Any: modules, functions, models
    target: Any = "cpu",
    *,
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
) -> CompiledModel | Any:  # Any: who names a module's functions knows what they get
    """Compile a module.

    Args:
        mod: a module, one function of Relax or tensor program, or an ONNX model as
            :func:`relax_mlir.import_onnx` takes it.
        target: ``cpu`` is this machine, ``cpu:znver3`` another, ``cuda:sm_90`` an NVIDIA
            GPU, ``cuda`` that of this machine; TVM's ``llvm``, or a :class:`Target`, say
            the same.
        relax_pipeline, tir_pipeline: as for :func:`relax_mlir.relax.build`.
        precision: in which matrix products and convolutions are computed: ``f32``;
            ``bf16``, whose factors are rounded to 8 bits where the machine multiplies
            such numbers faster, else weights alone; ``f16``, weights rounded to 11 bits.
            On GPUs both round both factors; ``tf32`` rounds factors to 11 bits when they
            are read, ``f8`` those of products with weights to 4 bits, with steps by row
            and by column. Sums and all else are f32.
        library: on GPUs, whether NVIDIA's cuBLASLt computes matrix products, and cuDNN
            convolutions: ``never``, ``auto`` (where they are expected to be faster) or
            ``always`` (where they can). They are needed where the model runs:
            ``pip install nvidia-cublas nvidia-cudnn-cu13``.
        winograd: on CPUs, ``auto`` computes 3x3 convolutions by Winograd F(4x4, 3x3) where
            that is faster, and the bound of decision 15 on the error of each result holds;
            ``never`` computes all convolutions directly, which rounds less.
        checks: ``indices`` raises :class:`relax_mlir.errors.IndexOutOfRangeError` where an
            operator reads an index out of range, as other runtimes do; constant ones are
            refused here. By ``none`` they are clamped, or their updates dropped, as
            docs/operators.md says of each operator; memory is safe in any case.
        threads: how many may work on one call.
        cache: keep compiled kernels on disk; True for the user's cache folder.
        tuning: the database of :func:`relax_mlir.tune`; its kernels are written as it
            says.
        dump: a folder that gets the module after every stage, numbered; a model in
            pieces has a folder for each.
        verify: ``each-pass`` runs the module after every pass and compares.
        inputs: what to run it on then, if it is machine code as a whole; random by
            default.
        progress: is told of every stage, pass by pass, and of every kernel.

    Returns:
        Of a model, what can be called with arrays: machine code as a whole
        (:class:`relax_mlir.runtime.executable.Executable`, of GPUs
        :class:`relax_mlir.runtime.cuda.executable.CudaExecutable`), or compiled further
        when it runs (:class:`relax_mlir.relax.vm.StagedModel`). Any module whose only public
        function is ``main``, all of it machine code, is such a model. For tensor programs
        alone, what writes into the arrays it is called with
        (:class:`relax_mlir.relax.vm.KernelModule`); else an executable of which functions
        are called by name (:class:`relax_mlir.relax.vm.VMExecutable`).

    Raises:
        RelaxError: it cannot be compiled.
    """
    options: dict[str, Any] = {
        "target": target,
        "precision": precision,
        "library": library,
        "winograd": winograd,
        "checks": checks,
        "threads": threads,
        "cache": cache,
        "tuning": tuning,
    }
    shown = {"dump": dump, "verify": verify, "inputs": inputs}
    pipelines = {"relax_pipeline": relax_pipeline, "tir_pipeline": tir_pipeline}
    is_usual = all(v is None for v in shown.values())
    is_usual = is_usual and all(
        isinstance(p, str) and p == "default" for p in pipelines.values()
    )
    place = _place(mod, options) if is_usual else None
    found = None if place is None else place.load(threads)
    if found is not None:
        return found
    # Loaded here: who runs what was compiled before does not wait for it.
    from relax_mlir.any_compilation import compile_whatever

    made = compile_whatever(mod, options, pipelines, {**shown, "progress": progress})
    if place is not None and isinstance(made, CompiledModel):
        again = _place(mod, options)
        # The file may have changed between the two readings of it.
        if again is not None and again.key == place.key:
            place.store(made)
    return made


def _gpu(target: Any) -> int | None:  # Any: a target, or its name
    """What GPU of this machine decides about code for a target."""
    from relax_mlir.runtime.cuda.devices import compute_capability
    from relax_mlir.targets import kind_of

    if kind_of(target) == "cpu":
        return None
    return compute_capability()


def _place(mod: Any, options: Mapping[str, Any]) -> CachedModel | None:
    """Where a model is kept, if it is a file, or the bytes of one."""
    cache, tuning = options["cache"], options["tuning"]
    if cache is False or not isinstance(mod, (str, os.PathLike, bytes)):
        return None
    target = options["target"]
    decisive = {
        "target": (
            text_of(target, "compile: `target`", "a target"),
            target,
            getattr(target, "features", ""),
            _gpu(target),
        ),
        "precision": options["precision"],
        "library": options["library"],
        "winograd": options["winograd"],
        "checks": options["checks"],
    }
    if tuning is not None:
        try:
            check_path_name(tuning)
            decisive["tuning"] = Path(tuning).read_bytes()
        except OSError:
            return None  # whoever reads it next says what is wrong
    folder = default_cache_dir() if cache is True else Path(cache)
    return CachedModel.of(mod, folder, decisive)
