"""``FoldConstant``: constant folding that runs tensor programs."""

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.compiler import driver
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.passes.relax.fold_constants import FoldConstants
from relax_mlir.rewrite.patterns import Pass

__all__ = ["FoldConstant"]


def FoldConstant() -> Pass:  # noqa: N802  Relax's name
    """Folds constants: replaces values computed from constants by their results.

    Calls of tensor programs are folded everywhere, operators only in dataflow blocks.
    """
    return FoldConstants(max_growth_bytes=-1, in_dataflow=True, evaluate=_evaluate)


def _evaluate(
    module: IRModule, call: CallTirOp, arrays: Sequence[np.ndarray]
) -> Sequence[np.ndarray]:
    """Runs a tensor program on constant arrays."""
    callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    alone = module.alone()
    body = ir.InsertionPoint(alone.mlir.body)
    module.func_op(callee).operation.clone(ip=body)
    types = [v.type for v in tensors.tuple_elements(call.args)]
    with body, call.location:
        main = func.FuncOp("main", ir.FunctionType.get(types, [call.result.type]))
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            packed = tensors.pack_tuple(list(block.arguments))
            copy = call.operation.clone()
            copy.operands[0] = packed
            copy.attributes[function_attributes.NAME] = ir.StringAttr.get("lv")
            func.ReturnOp(list(copy.results))
    return driver.run(alone, *arrays)
