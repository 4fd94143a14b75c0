"""CPUs: any that LLVM knows, vectorised to their width."""

from relax_mlir.runtime import guard
from relax_mlir.targets.target import (
    PROGRAM_PASSES,
    Host,
    Stage,
    Target,
    TargetError,
    graph_passes,
)

__all__ = ["plain_stages", "stages", "target"]


def target(model: str, host: Host) -> Target:
    """This machine, or the CPU that LLVM calls ``model`` (``znver3``, ``neoverse-v1``)."""
    triple, cpu, features = host
    if model:
        triple, cpu, features = _triple_of(model, triple), model, ""
    bits = _vector_bits(triple, cpu, features)
    return Target(
        "cpu",
        triple,
        cpu,
        features,
        bits,
        byte_dots=_byte_dots(cpu, features, bits),
        bf16_dots=_bf16_dots(cpu, features, bits),
        tiles=_tiles(cpu, features, bits),
        guard=guard.is_requested(),
    )


def _triple_of(model: str, host: str) -> str:
    """The triple for a CPU by name: Arm's own names, else x86-64."""
    arm = ("neoverse", "cortex", "apple", "ampere", "a64fx")
    if model.startswith(arm):
        return "aarch64-unknown-linux-gnu"
    return host if host.startswith("x86_64") else "x86_64-unknown-linux-gnu"


_AMX_CPUS = "sapphirerapids", "emeraldrapids", "graniterapids", "diamondrapids"
_AVX512_CPUS = (
    *("skylake-avx512", "icelake", "znver4", "znver5", "x86-64-v4"),
    *_AMX_CPUS,
)


def _vector_bits(triple: str, cpu: str, features: str) -> int:
    """512 with AVX-512, 256 with AVX, else 128."""
    if not triple.startswith("x86_64"):
        return 128
    if "+avx512f" in features or cpu.startswith(_AVX512_CPUS):
        return 512
    return 128 if features and "+avx" not in features else 256


_VNNI_CPUS = (
    *("cascadelake", "cooperlake", "icelake", "rocketlake", "tigerlake"),
    *_AMX_CPUS,
    *("alderlake", "raptorlake", "meteorlake", "arrowlake", "lunarlake", "pantherlake"),
    *("sierraforest", "grandridge", "clearwaterforest", "znver4", "znver5"),
)


def _byte_dots(cpu: str, features: str, bits: int) -> bool:
    """Whether it has AVX-512 VNNI at the width of its vectors, or AVX-VNNI."""
    if features:
        by_bits = {512: "+avx512vnni", 256: "+avxvnni"}
        return by_bits.get(bits, "none") in features.split(",")
    return cpu.startswith(_VNNI_CPUS)


_BF16_CPUS = ("znver4", "znver5")


def _bf16_dots(cpu: str, features: str, bits: int) -> bool:
    """Whether it has AVX-512 BF16 at twice the rate of f32.

    Intel's machines have it at half of that rate, beside AMX.
    """
    has_it = not features or "+avx512bf16" in features.split(",")
    return bits == 512 and has_it and cpu.startswith(_BF16_CPUS)


_TILE_FEATURES = {"+amx-tile", "+amx-bf16", "+amx-int8"}


def _tiles(cpu: str, features: str, bits: int) -> bool:
    """Whether it has AMX, beside vectors as wide as a row of a tile."""
    has_it = _TILE_FEATURES.issubset(features.split(","))
    return bits == 512 and (has_it if features else cpu.startswith(_AMX_CPUS))


def stages(
    target: Target,
    precision: str = "f32",
    library: str = "never",
    winograd: str = "auto",
    checks: str = "none",
) -> tuple[Stage, ...]:
    """The CPU pipeline, in reading order; each line is valid input to ``relax-opt -p``."""
    if library != "never":
        raise TargetError(f"library `{library}`: expected a GPU as target, got a CPU")
    flags = {
        "byte-dots": target.byte_dots,
        "bf16-dots": target.bf16_dots,
        "tiles": target.tiles,
    }
    has = [f" {name}=true" for name, is_there in flags.items() if is_there]
    unit = f"{{vector-bits={target.vector_bits}{''.join(has)}}}"
    policy = "" if winograd == "auto" else f" winograd={winograd}"
    return (
        Stage("relax", graph_passes(checks) + _narrowing(target, precision)),
        Stage(
            "tir",
            f"relax-legalize,{PROGRAM_PASSES},tir-fuse-attention{unit},"
            "tir-convert-layout,relax-legalize,tir-fuse-transposes{parts=true},"
            "tir-collapse-loops,"
            f"tir-use-winograd{_with(unit, policy)},"
            "tir-fuse-pads,"
            f"tir-pack-constants{unit},tir-mark-in-place",
        ),
        Stage("planned", "relax-plan-memory,relax-lower-main"),
        Stage("linalg", "tir-lower-blocks,cse,tir-to-linalg"),
        Stage(
            "loops",
            f"schedule-apply{unit},convert-linalg-to-loops,lower-affine",
        ),
        Stage(
            "llvm",
            f"schedule-expand-math,schedule-lower-abi{_guard(target)},"
            "schedule-insert-interrupt-checks,schedule-guard-divisions,"
            f"{_to_llvm(target)}",
        ),
    )


def _with(unit: str, option: str) -> str:
    """The options of a pass, with one more."""
    return f"{unit[:-1]}{option}}}"


def _narrowing(target: Target, precision: str) -> str:
    """The passes that round factors of products, if that is asked for."""
    if precision == "f32":
        return ""
    if precision in ("tf32", "f8"):
        raise TargetError(
            f"precision `{precision}`: expected a GPU as target, got a CPU"
        )
    to = {"bf16": "bfloat16", "f16": "float16"}[precision]
    is_faster = precision == "bf16" and (target.bf16_dots or target.tiles)
    rest = "" if is_faster else " weights-only=true"
    return f",relax-narrow-products{{to={to}{rest}}},relax-fold-constants"


def plain_stages(target: Target) -> tuple[Stage, ...]:
    """The way down with no more passes than are needed: no fusion, no schedules."""
    plain = {
        "relax": "relax-normalize,relax-bind-sizes",
        "tir": "relax-legalize,tir-collapse-loops,tir-fuse",
        "linalg": "tir-lower-blocks,tir-to-linalg",
        "loops": "schedule-apply{only=Fallback},convert-linalg-to-loops,lower-affine",
    }
    return tuple(Stage(s.level, plain.get(s.level, s.pipeline)) for s in stages(target))


def _guard(target: Target) -> str:
    """The option of passes that let kernels run between guard pages."""
    return "{guard=true}" if target.guard else ""


def _to_llvm(target: Target) -> str:
    """Upstream's passes from loops to the LLVM dialect."""
    # Tiles are carried by branches, which only a conversion of both at once can take.
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
            *(tiles if target.tiles else []),
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
