"""Bindings that patterns match, made functions of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    Expr,
    GlobalVar,
    Id,
    SeqExpr,
    Var,
    VarBinding,
)
from relax_mlir.objects.function import Function
from relax_mlir.pass_context import AnyPass, PassContext, PassInfo
from relax_mlir.relax.analysis.variables import udchain
from relax_mlir.relax.dpl.structure import (
    CallPattern,
    DFPattern,
    TupleGetItemPattern,
)
from relax_mlir.relax.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.relax.transform.grouping import Group, grouped_functions, is_plain

__all__ = ["FuseOpsByPattern", "FusionPattern", "PatternCheckContext", "codegen_name"]


@dataclass(frozen=True)
class PatternCheckContext:
    """What a check is told of a match.

    Attributes:
        matched_expr: the expression.
        annotated_expr: what the patterns with names stand for.
        matched_bindings: the bindings that become one function.
        var_usages: for each variable of the block, those whose values use it.
        value_to_bound_var: the variable of each value so far.
    """

    matched_expr: Expr
    annotated_expr: Mapping[str, Expr]
    matched_bindings: Mapping[Var, Expr]
    var_usages: Mapping[Var, Sequence[Var]]
    value_to_bound_var: Mapping[Expr, Var]


@dataclass(frozen=True)
class FusionPattern:
    """A pattern whose matches become functions.

    Attributes:
        name: the attribute ``Composite`` of the functions; the part before the dot names
            who compiles them.
        pattern: what is matched.
        annotation_patterns: parts of the pattern, by names.
        check: whether a match is taken; all are by default.
        attrs_getter: more attributes, from what the patterns with names stand for.
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Callable[[PatternCheckContext], bool] | None = None
    attrs_getter: Callable[[Mapping[str, Expr]], Mapping[str, Any]] | None = None


class FuseOpsByPattern(AnyPass):
    """Make functions of what patterns match in dataflow blocks.

    Args:
        patterns: in order of priority; a tuple holds the fields of a `FusionPattern`.
        bind_constants: whether constants stay inside, rather than become arguments.
        annotate_codegen: whether each function stands in another, which is public and
            says in ``Codegen`` who compiles it.
        entry_functions: the functions to look at; by default all that no pass made.

    Raises:
        ValueError: ``patterns`` holds something else.
    """

    def __init__(
        self,
        patterns: Sequence[FusionPattern | tuple[Any, ...]],
        bind_constants: bool = True,
        annotate_codegen: bool = False,
        entry_functions: Sequence[str] | None = None,
    ) -> None:
        self.patterns = [_fusion_pattern(pattern) for pattern in patterns]
        self.bind_constants = bind_constants
        self.annotate_codegen = annotate_codegen
        self.entry_functions = list(entry_functions or ())

    @property
    def info(self) -> PassInfo:
        """What it is called as a pass."""
        return PassInfo(0, "FuseOpsByPattern")

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        """The module with the matches made functions.

        Raises:
            PassError: two matches need each other.
            ValueError: a variable stands in two functions.
        """
        made = IRModule(module.functions, attrs=module.attrs)
        for pattern in self.patterns:
            names = self.entry_functions or [
                var.name_hint for var, f in made.functions.items() if is_plain(f)
            ]
            groups: dict[Id, Group] = {}
            for name in names:
                found = _Partition(pattern)
                found.visit_expr(made[name])
                _add_all(groups, found.groups, name)
            lift = not self.bind_constants
            made = grouped_functions(made, groups, names, lift_constants=lift)
        return _Annotator(made).run() if self.annotate_codegen else made


def _fusion_pattern(pattern: Any) -> FusionPattern:
    if isinstance(pattern, FusionPattern):
        return pattern
    if isinstance(pattern, tuple):
        return FusionPattern(*pattern)
    raise ValueError(
        f"expected a `FusionPattern` or a tuple of its fields, got {pattern!r}"
    )


def _add_all(groups: dict[Id, Group], more: Mapping[Id, Group], name: str) -> None:
    for vid, group in more.items():
        if groups.setdefault(vid, group) is not group:
            raise ValueError(
                f"function `{name}`: variable `{vid.name_hint}` is one of another "
                "function: expected that each is defined once"
            )


