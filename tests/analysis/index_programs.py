"""Random index arithmetic in IR, and an interpreter of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

from mlir import ir

from relax_mlir.ir.traversal import operations_named
from tests.symbolic.expressions import Tree

# By operation name; operands of unsigned operations are not negative.
ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divui": lambda a, b: a // b,
    "arith.divsi": lambda a, b: int(a / b),
    "arith.floordivsi": lambda a, b: a // b,
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.remui": lambda a, b: a % b,
    "arith.remsi": lambda a, b: a - b * int(a / b),
    "arith.minui": min,
    "arith.minsi": min,
    "arith.maxui": max,
    "arith.maxsi": max,
}


@contextmanager
def used_values(text: str) -> Iterator[list[ir.Value]]:
    """The operands of all ``"test.use"`` in a module, in order."""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        found = operations_named(module.operation, "test.use")
        yield [operand for op in found for operand in op.operation.operands]


def lines_of(tree: Tree, numbers: Iterator[int]) -> tuple[list[str], str]:
    """The operations that compute a tree of ``arith`` operations, and their result.

    Names in the tree are existing values.
    """
    result = f"%t{next(numbers)}"
    if isinstance(tree, int):
        return [f"{result} = arith.constant {tree} : index"], result
    if isinstance(tree, str):
        return [], f"%{tree}"
    name, *operands = tree
    parts = [lines_of(operand, numbers) for operand in operands]
    (lhs_lines, lhs), (rhs_lines, rhs) = parts
    own = f"{result} = {name} {lhs}, {rhs} : index"
    return [*lhs_lines, *rhs_lines, own], result


def program(trees: Sequence[Tree], arguments: Sequence[str], loops: str = "") -> str:
    """A function of sizes that uses each tree, inside of loops."""
    numbers = count()
    lines: list[str] = []
    for tree in trees:
        computed, result = lines_of(tree, numbers)
        lines += [*computed, f'"test.use"({result}) : (index) -> ()']
    types = ", ".join(f"%{name}: index" for name in arguments)
    opened = loops.count("{")
    return "\n".join(
        [f"func.func @f({types}) {{", loops, *lines, "}" * opened, "return", "}"]
    )


def compute(tree: Tree, values: Mapping[str, int]) -> int:
    """The value of a tree of operations."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    name, lhs, rhs = tree
    return ARITHMETIC[name](compute(lhs, values), compute(rhs, values))


def values_at(tree: Tree, points: Sequence[Mapping[str, int]]) -> list[int] | None:
    """An expression's values; None where undefined, or for unsigned operations on negative operands."""
    try:
        return [_checked(tree, point) for point in points]
    except (ArithmeticError, ValueError):
        return None


def _checked(tree: Tree, values: Mapping[str, int]) -> int:
    if not isinstance(tree, tuple):
        return compute(tree, values)
    name, *operands = tree
    sides = [_checked(operand, values) for operand in operands]
    if min(sides) < 0 and name.endswith("ui"):
        raise ValueError("unsigned arithmetic wraps around")
    return ARITHMETIC[name](*sides)
