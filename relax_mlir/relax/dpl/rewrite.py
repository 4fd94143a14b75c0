"""Rewrite functions and modules by patterns, until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import BaseFunc, Function
from relax_mlir.objects.structure import structural_equal
from relax_mlir.pass_context import AnyPass, PassContext, PassInfo
from relax_mlir.passes.relax.canonicalize_bindings import CanonicalizeBindings
from relax_mlir.passes.relax.eliminate_common_subexpr import EliminateCommonSubexpr
from relax_mlir.relax.analysis.purity import is_impure_call
from relax_mlir.relax.analysis.unused import remove_all_unused
from relax_mlir.relax.analysis.variables import all_vars, free_vars, get_var2val
from relax_mlir.relax.dpl.context import PatternContext, match_graph
from relax_mlir.relax.dpl.rewriters import (
    EitherRule,
    ExprRule,
    Replacement,
    Rule,
    TupleRule,
    rule_for,
)
from relax_mlir.relax.dpl.rule_module import rule_of_module
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.relax.expr_functor import PyExprMutator

__all__ = [
    "ExprPatternRewriter",
    "OrRewriter",
    "PatternMatchingRewriter",
    "TupleRewriter",
    "rewrite_bindings",
    "rewrite_call",
]


class PatternMatchingRewriter(AnyPass):
    """Replaces what patterns match, in an expression or in a module, until none matches.

    After each round second names, equal expressions and unused bindings go away.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    @staticmethod
    def from_pattern(
        pattern: DFPattern,
        func: Callable[[Expr, dict[DFPattern, Expr]], Expr | None],
    ) -> PatternMatchingRewriter:
        """Replace what ``pattern`` matches by what ``func`` gives.

        Args:
            pattern: what is replaced.
            func: takes the expression, and what each pattern stands for; gives what
                stands in its place, or the expression itself for no change.
        """
        return PatternMatchingRewriter(rule_for(pattern, func))

    @staticmethod
    def from_module(mod: IRModule) -> PatternMatchingRewriter:
        """Replace what the function ``pattern`` computes by the function ``replacement``.

        Raises:
            KeyError: one of the two is missing.
            TypeError: one of them is no function of Relax, or holds what is no pattern.
            ValueError: their signatures differ, or another function is public.
        """
        return PatternMatchingRewriter(rule_of_module(mod))

    @property
    def info(self) -> PassInfo:
        """What it is called as a pass."""
        return PassInfo(0, "PatternMatchingRewriter")

    def __call__(self, obj: Any, ctx: PassContext | None = None) -> Any:
        """The rewritten expression, or a rewritten copy of a module.

        Raises:
            ValueError: a replacement comes with functions and ``obj`` is no module.
        """
        if isinstance(obj, IRModule):
            return super().__call__(obj, ctx)
        subroutines = _Subroutines(())
        rewritten = _rewrite(self.rule, obj, subroutines)
        if subroutines.functions:
            listed = ", ".join(subroutines.functions)
            raise ValueError(
                f"the replacement calls functions of its own ({listed}): expected a "
                "module to be rewritten, got an expression"
            )
        return rewritten

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        """The module with all its functions of Relax rewritten."""
        made = IRModule(module.functions, attrs=module.attrs)
        subroutines = _Subroutines([v.name_hint for v in module.get_global_vars()])
        for var, function in module.functions.items():
            if isinstance(function, Function):
                rewritten = _rewrite(self.rule, function, subroutines)
                if rewritten is not function:
                    made.update_func(var, rewritten)
        made.update(subroutines.functions)
        return made

    def __or__(self, other: PatternMatchingRewriter) -> PatternMatchingRewriter:
        return OrRewriter(self, other)


class ExprPatternRewriter(PatternMatchingRewriter):
    """Replaces values that a pattern matches as it is, without looking into ``|``."""

    def __init__(self, pattern: DFPattern, func: Callable[..., Expr | None]) -> None:
        super().__init__(ExprRule(pattern, func))


class OrRewriter(PatternMatchingRewriter):
    """Applies two rewriters at once."""

    def __init__(
        self, lhs: PatternMatchingRewriter, rhs: PatternMatchingRewriter
    ) -> None:
        super().__init__(EitherRule(lhs.rule, rhs.rule))


class TupleRewriter(PatternMatchingRewriter):
    """Replaces several values at once that would match the fields of a tuple."""

    def __init__(
        self, patterns: Sequence[DFPattern], func: Callable[..., Expr | None]
    ) -> None:
        super().__init__(TupleRule(tuple(patterns), func))


def rewrite_call(
    pattern: DFPattern,
    rewriter: Callable[[Expr, dict[DFPattern, Expr]], Expr],
    func: Function,
) -> Function:
    """A function with what ``pattern`` matches replaced; see :class:`PatternMatchingRewriter`.

    Args:
        pattern: what is replaced.
        rewriter: takes the expression, and what each pattern stands for; gives what
            stands in its place, or the expression itself for no change.
        func: the function.
    """
    return PatternMatchingRewriter.from_pattern(pattern, rewriter)(func)


