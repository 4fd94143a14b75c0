"""Base classes and helpers of passes that rewrite each Relax function separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Call, Expr, GlobalVar, Op, Tuple, Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_variables import name_to_binding
from relax_mlir.objects.function import Function
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.analysis.compile_time import computable_at_compile_time
from relax_mlir.tvm.relax.dpl.rewrite import rewrite_call
from relax_mlir.tvm.relax.dpl.structure import DFPattern

__all__ = [
    "FunctionRewriting",
    "PatternMatches",
    "PatternRewriter",
    "add_external_mods",
    "compile_time_predicate",
    "mutate_functions",
    "num_input",
    "program_call",
    "rewrite_functions",
    "shape_of",
]

PatternMatches: TypeAlias = Mapping[DFPattern, Expr]
PatternRewriter: TypeAlias = Callable[[Expr, PatternMatches], Expr]


def rewrite_functions(
    module: IRModule, rewrite: Callable[[Function], Function]
) -> None:
    """Replaces every Relax function of ``module`` by the result of ``rewrite``."""
    rewritten: dict[str, Function] = {}
    for var, function in module.functions.items():
        if isinstance(function, Function):
            new_function = rewrite(function)
            if new_function is not function:
                rewritten[var.name_hint] = new_function
    for name, new_function in rewritten.items():
        module.update_func(name, new_function)


def mutate_functions(
    module: IRModule,
    mutator: PyExprMutator,
    rewrite: Callable[[Function], Any] | None = None,
) -> None:
    """Rewrites every Relax function by a mutator that may add functions.

    Args:
        module: is updated to the module of the mutator's builder.
        mutator: constructed for the module.
        rewrite: called with each function; the mutator's ``visit_expr`` by default.
    """
    visit = rewrite or mutator.visit_expr
    for var, function in module.functions.items():
        if isinstance(function, Function):
            new_function = visit(function)
            if new_function is not function:
                mutator.builder_.update_func(var, new_function)
    module.replace_contents(mutator.builder_.get())


_CALL_TIR = Op.of("relax.call_tir")


def program_call(expr: Expr) -> tuple[Call, GlobalVar, Tuple] | None:
    """Returns a ``call_tir`` expression, its callee, and its tensor arguments.

    None for any other expression.
    """
    if not isinstance(expr, Call) or expr.op != _CALL_TIR:
        return None
    callee, tensors = expr.args[0], expr.args[1]
    assert isinstance(callee, GlobalVar)
    assert isinstance(tensors, Tuple)
    return expr, callee, tensors


def add_external_mods(module: IRModule, names: Sequence[Sequence[str]]) -> None:
    """Appends to the attribute ``external_mods`` of a module.

    Args:
        module: the module.
        names: the functions of each external module.
    """
    existing = module.attrs.get("external_mods", ())
    module.replace_contents(module.with_attr("external_mods", [*existing, *names]))


class FunctionRewriting(Pass):
    """Base class of passes that apply a pattern rewrite to functions until none matches."""

    opt_level: ClassVar[int] = 1

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, self._rewritten)

    def _rewritten(self, function: Function) -> Function:
        return rewrite_call(*self.rule(function), function)

    def rule(self, function: Function) -> tuple[DFPattern, PatternRewriter]:
        """Returns the pattern to match and the function that builds the replacement."""
        raise NotImplementedError


def compile_time_predicate(function: Function) -> Callable[[Expr], bool]:
    """Returns a predicate for values that do not depend on the inputs.

    It identifies variables by name, since a function keeps these when it is rewritten.
    """
    names = Counter(param.name_hint for param in function.params)
    names.update(
        {n: len(bindings) for n, bindings in name_to_binding(function).items()}
    )
    variables = computable_at_compile_time(function)
    compile_time_names = {
        var.name_hint for var in variables if names[var.name_hint] == 1
    }
    return lambda expr: isinstance(expr, Var) and expr.name_hint in compile_time_names


def num_input(function: Function) -> int | None:
    """Returns the number of inputs that are not weights, if the function states it.

    Raises:
        PassError: the function has fewer parameters.
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


def shape_of(expr: Expr) -> tuple[Any, ...] | None:  # Any: dimensions as PrimExprs
    """Returns the dimensions of a tensor; None if unknown."""
    info = expr.struct_info_or_none()
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        return None
    values = getattr(info.shape, "values", None)
    return None if values is None else tuple(values)
