"""NVIDIA GPUs: kernels as PTX, which the driver compiles for the very device."""

from relax_mlir.errors import near_misses
from relax_mlir.runtime import cuda
from relax_mlir.targets.target import (
    PROGRAM_PASSES,
    Host,
    Stage,
    Target,
    TargetError,
    graph_passes,
)

__all__ = ["plain_stages", "stages", "target"]

# Compute capabilities, and what LLVM calls them: with all that the device has.
_MODELS = {"sm_80": "sm_80", "sm_86": "sm_86", "sm_89": "sm_89", "sm_90": "sm_90a"}
# Products of fewer tiles of 128 x 128 than a device has processors are one, if they can be.
_COMBINING = (
    f",relax-combine-parallel-matmul{{max-elements={132 << 14}}},relax-fold-constants,"
    "relax-simplify"
)
_PTX = "+ptx80"  # of CUDA 12.0, which has all that is used


def target(model: str, host: Host) -> Target:
    """The GPU called ``model``, such as ``sm_90``; that of this machine if it is empty.

    Raises:
        TargetError: there is no such GPU, or this machine has none.
    """
    known = {**_MODELS, "sm_90a": "sm_90a"}
    if not model:
        model = _of_this_machine()
    if model not in known:
        raise TargetError(
            f"unknown target `cuda:{model}`: expected one of "
            f"{', '.join(f'`cuda:{name}`' for name in _MODELS)}.{near_misses(model, known)}"
        )
    sm = int(model.removeprefix("sm_").rstrip("a"))
    return Target("cuda", "nvptx64-nvidia-cuda", known[model], _PTX, sm=sm)


def _of_this_machine() -> str:
    """The nearest of the known GPUs that code for runs on the first device.

    Raises:
        TargetError: there is no device.
    """
    found = cuda.compute_capability()
    if found is None:
        raise TargetError(
            "target `cuda`: this machine has no NVIDIA GPU, or no driver for it. Hint: "
            "name the GPU to compile for, such as `cuda:sm_90`; `relax-mlir doctor` tells "
            "what is there"
        )
    numbers = {model: int(model.removeprefix("sm_")) for model in _MODELS}
    # Code with all that one device has (`sm_90a`) runs on no other.
    fitting = [
        model
        for model, number in numbers.items()
        if number == found or (number < found and _MODELS[model] == model)
    ]
    if not fitting:
        raise TargetError(
            f"target `cuda`: expected a GPU of compute capability 8.0 or more, got "
            f"{found // 10}.{found % 10}"
        )
    return fitting[-1]


def stages(
    target: Target,
    precision: str = "f32",
    library: str = "never",
    winograd: str = "auto",
    checks: str = "none",
) -> tuple[Stage, ...]:
    """The pipeline for GPUs; each line is valid input to ``relax-opt -p``.

    ``winograd`` changes nothing: no convolution is computed by it on GPUs.
    """
    del winograd
    tf32 = " tf32=true" if precision == "tf32" else ""
    turned = "{tf32=true}" if tf32 else ""
    libraries = "" if library == "never" else f" library={library}"
    legalize = "relax-legalize{threads=true inline-scalars=true}"
    return (
        Stage(
            "relax", graph_passes(checks) + _COMBINING + _narrowing(target, precision)
        ),
        Stage(
            "tir",
            f"{legalize},{PROGRAM_PASSES},tir-fuse-attention{{sm={target.sm}{tf32}}},"
            f"tir-convert-layout,{legalize},tir-fuse-transposes{{parts=true}},"
            f"tir-collapse-loops,tir-fuse-pads{{products=true}},tir-turn-constants{turned},"
            "tir-join-maps,tir-mark-in-place",
        ),
        *_to_ptx(target, tf32 + libraries),
    )


def _narrowing(target: Target, precision: str) -> str:
    """The passes that round factors of products, for the tensor cores.

    Raises:
        TargetError: the device's have no such numbers.
    """
    if precision in ("f32", "tf32"):
        return ""  # whole in memory; rounded when they are read
    quantize = ""
    if precision == "f8":
        if target.sm < _LEAST_SM_OF_F8:
            raise TargetError(
                f"precision `f8`: expected `cuda:sm_{_LEAST_SM_OF_F8}`, got "
                f"`cuda:sm_{target.sm}`"
            )
        quantize = ",relax-quantize-products"
    to = "bfloat16" if precision == "bf16" else "float16"
    return f"{quantize},relax-narrow-products{{to={to}}},relax-fold-constants"


_LEAST_SM_OF_F8 = 90  # whose tensor cores multiply numbers of 8 bits
_LEAST_SM_OF_OVERLAP = 90  # of kernels that begin before others have ended


def plain_stages(target: Target) -> tuple[Stage, ...]:
    """The shortest way that a module can run."""
    return (Stage("tir", "relax-legalize"), *_to_ptx(target, " only=Fallback", ""))


def _to_ptx(
    target: Target, rules: str, blocks: str = "{threads=true}"
) -> tuple[Stage, ...]:
    """The stages below graphs.

    Args:
        rules: options of ``schedule-apply-gpu``; blocks: of ``tir-lower-blocks``.
    """
    libraries = frozenset({"tir.library_convolution", "tir.library_product"})
    launches = libraries | {"gpu", "nvgpu", "nvvm"}
    overlapping = "{overlap=true}" if target.sm >= _LEAST_SM_OF_OVERLAP else ""
    return (
        Stage("planned", "relax-plan-memory,relax-lower-main"),
        Stage(
            "linalg",
            f"tir-lower-blocks{blocks},cse,tir-to-linalg",
            frozenset({"gpu", "tir.block"}),
        ),
        Stage(
            "loops",
            f"schedule-apply-gpu{{sm={target.sm}{rules}}},schedule-align-vectors",
            launches,
        ),
        Stage(
            "llvm",
            f"schedule-outline-launches{overlapping},{_TO_LLVM}",
            launches | {"func", "arith", "memref", "tir.call_packed"},
        ),
        Stage(
            "ptx",
            f"nvvm-attach-target{{chip={target.cpu} features={target.features} O=3}},"
            "gpu-module-to-binary{format=isa}",
            libraries | {"nvgpu.tma.create.descriptor", "tir.call_packed"},
        ),
    )


_KERNELS_TO_LLVM = ",".join(
    (
        "convert-gpu-to-nvvm{index-bitwidth=64 use-bare-ptr-memref-call-conv=true}",
        # What of these the first one leaves.
        "convert-vector-to-llvm{reassociate-fp-reductions=true}",
        "convert-math-to-llvm",
        "convert-arith-to-llvm",
        "canonicalize",
        "cse",
        "reconcile-unrealized-casts",
    )
)
# Upstream's passes from launches to the LLVM and NVVM dialects.
_TO_LLVM = ",".join(
    (
        "schedule-expand-math{polynomials=false}",
        "schedule-approximate-math",
        "gpu.module(convert-nvgpu-to-nvvm)",
        "convert-scf-to-cf",
        "convert-nvvm-to-llvm",
        "expand-strided-metadata",
        "lower-affine",
        "canonicalize",
        "cse",
        f"gpu.module({_KERNELS_TO_LLVM})",
        "schedule-pass-descriptors",
    )
)
