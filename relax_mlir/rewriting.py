"""What passes are made of: the pass class, patterns, and safe replacement.

Passes and schedule rules erase and replace operations through this module alone: MLIR's
C++ ends the process when an operation with uses is erased.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_type_hints

from mlir import ir

from relax_mlir.dialects import constraints
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.pass_context import AnyPass, PassContext, PassInfo
from relax_mlir.size_constraints import constraints_of
from relax_mlir.traversal import blocks_of, own_operations, walk

__all__ = [
    "Pass",
    "clone",
    "erase",
    "erase_dead",
    "has_uses",
    "is_read_once",
    "pattern",
    "replace",
    "rewrite_greedily",
    "walk",
]


@dataclass(frozen=True)
class Pass(AnyPass):
    """Base of every pass: a frozen dataclass whose fields are its options.

    The first line of the docstring is what ``relax-opt --list-passes`` shows. Called on a
    module, a pass gives a changed copy.
    """

    opt_level: ClassVar[int] = (
        0  # the least of a context that runs it in a `Sequential`
    )
    required: ClassVar[tuple[str, ...]] = ()
    known_as: ClassVar[str] = ""  # Relax's name, where that is not the class's

    @property
    def info(self) -> PassInfo:
        """What it is called, and when it runs."""
        name = self.known_as or type(self).__name__
        return PassInfo(self.opt_level, name, self.required)

    def run(self, module: IRModule) -> None:
        """Change ``module`` in place.

        Raises:
            PassError: the pass cannot do its work; the module may then be in between.
        """
        raise NotImplementedError

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        """A changed copy of ``module``, checked by MLIR."""
        copy = module.clone()
        holding = constraints.holding(constraints_of(module))
        with copy.context, ir.Location.unknown(), holding:
            self.run(copy)
        for function in copy.func_ops():
            if names.NESTED in function.attributes:  # the copy has a variable for it
                del function.attributes[names.NESTED]
        copy.verify()
        with copy.context:
            copy.carry_scopes(module)
        return copy


Rewrite = Callable[[Any], "ir.Value | Sequence[ir.Value] | None"]


def pattern(rewrite: Rewrite) -> Rewrite:
    """Mark a function as a pattern on the operation class of its first parameter.

    It returns the replacement of the operation's results, or None where it does not
    match; it builds new operations at the insertion point, in front of the operation.
    """
    hints = get_type_hints(rewrite)
    rewrite.root = next(iter(hints.values()))  # pyright: ignore[reportFunctionMemberAccess]
    return rewrite


def rewrite_greedily(module: IRModule, *patterns: Rewrite, rounds: int = 10) -> bool:
    """Apply patterns everywhere until none matches or ``rounds`` sweeps are done.

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
    """Put ``values`` in place of the results of ``op`` and erase it.

    Raises:
        ValueError: another number of values than results.
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
    """Erase an operation without uses.

    Raises:
        ValueError: a result is still used.
    """
    if any(has_uses(result) for result in op.results):
        raise ValueError(f"`{op.operation.name}` is still used")
    op.operation.erase()


def clone(op: ir.OpView, mapping: dict[ir.Value, ir.Value]) -> ir.Operation:
    """Copy an operation to the insertion point.

    Operands, those of operations inside it too, are replaced as ``mapping`` says, which
    then learns what the results became.

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
    """Whether any operation reads ``value``."""
    return next(iter(value.uses), None) is not None


def is_read_once(value: ir.Value) -> bool:
    """Whether one operand is ``value``, and no other."""
    return len(list(value.uses)) == 1


def erase_dead(block: ir.Block, is_pure: Callable[[ir.Operation], bool]) -> bool:
    """Erase pure operations whose results nobody reads, last first.

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
