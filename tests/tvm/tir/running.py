"""Compilation and execution of PrimFuncs, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import relax_mlir
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import BlockBuilder

__all__ = ["module_of", "run"]


def module_of(program: PrimFunc) -> Any:
    """A module whose ``main`` calls a PrimFunc; its last buffer is the result."""
    buffers = [program.buffer_map[p] for p in program.params]
    *inputs, output = (TensorStructInfo(b.shape, b.dtype) for b in buffers)
    builder = BlockBuilder()
    callee = builder.add_func(program, "program")
    params = [relax.Var(f"x{n}", info) for n, info in enumerate(inputs)]
    with builder.function("main", params):
        with builder.dataflow():
            call = relax.call_tir(callee, params, out_sinfo=output)
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    return builder.get()


def run(program: PrimFunc, *inputs: np.ndarray, threads: int = 1) -> np.ndarray:
    """The last buffer after the compiled PrimFunc ran."""
    compiled = relax_mlir.compile(module_of(program), threads=threads)
    outputs: Sequence[np.ndarray] = compiled(*inputs)
    return outputs[0] if isinstance(outputs, (tuple, list)) else outputs
