"""Refuses ``block.operations`` in the package: analyses must not miss nested regions.

``relax_mlir.ir.traversal`` has the two traversals to choose from: ``walk`` visits branches and
loops too, ``own_operations`` says that one block alone is meant. Run by ``make lint``.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "relax_mlir"

# Files in which `.operations` may be written, and why.
EXEMPT = {
    "ir/traversal.py": "defines the traversals",
    "passes/tir/use_winograd.py": "copies the operations of a program's own block in order",
    "runtime/profile.py": "`operations` of a kernel call is a number of floating-point operations",
}


def bare_accesses(source: str) -> Iterator[int]:
    """The lines of ``x.operations``; an attribute of ``self`` is not a block's."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or node.attr != "operations":
            continue
        is_own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if not is_own:
            yield node.lineno


def violations(package: Path = PACKAGE) -> list[str]:
    """A message for each bare access in a package."""
    files = sorted(package.rglob("*.py"))
    return [
        f"{file}:{line}: bare `.operations`: expected `walk(block)`, which visits nested "
        "regions, or `own_operations(block)` of `relax_mlir.ir.traversal`"
        for file in files
        if file.relative_to(package).as_posix() not in EXEMPT
        for line in bare_accesses(file.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    found = violations()
    print("\n".join(found) or "traversal: no bare `.operations`")
    sys.exit(bool(found))
