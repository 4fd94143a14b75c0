"""Selection and application of schedule rules, for all targets."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.errors import PassError, near_misses
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import erase, has_uses
from relax_mlir.schedules.kernel_view import Kernel, read_kernel
from relax_mlir.schedules.rule import NotApplicable, ScheduleRule
from relax_mlir.schedules.rule_selection import SelectedRule, choose, choose_by_text

__all__ = [
    "CONFIGURATION",
    "check_rule_name",
    "erase_statements",
    "select_rule",
    "unscheduled",
    "write_kernel",
]

CONFIGURATION = "tir.config"  # attribute: a kernel's schedule configuration, as text


def check_rule_name(only: str, rules: Sequence[type[ScheduleRule[Any]]]) -> None:
    """Checks that a rule exists.

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
    """The tensor programs that no rule has lowered yet."""
    for function in module.func_ops():
        is_program = function_attributes.is_defined_prim_func(function)
        if is_program and "tir.rule" not in function.attributes:
            yield function


def select_rule(
    kernel: Kernel, rules: Sequence[ScheduleRule[Any]], only: str
) -> SelectedRule:
    """The first matching rule and its configuration for a kernel.

    Args:
        rules: most specific first; only: the name of the one to use; empty for any.

    Raises:
        PassError: the requested rule does not match the kernel, or has no such
            configuration.
    """
    attributes = kernel.function.attributes
    candidates = [rule for rule in rules if only in ("", type(rule).__name__)]
    where = f"kernel `{kernel.function.name.value}`"
    try:
        if only or CONFIGURATION not in attributes:
            return choose(kernel, candidates)
        text = ir.StringAttr(attributes[CONFIGURATION]).value
        return choose_by_text(text, kernel, candidates)
    except NotApplicable as refusal:
        raise PassError(
            f"{where}: `{only}` does not take it: {refusal.reason}"
        ) from None
    except ValueError as error:
        raise PassError(f"{where}: attribute `{CONFIGURATION}`: {error}") from error


def write_kernel(
    function: func.FuncOp, choose: Callable[[Kernel], SelectedRule]
) -> tuple[Kernel, SelectedRule]:
    """Writes a program's loops by the chosen rule, next to its linalg statements."""
    terminator = list(own_operations(function.entry_block))[-1]
    with ir.InsertionPoint(terminator), function.location:
        _erase_unread_temporaries(function)
        kernel = read_kernel(function)
        choice = choose(kernel)
        choice.write()
    function.attributes["tir.rule"] = ir.StringAttr.get(choice.name)
    return kernel, choice


def _erase_unread_temporaries(function: func.FuncOp) -> None:
    """Erases temporaries that no statement reads, with what writes to them.

    Upstream erases statements without points, which may have read them.
    """
    for alloc in reversed(list(own_operations(function.entry_block))):
        if alloc.operation.name != "memref.alloc":
            continue
        users = [use.owner for use in alloc.results[0].uses]
        if all(_only_writes(user, alloc.results[0]) for user in users):
            for user in users:
                erase(user)
            erase(alloc)


def _only_writes(user: ir.OpView, buffer: ir.Value) -> bool:
    """Whether an operation is a statement that writes to a buffer alone."""
    if user.operation.name != "linalg.generic":
        return False
    count = next(iter(user.attributes["operandSegmentSizes"]))
    return list(user.operation.operands)[count:] == [buffer]


def erase_statements(kernel: Kernel) -> None:
    """Erases the linalg statements and the values that only they used, last first."""
    removable = {"linalg.generic", "memref.subview", "memref.alloc", "memref.alloca"}
    for op in reversed(list(own_operations(kernel.block))):
        if op.operation.name not in removable:
            continue
        if not any(map(has_uses, op.results)):
            erase(op)
