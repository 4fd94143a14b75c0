"""Pattern-based rewriting of functions and modules to a fixed point."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import structural_equal
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    Expr,
    GlobalVar,
    Id,
    If,
    MatchCast,
    SeqExpr,
    Var,
    VarBinding,
    is_leaf,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_variables import all_vars, free_vars, get_var2val
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.purity import is_impure_call
from relax_mlir.rewrite.pass_context import AnyPass, PassContext, PassInfo
from relax_mlir.tvm.relax.analysis.unused import remove_all_unused
from relax_mlir.tvm.relax.dpl.context import PatternContext, match_graph
from relax_mlir.tvm.relax.dpl.rewriters import (
    EitherRule,
    ExprRule,
    Replacement,
    RewriteRule,
    TupleRule,
    make_rewrite_rule,
)
from relax_mlir.tvm.relax.dpl.rule_module import rule_from_module
from relax_mlir.tvm.relax.dpl.structure import DFPattern
from relax_mlir.tvm.relax.transform.passes.canonicalize_bindings import (
    CanonicalizeBindings,
)
from relax_mlir.tvm.relax.transform.passes.eliminate_common_subexpr import (
    EliminateCommonSubexpr,
)

__all__ = [
    "ExprPatternRewriter",
    "OrRewriter",
    "PatternMatchingRewriter",
    "TupleRewriter",
    "rewrite_bindings",
    "rewrite_call",
]


class PatternMatchingRewriter(AnyPass):
    """Rewrites the matches of a pattern in an expression or a module to a fixed point.

    Each round ends with canonicalized bindings, common-subexpression elimination and
    dead-code elimination.
    """

    def __init__(self, rule: RewriteRule) -> None:
        self.rule = rule

    @staticmethod
    def from_pattern(
        pattern: DFPattern,
        func: Callable[[Expr, dict[DFPattern, Expr]], Expr | None],
    ) -> PatternMatchingRewriter:
        """Make a rewriter from a pattern and a Python function.

        Args:
            pattern: the pattern.
            func: takes the matched expression and the expression of each pattern; returns
                the replacement, or the expression itself for no change.
        """
        return PatternMatchingRewriter(make_rewrite_rule(pattern, func))

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """Make a rewriter from a module with functions ``pattern`` and ``replacement``.

        Raises:
            KeyError: one of the two is missing.
            TypeError: one of them is not a Relax function, or an expression of ``pattern``
                has no pattern class.
            ValueError: their signatures differ, or another function is public.
        """
        return PatternMatchingRewriter(rule_from_module(mod))

    @property
    def info(self) -> PassInfo:
        """The pass info."""
        return PassInfo(0, "PatternMatchingRewriter")

    def __call__(self, obj: Any, ctx: PassContext | None = None) -> Any:
        """Rewrite an expression, or a copy of a module.

        Raises:
            ValueError: a replacement adds functions, and ``obj`` is not a module.
        """
        if isinstance(obj, IRModule):
            return super().__call__(obj, ctx)
        subroutines = _Subroutines(())
        rewritten = _rewrite(self.rule, obj, subroutines)
        if subroutines.functions:
            listed = ", ".join(subroutines.functions)
            raise ValueError(
                f"the replacement adds functions ({listed}): expected a module to "
                "rewrite, got an expression"
            )
        return rewritten

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        """Rewrite all Relax functions of a module."""
        new_module = IRModule(module.functions, attrs=module.attrs)
        subroutines = _Subroutines([v.name_hint for v in module.get_global_vars()])
        for var, function in module.functions.items():
            if isinstance(function, Function):
                rewritten = _rewrite(self.rule, function, subroutines)
                if rewritten is not function:
                    new_module.update_func(var, rewritten)
        new_module.update(subroutines.functions)
        return new_module

    def __or__(self, other: PatternMatchingRewriter) -> PatternMatchingRewriter:
        return OrRewriter(self, other)


class ExprPatternRewriter(PatternMatchingRewriter):
    """Rewrites the matches of one pattern, without splitting the sides of ``|``."""

    def __init__(self, pattern: DFPattern, func: Callable[..., Expr | None]) -> None:
        super().__init__(ExprRule(pattern, func))


class OrRewriter(PatternMatchingRewriter):
    """Applies two rewriters in one traversal."""

    def __init__(
        self, lhs: PatternMatchingRewriter, rhs: PatternMatchingRewriter
    ) -> None:
        super().__init__(EitherRule(lhs.rule, rhs.rule))


class TupleRewriter(PatternMatchingRewriter):
    """Rewrites several bindings at once whose values match the fields of a tuple."""

    def __init__(
        self, patterns: Sequence[DFPattern], func: Callable[..., Expr | None]
    ) -> None:
        super().__init__(TupleRule(tuple(patterns), func))


def rewrite_call(
    pattern: DFPattern,
    rewriter: Callable[[Expr, dict[DFPattern, Expr]], Expr],
    func: Function,
) -> Function:
    """Rewrite the matches of ``pattern`` in a function; see :class:`PatternMatchingRewriter`.

    Args:
        pattern: the pattern.
        rewriter: takes the matched expression and the expression of each pattern; returns
            the replacement, or the expression itself for no change.
        func: the function.
    """
    return PatternMatchingRewriter.from_pattern(pattern, rewriter)(func)


class _Subroutines:
    """Functions added by replacements, under names that are unique in the module."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.functions: dict[str, BaseFunc] = {}
        self._taken = set(taken)
        self._names: dict[tuple[str, str], str] = {}

    def adopt(self, replacement: Replacement) -> Expr:
        """The value of a replacement, with calls renamed to the unique names."""
        renamed = {}
        for name, function in replacement.subroutines.items():
            new = self._name(name, function)
            if new != name:
                renamed[name] = new
        if not renamed:
            return replacement.value
        return _Renamer(renamed).visit_expr(replacement.value)

    def _name(self, name: str, function: BaseFunc) -> str:
        key = (name, str(function.op))
        if key not in self._names:
            new, count = name, 0
            while new in self._taken:
                count += 1
                new = f"{name}_{count}"
            self._taken.add(new)
            self._names[key] = new
            self.functions[new] = function
        return self._names[key]


