"""``SpecializePrimFuncBasedOnCallSite``: programs as the tensors of their calls are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.buffer import decl_buffer
from relax_mlir.objects.expr import Call, Expr, ShapeExpr, Tuple
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.structure import structural_equal
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.function_rewriting import program_call
from relax_mlir.rewriting import Pass

__all__ = ["SpecializePrimFuncBasedOnCallSite"]


@dataclass(frozen=True)
class SpecializePrimFuncBasedOnCallSite(Pass):
    """Give the buffers of a program the sizes and memory of the tensors that it is given.

    The program gets the attribute ``scoped``. Where calls differ, each gets a program of
    its own. Calls that pass sizes beside tensors stay as they are.

    Raises:
        PassError: a call passes something else than tensors of known shapes.
    """

    def run(self, module: IRModule) -> None:
        rewriter = _Specializing(module)
        for var, function in module.functions.items():
            if isinstance(function, Function) and not function.attrs.get("Primitive"):
                rewriter.builder_.update_func(var, rewriter.visit_expr(function))
        module.become(rewriter.builder_.get())


class _Specializing(PyExprMutator):
    """Makes programs for calls, and lets calls name them."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self.first: dict[str, PrimFunc] = {}  # what took the place of each program

    def visit_call_(self, op: Call) -> Expr:
        """A call of a program, as that of the program for its tensors."""
        made = super().visit_call_(op)
        found = program_call(made)
        if found is None or found[0].args[2:]:
            return made
        call, callee, _ = found
        name = callee.name_hint
        program = _specialized(name, self.mod[name], call)
        if name not in self.first:
            self.first[name] = program
            self.builder_.update_func(name, program)
        if structural_equal(self.first[name], program):
            var = self.builder_.get().get_global_var(name)
        else:
            var = self.builder_.add_func(program, name)
        return Call(call.op, [var, *call.args[1:]], call.attrs, call.sinfo_args)


def _specialized(name: str, program: PrimFunc, call: Call) -> PrimFunc:
    tensors = call.args[1]
    assert isinstance(tensors, Tuple)
    (result,) = call.sinfo_args
    results = result.fields if isinstance(result, TupleStructInfo) else [result]
    given = [arg.struct_info_or_none() for arg in tensors.fields]
    names = [getattr(arg, "name_hint", "") for arg in tensors.fields]
    infos = [*given, *results]
    names += [f"ret_val_{i}" for i in range(len(results))]
    buffers = [
        _buffer(name, i, info, wish)
        for i, (info, wish) in enumerate(zip(infos, names, strict=True))
    ]
    fitted = program.specialize(dict(zip(program.params, buffers, strict=True)))
    return fitted.with_attr("scoped", 1)


def _buffer(name: str, number: int, info: StructInfo | None, wish: str) -> Any:
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        device = info.vdevice
        scope = "global" if device is None else device.memory_scope
        return decl_buffer(info.shape.values, info.dtype, wish or "A", scope=scope)
    raise PassError(
        f"call of `{name}`, tensor {number}: expected a tensor of a known shape, got {info}"
    )