class _Subroutines:
    """The functions that replacements brought, under names that are not taken."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.functions: dict[str, BaseFunc] = {}
        self._taken = set(taken)
        self._names: dict[tuple[str, str], str] = {}

    def adopt(self, replacement: Replacement) -> Expr:
        """The value of a replacement that calls the functions by their names here."""
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


def _rewrite(rule: Rule, expr: Expr, subroutines: _Subroutines) -> Any:
    """``expr`` rewritten until nothing changes; the same object if nothing does."""
    if not isinstance(expr, Function):
        params = free_vars(expr)
        function = Function(params, expr)
        rewritten = _rewrite(rule, function, subroutines)
        return expr if rewritten is function else rewritten.body
    known = expr
    while True:
        changed = _Mutator(rule, subroutines).visit_expr(known)
        if changed is known or structural_equal(changed, known):
            return known
        simple = _simplified(changed)
        if structural_equal(simple, known):
            return known
        known = simple


def _simplified(function: Function) -> Function:
    """A function without second names, equal expressions and unused bindings."""
    while True:
        before = function
        module = IRModule({function.name: function})
        for simplify in (CanonicalizeBindings(), EliminateCommonSubexpr()):
            module = simplify.transform(module, PassContext.current())
        function = remove_all_unused(module[before.name])
        if structural_equal(function, before):
            return before


class _Mutator(PyExprMutator):
    """Applies a rule once to every block."""

    def __init__(self, rule: Rule, subroutines: _Subroutines) -> None:
        super().__init__()
        self.rule = rule
        self.subroutines = subroutines

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        sequence = super().visit_seq_expr_(op)
        assert isinstance(sequence, SeqExpr)
        blocks, body = list(sequence.blocks), sequence.body
        result = None
        if not isinstance(body, Var):
            # A value that is no variable is treated like the last binding.
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
        parts = [list(block.bindings)] if is_dataflow else _pure_runs(block.bindings)
        new = [self._rewritten_run(part) for part in parts]
        if all(a is b for a, b in zip(new, parts, strict=True)):
            return block
        if is_dataflow:
            self.builder_._begin_dataflow_block()
        else:
            self.builder_._begin_binding_block()
        for binding in (b for part in new for b in part):
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
        replacements = self.rule.rewrites(bindings)
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
        return _sorted_by_uses(new)


def _pure_runs(bindings: Sequence[Binding]) -> list[list[Binding]]:
    """Bindings in runs that may be reordered; each impure one is a run of its own."""
    runs: list[list[Binding]] = [[]]
    for binding in bindings:
        value = binding.value
        if isinstance(value, If) or (isinstance(value, Call) and is_impure_call(value)):
            runs += [[binding], []]
        else:
            runs[-1].append(binding)
    return [run for run in runs if run]


def _sorted_by_uses(bindings: list[Binding]) -> list[Binding]:
    """The bindings in an order in which each stands after those that it uses.

    The order changes as little as possible.

    Raises:
        ValueError: they use each other in a circle.
    """
    needs = {b.var.vid: {v.vid for v in free_vars(b.value)} for b in bindings}
    waiting = list(bindings)
    missing = {b.var.vid for b in bindings}
    found: list[Binding] = []
    while waiting:
        ready = next((b for b in waiting if not needs[b.var.vid] & missing), None)
        if ready is None:
            raise ValueError("the replacements use each other in a circle")
        waiting.remove(ready)
        missing.discard(ready.var.vid)
        found.append(ready)
    return found


def rewrite_bindings(
    ctx: PatternContext,
    rewriter: Callable[[dict[DFPattern, Var], dict[Var, Expr]], Mapping[Var, Expr]],
    func: Function,
) -> Function:
    """A function with the bindings that a graph of patterns matches replaced.

    Args:
        ctx: the patterns, and how they are used by each other.
        rewriter: takes the variables that patterns stand for, and what variables are
            bound to; gives the new values of some variables.
        func: the function.
    """
    return remove_all_unused(_GraphMutator(ctx, rewriter).visit_expr(func))


class _GraphMutator(PyExprMutator):
    """Replaces matches in each dataflow block until there is none."""

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
        """The block with new values; what they use is emitted before them."""
        self.builder_._begin_dataflow_block()
        done: set[Id] = set()
        for number, binding in enumerate(block.bindings):
            new = changed.get(binding.var)
            if new is not None:
                self._emit_used(new, block.bindings[number + 1 :], done)
                value = self.builder_.normalize_flat(new)
                var = self.with_struct_info(binding.var, value.struct_info)
                self._replace(binding.var, var)
                self.builder_.emit_normalized(VarBinding(var, value))
            elif binding.var.vid not in done:
                self.visit_binding(binding)
            done.add(binding.var.vid)
        return self.builder_._end_block()

    def _emit_used(self, value: Expr, later: Sequence[Binding], done: set[Id]) -> None:
        """Emit what ``value`` uses and what stands after it."""
        used = {var.vid for var in all_vars(value)}
        for number, binding in enumerate(later):
            vid = binding.var.vid
            if vid in used and vid not in done:
                self._emit_used(binding.value, later[:number], done)
                self.visit_binding(binding)
                done.add(vid)
