"""CPU targets: detection of vector features, and the pass pipeline."""

from collections.abc import Set as AbstractSet

from relax_mlir.codegen.object_code import check_target
from relax_mlir.codegen.target_machines import processor_features
from relax_mlir.runtime import guard
from relax_mlir.schedules.target_features import VectorUnit
from relax_mlir.targets.target import (
    PROGRAM_PASSES,
    Host,
    LoweringOptions,
    Stage,
    Target,
    TargetError,
    graph_passes,
)

__all__ = ["plain_stages", "stages", "target"]


def target(model: str, host: Host) -> Target:
    """The host, or the CPU with LLVM's name ``model`` (``znver3``, ``neoverse-v1``).

    Raises:
        ValueError: LLVM does not know the name.
    """
    triple, cpu, features = host
    if model:
        triple, cpu, features = _triple_of(model, triple), model, ""
        check_target(triple, cpu, features, 2)
    present = set(features.split(",") if features else processor_features(triple, cpu))
    bits = _vector_bits(triple, present)
    return Target(
        "cpu",
        triple,
        cpu,
        features,
        VectorUnit(
            bits,
            int8_dot=_has_int8_dot(present, bits),
            bf16_dot=_has_bf16_dot(cpu, present, bits),
            amx=_has_amx(present, bits),
        ),
        guard=guard.is_requested(),
    )


def _triple_of(model: str, host: str) -> str:
    """The target triple of a CPU by its name: AArch64 for Arm's names, else x86-64."""
    arm = ("neoverse", "cortex", "apple", "ampere", "a64fx")
    if model.startswith(arm):
        return "aarch64-unknown-linux-gnu"
    return host if host.startswith("x86_64") else "x86_64-unknown-linux-gnu"


def _vector_bits(triple: str, features: AbstractSet[str]) -> int:
    """Width of a vector register: 512 with AVX-512, 256 with AVX, else 128."""
    if not triple.startswith("x86_64"):
        return 128
    return 512 if "+avx512f" in features else 256 if "+avx" in features else 128


def _has_int8_dot(features: AbstractSet[str], bits: int) -> bool:
    """Whether a CPU has AVX-512 VNNI or AVX-VNNI at its vector width."""
    return {512: "+avx512vnni", 256: "+avxvnni"}.get(bits, "none") in features


_BF16_CPUS = ("znver4", "znver5")


def _has_bf16_dot(cpu: str, features: AbstractSet[str], bits: int) -> bool:
    """Whether a CPU has AVX-512 BF16 at twice the throughput of f32.

    On Intel CPUs it has half of that throughput, and AMX is faster.
    """
    return bits == 512 and "+avx512bf16" in features and cpu.startswith(_BF16_CPUS)


_TILE_FEATURES = {"+amx-tile", "+amx-bf16", "+amx-int8"}


def _has_amx(features: AbstractSet[str], bits: int) -> bool:
    """Whether a CPU has AMX, and vectors of the width of a tile row."""
    return bits == 512 and _TILE_FEATURES.issubset(features)


def stages(target: Target, options: LoweringOptions) -> tuple[Stage, ...]:
    """The CPU pipeline, in reading order; each line is valid input to ``relax-opt -p``."""
    library, winograd = options.library, options.winograd
    if library != "never":
        raise TargetError(f"library `{library}`: expected a GPU as target, got a CPU")
    unit = target.unit
    policy = "" if winograd == "auto" else f" winograd={winograd}"
    return (
        Stage(
            "relax",
            graph_passes(options.checks) + _narrowing(target, options.precision),
        ),
        Stage(
            "tir",
            f"relax-legalize,{PROGRAM_PASSES},tir-fuse-attention{{{unit}}},"
            "tir-assign-layout,relax-legalize,tir-fuse-transposes{parts=true},"
            "tir-collapse-loops,"
            f"tir-use-winograd{{{unit}{policy}}},"
            "tir-fuse-padding,"
            f"tir-pack-constants{{{unit}}},tir-mark-in-place",
        ),
        Stage("planned", "relax-plan-memory,relax-lower-main"),
        Stage("linalg", "tir-lower-blocks,cse,tir-to-linalg"),
        Stage(
            "loops",
            f"schedule-apply{{{unit}}},convert-linalg-to-loops,lower-affine",
        ),
        Stage(
            "llvm",
            f"schedule-expand-math,schedule-lower-abi{_guard(target)},"
            "schedule-insert-interrupt-checks,schedule-guard-divisions,"
            f"{_to_llvm(target)}",
        ),
    )


def _narrowing(target: Target, precision: str) -> str:
    """The passes that cast matmul operands to a requested lower precision."""
    if precision == "f32":
        return ""
    if precision in ("tf32", "f8"):
        raise TargetError(
            f"precision `{precision}`: expected a GPU as target, got a CPU"
        )
    to = {"bf16": "bfloat16", "f16": "float16"}[precision]
    is_faster = precision == "bf16" and (target.unit.bf16_dot or target.unit.amx)
    rest = "" if is_faster else " weights-only=true"
    return f",relax-cast-matmul-to-bf16{{to={to}{rest}}},relax-fold-constants"


def plain_stages(target: Target) -> tuple[Stage, ...]:
    """The minimal pipeline: no fusion, no schedule rules but the fallback."""
    plain = {
        "relax": "relax-normalize,relax-bind-sizes",
        "tir": "relax-legalize,tir-collapse-loops,tir-fuse",
        "linalg": "tir-lower-blocks,tir-to-linalg",
        "loops": "schedule-apply{only=Fallback},convert-linalg-to-loops,lower-affine",
    }
    return tuple(
        Stage(s.level, plain.get(s.level, s.pipeline))
        for s in stages(target, LoweringOptions())
    )


def _guard(target: Target) -> str:
    """The pass option for buffers between guard pages."""
    return "{guard=true}" if target.guard else ""


def _to_llvm(target: Target) -> str:
    """Upstream's passes from loops to the LLVM dialect."""
    # AMX tiles are block arguments, so amx and cf have to be converted together.
    tiles = ["convert-to-llvm{filter-dialects=amx,cf,memref,arith,index}"]
    return ",".join(
        (
            "convert-vector-to-scf",
            "expand-strided-metadata",
            "lower-affine",
            "convert-scf-to-cf",
            "convert-math-to-llvm",
            "convert-math-to-libm",
            "convert-vector-to-llvm",
            *(tiles if target.unit.amx else []),
            "finalize-memref-to-llvm",
            "convert-arith-to-llvm",
            "convert-index-to-llvm",
            "convert-cf-to-llvm",
            "convert-func-to-llvm{use-bare-ptr-memref-call-conv=true}",
            "reconcile-unrealized-casts",
            "cse",
            *(["schedule-report-masked"] if target.guard else []),
        )
    )
