"""``SpecializePrimFuncBasedOnCallSite``: specializes programs to their call sites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.expr import Call, Expr, ShapeExpr, Tuple
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.objects.stmt.buffer import decl_buffer
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.function_rewriting import program_call

__all__ = ["SpecializePrimFuncBasedOnCallSite"]


@dataclass(frozen=True)
class SpecializePrimFuncBasedOnCallSite(Pass):
    """Specializes buffers to the shapes and memory scopes of the tensors passed.

    The program gets the attribute ``scoped``. Different call sites get different programs.
    Calls that pass scalars in addition to tensors stay as they are.

    Raises:
        PassError: a call passes something else than tensors of known shapes.
    """

    def run(self, module: IRModule) -> None:
        rewriter = _Specializer(module)
        for var, function in module.functions.items():
            if isinstance(function, Function) and not function.attrs.get("Primitive"):
                rewriter.builder_.update_func(var, rewriter.visit_expr(function))
        module.replace_contents(rewriter.builder_.get())


class _Specializer(PyExprMutator):
    """Creates specialized programs and redirects calls to them."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self.first: dict[str, PrimFunc] = {}  # the first specialization of each program

    def visit_call_(self, op: Call) -> Expr:
        """Redirects a call to the specialization of its program."""
        visited = super().visit_call_(op)
        matched = program_call(visited)
        if matched is None or matched[0].args[2:]:
            return visited
        call, callee, _ = matched
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
    arg_infos = [arg.struct_info_or_none() for arg in tensors.fields]
    names = [getattr(arg, "name_hint", "") for arg in tensors.fields]
    infos = [*arg_infos, *results]
    names += [f"ret_val_{i}" for i in range(len(results))]
    buffers = [
        _buffer(name, i, info, name_hint)
        for i, (info, name_hint) in enumerate(zip(infos, names, strict=True))
    ]
    specialized = program.specialize(dict(zip(program.params, buffers, strict=True)))
    return specialized.with_attr("scoped", 1)


def _buffer(name: str, index: int, info: StructInfo | None, name_hint: str) -> Any:
    if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
        device = info.vdevice
        scope = "global" if device is None else device.memory_scope
        return decl_buffer(info.shape.values, info.dtype, name_hint or "A", scope=scope)
    raise PassError(
        f"call of `{name}`, tensor {index}: expected a tensor of a known shape, got {info}"
    )
