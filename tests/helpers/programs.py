"""A tensor program as a module whose ``main`` calls it."""

from __future__ import annotations

from relax_mlir import IRModule
from relax_mlir.tvm import relax
from relax_mlir.tvm.tir import PrimFunc

__all__ = ["called"]


def called(program: PrimFunc, outputs: int = 1) -> IRModule:
    """``main`` gives the last buffers of a program, and takes the others."""
    buffers = [program.buffer_map[p] for p in program.params if p in program.buffer_map]
    infos = [relax.TensorStructInfo(b.shape, b.dtype) for b in buffers]
    params = [relax.Var(f"p{n}", info) for n, info in enumerate(infos[:-outputs])]
    given = infos[-outputs:]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        name = builder.add_func(program, "kernel")
        call = relax.call_tir(name, params, given if outputs > 1 else given[0])
        builder.emit_func_output(builder.emit(call))
    return builder.get()
