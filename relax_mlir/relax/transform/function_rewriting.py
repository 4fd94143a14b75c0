"""Passes that rewrite every function by itself: by a function, or by patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, Expr, GlobalVar, Op, Tuple, Var
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.analysis.compile_time import computable_at_compile_time
from relax_mlir.relax.analysis.variables import name_to_binding
from relax_mlir.relax.dpl.rewrite import rewrite_call
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.rewriting import Pass

__all__ = [
    "FunctionRewriting",
    "Matches",
    "Rewriter",
    "add_external_mods",
    "compile_time_test",
    "mutate_functions",
    "num_input",
    "program_call",
    "rewrite_functions",
    "shape_of",
]

Matches: TypeAlias = Mapping[DFPattern, Expr]
Rewriter: TypeAlias = Callable[[Expr, Matches], Expr]


def rewrite_functions(
    module: IRModule, rewrite: Callable[[Function], Function]
) -> None:
    """Put what ``rewrite`` gives in place of every function of Relax, in ``module``."""
    rewritten: dict[str, Function] = {}
    for var, function in module.functions.items():
        if isinstance(function, Function):
            made = rewrite(function)
            if made is not function:
                rewritten[var.name_hint] = made
    for name, made in rewritten.items():
        module.update_func(name, made)


def mutate_functions(
    module: IRModule,
    mutator: PyExprMutator,
    rewrite: Callable[[Function], Any] | None = None,
) -> None:
    """Let a mutator, which may add functions, rewrite every function of Relax.

    Args:
        module: becomes what the mutator's builder holds then.
        mutator: made for the module.
        rewrite: what of it is called with a function; ``visit_expr`` by default.
    """
    visit = rewrite or mutator.visit_expr
    for var, function in module.functions.items():
        if isinstance(function, Function):
            made = visit(function)
            if made is not function:
                mutator.builder_.update_func(var, made)
    module.become(mutator.builder_.get())


_CALL_TIR = Op.of("relax.call_tir")


def program_call(expr: Expr) -> tuple[Call, GlobalVar, Tuple] | None:
    """An expression as a call of a tensor program, the program, and its tensors.

    None for any other expression.
    """
    if not isinstance(expr, Call) or expr.op != _CALL_TIR:
        return None
    callee, tensors = expr.args[0], expr.args[1]
    assert isinstance(callee, GlobalVar)
    assert isinstance(tensors, Tuple)
    return expr, callee, tensors


def add_external_mods(module: IRModule, names: Sequence[Sequence[str]]) -> None:
    """Add to what a module uses from elsewhere, its attribute ``external_mods``.

    Args:
        module: the module.
        names: the functions of each thing that it uses.
    """
    known = module.attrs.get("external_mods", ())
    module.become(module.with_attr("external_mods", [*known, *names]))


class FunctionRewriting(Pass):
    """Rewrites every function of Relax by a pattern, until it matches nothing more."""

    opt_level: ClassVar[int] = 1

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, self._rewritten)

    def _rewritten(self, function: Function) -> Function:
        return rewrite_call(*self.rule(function), function)

    def rule(self, function: Function) -> tuple[DFPattern, Rewriter]:
        """What is replaced in a function, and what gives the replacement."""
        raise NotImplementedError


def compile_time_test(function: Function) -> Callable[[Expr], bool]:
    """Whether a value of a function is known before its inputs are.

    Variables are told apart by their names, which a function keeps when it is rewritten.
    """
    names = Counter(param.name_hint for param in function.params)
    names.update({n: len(found) for n, found in name_to_binding(function).items()})
    variables = computable_at_compile_time(function)
    known = {var.name_hint for var in variables if names[var.name_hint] == 1}
    return lambda expr: isinstance(expr, Var) and expr.name_hint in known


def num_input(function: Function) -> int | None:
    """How many parameters are no weights, if the function says so.

    Raises:
        PassError: it has not as many.
    """
    if "num_input" not in function.attrs:
        return None
    count = int(function.attrs["num_input"])
    if not 0 <= count <= len(function.params):
        raise PassError(
            f"function `{function.name}`, attribute `num_input`: expected at most the "
            f"{len(function.params)} parameters of the function, got {count}"
        )
    return count


def shape_of(expr: Expr) -> tuple[Any, ...] | None:  # Any: sizes as terms
    """The sizes of a tensor; None where they are not known."""
    info = expr.struct_info_or_none()
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        return None
    values = getattr(info.shape, "values", None)
    return None if values is None else tuple(values)