class _Partition(PyExprVisitor):
    """Finds the matches of one pattern in one function.

    Attributes:
        groups: of each variable.
    """

    def __init__(self, pattern: FusionPattern) -> None:
        self.pattern = pattern
        self.groups: dict[Id, Group] = {}
        self._members: dict[Group, list[Var]] = {}
        self._values: dict[Var, Expr] = {}
        self._variables: dict[Expr, Var] = {}
        self._users: dict[Var, list[Var]] = {}

    def visit_dataflow_block_(self, block: DataflowBlock) -> None:
        outer = (self._users, self._values)
        self._users, self._values = udchain(block), {}
        super().visit_dataflow_block_(block)
        self._users, self._values = outer

    def visit_var_def(self, var: Var) -> None:
        group = self.groups[var.vid] = Group()
        self._members[group] = [var]

    def visit_var_binding_(self, binding: VarBinding) -> None:
        self._values[binding.var] = binding.value
        self._variables[binding.value] = binding.var
        if isinstance(binding.value, Call):
            self.visit_var_def(binding.var)
            # Outside of dataflow blocks nothing is fused.
            if binding.var in self._users:
                self._match(binding.var, binding.value)
        else:
            super().visit_var_binding_(binding)

    def _match(self, var: Var, call: Call) -> None:
        matched = self.pattern.pattern.extract_matched_expr(call, self._values)
        if matched is None:
            return
        inside = [
            self._variables[expr]
            for pattern, expr in matched.items()
            if isinstance(pattern, (CallPattern, TupleGetItemPattern))
            and expr in self._variables
        ]
        context = self._context(call, matched, inside)
        if self.pattern.check is not None and not self.pattern.check(context):
            return
        others = [other for other in dict.fromkeys(inside) if other is not var]
        for other in others:
            group = self.groups[other.vid].root
            if group.num_nodes > 1 and not set(self._members[group]) <= {*inside}:
                return  # a part of another match
        mine = self.groups[var.vid].root
        mine.attrs["Composite"] = self.pattern.name
        if self.pattern.attrs_getter is not None:
            mine.attrs.update(self.pattern.attrs_getter(context.annotated_expr))
        for other in others:
            self._join(self.groups[other.vid].root, mine)

    def _join(self, group: Group, into: Group) -> None:
        if group is not into:
            group.parent = into
            into.num_nodes += group.num_nodes
            self._members[into] += self._members.pop(group)

    def _context(
        self, call: Call, matched: Mapping[DFPattern, Expr], inside: Sequence[Var]
    ) -> PatternCheckContext:
        named = self.pattern.annotation_patterns
        return PatternCheckContext(
            call,
            {name: matched[p] for name, p in named.items() if p in matched},
            {var: self._values[var] for var in inside},
            self._users,
            dict(self._variables),
        )


def codegen_name(composite: str) -> str:
    """Who compiles a function, from its attribute ``Composite``.

    Raises:
        ValueError: the attribute has no dot.
    """
    name, dot, _ = composite.partition(".")
    if not dot:
        raise ValueError(
            f"pattern `{composite}`: expected a name such as `dnnl.conv2d`, of which the "
            "first part says who compiles what it matches"
        )
    return name


class _Annotator(PyExprMutator):
    """Puts each composite function into one that says who compiles it."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self._renamed: dict[str, GlobalVar] = {}

    def run(self) -> IRModule:
        """The module with all composite functions that are called wrapped."""
        for var, function in self.mod.functions.items():
            if is_plain(function):
                self.builder_.update_func(var, self.visit_expr(function))
        made = self.builder_.get()
        for name in self._renamed:
            del made[name]
        return made

    def visit_call_(self, op: Call) -> Expr:
        if not isinstance(op.op, GlobalVar) or op.op.name_hint not in self.mod:
            return super().visit_call_(op)
        function = self.mod[op.op.name_hint]
        composite = function.attrs.get("Composite")
        if composite is None:
            return super().visit_call_(op)
        args = [self.visit_expr(a) for a in op.args]
        return Call(self._wrapped(op.op.name_hint, function, composite), args)

    def _wrapped(self, name: str, function: Function, composite: str) -> GlobalVar:
        if name not in self._renamed:
            codegen = codegen_name(composite)
            symbol = f"{name}_{codegen}"
            attrs = {"Codegen": codegen, "global_symbol": symbol}
            wrapped = _wrap(function).with_attrs(attrs)
            self._renamed[name] = self.builder_.add_func(wrapped, symbol)
        return self._renamed[name]


def _wrap(function: Function) -> Function:
    """A function that holds another and calls it."""
    inner = function.without_attr("Primitive").without_attr("global_symbol")
    local = Var("local_func", inner.struct_info)
    output = Var("output", function.ret_struct_info)
    params = [Var(p.name_hint, p.struct_info) for p in function.params]
    bindings = [VarBinding(local, inner), VarBinding(output, Call(local, params))]
    body = SeqExpr([BindingBlock(bindings)], output)
    return Function(params, body, function.ret_struct_info, function.is_pure)
