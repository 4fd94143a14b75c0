"""JIT compilation and single execution of a module in the LLVM dialect, for verification."""

from collections.abc import Sequence

import numpy as np

from relax_mlir.codegen import object_code
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime import cpu
from relax_mlir.runtime.executable import (
    SYMBOLS,
    Signature,
    as_tensor,
    make_function,
)
from relax_mlir.runtime.machine_code import load_code
from relax_mlir.runtime.margins import with_nan_margins

__all__ = ["run_lowered"]

# Compile time matters more than speed for a single run: mem2reg, but no loop passes. For a
# module of ten kernels this and FastISel take 11 ms, ``default<O2>`` 170 ms.
_PASSES = "function(sroa,early-cse,simplifycfg)"


def run_lowered(
    module: IRModule, signature: Signature, arrays: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Compile and run a module in the LLVM dialect on this machine.

    Inputs and constants are copied between margins of NaNs, which expose reads out of
    bounds.

    Raises:
        CompileError: LLVM cannot compile the module.
        TypeError, ValueError: an array does not match its parameter.
    """
    triple, name, features = object_code.host_cpu()
    code = object_code.compile_object(
        module.mlir,
        triple=triple,
        cpu=name,
        features=features,
        opt_level=0,
        passes=_PASSES,
    )
    library, address = load_code(object_code.machine_code([code], SYMBOLS), SYMBOLS)
    constants = {k: with_nan_margins(module.constants[k]) for k in signature.constants}
    function = make_function(signature, constants, address, 1, library)
    inputs = [as_tensor(with_nan_margins(array)) for array in arrays]
    return tuple(map(cpu.array_of, function(*inputs)))
