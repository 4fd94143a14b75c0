"""Groups of bindings, and their outlining as functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from mlir import ir

from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import blocks_of, own_operations, values_read
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Id, Var
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_symbols import defined_symbolic_vars, free_symbolic_vars
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.rewrite.functions import (
    dataflow_blocks,
    erase_unused_inline,
    leaves_of,
)
from relax_mlir.tvm.relax.transform.outline import Outliner, fused_name, variable_name

__all__ = ["Group", "is_ungrouped", "outline_groups", "with_fresh_vars"]


@dataclass(eq=False)
class Group:
    """A node of a union-find forest over bindings; a group may become a function.

    A group becomes a function if it has several bindings, or attributes.

    Attributes:
        attrs: attributes of the function.
        parent: the group that this one was merged into.
        num_nodes: the number of bindings.
    """

    attrs: dict[str, Any] = field(default_factory=dict)
    parent: Group | None = None
    num_nodes: int = 1

    @property
    def root(self) -> Group:
        """The representative of the group."""
        group = self
        while group.parent is not None:
            group = group.parent
        return group

    @property
    def is_function(self) -> bool:
        """Whether it becomes a function."""
        return self.num_nodes > 1 or bool(self.attrs)


def is_ungrouped(function: BaseFunc) -> bool:
    """Returns whether a function is a Relax function that no grouping created."""
    group_attrs = ("Primitive", "Composite", "Codegen")
    return isinstance(function, Function) and not any(
        function.attrs.get(name) for name in group_attrs
    )


def outline_groups(
    module: IRModule,
    groups: Mapping[Id, Group],
    names: Sequence[str],
    *,
    lift_constants: bool,
) -> None:
    """Outlines the groups of dataflow blocks as functions and calls them, in place.

    Args:
        module: the module.
        groups: the group of each variable of the functions ``names``.
        names: the functions to process.
        lift_constants: whether constants become arguments.

    Raises:
        PassError: two groups depend on each other.
    """
    if not any(group.root.is_function for group in groups.values()):
        return
    for name in names:  # written again, each binding has the attributes of a script
        old = module[name]
        parts = old.params, old.body, old.ret_struct_info, old.is_pure, old.attrs
        module.update_func(name, Function(*parts))
    with module.context, ir.Location.unknown():
        functions = [module.func_op(name) for name in names]
        drafts = [
            draft
            for function in functions
            for block in blocks_of(function)
            for bindings in dataflow_blocks(block)
            for draft in _drafts(bindings, module.scope(function.name.value), groups)
        ]
        outliner = Outliner(module, lift_constants=lift_constants)
        for group, members in drafts:
            attrs = {**group.attrs, "Primitive": True}
            result = outliner.outline(members, fused_name(members), attrs)
            if result is not None:
                _name_as_emitted(result.owner.operation)
        for function in functions:
            erase_unused_inline(function)
        module.forget_scopes()


def _name_as_emitted(call: ir.Operation) -> None:
    """Names the variable of a call as TVM's ``BlockBuilder`` does: ``lv``, or ``gv``."""
    is_output = function_attributes.OUTPUT in call.attributes
    call.attributes[function_attributes.NAME] = ir.StringAttr.get(
        "gv" if is_output else "lv"
    )


def _drafts(
    bindings: Sequence[ir.OpView], scope: FunctionScope, groups: Mapping[Id, Group]
) -> list[tuple[Group, list[ir.OpView]]]:
    """The groups that become functions, with their bindings, which are made adjacent.

    Raises:
        PassError: two groups depend on each other.
    """
    members: dict[Group, list[ir.OpView]] = {}
    group_of: dict[ir.Value, Group] = {}
    for op in bindings:
        var = scope.expr(op.operation.results[0])
        known = groups.get(var.vid) if isinstance(var, Var) else None
        group = Group() if known is None else known.root
        members.setdefault(group, []).append(op)
        group_of.update((result, group) for result in op.operation.results)
    order = _sorted_groups(members, group_of)
    drafts = [(group, members[group]) for group in order if group.is_function]
    if drafts:
        own = list(own_operations(bindings[-1].operation.block))
        end = own[own.index(bindings[-1]) + 1]
        for op in chain.from_iterable(members[group] for group in order):
            _move_before(op, end, group_of)
    return drafts


def _sorted_groups(
    members: Mapping[Group, Sequence[ir.OpView]], group_of: Mapping[ir.Value, Group]
) -> list[Group]:
    """The groups in topological order.

    Raises:
        PassError: two groups depend on each other.
    """
    needs: dict[Group, dict[Group, ir.Value]] = {group: {} for group in members}
    for group, ops in members.items():
        for value in chain.from_iterable(map(_values_of, ops)):
            other = group_of.get(value, group)
            if other is not group:
                needs[group].setdefault(other, value)
            if group in needs[other]:
                ours, theirs = map(variable_name, (needs[other][group], value))
                raise PassError(
                    "A cyclic dependency detected between the groups that "
                    f"`{ours}` and `{theirs}` are in"
                )
    order: dict[Group, None] = {}
    visited: set[Group] = set()

    def visit(group: Group) -> None:
        if group not in visited:
            visited.add(group)
            for needed in needs[group]:
                visit(needed)
            order[group] = None

    for group in members:
        visit(group)
    return list(order)


def _values_of(op: ir.OpView) -> Iterable[ir.Value]:
    """The variables that a binding reads, through tuple packs."""
    return chain.from_iterable(map(leaves_of, values_read(op)))


def _move_before(op: ir.OpView, end: ir.OpView, bound: Collection[ir.Value]) -> None:
    """Moves a binding, with the tuple packs of bound values among its operands."""
    for value in values_read(op):
        owner = value.owner
        if value not in bound and any(leaf in bound for leaf in leaves_of(value)):
            _move_before(owner.operation.opview, end, bound)
    op.operation.move_before(end.operation)


def _has_variables(exprs: Iterable[PrimExpr]) -> bool:
    return any(isinstance(t, prim.Var) for expr in exprs for t in prim.post_order(expr))


def with_fresh_vars(function: Function) -> Function:
    """Returns a copy of a function with fresh variables, including size variables."""
    sizes = [*defined_symbolic_vars(function), *free_symbolic_vars(function)]
    copier = _FreshVarCopier({size: prim.Var(size.name, size.dtype) for size in sizes})
    copied = copier.visit_expr(function)
    assert isinstance(copied, Function)
    return copied


class _FreshVarCopier(PyExprMutator):
    """Copies a function with fresh variables."""

    def __init__(self, sizes: Mapping[prim.Var, PrimExpr]) -> None:
        super().__init__()
        self.sizes = sizes

    def visit_prim_expr(self, expr: PrimExpr) -> PrimExpr:
        return prim.substitute(expr, self.sizes) if _has_variables([expr]) else expr

    def visit_var_def_(self, var: Var) -> Var:
        info = self.visit_struct_info(var.struct_info_or_none())
        return type(var)(var.name_hint, info)
