"""Compiles a module in the LLVM dialect quickly and calls it once: for checks, not for serving."""

from collections.abc import Sequence

import numpy as np

from relax_mlir.module import IRModule
from relax_mlir.runtime import cpu, objects
from relax_mlir.runtime.executable import Signature, as_tensor, make_function
from relax_mlir.runtime.margins import between_margins

__all__ = ["run_lowered"]

# Code that runs once has to be compiled fast: memory to registers, and no loop passes. Of a
# module of ten kernels, this and FastISel take 11 ms, ``default<O2>`` 170 ms.
_PASSES = "function(sroa,early-cse,simplifycfg)"


def run_lowered(
    module: IRModule, signature: Signature, arrays: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Run a module in the LLVM dialect on this machine.

    Inputs and constants are copies between margins of NaNs.

    Raises:
        CompileError: LLVM cannot make code of it.
        TypeError, ValueError: an array does not fit its parameter.
    """
    triple, name, features = objects.host_cpu()
    code = objects.compile_object(
        module.mlir,
        triple=triple,
        cpu=name,
        features=features,
        opt_level=0,
        passes=_PASSES,
    )
    library, address = objects.load_objects((code,), ["main", "main_shapes"])
    constants = {k: between_margins(module.constants[k]) for k in signature.constants}
    function = make_function(signature, constants, address, 1, library)
    given = [as_tensor(between_margins(array)) for array in arrays]
    return tuple(map(cpu.array_of, function(*given)))