class _Renamer(PyExprMutator):
    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def visit_global_var_(self, op: GlobalVar) -> Expr:
        if op.name_hint not in self.names:
            return op
        return GlobalVar(self.names[op.name_hint], op.struct_info_or_none())


def _rewrite(rule: RewriteRule, expr: Expr, subroutines: _Subroutines) -> Any:
    """Rewrites ``expr`` to a fixed point; returns the same object if nothing changes."""
    if not isinstance(expr, Function):
        params = free_vars(expr)
        function = Function(params, expr)
        rewritten = _rewrite(rule, function, subroutines)
        return expr if rewritten is function else rewritten.body
    current = expr
    while True:
        changed = _Mutator(rule, subroutines).visit_expr(current)
        if changed is current or structural_equal(changed, current):
            return current
        simple = _simplified(changed)
        if structural_equal(simple, current):
            return current
        current = simple


def _simplified(function: Function) -> Function:
    """Canonicalizes bindings and removes common subexpressions and dead code."""
    while True:
        before = function
        module = IRModule({function.name: function})
        for simplify in (CanonicalizeBindings(), EliminateCommonSubexpr()):
            module = simplify.transform(module, PassContext.current())
        function = remove_all_unused(module[before.name])
        if structural_equal(function, before):
            return before


class _Mutator(PyExprMutator):
    """One rewrite round: applies a rule to every binding block."""

    def __init__(self, rule: RewriteRule, subroutines: _Subroutines) -> None:
        super().__init__()
        self.rule = rule
        self.subroutines = subroutines

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        sequence = super().visit_seq_expr_(op)
        assert isinstance(sequence, SeqExpr)
        blocks, body = list(sequence.blocks), sequence.body
        result = None
        if not isinstance(body, Var):
            # A returned value that is not a variable is treated like a last binding.
            result = Var("result", body.struct_info_or_none())
            last = blocks.pop() if blocks else BindingBlock(())
            blocks.append(type(last)([*last.bindings, VarBinding(result, body)]))
        rewritten = [self._rewritten_block(block) for block in blocks]
        if all(a is b for a, b in zip(rewritten, blocks, strict=True)):
            return sequence
        if result is not None:
            *others, binding = rewritten[-1].bindings
            body = binding.value
            rewritten[-1] = type(rewritten[-1])(others)
        return SeqExpr([block for block in rewritten if block.bindings], body)

    def _rewritten_block(self, block: BindingBlock) -> BindingBlock:
        is_dataflow = isinstance(block, DataflowBlock)
        runs = [list(block.bindings)] if is_dataflow else _pure_runs(block.bindings)
        new = [self._rewritten_run(run) for run in runs]
        if all(a is b for a, b in zip(new, runs, strict=True)):
            return block
        if is_dataflow:
            self.builder_._begin_dataflow_block()
        else:
            self.builder_._begin_binding_block()
        for binding in (b for run in new for b in run):
            self._emit(binding)
        return self.builder_._end_block()

    def _emit(self, binding: Binding) -> None:
        value = self.builder_.normalize_flat(binding.value)
        if isinstance(binding, MatchCast):
            if not is_leaf(value):
                value = self.builder_.normalize_argument(value)
            binding = MatchCast(binding.var, value, binding.struct_info)
        else:
            binding = VarBinding(binding.var, value)
        self.builder_.emit_normalized(binding)

    def _rewritten_run(self, bindings: list[Binding]) -> list[Binding]:
        replacements = self.rule.replacements(bindings)
        if not replacements:
            return bindings
        new: list[Binding] = []
        for binding in bindings:
            replacement = replacements.get(binding.var)
            if replacement is None:
                new.append(binding)
                continue
            value = self.subroutines.adopt(replacement)
            if isinstance(binding, MatchCast):
                new.append(MatchCast(binding.var, value, binding.struct_info))
            else:
                new.append(VarBinding(binding.var, value))
        return _topologically_sorted(new)


