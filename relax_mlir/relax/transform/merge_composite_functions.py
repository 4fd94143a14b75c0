"""Composite functions that one compiler takes, joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    Expr,
    GlobalVar,
    Id,
    SeqExpr,
    Var,
    VarBinding,
)
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.relax.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.relax.transform.fuse_ops_by_pattern import codegen_name
from relax_mlir.relax.transform.grouping import (
    Group,
    grouped_functions,
    is_plain,
    renewed,
)
from relax_mlir.rewriting import Pass

__all__ = ["MergeCompositeFunctions"]


@dataclass(frozen=True)
class MergeCompositeFunctions(Pass):
    """Join calls of composite functions that one compiler takes into one function.

    A call joins the calls that make its arguments, unless something between them is left
    to another compiler.

    Raises:
        ValueError: the attribute ``Composite`` does not say who compiles a function.
    """

    def run(self, module: IRModule) -> None:
        names = [var.name_hint for var, f in module.functions.items() if is_plain(f)]
        groups: dict[Id, Group] = {}
        for name in names:
            found = _Groups(module)
            found.visit_expr(module[name])
            groups.update(found.groups)
        grouped = grouped_functions(module, groups, names, lift_constants=True)
        module.become(_Inliner(grouped).run(names))
        erase_unreachable(module, ("main",) if "main" in module else ())


class _Groups(PyExprVisitor):
    """Finds which calls of one function are joined.

    Attributes:
        groups: of each variable.
    """

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.groups: dict[Id, Group] = {}
        self._needs: dict[Group, set[Group]] = {}  # of root groups, all of them

    def visit_var_def(self, var: Var) -> None:
        self.groups.setdefault(var.vid, Group())

    def visit_var_binding_(self, binding: VarBinding) -> None:
        super().visit_var_binding_(binding)
        if isinstance(binding.value, Call):
            self.groups[binding.var.vid] = self._group(binding.value)

    def _group(self, call: Call) -> Group:
        producers = [
            self.groups[a.vid].root
            for a in call.args
            if isinstance(a, Var) and a.vid in self.groups
        ]
        codegen = self._codegen(call.op)
        needed = {g for p in producers for g in self._needs.get(p, ())}
        joined = [
            p
            for p in dict.fromkeys(producers)
            if codegen is not None
            and p.attrs.get("Codegen") == codegen
            and p not in needed
        ]
        if not joined:
            group = Group({} if codegen is None else {"Codegen": codegen})
        else:
            group, *others = joined
            group.num_nodes += 1
            for other in others:
                self._merge(other, group)
        self._update_needs(group.root, [p.root for p in producers])
        return group

    def _codegen(self, callee: Expr) -> str | None:
        """Who compiles what is called, if it is a composite function."""
        if not isinstance(callee, GlobalVar) or callee.name_hint not in self.mod:
            return None
        composite = self.mod[callee.name_hint].attrs.get("Composite")
        return None if composite is None else codegen_name(composite)

    def _merge(self, group: Group, into: Group) -> None:
        if group is into:
            return
        group.parent = into
        into.num_nodes += group.num_nodes
        needs = self._needs.pop(group, set())
        self._needs.setdefault(into, set()).update(needs)
        for known in self._needs.values():
            if group in known:
                known.discard(group)
                known.add(into)

    def _update_needs(self, group: Group, producers: Sequence[Group]) -> None:
        needs = self._needs.setdefault(group, set())
        for producer in producers:
            if producer is not group:
                needs |= {producer, *self._needs.get(producer, ())}


class _Inliner(PyExprMutator):
    """Puts composite functions into those that call them, which become public."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self._renamed: dict[str, GlobalVar] = {}

    def run(self, names: Sequence[str]) -> IRModule:
        """The module in which functions to be compiled elsewhere hold all they call."""
        for var, function in self.mod.functions.items():
            is_new = "global_symbol" not in function.attrs
            if (
                is_new
                and isinstance(function, Function)
                and "Codegen" in function.attrs
            ):
                name = var.name_hint
                self._renamed[name] = self._self_contained(name, function)
        for name in names:
            self.builder_.update_func(name, self.visit_expr(self.mod[name]))
        return self.builder_.get()

    def _self_contained(self, name: str, function: Function) -> GlobalVar:
        symbol = f"{name}_{function.attrs['Codegen']}"
        bindings = _inlined(self.mod, function)
        new = [VarBinding(Var(b.var.name_hint), b.value) for b in bindings]
        body = _Rebinder(bindings, new).body(function.body.body)
        attrs: dict[str, Any] = {**function.attrs, "global_symbol": symbol}
        attrs.pop("Primitive", None)
        made = Function(
            function.params, body, function.ret_struct_info, function.is_pure, attrs
        )
        return self.builder_.add_func(made, symbol)

    def visit_call_(self, op: Call) -> Expr:
        if isinstance(op.op, GlobalVar) and op.op.name_hint in self._renamed:
            args = [self.visit_expr(a) for a in op.args]
            return Call(self._renamed[op.op.name_hint], args)
        return super().visit_call_(op)


def _inlined(mod: IRModule, function: Function) -> list[VarBinding]:
    """The bindings of a function, with composite functions bound where they are called."""
    local: dict[str, Var] = {}
    found: list[VarBinding] = []
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, Call) and isinstance(value.op, GlobalVar):
                name = value.op.name_hint
                if name in mod and "Composite" in mod[name].attrs:
                    if name not in local:
                        inner = renewed(mod[name]).without_attr("Primitive")
                        local[name] = Var("lv", inner.struct_info)
                        found.append(VarBinding(local[name], inner))
                    value = Call(local[name], value.args)
            found.append(VarBinding(binding.var, value))
    return found


class _Rebinder(PyExprMutator):
    """Binds the same values to other variables, outside of any dataflow block."""

    def __init__(self, old: Sequence[VarBinding], new: Sequence[VarBinding]) -> None:
        super().__init__()
        self.old, self.new = old, new

    def body(self, result: Expr) -> SeqExpr:
        """The new bindings, and the value after them."""
        made = []
        for old, new in zip(self.old, self.new, strict=True):
            value = self.visit_expr(new.value)
            var = self.with_struct_info(new.var, value.struct_info)
            self.set_var_remap(old.var.vid, var)
            made.append(VarBinding(var, value))
        return SeqExpr([BindingBlock(made)], self.visit_expr(result))
