"""``AllocateWorkspace``: allocates workspaces for external library functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    Expr,
    GlobalVar,
    Var,
)
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_variables import post_order_visit
from relax_mlir.objects.function import Function
from relax_mlir.objects.function_builder import NameSupply
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.op.storage import alloc_tensor

__all__ = ["AllocateWorkspace"]

_SIZE = "WorkspaceSize"
_LIBRARY_ATTRS = ("Composite", "Codegen")


@dataclass(frozen=True)
class AllocateWorkspace(Pass):
    """Passes a workspace to functions that request one by ``WorkspaceSize``, in bytes.

    Such a function is renamed and gets an extra parameter, ``workspace``. Callers allocate
    ``workspace_main`` once per block, in the largest requested size.
    """

    def run(self, module: IRModule) -> None:
        functions = {
            var.name_hint: function
            for var, function in module.functions.items()
            if isinstance(function, Function)
        }
        with_workspace = [name for name, f in functions.items() if _SIZE in f.attrs]
        if not with_workspace:
            return
        supply = NameSupply([var.name_hint for var in module.get_global_vars()])
        names = {name: supply.fresh(name) for name in with_workspace}
        size_bytes = max(int(functions[name].attrs[_SIZE]) for name in with_workspace)
        mutator = _WorkspaceMutator(module, names, size_bytes)
        # Callees first, so that their types are known.
        bottom_up = sorted(functions, key=lambda name: _level(functions[name]))
        rewritten = {name: mutator.rewrite(functions[name]) for name in bottom_up}
        for name in with_workspace:
            del module[name]
        for name, function in rewritten.items():
            module.update_func(names.get(name, name), function)


def _level(function: Function) -> int:
    """Returns the call level: 0 for composite functions, higher for their callers."""
    levels = [n for n, name in enumerate(_LIBRARY_ATTRS) if name in function.attrs]
    return levels[0] if levels else len(_LIBRARY_ATTRS)


class _WorkspaceMutator(PyExprMutator):
    """Passes the workspace to the functions that need it.

    Args:
        names: the new name of each function, by the old one.
        size_bytes: the size of the workspace.
    """

    def __init__(self, mod: IRModule, names: Mapping[str, str], size_bytes: int):
        super().__init__(mod)
        self.names = names
        self.info = TensorStructInfo((size_bytes,), "uint8")
        self.param: Var | None = None  # of the enclosing library function
        self.workspace: Expr | None = None

    def rewrite(self, function: Function) -> Function:
        """Rewrites a function of the module."""
        self.param = self.workspace = None
        new_function: Function = self.visit_expr(function)
        if new_function is function or function.name not in self.names:
            return new_function
        return new_function.with_attr("global_symbol", self.names[function.name])

    def visit_function_(self, op: Function) -> Expr:
        """Visits a function; one that needs a workspace gets the parameter."""
        if _SIZE not in op.attrs or not any(n in op.attrs for n in _LIBRARY_ATTRS):
            return super().visit_function_(op)
        param = Var("workspace", self.info)
        outer, self.param = self.param, self.param or param
        params = [*op.params, param]
        body = self.visit_with_new_scope(op.body, params)
        self.param = outer
        attrs: dict[str, Any] = {k: v for k, v in op.attrs.items() if k != _SIZE}
        return Function(params, body, op.ret_struct_info, op.is_pure, attrs)

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """Visits a block; its workspace is that of an enclosing parameter."""
        outer = self.workspace
        self.workspace = self.param
        new_block = super().visit_binding_block(block)
        self.workspace = outer
        return new_block

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Visits a dataflow block; the workspace is allocated at its start."""
        self.builder_._begin_dataflow_block()
        if self.workspace is None and any(map(self._needs, _calls(block))):
            self.workspace = self._allocate()
        return self._rewritten(block)

    def _allocate(self) -> Var:
        tensor = alloc_tensor(self.info.shape, "uint8", 0)
        return self.builder_.emit(tensor, "workspace_main")

    def _needs(self, call: Call) -> bool:
        callee = call.op
        if isinstance(callee, GlobalVar):
            return callee.name_hint in self.names
        inner = self.lookup_binding(callee) if isinstance(callee, Var) else None
        return isinstance(inner, Function) and "Composite" in inner.attrs

    def visit_call_(self, op: Call) -> Expr:
        """Passes the workspace to a callee that needs it."""
        call = super().visit_call_(op)
        if not isinstance(call, Call) or not self._needs(call):
            return call
        self.workspace = self.workspace or self._allocate()
        callee = call.op
        if isinstance(callee, GlobalVar):
            callee = GlobalVar(self.names[callee.name_hint])
        new_call = Call(
            callee, [*call.args, self.workspace], call.attrs, call.sinfo_args
        )
        return new_call.with_struct_info(op.struct_info)


def _calls(block: DataflowBlock) -> list[Call]:
    """Returns the calls in a block."""
    calls: list[Call] = []

    def visit(expr: Expr) -> None:
        if isinstance(expr, Call):
            calls.append(expr)

    for binding in block.bindings:
        post_order_visit(binding.value, visit)
    return calls
