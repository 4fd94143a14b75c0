"""``MergeCompositeFunctions``: merges composite functions of one code generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.ir.module import IRModule
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
from relax_mlir.objects.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.fuse_ops_by_pattern import codegen_name
from relax_mlir.tvm.relax.transform.grouping import (
    Group,
    is_ungrouped,
    outline_groups,
    with_fresh_vars,
)

__all__ = ["MergeCompositeFunctions"]


@dataclass(frozen=True)
class MergeCompositeFunctions(Pass):
    """Merges calls of composite functions for one code generator into one function.

    A call is merged with the producers of its arguments, unless a path between them passes
    through another code generator.

    Raises:
        ValueError: the attribute ``Composite`` of a function names no code generator.
    """

    def run(self, module: IRModule) -> None:
        names = [
            var.name_hint for var, f in module.functions.items() if is_ungrouped(f)
        ]
        groups: dict[Id, Group] = {}
        for name in names:
            partition = _CodegenPartition(module)
            partition.visit_expr(module[name])
            groups.update(partition.groups)
        outline_groups(module, groups, names, lift_constants=True)
        module.replace_contents(_Inliner(module).run(names))
        erase_unreachable(module, ("main",) if "main" in module else ())


class _CodegenPartition(PyExprVisitor):
    """Partitions the calls of one function into groups.

    Attributes:
        groups: the group of each variable.
    """

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.groups: dict[Id, Group] = {}
        # Transitive dependencies of root groups.
        self._dependencies: dict[Group, set[Group]] = {}

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
        indirect = {g for p in producers for g in self._dependencies.get(p, ())}
        mergeable = [
            p
            for p in dict.fromkeys(producers)
            if codegen is not None
            and p.attrs.get("Codegen") == codegen
            and p not in indirect
        ]
        if not mergeable:
            group = Group({} if codegen is None else {"Codegen": codegen})
        else:
            group, *others = mergeable
            group.num_nodes += 1
            for other in others:
                self._merge(other, group)
        self._update_dependencies(group.root, [p.root for p in producers])
        return group

    def _codegen(self, callee: Expr) -> str | None:
        """Returns the code generator of a callee that is a composite function."""
        if not isinstance(callee, GlobalVar) or callee.name_hint not in self.mod:
            return None
        composite = self.mod[callee.name_hint].attrs.get("Composite")
        return None if composite is None else codegen_name(composite)

    def _merge(self, group: Group, into: Group) -> None:
        if group is into:
            return
        group.parent = into
        into.num_nodes += group.num_nodes
        needs = self._dependencies.pop(group, set())
        self._dependencies.setdefault(into, set()).update(needs)
        for dependencies in self._dependencies.values():
            if group in dependencies:
                dependencies.discard(group)
                dependencies.add(into)

    def _update_dependencies(self, group: Group, producers: Sequence[Group]) -> None:
        needs = self._dependencies.setdefault(group, set())
        for producer in producers:
            if producer is not group:
                needs |= {producer, *self._dependencies.get(producer, ())}


class _Inliner(PyExprMutator):
    """Inlines composite functions into their merged callers, which become public."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self._renamed: dict[str, GlobalVar] = {}

    def run(self, names: Sequence[str]) -> IRModule:
        """Returns the module with self-contained functions for external code generators."""
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
        body = _Rebinder(bindings, new).rebound(function.body.body)
        attrs: dict[str, Any] = {**function.attrs, "global_symbol": symbol}
        attrs.pop("Primitive", None)
        new_function = Function(
            function.params, body, function.ret_struct_info, function.is_pure, attrs
        )
        return self.builder_.add_func(new_function, symbol)

    def visit_call_(self, op: Call) -> Expr:
        if isinstance(op.op, GlobalVar) and op.op.name_hint in self._renamed:
            args = [self.visit_expr(a) for a in op.args]
            return Call(self._renamed[op.op.name_hint], args)
        return super().visit_call_(op)


def _inlined(mod: IRModule, function: Function) -> list[VarBinding]:
    """Returns the bindings of a function, with composite callees bound locally."""
    local: dict[str, Var] = {}
    bindings: list[VarBinding] = []
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, Call) and isinstance(value.op, GlobalVar):
                name = value.op.name_hint
                if name in mod and "Composite" in mod[name].attrs:
                    if name not in local:
                        composite = with_fresh_vars(mod[name]).without_attr("Primitive")
                        local[name] = Var("lv", composite.struct_info)
                        bindings.append(VarBinding(local[name], composite))
                    value = Call(local[name], value.args)
            bindings.append(VarBinding(binding.var, value))
    return bindings


class _Rebinder(PyExprMutator):
    """Rebinds values to new variables, outside of dataflow blocks."""

    def __init__(self, old: Sequence[VarBinding], new: Sequence[VarBinding]) -> None:
        super().__init__()
        self.old, self.new = old, new

    def rebound(self, result: Expr) -> SeqExpr:
        """Returns the new bindings and the result."""
        bindings = []
        for old, new in zip(self.old, self.new, strict=True):
            value = self.visit_expr(new.value)
            var = self.with_struct_info(new.var, value.struct_info)
            self.set_var_remap(old.var.vid, var)
            bindings.append(VarBinding(var, value))
        return SeqExpr([BindingBlock(bindings)], self.visit_expr(result))
