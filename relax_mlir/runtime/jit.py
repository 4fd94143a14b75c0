"""Run modules at once, through MLIR's execution engine: for tests, not for serving."""

import ctypes
from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.execution_engine import ExecutionEngine

from relax_mlir.errors import CompileError
from relax_mlir.module import IRModule
from relax_mlir.runtime import cpu
from relax_mlir.runtime.executable import Signature, as_tensor, make_function
from relax_mlir.runtime.margins import between_margins
from relax_mlir.traversal import own_operations

__all__ = ["run_lowered"]

_ADDRESSES = """
llvm.func @relax_addresses(%out: !llvm.ptr) attributes {llvm.emit_c_interface} {
  %main = llvm.mlir.addressof @main : !llvm.ptr
  %shapes = llvm.mlir.addressof @main_shapes : !llvm.ptr
  llvm.store %main, %out : !llvm.ptr, !llvm.ptr
  %next = llvm.getelementptr %out[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  llvm.store %shapes, %next : !llvm.ptr, !llvm.ptr
  llvm.return
}
"""


def run_lowered(
    module: IRModule, signature: Signature, arrays: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Run a module in the LLVM dialect.

    Inputs and constants are copies between margins of NaNs.

    Raises:
        CompileError: the engine cannot make code of it.
        TypeError, ValueError: an array does not fit its parameter.
    """
    cpu.load_library()
    copy = module.clone()
    with module.context, ir.Location.unknown():
        # The function that tells addresses comes with declarations, which are not wanted.
        told = ir.Module.parse(_DECLARED + _ADDRESSES)
        whole = ir.Module.create()
        for op in [
            *own_operations(copy.mlir.body),
            list(own_operations(told.body))[-1],
        ]:
            whole.body.append(op)
        engine = ExecutionEngine(whole, opt_level=2, shared_libs=[cpu.library_path()])
        address = _addresses(engine)
    constants = {k: between_margins(module.constants[k]) for k in signature.constants}
    function = make_function(signature, constants, address, 1, engine)
    given = [as_tensor(between_margins(array)) for array in arrays]
    return tuple(map(cpu.array_of, function(*given)))


_DECLARED = """
llvm.func @main(!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
llvm.func @main_shapes(!llvm.ptr)
"""


def _addresses(engine: ExecutionEngine) -> dict[str, int]:
    """Where the code is; the engine looks up wrappers only, so code tells it itself."""
    wrapper = engine.raw_lookup("relax_addresses")
    if not wrapper:
        raise CompileError("the execution engine could not compile the module")
    found = (ctypes.c_void_p * 2)()
    pointer = ctypes.c_void_p(ctypes.addressof(found))
    packed = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(wrapper)(ctypes.addressof(packed))
    return {"main": found[0], "main_shapes": found[1]}
