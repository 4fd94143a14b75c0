"""What a target is, and the levels on the way to it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PipelineError, RelaxError, near_misses, shown
from relax_mlir.schedules.gpu.rule import LIBRARY_POLICIES
from relax_mlir.schedules.winograd import WINOGRAD_POLICIES

__all__ = [
    "CHECKS",
    "LEVELS",
    "LIBRARY_POLICIES",
    "PRECISIONS",
    "PROGRAM_PASSES",
    "WINOGRAD_POLICIES",
    "Stage",
    "Target",
    "TargetError",
    "graph_passes",
    "kind_of",
    "parse_target",
    "plain_stages",
    "stages",
]


Host = tuple[str, str, str]  # triple, CPU, features


class TargetError(RelaxError, ValueError):
    """There is no such target or level."""


@dataclass(frozen=True)
class Stage:
    """One step of the way down.

    Attributes:
        level: the level that holds after it.
        pipeline: valid input to ``relax-opt -p``.
        also: dialects and operations that may stand there beside those of the level.
    """

    level: str
    pipeline: str
    also: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Target:
    """A machine.

    Attributes:
        kind: the module of :mod:`relax_mlir.targets` that knows it, such as ``cpu``.
        triple, cpu, features: LLVM's names for it.
        vector_bits: width of a CPU's vectors; 0 of others.
        byte_dots: whether it sums four products of bytes at once.
        bf16_dots: whether it sums two products of bf16 at once, and gains by it.
        tiles: whether it multiplies matrices of bytes or of bf16 at once.
        sm: compute capability of an NVIDIA GPU, such as 90; 0 of others.
        guard: whether kernels of a CPU run between guard pages, which finds what they
            access out of bounds; for tests. Set by the environment's ``RELAX_MLIR_GUARD``.
    """

    kind: str
    triple: str
    cpu: str
    features: str = field(repr=False)
    vector_bits: int = 0
    byte_dots: bool = False
    bf16_dots: bool = False
    tiles: bool = False
    sm: int = field(default=0, repr=False)  # the name tells it
    guard: bool = field(default=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind}:{self.cpu}"


_ANYWHERE = frozenset({"builtin", "func"})
_TIR = frozenset({"tir", "scf", "memref", "arith", "math", "vector", "gpu", "llvm"})

# Dialects that may stand in a module at each level; single operations by full name.
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
    """The target called ``text``: ``cpu`` is this machine, ``cpu:znver3`` another.

    TVM's ``llvm`` and ``llvm -mcpu=znver3`` say the same. ``cuda`` is the first GPU of this
    machine, ``cuda:sm_90``, or ``cuda -arch=sm_90``, any of that kind.

    Args:
        host: tells triple, CPU and features of this machine.

    Raises:
        TargetError: there is none.
    """
    if isinstance(text, Target):
        return text
    kind, _, model = _own_spelling(str(text)).partition(":")
    if kind not in _KINDS:
        raise TargetError(
            f"unknown target `{text}`: expected {' or '.join(_KINDS)}.{near_misses(kind, _KINDS)}"
        )
    return importlib.import_module(f"relax_mlir.targets.{kind}").target(model, host())


def kind_of(target: "str | Target") -> str:
    """The kind of machine of a target, such as ``cpu``, without asking what there is."""
    if isinstance(target, Target):
        return target.kind
    return _own_spelling(str(target)).partition(":")[0]


def _own_spelling(text: str) -> str:
    """``cpu:znver3`` for TVM's ``llvm -mcpu=znver3``."""
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


# What all targets do to graphs, before and after they become tensor programs.
_GRAPH_PASSES = (
    "relax-specialize-programs,relax-bind-sizes,"
    "relax-expand-conv-transpose,relax-simplify,relax-fold-constants,relax-fold-scales,"
    "relax-fold-constants,relax-split-pads,relax-simplify,relax-fuse-gelu"
)
CHECKS = ("none", "indices")


def graph_passes(checks: str) -> str:
    """What all targets do to graphs first; ``checks`` as for :func:`stages`."""
    option = "{check-indices=true}" if checks == "indices" else ""
    return f"relax-normalize{option},{_GRAPH_PASSES}"


PROGRAM_PASSES = "tir-collapse-loops,relax-fuse-ops,tir-fuse,tir-fuse-transposes"
PRECISIONS = ("f32", "tf32", "bf16", "f16", "f8")


def stages(
    target: Target,
    precision: str = "f32",
    library: str = "never",
    winograd: str = "auto",
    checks: str = "none",
) -> tuple[Stage, ...]:
    """The pipeline of a target, in reading order.

    Args:
        precision: in which products are computed: ``f32``, ``bf16`` or ``f16``; on GPUs
            ``tf32`` and ``f8``, too.
        library: whether NVIDIA's libraries compute products: ``never``, ``auto`` or
            ``always``.
        winograd: whether CPUs compute 3x3 convolutions by Winograd: ``auto`` or
            ``never``.
        checks: what a model checks when it runs: ``none`` or ``indices``.

    Raises:
        TargetError: there is no such precision, policy or check, or the target has no
            such libraries.
    """
    for option, value, known in (
        ("precision", precision, PRECISIONS),
        ("library", library, LIBRARY_POLICIES),
        ("winograd", winograd, WINOGRAD_POLICIES),
        ("checks", checks, CHECKS),
    ):
        if value not in known:
            raise TargetError(
                f"unknown {option} `{value}`: expected one of {', '.join(known)}."
                f"{near_misses(value, known)}"
            )
    return _module(target).stages(target, precision, library, winograd, checks)


def plain_stages(target: Target) -> tuple[Stage, ...]:
    """The shortest pipeline that runs a module: what other passes are measured by."""
    return _module(target).plain_stages(target)


def _module(target: Target) -> Any:  # Any: a module with these functions
    if target.kind not in _KINDS:
        raise PipelineError(
            f"target: expected one of the kinds {', '.join(_KINDS)}, got {shown(target.kind)}"
        )
    return importlib.import_module(f"relax_mlir.targets.{target.kind}")


_KINDS = ("cpu", "cuda")
