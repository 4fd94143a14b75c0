"""How schedule rules are asked, whatever machine they write for."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import PassError, near_misses
from relax_mlir.module import IRModule
from relax_mlir.rewriting import erase, has_uses
from relax_mlir.schedules.choice import Choice, choose, chosen_by_text
from relax_mlir.schedules.nest import Kernel, read_kernel
from relax_mlir.schedules.rule import AnyRule, Refusal
from relax_mlir.traversal import own_operations

__all__ = [
    "CONFIGURATION",
    "check_rule_name",
    "choose_rule",
    "erase_statements",
    "unscheduled",
    "write_kernel",
]

CONFIGURATION = "tir.config"  # of a kernel: how to write it, as text


def check_rule_name(only: str, rules: Sequence[type[AnyRule[Any]]]) -> None:
    """Refuse the name of a rule that there is not.

    Args:
        only: the one rule to use; empty for all.

    Raises:
        PassError: there is no such rule.
    """
    names = [rule.__name__ for rule in rules]
    if only and only not in names:
        raise PassError(
            f"unknown rule `{only}`: expected one of {', '.join(names)}."
            f"{near_misses(only, names)}"
        )


def unscheduled(module: IRModule) -> Iterator[func.FuncOp]:
    """The tensor programs that no rule has written yet."""
    for function in module.func_ops():
        is_program = "tir.prim_func" in function.attributes and not function.is_external
        if is_program and "tir.rule" not in function.attributes:
            yield function


def choose_rule(kernel: Kernel, rules: Sequence[AnyRule[Any]], only: str) -> Choice:
    """The rule that writes a kernel, at the insertion point, and how.

    Args:
        rules: most specific first; only: the name of the one to use; empty for any.

    Raises:
        PassError: the rule that is asked for does not take the kernel, or has no such
            configuration.
    """
    attributes = kernel.function.attributes
    asked = [rule for rule in rules if only in ("", type(rule).__name__)]
    where = f"kernel `{kernel.function.name.value}`"
    try:
        if only or CONFIGURATION not in attributes:
            return choose(kernel, asked)
        text = ir.StringAttr(attributes[CONFIGURATION]).value
        return chosen_by_text(text, kernel, asked)
    except Refusal as refusal:
        raise PassError(
            f"{where}: `{only}` does not take it: {refusal.reason}"
        ) from None
    except ValueError as error:
        raise PassError(f"{where}: attribute `{CONFIGURATION}`: {error}") from error


def write_kernel(
    function: func.FuncOp, choose: Callable[[Kernel], Choice]
) -> tuple[Kernel, Choice]:
    """Let the rule that is chosen write a program, beside its statements."""
    terminator = list(own_operations(function.entry_block))[-1]
    with ir.InsertionPoint(terminator), function.location:
        kernel = read_kernel(function)
        choice = choose(kernel)
        choice.write()
    function.attributes["tir.rule"] = ir.StringAttr.get(choice.name)
    return kernel, choice


def erase_statements(kernel: Kernel) -> None:
    """Drop the linalg form, last first, and what only it used."""
    removable = {"linalg.generic", "memref.subview", "memref.alloc", "memref.alloca"}
    for op in reversed(list(own_operations(kernel.block))):
        if op.operation.name not in removable:
            continue
        if not any(map(has_uses, op.results)):
            erase(op)
