"""Compiles modules and runs them in the PTX emulator."""

from collections.abc import Sequence

import numpy as np

import relax_mlir
from relax_mlir import IRModule, lower
from relax_mlir.compiler.launch_plan import serialize_program, unpack_program
from relax_mlir.runtime.cuda.archive import Contents
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import Call, Plan, Pointer
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.targets import Target
from tests.ptx_emulator import emulate

Compiled = str | Target


def compiled(
    module: IRModule,
    target: Compiled,
    *,
    precision: str = "f32",
    library: str = "never",
) -> CudaExecutable:
    """Compiles a module of any level up to ``loops``."""
    options = {"precision": precision, "library": library, "cache": False}
    made = relax_mlir.compile(module, target=target, **options)
    assert isinstance(made, CudaExecutable)
    return made


def emulated(
    module: IRModule,
    *arrays: np.ndarray,
    target: Compiled,
    precision: str = "f32",
) -> tuple[np.ndarray, ...]:
    """Runs a module; returns its outputs."""
    return emulate(compiled(module, target, precision=precision), *arrays)


def emulated_program(
    module: IRModule,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    sizes: Sequence[int] = (),
    *,
    target: Compiled,
    max_blocks: int | None = None,
) -> tuple[np.ndarray, ...]:
    """Runs the only PrimFunc of a module on uninitialized outputs.

    Args:
        outputs: arrays of their shapes and types; sizes: arguments after the buffers.
        max_blocks: of a grid to run.
    """
    program, ptx = unpack_program(
        serialize_program(lower(module, target=target, to="ptx"))
    )
    pointers = [
        *(Pointer("input", number) for number in range(len(inputs))),
        *(Pointer("output", number) for number in range(len(outputs))),
    ]
    plan = Plan((program,), (Call(0, 0, tuple(pointers), tuple(sizes)),))
    signature = {
        "inputs": [_parameter(array) for array in inputs],
        "outputs": [_parameter(array) for array in outputs],
        "symbols": [],
        "derived": [],
        "constraints": [],
        "arena": "0",
        "constants": [],
    }
    kernels = (KernelCall("program", "ByHand"),)
    contents = Contents((ptx,), plan, signature, "sm_90a", {}, kernels)
    return emulate(CudaExecutable(contents), *inputs, max_blocks=max_blocks)


def _parameter(array: np.ndarray) -> dict[str, object]:
    shape = [str(extent) for extent in array.shape]
    return {"name": "x", "dtype": array.dtype.name, "shape": shape}
