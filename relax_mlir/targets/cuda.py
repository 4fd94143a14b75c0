"""NVIDIA GPU targets: pass pipelines to PTX, which the driver compiles for the device."""

from dataclasses import replace

from relax_mlir.errors import near_misses
from relax_mlir.runtime import cuda
from relax_mlir.schedules.target_features import Gpu
from relax_mlir.targets.target import (
    PROGRAM_PASSES,
    Host,
    LoweringOptions,
    Stage,
    Target,
    TargetError,
    graph_passes,
)

__all__ = ["stages", "target"]

# Compute capability -> LLVM's name of the processor with all its features.
_MODELS = {"sm_80": "sm_80", "sm_86": "sm_86", "sm_89": "sm_89", "sm_90": "sm_90a"}
# Combine parallel matmuls of fewer 128 x 128 tiles than a device has multiprocessors.
_COMBINING = (
    f",relax-combine-parallel-matmul{{max-elements={132 << 14}}},relax-fold-constants,"
    "relax-simplify"
)
_PTX = "+ptx80"  # CUDA 12.0


def target(model: str, host: Host) -> Target:
    """The GPU called ``model``, such as ``sm_90``; that of this machine if it is empty.

    Raises:
        TargetError: the name is unknown, or this machine has no GPU.
    """
    known = {**_MODELS, "sm_90a": "sm_90a"}
    if not model:
        model = _host_model()
    if model not in known:
        raise TargetError(
            f"unknown target `cuda:{model}`: expected one of "
            f"{', '.join(f'`cuda:{name}`' for name in _MODELS)}.{near_misses(model, known)}"
        )
    sm = int(model.removeprefix("sm_").rstrip("a"))
    return Target("cuda", "nvptx64-nvidia-cuda", known[model], _PTX, gpu=Gpu(sm))


def _host_model() -> str:
    """The newest known model whose code runs on the first device of this machine.

    Raises:
        TargetError: there is no device, or none of compute capability 8.0 or more.
    """
    found = cuda.compute_capability()
    if found is None:
        raise TargetError(
            "target `cuda`: this machine has no NVIDIA GPU, or no driver for it. Hint: "
            "name the GPU to compile for, such as `cuda:sm_90`; `relax-mlir doctor` lists "
            "what was found"
        )
    numbers = {model: int(model.removeprefix("sm_")) for model in _MODELS}
    # Architecture-specific code (`sm_90a`) runs on no other device.
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


def stages(target: Target, options: LoweringOptions) -> tuple[Stage, ...]:
    """The GPU pipeline; each line is valid input to ``relax-opt -p``.

    ``winograd`` has no effect on GPUs.
    """
    precision = options.precision
    gpu = replace(target.gpu, tf32=precision == "tf32", library=options.library)
    legalize = "relax-legalize{threads=true inline-scalars=true}"
    return (
        Stage(
            "relax",
            graph_passes(options.checks) + _COMBINING + _narrowing(target, precision),
        ),
        Stage(
            "tir",
            f"{legalize},{PROGRAM_PASSES},tir-fuse-attention{{{gpu}}},"
            f"tir-assign-layout,{legalize},tir-fuse-transposes{{parts=true}},"
            f"tir-collapse-loops,tir-fuse-padding{{products=true}},tir-transpose-constants{{{gpu}}},"
            "tir-fuse-horizontal,tir-mark-in-place",
        ),
        *_to_ptx(target, gpu),
    )


def _narrowing(target: Target, precision: str) -> str:
    """The passes that cast matmul operands to the precision of the tensor cores.

    Raises:
        TargetError: the tensor cores of the device do not support the precision.
    """
    if precision in ("f32", "tf32"):
        return ""  # f32 in memory; tf32 is rounded on load
    quantize = ""
    if precision == "f8":
        if target.gpu.sm < _MIN_SM_OF_F8:
            raise TargetError(
                f"precision `f8`: expected `cuda:sm_{_MIN_SM_OF_F8}`, got "
                f"`cuda:sm_{target.gpu.sm}`"
            )
        quantize = ",relax-quantize-matmul-to-fp8"
    to = "bfloat16" if precision == "bf16" else "float16"
    return f"{quantize},relax-cast-matmul-to-bf16{{to={to}}},relax-fold-constants"


_MIN_SM_OF_F8 = 90  # FP8 tensor cores
_MIN_SM_OF_OVERLAP = 90  # programmatic dependent launch


def _to_ptx(target: Target, gpu: Gpu) -> tuple[Stage, ...]:
    """The stages below the TIR level."""
    libraries = frozenset({"tir.library_convolution", "tir.library_product"})
    launches = libraries | {"gpu", "nvgpu", "nvvm"}
    overlapping = "{overlap=true}" if target.gpu.sm >= _MIN_SM_OF_OVERLAP else ""
    return (
        Stage("planned", "relax-plan-memory,relax-lower-main"),
        Stage(
            "linalg",
            "tir-lower-blocks{threads=true},cse,tir-to-linalg",
            frozenset({"gpu", "tir.block"}),
        ),
        Stage(
            "loops",
            f"schedule-apply-gpu{{{gpu}}},schedule-align-vectors",
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
        # Operations that the first conversion leaves.
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
