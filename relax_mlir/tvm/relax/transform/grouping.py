"""Groups of bindings, and their outlining as functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    Id,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import ShapeStructInfo, TupleStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_symbols import defined_symbolic_vars, free_symbolic_vars
from relax_mlir.objects.free_variables import used_vars
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.prim import PrimExpr

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
    mod: IRModule,
    groups: Mapping[Id, Group],
    names: Iterable[str],
    *,
    lift_constants: bool,
) -> IRModule:
    """Outlines the groups of dataflow blocks as functions and calls them.

    Args:
        mod: the module.
        groups: the group of each variable of the functions ``names``.
        names: the functions to process.
        lift_constants: whether constants become arguments.

    Raises:
        PassError: two groups depend on each other.
    """
    grouper = _Grouper(mod, groups, lift_constants)
    for name in names:
        grouper.builder_.update_func(name, grouper.visit_expr(mod[name]))
    return grouper.builder_.get()


class _Grouper(PyExprMutator):
    """Replaces the bindings of a group by one call of its function."""

    def __init__(
        self, mod: IRModule, groups: Mapping[Id, Group], lift_constants: bool
    ) -> None:
        super().__init__(mod)
        self.groups = groups
        self.lift_constants = lift_constants
        self._drafts: dict[Group, _FunctionDraft] = {}
        self._dependencies: dict[Group, list[Group]] = {}

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        outer = (self._drafts, self._dependencies)
        self._drafts, self._dependencies = {}, {}
        for binding in block.bindings:
            group = self._group(binding.var)
            if group.is_function:
                draft = self._drafts.setdefault(
                    group, _FunctionDraft(self.lift_constants)
                )
                draft.append(binding)
        for binding in block.bindings:
            self._record_dependencies(binding)
        functions = {g: draft.function(g.attrs) for g, draft in self._drafts.items()}
        self.builder_._begin_dataflow_block()
        for binding in self._sorted(block.bindings):
            group = self._group(binding.var)
            if group not in self._drafts:
                self.visit_binding(binding)
            elif self._drafts[group].bindings[-1] is binding:
                self._emit_call(group, functions[group])
        self._drafts, self._dependencies = outer
        return self.builder_._end_block()

    def _group(self, var: Var) -> Group:
        return self.groups[var.vid].root

    def _record_dependencies(self, binding: Binding) -> None:
        """Records a binding's uses of variables of other groups."""
        group = self._group(binding.var)
        for var in used_vars(binding.value):
            other = self._group(var)
            if other is group:
                continue
            if group in self._dependencies.get(other, ()):
                raise PassError(
                    "A cyclic dependency detected between the groups that "
                    f"`{binding.var.name_hint}` and `{var.name_hint}` are in"
                )
            self._dependencies.setdefault(group, []).append(other)
            if other in self._drafts:
                self._drafts[other].add_output(var)

    def _sorted(self, bindings: Sequence[Binding]) -> list[Binding]:
        """Returns the bindings in topological order of their groups."""
        members: dict[Group, list[Binding]] = {}
        for binding in bindings:
            members.setdefault(self._group(binding.var), []).append(binding)
        result: list[Binding] = []
        visited: set[Group] = set()

        def visit(group: Group) -> None:
            if group not in visited:
                visited.add(group)
                for needed in self._dependencies.get(group, ()):
                    visit(needed)
                result.extend(members.get(group, ()))

        for group in list(members):
            visit(group)
        return result

    def _emit_call(self, group: Group, function: Function | None) -> None:
        """Emits the call of a group's function at the position of its last binding."""
        if function is None:
            return
        draft = self._drafts[group]
        callee = self.builder_.add_func(function, draft.name)
        call = Call(callee, [self.visit_expr(a) for a in draft.arguments])
        last = draft.bindings[-1].var
        if isinstance(last, DataflowVar):
            result = self.builder_.emit(call)
        else:
            result = self.builder_.emit_output(call)
        if len(draft.outputs) == 1:
            self.set_var_remap(draft.outputs[0].vid, result)
            return
        for var in [b.var for b in draft.bindings if b.var in draft.outputs]:
            item = TupleGetItem(result, draft.outputs.index(var))
            is_local = isinstance(var, DataflowVar)
            emit = self.builder_.emit if is_local else self.builder_.emit_output
            self.set_var_remap(var.vid, emit(item))


