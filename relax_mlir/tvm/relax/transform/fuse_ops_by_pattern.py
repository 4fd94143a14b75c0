"""``FuseOpsByPattern``: outlines pattern matches as composite functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.ir.module import IRModule
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
from relax_mlir.objects.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.objects.free_variables import udchain
from relax_mlir.objects.function import Function
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.backend.pattern_registry import get_patterns_with_prefix
from relax_mlir.tvm.relax.dpl.structure import (
    CallPattern,
    DFPattern,
    TupleGetItemPattern,
)
from relax_mlir.tvm.relax.transform.fusion_pattern import (
    FusionPattern,
    PatternCheckContext,
    parse_operator_chain,
)
from relax_mlir.tvm.relax.transform.grouping import Group, is_ungrouped, outline_groups

__all__ = ["FuseOpsByPattern", "codegen_name"]


@dataclass(frozen=True)
class FuseOpsByPattern(Pass):
    """Outlines matches of patterns in dataflow blocks as composite functions.

    Args:
        patterns: in order of priority; a tuple holds the fields of a `FusionPattern`. A
            string is a name prefix of registered patterns, or a name and a chain of
            operators: ``dnnl.matmul_relu:relax.matmul:relax.nn.relu``.
        bind_constants: whether constants stay inside instead of becoming arguments.
        annotate_codegen: whether to wrap each function in a public one whose attribute
            ``Codegen`` names the code generator.
        entry_functions: the functions to process; by default all that no pass created.

    Raises:
        PassError: two matches depend on each other.
        ValueError: ``patterns`` holds something else, or a variable is defined in two
            functions.
    """

    patterns: Sequence[str | FusionPattern | tuple[Any, ...]]  # Any: their fields
    bind_constants: bool = True
    annotate_codegen: bool = False
    entry_functions: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Converts tuples to patterns.

        Raises:
            ValueError: an element is neither a pattern nor a known name.
        """
        patterns = tuple(map(_as_pattern, self.patterns))
        object.__setattr__(self, "patterns", patterns)

    def run(self, module: IRModule) -> None:
        module.replace_contents(self._fuse(module))

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        """Returns the module with the matches outlined.

        It reads the module itself: a copy would have fresh variables in every function.
        """
        fused = self._fuse(module)
        with fused.context:
            fused.keep_variable_identity(module)
        return fused

    def _fuse(self, module: IRModule) -> IRModule:
        fused = IRModule(module.functions, attrs=module.attrs)
        for pattern in self._resolved_patterns():
            names = self.entry_functions or [
                var.name_hint for var, f in fused.functions.items() if is_ungrouped(f)
            ]
            groups: dict[Id, Group] = {}
            for name in names:
                partition = _PatternPartition(pattern)
                partition.visit_expr(fused[name])
                _merge_groups(groups, partition.groups, name)
            lift = not self.bind_constants
            outline_groups(fused, groups, names, lift_constants=lift)
        return _Annotator(fused).run() if self.annotate_codegen else fused

    def _resolved_patterns(self) -> Iterator[FusionPattern]:
        """Yields the patterns, with names resolved."""
        for pattern in self.patterns:
            if isinstance(pattern, FusionPattern):
                yield pattern
            else:
                yield from _patterns_named(str(pattern))


def _as_pattern(pattern: Any) -> FusionPattern | str:
    if isinstance(pattern, tuple):
        return FusionPattern(*pattern)
    is_known = isinstance(pattern, str) and _patterns_named(pattern)
    if isinstance(pattern, FusionPattern) or is_known:
        return pattern
    raise ValueError(
        "`FuseOpsByPattern`: expected a `FusionPattern`, a tuple of its fields, or the "
        f"name prefix of a registered one, got {short_repr(pattern)}"
    )


def _patterns_named(text: str) -> Sequence[FusionPattern]:
    """Returns the patterns that a string denotes."""
    return (
        [parse_operator_chain(text)] if ":" in text else get_patterns_with_prefix(text)
    )


def _merge_groups(
    groups: dict[Id, Group], new_groups: Mapping[Id, Group], name: str
) -> None:
    for vid, group in new_groups.items():
        if groups.setdefault(vid, group) is not group:
            raise ValueError(
                f"function `{name}`: variable `{vid.name_hint}` is also defined in "
                "another function: expected a single definition"
            )


class _PatternPartition(PyExprVisitor):
    """Matches one pattern in one function.

    Attributes:
        groups: the group of each variable.
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
        root = self.groups[var.vid].root
        root.attrs["Composite"] = self.pattern.name
        if self.pattern.attrs_getter is not None:
            root.attrs.update(self.pattern.attrs_getter(context.annotated_expr))
        for other in others:
            self._join(self.groups[other.vid].root, root)

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
    """Returns the code generator that the attribute ``Composite`` names.

    Raises:
        ValueError: the attribute has no dot.
    """
    name, dot, _ = composite.partition(".")
    if not dot:
        raise ValueError(
            f"pattern `{composite}`: expected a name such as `dnnl.conv2d`, whose first "
            "part names the code generator"
        )
    return name


class _Annotator(PyExprMutator):
    """Wraps composite functions in functions annotated for a code generator."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.mod = mod
        self._renamed: dict[str, GlobalVar] = {}

    def run(self) -> IRModule:
        """Returns the module with all called composite functions wrapped."""
        for var, function in self.mod.functions.items():
            if is_ungrouped(function):
                self.builder_.update_func(var, self.visit_expr(function))
        annotated = self.builder_.get()
        for name in self._renamed:
            del annotated[name]
        return annotated

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
            wrapped = _wrap(function).with_only_attrs(attrs)
            self._renamed[name] = self.builder_.add_func(wrapped, symbol)
        return self._renamed[name]


def _wrap(function: Function) -> Function:
    """Returns a function that holds another and calls it."""
    inner = function.without_attr("Primitive").without_attr("global_symbol")
    local = Var("local_func", inner.struct_info)
    output = Var("output", function.ret_struct_info)
    params = [Var(p.name_hint, p.struct_info) for p in function.params]
    bindings = [VarBinding(local, inner), VarBinding(output, Call(local, params))]
    body = SeqExpr([BindingBlock(bindings)], output)
    return Function(params, body, function.ret_struct_info, function.is_pure)
