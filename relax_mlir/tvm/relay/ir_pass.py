"""Relay's passes on functions, as TVM 0.6 names them."""

from __future__ import annotations

from mlir import ir

from relax_mlir.argument_types import check_exports
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.relax.graph import CallOp
from relax_mlir.module import IRModule
from relax_mlir.objects.function import Function as RelaxFunction
from relax_mlir.objects.structure import structural_equal
from relax_mlir.passes.relax.fuse_ops import FuseOps
from relax_mlir.passes.relax.legalize import Legalize
from relax_mlir.passes.relax.outline import Outliner, fused_name
from relax_mlir.relax import transform
from relax_mlir.rewriting import walk
from relax_mlir.traversal import own_operations
from relax_mlir.tvm.relay.expr import Function

__all__ = ["alpha_equal", "fuse_ops", "infer_type"]


def infer_type(expr: Function) -> Function:
    """The function with all its types known.

    Raises:
        ValueError: they do not fit together.
    """
    return Function.of(expr.module)


def fuse_ops(expr: Function, opt_level: int = 1) -> Function:
    """Operators that can be computed together become functions of their own.

    Args:
        expr: the function.
        opt_level: below 1, each operator is a function by itself.
    """
    module = _lowered(expr.module)
    if opt_level < 1:
        return Function.of(_one_by_one(module))
    fuse = FuseOps(by_post_dominators=True, level=opt_level, lift_constants=False)
    return Function.of(fuse(module))


def _one_by_one(module: IRModule) -> IRModule:
    """Each call of a tensor program in ``main`` in a function of its own."""
    changed = module.clone()
    with changed.context, ir.Location.unknown():
        outliner = Outliner(changed)
        for op in list(own_operations(changed.func_op("main").entry_block)):
            if isinstance(op, CallTirOp):
                outliner.outline([op], fused_name([op]), {"Primitive": True})
    return changed


def _lowered(module: IRModule) -> IRModule:
    """Operators as calls of tensor programs that say what kind they are."""
    legal = Legalize(keep_views=False)(module)
    return transform.AnnotateTIROpPattern()(legal)


def alpha_equal(lhs: Function, rhs: Function) -> bool:
    """Whether two functions are the same but for names."""
    return structural_equal(_canonical(lhs), _canonical(rhs))


def _canonical(function: Function) -> IRModule:
    """All operators lowered, functions of the graph numbered as they are called."""
    module = _lowered(_unmarked(function.module))
    called = [op for op in walk(module.mlir) if isinstance(op, CallOp)]
    names: dict[str, str] = {}
    with module.context:
        for op in called:
            old = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            new = names.setdefault(old, f"fused{len(names)}")
            op.attributes["callee"] = ir.FlatSymbolRefAttr.get(new)
        for each in module.func_ops():
            new = names.get(each.name.value, each.name.value)
            each.attributes["sym_name"] = ir.StringAttr.get(new)
    return module


def _unmarked(module: IRModule) -> IRModule:
    """Functions of the graph without attributes: passes leave fused ones alone."""
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