def _pure_runs(bindings: Sequence[Binding]) -> list[list[Binding]]:
    """Splits bindings into runs of pure ones, which may be reordered, and impure ones."""
    runs: list[list[Binding]] = [[]]
    for binding in bindings:
        value = binding.value
        if isinstance(value, If) or (isinstance(value, Call) and is_impure_call(value)):
            runs += [[binding], []]
        else:
            runs[-1].append(binding)
    return [run for run in runs if run]


def _topologically_sorted(bindings: list[Binding]) -> list[Binding]:
    """Bindings in a stable topological order: definitions before uses.

    Raises:
        ValueError: the bindings are cyclic.
    """
    uses = {b.var.vid: {v.vid for v in free_vars(b.value)} for b in bindings}
    waiting = list(bindings)
    undefined = {b.var.vid for b in bindings}
    ordered: list[Binding] = []
    while waiting:
        ready = next((b for b in waiting if not uses[b.var.vid] & undefined), None)
        if ready is None:
            raise ValueError("the replacements use each other cyclically")
        waiting.remove(ready)
        undefined.discard(ready.var.vid)
        ordered.append(ready)
    return ordered


def rewrite_bindings(
    ctx: PatternContext,
    rewriter: Callable[[dict[DFPattern, Var], dict[Var, Expr]], Mapping[Var, Expr]],
    func: Function,
) -> Function:
    """Rewrite the bindings that a graph of patterns matches, in all dataflow blocks.

    Args:
        ctx: the patterns and the constraints between them.
        rewriter: takes the matched variable of each pattern and the bound value of each
            variable; returns new values for some variables.
        func: the function.
    """
    return remove_all_unused(_GraphMutator(ctx, rewriter).visit_expr(func))


class _GraphMutator(PyExprMutator):
    """Rewrites the graph matches of each dataflow block to a fixed point."""

    def __init__(
        self,
        context: PatternContext,
        rewriter: Callable[..., Mapping[Var, Expr]],
    ) -> None:
        super().__init__()
        self.context = context
        self.rewriter = rewriter

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        current: BindingBlock = super().visit_dataflow_block_(block)
        while isinstance(current, DataflowBlock):
            values = get_var2val(current)
            matched = match_graph(self.context, current, values)
            if matched is None:
                break
            replacements = self.rewriter(matched, values)
            changed = {
                var: value
                for var, value in replacements.items()
                if var in values and not structural_equal(values[var], value)
            }
            if not changed:
                break
            current = self._replaced(current, changed)
        return current

    def _replaced(
        self, block: DataflowBlock, changed: Mapping[Var, Expr]
    ) -> BindingBlock:
        """The block with new values; later bindings that they use are moved before them."""
        self.builder_._begin_dataflow_block()
        done: set[Id] = set()
        for index, binding in enumerate(block.bindings):
            new = changed.get(binding.var)
            if new is not None:
                self._emit_operands(new, block.bindings[index + 1 :], done)
                value = self.builder_.normalize_flat(new)
                var = self.with_struct_info(binding.var, value.struct_info)
                self._replace(binding.var, var)
                self.builder_.emit_normalized(VarBinding(var, value))
            elif binding.var.vid not in done:
                self.visit_binding(binding)
            done.add(binding.var.vid)
        return self.builder_._end_block()

    def _emit_operands(
        self, value: Expr, later: Sequence[Binding], done: set[Id]
    ) -> None:
        """Emits those of the ``later`` bindings that ``value`` uses, transitively."""
        used = {var.vid for var in all_vars(value)}
        for index, binding in enumerate(later):
            vid = binding.var.vid
            if vid in used and vid not in done:
                self._emit_operands(binding.value, later[:index], done)
                self.visit_binding(binding)
                done.add(vid)
