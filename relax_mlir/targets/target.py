"""Compilation targets, lowering levels, and the pass pipelines between them."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from relax_mlir.errors import PipelineError, RelaxError, near_misses, short_repr
from relax_mlir.schedules.target_features import (
    Gpu,
    LibraryPolicy,
    VectorUnit,
    WinogradPolicy,
)

__all__ = [
    "CHOICES",
    "LEVELS",
    "PROGRAM_PASSES",
    "LoweringOptions",
    "Stage",
    "Target",
    "TargetError",
    "graph_passes",
    "parse_target",
    "stages",
    "target_device",
]


Host = tuple[str, str, str]  # triple, CPU, features


class TargetError(RelaxError, ValueError):
    """The target, level or compile option is unknown or not supported."""


@dataclass(frozen=True)
class Stage:
    """One stage of a lowering pipeline.

    Attributes:
        level: the level that the module has after the stage.
        pipeline: valid input to ``relax-opt -p``.
        also: legal dialects and operations in addition to those of the level.
    """

    level: str
    pipeline: str
    also: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Target:
    """A machine to compile for.

    Attributes:
        kind: the module of :mod:`relax_mlir.targets` that implements it, such as ``cpu``.
        triple, cpu, features: as for LLVM.
        unit: vector features of a CPU.
        gpu: an NVIDIA GPU.
        guard: whether buffers of CPU kernels lie between guard pages, which detects
            accesses out of bounds; for tests. Set by the environment variable
            ``RELAX_MLIR_GUARD``.
    """

    kind: str
    triple: str
    cpu: str
    features: str = field(repr=False)
    unit: VectorUnit = VectorUnit(0)
    gpu: Gpu = field(default=Gpu(0), repr=False)  # part of the name
    guard: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind}:{self.cpu}"

    @property
    def device(self) -> str:
        """The type of device that runs its code, as :func:`target_device`."""
        return _KINDS.get(self.kind, self.kind)

    @staticmethod
    def from_fields(values: Mapping[str, Any]) -> "Target":  # Any: JSON
        """A target from its fields, as ``dataclasses.asdict`` lists them."""
        plain = {k: v for k, v in values.items() if k not in ("unit", "gpu")}
        unit, gpu = VectorUnit(**values["unit"]), Gpu(**values["gpu"])
        return Target(**plain, unit=unit, gpu=gpu)


_ANYWHERE = frozenset({"builtin", "func"})
_TIR = frozenset({"tir", "scf", "memref", "arith", "math", "vector", "gpu", "llvm"})

# Legal dialects at each level; single operations by full name.
LEVELS: dict[str, frozenset[str]] = {
    "relax": _ANYWHERE | {"relax", *_TIR},
    "tir": _ANYWHERE
    | _TIR
    | {
        "relax.call_tir",
        "relax.call_dps_packed",
        "relax.constant",
        "relax.tuple_get_item",
        "relax.reshape",
    },
    "planned": _ANYWHERE | _TIR | {"cf"},
    "linalg": _ANYWHERE
    | {"linalg", "vector", "memref", "arith", "math", "scf", "llvm", "tir.call_packed"},
    "loops": _ANYWHERE
    | {"scf", "vector", "memref", "arith", "math", "amx", "llvm", "tir.call_packed"},
    "llvm": frozenset({"builtin", "llvm"}),
    "ptx": _ANYWHERE | {"arith", "memref", "gpu"},
}


def parse_target(text: "str | Target", host: Callable[[], Host]) -> Target:
    """Parse a target: ``cpu`` for the host, ``cpu:znver3`` for a named CPU.

    TVM's ``llvm`` and ``llvm -mcpu=znver3`` are equivalent. ``cuda`` is the first GPU of
    this machine; ``cuda:sm_90`` or ``cuda -arch=sm_90`` names a compute capability.

    Args:
        host: returns triple, CPU and features of the host.

    Raises:
        TargetError: the target is unknown.
    """
    if isinstance(text, Target):
        return text
    kind, _, model = _from_tvm_syntax(str(text)).partition(":")
    if kind not in _KINDS:
        raise TargetError(
            f"unknown target `{text}`: expected {' or '.join(_KINDS)}.{near_misses(kind, _KINDS)}"
        )
    module = _module(kind)
    try:
        return module.target(model, host())
    except TargetError:
        raise
    except ValueError as error:  # says what is known
        raise TargetError(f"unknown target `{text}`: {error}") from error


def target_device(target: "str | Target") -> str:
    """The type of device that runs a target's code, ``cpu`` or ``cuda``.

    Hardware is not detected; an unknown kind is returned as it is.
    """
    if isinstance(target, Target):
        return target.device
    kind = _from_tvm_syntax(str(target)).partition(":")[0]
    return _KINDS.get(kind, kind)


def _from_tvm_syntax(text: str) -> str:
    """Translate a TVM target such as ``llvm -mcpu=znver3`` to ``cpu:znver3``."""
    kind, *options = text.split() or [""]
    if kind not in _TVM_KINDS:
        return text
    ours, option = _TVM_KINDS[kind]
    models = [o.removeprefix(option) for o in options if o.startswith(option)]
    return ":".join([ours, *models])


_TVM_KINDS = {
    "llvm": ("cpu", "-mcpu="),
    "c": ("cpu", "-mcpu="),
    "cuda": ("cuda", "-arch="),
    "nvptx": ("cuda", "-mcpu="),
}


# Passes of all targets on Relax graphs.
_GRAPH_PASSES = (
    "relax-specialize-prim-funcs,relax-bind-sizes,"
    "relax-expand-conv-transpose,relax-simplify,relax-fold-constants,relax-fold-batch-norm,"
    "relax-fold-constants,relax-split-pads,relax-simplify,relax-fuse-gelu"
)


def graph_passes(checks: str) -> str:
    """The graph-level passes of all targets; ``checks`` as in `LoweringOptions`."""
    option = "{check-indices=true}" if checks == "indices" else ""
    return f"relax-normalize{option},{_GRAPH_PASSES}"


PROGRAM_PASSES = "tir-collapse-loops,relax-fuse-ops,tir-fuse,tir-fuse-transposes"


@dataclass(frozen=True, kw_only=True)
class LoweringOptions:
    """Options that select the pipeline of a target.

    Attributes:
        precision: of matmul operands: ``f32``, ``bf16`` or ``f16``; on GPUs also ``tf32``
            and ``f8``.
        library: use of cuBLASLt and cuDNN on GPUs: ``never``, ``auto`` or ``always``.
        winograd: use of Winograd for 3x3 convolutions on CPUs: ``auto`` or ``never``.
        checks: run-time checks of a model: ``none`` or ``indices``.

    Raises:
        TargetError: an option has an unknown value.
    """

    precision: str = "f32"
    library: str = "never"
    winograd: str = "auto"
    checks: str = "none"

    def __post_init__(self) -> None:
        for option, known in CHOICES.items():
            value = getattr(self, option)
            if value not in known:
                raise TargetError(
                    f"unknown {option} `{value}`: expected one of {', '.join(known)}."
                    f"{near_misses(value, known)}"
                )


CHOICES: Mapping[str, Sequence[str]] = {
    "precision": ("f32", "tf32", "bf16", "f16", "f8"),
    "library": get_args(LibraryPolicy),
    "winograd": get_args(WinogradPolicy),
    "checks": ("none", "indices"),
}
"""The values of the options of :class:`LoweringOptions`."""
_DEFAULT = LoweringOptions()


def stages(target: Target, options: LoweringOptions = _DEFAULT) -> tuple[Stage, ...]:
    """The pipeline of a target, in reading order.

    Raises:
        TargetError: the target does not support an option.
    """
    return _module(target.kind).stages(target, options)


def _module(kind: str) -> Any:  # Any: a module with the functions below
    """The module of a kind of targets.

    Raises:
        PipelineError: the kind is unknown, or its module lacks a function.
    """
    if kind not in _KINDS:
        raise PipelineError(
            f"target: expected one of the kinds {', '.join(_KINDS)}, got {short_repr(kind)}"
        )
    module = importlib.import_module(f"relax_mlir.targets.{kind}")
    missing = [n for n in ("target", "stages") if not callable(getattr(module, n, 0))]
    if missing:
        raise PipelineError(
            f"{module.__name__}: expected the functions `target` and `stages`, got none "
            f"called `{missing[0]}`. Hint: docs/extending.md has an example of a target"
        )
    return module


# The type of device that runs the code of each kind of target.
_KINDS: Mapping[str, str] = {"cpu": "cpu", "cuda": "cuda"}