class _FunctionDraft(PyExprMutator):
    """The function of a group under construction.

    Attributes:
        name: the preferred name.
        arguments: the arguments of the call.
        outputs: the variables that are used outside.
    """

    def __init__(self, lift_constants: bool) -> None:
        super().__init__()
        self.lift_constants = lift_constants
        self.name = "fused"
        self.bindings: list[Binding] = []
        self.arguments: list[Expr] = []
        self.outputs: list[Var] = []
        self._params: list[Var] = []
        self._defined: set[Id] = set()
        self._num_unnamed = 0
        self._items: dict[Id, list[int]] = {}  # used elements of tuple parameters
        self._item_params: dict[tuple[Id, int], Var] = {}

    def append(self, binding: Binding) -> None:
        """Adds a binding; values defined outside become parameters."""
        value = binding.value
        if isinstance(value, Call):
            self._append_call(value)
        elif isinstance(value, TupleGetItem):
            self._add_argument(value.tuple_value)
            tuple_value = value.tuple_value
            if isinstance(tuple_value, Var) and tuple_value.vid in self._items:
                self._items[tuple_value.vid].append(value.index)
        self._defined.add(binding.var.vid)
        if not isinstance(binding.var, DataflowVar):
            self.add_output(binding.var)
        self.bindings.append(binding)

    def _append_call(self, call: Call) -> None:
        args: Sequence[Expr] = call.args
        if isinstance(call.op, Op) and call.op.name in _TIR_CALLS:
            callee, arguments = args[:2]
            assert isinstance(callee, GlobalVar)
            assert isinstance(arguments, Tuple)
            self.name += f"_{callee.name_hint}"
            args = arguments.fields
        elif isinstance(call.op, Op):
            self.name += f"_{call.op.name}"
        elif isinstance(call.op, GlobalVar):
            self.name += "_" + call.op.name_hint.removeprefix("fused_")
        for arg in args:
            self._add_argument(arg)
            if isinstance(arg, Var):
                self._items.pop(arg.vid, None)  # the whole tuple is used

    def add_output(self, var: Var) -> int:
        """Marks a variable as used outside; returns its index among the results."""
        if var not in self.outputs:
            self.outputs.append(var)
        return self.outputs.index(var)

    def _add_argument(self, expr: Expr) -> None:
        if any(expr is argument for argument in self.arguments):
            return
        if isinstance(expr, Tuple):
            for tuple_field in expr.fields:
                self._add_argument(tuple_field)
            return
        is_inside = isinstance(expr, Var) and expr.vid in self._defined
        is_kept = isinstance(expr, Constant) and not self.lift_constants
        if is_inside or is_kept or _is_inlined(expr):
            return
        if isinstance(expr, Var):
            name = expr.name_hint
        else:
            name = f"param_{self._num_unnamed}"
            self._num_unnamed += 1
        self._params.append(Var(name, expr.struct_info))
        self.arguments.append(expr)
        if isinstance(expr, Var) and isinstance(expr.struct_info, TupleStructInfo):
            self._items[expr.vid] = []

    def visit_expr(self, expr: Expr) -> Any:
        for argument, param in zip(self.arguments, self._params, strict=True):
            if expr is argument:
                return param
        return super().visit_expr(expr)

    def function(self, attrs: Mapping[str, Any]) -> Function | None:
        """Returns the function, or None if nothing uses its results."""
        if not self.outputs:
            return None
        self._split_tuples()
        self.builder_._begin_dataflow_block()
        for binding in self.bindings:
            self._emit(binding)
        block = self.builder_._end_block()
        results = [self.visit_expr(var) for var in self.outputs]
        body = SeqExpr([block], results[0] if len(results) == 1 else Tuple(results))
        function = Function(self._params, body, attrs={**attrs, "Primitive": True})
        sizes = free_symbolic_vars(function)
        if sizes:
            self._params.append(Var("tir_vars", ShapeStructInfo(sizes)))
            self.arguments.append(ShapeExpr(sizes))
            function = Function(self._params, body, attrs=function.attrs)
        return with_fresh_vars(function)

    def _split_tuples(self) -> None:
        """Replaces tuple parameters by those of their elements that are used."""
        for vid, used in self._items.items():
            position = next(
                n
                for n, a in enumerate(self.arguments)
                if isinstance(a, Var) and a.vid == vid
            )
            tuple_value, param = self.arguments[position], self._params[position]
            info = tuple_value.struct_info
            assert isinstance(info, TupleStructInfo)
            indices = list(dict.fromkeys(used))
            params = [Var(f"{param.name_hint}_{i}", info.fields[i]) for i in indices]
            items = [TupleGetItem(tuple_value, index) for index in indices]
            self.arguments[position : position + 1] = items
            self._params[position : position + 1] = params
            for index, item_param in zip(indices, params, strict=True):
                self._item_params[(vid, index)] = item_param

    def _emit(self, binding: Binding) -> None:
        value = binding.value
        if isinstance(value, TupleGetItem) and isinstance(value.tuple_value, Var):
            param = self._item_params.get((value.tuple_value.vid, value.index))
            if param is not None:
                self.set_var_remap(binding.var.vid, param)
                return
        if binding.var in self.outputs:
            output = self.builder_.emit_output(self.visit_expr(value))
            self.set_var_remap(binding.var.vid, output)
            return
        if isinstance(binding, VarBinding):
            local_var = DataflowVar(binding.var.name_hint)
            new = self.visit_expr(value)
            self._replace(
                binding.var, self.with_struct_info(local_var, new.struct_info)
            )
            self.builder_.emit_normalized(VarBinding(local_var, new))
        else:
            self.visit_binding(binding)


_TIR_CALLS = ("relax.call_tir", "relax.call_tir_inplace")


def _is_inlined(expr: Expr) -> bool:
    """Returns whether an expression stays inside: constant sizes, numbers, names."""
    if isinstance(expr, PrimValue):
        return not _has_variables([expr.value])
    if isinstance(expr, ShapeExpr):
        return not _has_variables(expr.values)
    return isinstance(expr, (StringImm, DataTypeImm, GlobalVar, ExternFunc))


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
