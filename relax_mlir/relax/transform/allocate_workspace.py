"""``AllocateWorkspace``: functions of libraries get the memory that they work in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    Expr,
    GlobalVar,
    Var,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.analysis.variables import post_order_visit
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.op.storage import alloc_tensor
from relax_mlir.relax.open_function import NameSupply
from relax_mlir.rewriting import Pass

__all__ = ["AllocateWorkspace"]

_SIZE = "WorkspaceSize"
_FOR_LIBRARIES = ("Composite", "Codegen")


@dataclass(frozen=True)
class AllocateWorkspace(Pass):
    """Pass memory to the functions that say by ``WorkspaceSize`` how many bytes they need.

    Such a function gets another name and one more parameter, ``workspace``. Its callers
    allocate ``workspace_main``, as large as the largest of them needs, once a block.
    """

    def run(self, module: IRModule) -> None:
        functions = {
            var.name_hint: function
            for var, function in module.functions.items()
            if isinstance(function, Function)
        }
        needing = [name for name, f in functions.items() if _SIZE in f.attrs]
        if not needing:
            return
        supply = NameSupply([var.name_hint for var in module.get_global_vars()])
        names = {name: supply.fresh(name) for name in needing}
        size_bytes = max(int(functions[name].attrs[_SIZE]) for name in needing)
        providing = _Providing(module, names, size_bytes)
        # What is called comes first, so that its type is known.
        ordered = sorted(functions, key=lambda name: _level(functions[name]))
        made = {name: providing.rewritten(functions[name]) for name in ordered}
        for name in needing:
            del module[name]
        for name, function in made.items():
            module.update_func(names.get(name, name), function)


def _level(function: Function) -> int:
    """The higher, the further from the functions that others call."""
    found = [n for n, name in enumerate(_FOR_LIBRARIES) if name in function.attrs]
    return found[0] if found else len(_FOR_LIBRARIES)


class _Providing(PyExprMutator):
    """Passes memory to the functions that need it.

    Args:
        names: the new name of each, by the old one.
        size_bytes: how much memory that is.
    """

    def __init__(self, mod: IRModule, names: Mapping[str, str], size_bytes: int):
        super().__init__(mod)
        self.names = names
        self.info = TensorStructInfo((size_bytes,), "uint8")
        self.param: Var | None = None  # of the function for a library that is open
        self.workspace: Expr | None = None

    def rewritten(self, function: Function) -> Function:
        """A function of the module, with the memory that it needs or passes on."""
        self.param = self.workspace = None
        made: Function = self.visit_expr(function)
        if made is function or function.name not in self.names:
            return made
        return made.with_attr("global_symbol", self.names[function.name])

    def visit_function_(self, op: Function) -> Expr:
        """A function that needs memory, with one more parameter."""
        if _SIZE not in op.attrs or not any(n in op.attrs for n in _FOR_LIBRARIES):
            return super().visit_function_(op)
        param = Var("workspace", self.info)
        outer, self.param = self.param, self.param or param
        params = [*op.params, param]
        body = self.visit_with_new_scope(op.body, params)
        self.param = outer
        attrs: dict[str, Any] = {k: v for k, v in op.attrs.items() if k != _SIZE}
        return Function(params, body, op.ret_struct_info, op.is_pure, attrs)

    def visit_binding_block(self, block: BindingBlock) -> BindingBlock:
        """A block, with memory of its own if it passes some on."""
        outer = self.workspace
        self.workspace = self.param
        made = super().visit_binding_block(block)
        self.workspace = outer
        return made

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """A dataflow block; the memory comes in front of all else."""
        self.builder_._begin_dataflow_block()
        if self.workspace is None and any(map(self._needs, _calls(block))):
            self.workspace = self._allocated()
        return self._rewritten(block)

    def _allocated(self) -> Var:
        made = alloc_tensor(self.info.shape, "uint8", 0)
        return self.builder_.emit(made, "workspace_main")

    def _needs(self, call: Call) -> bool:
        callee = call.op
        if isinstance(callee, GlobalVar):
            return callee.name_hint in self.names
        inner = self.lookup_binding(callee) if isinstance(callee, Var) else None
        return isinstance(inner, Function) and "Composite" in inner.attrs

    def visit_call_(self, op: Call) -> Expr:
        """A call that passes memory on."""
        call = super().visit_call_(op)
        if not isinstance(call, Call) or not self._needs(call):
            return call
        self.workspace = self.workspace or self._allocated()
        callee = call.op
        if isinstance(callee, GlobalVar):
            callee = GlobalVar(self.names[callee.name_hint])
        made = Call(callee, [*call.args, self.workspace], call.attrs, call.sinfo_args)
        return made.with_struct_info(op.struct_info)


def _calls(block: DataflowBlock) -> list[Call]:
    """The calls in a block."""
    found: list[Call] = []

    def visit(expr: Expr) -> None:
        if isinstance(expr, Call):
            found.append(expr)

    for binding in block.bindings:
        post_order_visit(binding.value, visit)
    return found
