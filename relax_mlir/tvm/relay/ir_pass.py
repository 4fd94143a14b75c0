"""Relay function passes, under their names in TVM 0.6."""

from __future__ import annotations

from mlir import ir

from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.relax.graph import CallOp
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.function import Function as RelaxFunction
from relax_mlir.passes.relax.legalize import Legalize
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.transform.outline import Outliner, fused_name
from relax_mlir.tvm.relax.transform.passes.fuse_dataflow import FuseDataflow
from relax_mlir.tvm.relay.expr import Function

__all__ = ["alpha_equal", "fuse_ops", "infer_type"]


def infer_type(expr: Function) -> Function:
    """Infers the types of all expressions of a function.

    Raises:
        ValueError: the types are inconsistent.
    """
    return Function.of(expr.module)


def fuse_ops(expr: Function, opt_level: int = 1) -> Function:
    """Groups fusible operators into primitive functions.

    Args:
        expr: the function.
        opt_level: below 1, each operator becomes a primitive function of its own.
    """
    module = _legalized(expr.module)
    if opt_level < 1:
        return Function.of(_outline_each_call(module))
    fuse = FuseDataflow(level=opt_level, lift_constants=False)
    return Function.of(fuse(module))


def _outline_each_call(module: IRModule) -> IRModule:
    """Outlines each ``call_tir`` of ``main`` into a primitive function of its own."""
    changed = module.clone()
    with changed.context, ir.Location.unknown():
        outliner = Outliner(changed)
        for op in list(own_operations(changed.func_op("main").entry_block)):
            if isinstance(op, CallTirOp):
                outliner.outline([op], fused_name([op]), {"Primitive": True})
    return changed


def _legalized(module: IRModule) -> IRModule:
    """Legalizes operators to ``call_tir`` and annotates the op pattern kinds."""
    legal = Legalize(keep_views=False)(module)
    return transform.AnnotateTIROpPattern()(legal)


def alpha_equal(lhs: Function, rhs: Function) -> bool:
    """Whether two functions are equal up to the renaming of variables."""
    return structural_equal(_canonical(lhs), _canonical(rhs))


def _canonical(function: Function) -> IRModule:
    """Legalizes operators and renames Relax functions in the order of their calls."""
    module = _legalized(_without_primitive_attrs(function.module))
    calls = [op for op in walk(module.mlir) if isinstance(op, CallOp)]
    names: dict[str, str] = {}
    with module.context:
        for op in calls:
            old = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            new = names.setdefault(old, f"fused{len(names)}")
            op.attributes["callee"] = ir.FlatSymbolRefAttr.get(new)
        for each in module.func_ops():
            new = names.get(each.name.value, each.name.value)
            each.attributes["sym_name"] = ir.StringAttr.get(new)
    return module


def _without_primitive_attrs(module: IRModule) -> IRModule:
    """Removes the attributes of primitive functions, which passes otherwise skip."""
    plain = {
        name: f.with_only_attrs({})
        if isinstance(f, RelaxFunction) and _is_fused(f)
        else f
        for name, f in module.functions.items()
    }
    return IRModule(plain)


def _is_fused(function: RelaxFunction) -> bool:
    return bool(function.attrs.get("Primitive"))


check_exports(globals())
