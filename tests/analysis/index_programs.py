"""Index arithmetic in IR, and the numbers that it computes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

from mlir import ir

from relax_mlir.traversal import named
from tests.analysis.expressions import Tree

# By the names of operations, on numbers that are not negative where those are unsigned.
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
        found = named(module.operation, "test.use")
        yield [operand for op in found for operand in op.operation.operands]


def lines_of(tree: Tree, numbers: Iterator[int]) -> tuple[list[str], str]:
    """The operations that compute a tree of operations of ``arith``, and their result.

    Names in it are values that there are.
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
    """A function of sizes that uses each tree, inside of some loops."""
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
    """The number that a tree of operations is."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return values[tree]
    name, lhs, rhs = tree
    return ARITHMETIC[name](compute(lhs, values), compute(rhs, values))


def values_at(tree: Tree, points: Sequence[Mapping[str, int]]) -> list[int] | None:
    """An expression's values; None where one is not defined, or unsigned of a negative number."""
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
