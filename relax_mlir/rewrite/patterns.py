"""The base class of passes, rewrite patterns and their greedy driver, and safe replacement.

Passes and schedule rules erase and replace operations only through this module: MLIR
aborts the process when an operation with uses is erased.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_type_hints

from mlir import ir

from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of
from relax_mlir.ir.traversal import blocks_of, own_operations
from relax_mlir.rewrite.pass_context import AnyPass, PassContext, PassInfo
from relax_mlir.symbolic import constraints

__all__ = [
    "Pass",
    "clone",
    "erase",
    "erase_dead",
    "has_one_use",
    "has_uses",
    "pattern",
    "replace",
    "rewrite_greedily",
]


@dataclass(frozen=True)
class Pass(AnyPass):
    """Base class of passes: a frozen dataclass whose fields are the options.

    ``relax-opt --list-passes`` shows the first line of the docstring. Calling a pass on a
    module returns a transformed copy.
    """

    opt_level: ClassVar[int] = (
        0  # the least level of contexts in which a `Sequential` runs it
    )
    required: ClassVar[tuple[str, ...]] = ()
    known_as: ClassVar[str] = ""  # Relax's name, if not that of the class

    @property
    def info(self) -> PassInfo:
        """The metadata of the pass."""
        name = self.known_as or type(self).__name__
        return PassInfo(self.opt_level, name, self.required)

    def run(self, module: IRModule) -> None:
        """Transforms ``module`` in place.

        Raises:
            PassError: the pass failed; the module may be partially transformed.
        """
        raise NotImplementedError

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        """A transformed copy of ``module``, verified by MLIR."""
        copy = module.clone()
        holding = constraints.with_equalities(constraints_of(module))
        with copy.context, ir.Location.unknown(), holding:
            self.run(copy)
        for function in copy.func_ops():
            if (
                function_attributes.NESTED in function.attributes
            ):  # the copy binds it to a variable
                del function.attributes[function_attributes.NESTED]
        copy.verify()
        with copy.context:
            copy.keep_variable_identity(module)
        return copy


Rewrite = Callable[[Any], "ir.Value | Sequence[ir.Value] | None"]


def pattern(rewrite: Rewrite) -> Rewrite:
    """Marks a function as a rewrite pattern, rooted at the class of its first parameter.

    It returns the replacement of the operation's results, or None if it does not match, and
    creates new operations at the insertion point, before the operation.
    """
    hints = get_type_hints(rewrite)
    rewrite.root = next(iter(hints.values()))  # pyright: ignore[reportFunctionMemberAccess]
    return rewrite


def rewrite_greedily(module: IRModule, *patterns: Rewrite, rounds: int = 10) -> bool:
    """Applies patterns until none matches or ``rounds`` sweeps are done.

    Returns:
        Whether anything changed.
    """
    by_name: dict[str, list[Rewrite]] = {}
    for rewrite in patterns:
        for root in _roots(rewrite):
            by_name.setdefault(root, []).append(rewrite)
    changed = False
    for _ in range(rounds):
        if not _sweep(module, by_name):
            break
        changed = True
    return changed


def _roots(rewrite: Rewrite) -> list[str]:
    root = rewrite.root  # pyright: ignore[reportFunctionMemberAccess]
    members = getattr(root, "__args__", None) or (root,)
    return [member.OPERATION_NAME for member in members]


def _sweep(module: IRModule, by_name: dict[str, list[Rewrite]]) -> bool:
    changed = False
    for function in module.func_ops():
        for block in blocks_of(function):
            for op in list(own_operations(block)):
                for rewrite in by_name.get(op.operation.name, ()):
                    if _try(rewrite, op):
                        changed = True
                        break
    return changed


def _try(rewrite: Rewrite, op: ir.OpView) -> bool:
    with ir.InsertionPoint(op), op.location:
        replacement = rewrite(op)
    if replacement is None:
        return False
    replace(op, replacement)
    return True


def replace(
    op: ir.OpView | ir.Operation, values: "ir.Value | Sequence[ir.Value]"
) -> None:
    """Replaces the results of ``op`` by ``values`` and erases it.

    Raises:
        ValueError: the numbers of values and results differ.
    """
    new = [values] if isinstance(values, ir.Value) else list(values)
    old = list(op.results)
    if len(new) != len(old):
        raise ValueError(
            f"`{op.operation.name}`: expected {len(old)} replacements, got {len(new)}"
        )
    for result, value in zip(old, new, strict=True):
        result.replace_all_uses_with(value)
    op.operation.erase()


def erase(op: ir.OpView | ir.Operation) -> None:
    """Erases an operation without uses.

    Raises:
        ValueError: a result has uses.
    """
    if any(has_uses(result) for result in op.results):
        raise ValueError(f"`{op.operation.name}` still has uses")
    op.operation.erase()


def clone(op: ir.OpView, mapping: dict[ir.Value, ir.Value]) -> ir.Operation:
    """Copies an operation to the insertion point.

    Operands, including those in its regions, are remapped by ``mapping``, to which the
    results are added.

    Returns:
        The copy.
    """
    copy = op.operation.clone()
    _substitute(copy, mapping)
    mapping.update(zip(op.results, copy.results, strict=True))
    return copy


def _substitute(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> None:
    for i, operand in enumerate(op.operands):
        if operand in mapping:
            op.operands[i] = mapping[operand]
    for region in op.regions:
        for block in region.blocks:
            for inner in own_operations(block):
                _substitute(inner.operation, mapping)


def has_uses(value: ir.Value) -> bool:
    """Whether ``value`` has any use."""
    return next(iter(value.uses), None) is not None


def has_one_use(value: ir.Value) -> bool:
    """Whether ``value`` has exactly one use."""
    return len(list(value.uses)) == 1


def erase_dead(block: ir.Block, is_pure: Callable[[ir.Operation], bool]) -> bool:
    """Erases pure operations without users, last first.

    Returns:
        Whether any was erased.
    """
    changed = False
    for op in reversed(list(own_operations(block))):
        operation = op.operation
        if (
            len(operation.results)
            and is_pure(operation)
            and not any(map(has_uses, operation.results))
        ):
            operation.erase()
            changed = True
    return changed
