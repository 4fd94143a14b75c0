"""Refuses names of modules in strings that go up through the layers.

import-linter does not see a module that is imported by its name in a string, as by
``importlib.import_module`` or from a table of names. Such names, too, go down through the
layers of ``pyproject.toml``; those that go up are in ``relax_mlir/support/hooks.py``, which
lists what higher layers plug into lower ones, or here, with a reason. Run by ``make lint``.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from importlinter import api

ROOT = Path(__file__).parents[2]
PACKAGE = "relax_mlir"

HOOKS = "relax_mlir.support.hooks"  # may name modules of all layers

_DEFINED = "compared with the module that a class is defined in, which is not imported"

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("relax_mlir.support.argument_types", "relax_mlir.dialects"): _DEFINED,
    ("relax_mlir.support.argument_types", "relax_mlir.objects.expr"): _DEFINED,
    (
        "relax_mlir.support.argument_types",
        "relax_mlir.objects.expr.variables",
    ): _DEFINED,
    ("relax_mlir.support.argument_types", "relax_mlir.objects.stmt.buffer"): _DEFINED,
    (
        "relax_mlir.support.source_tree",
        "relax_mlir.dialects",
    ): "found in its folder, which is not imported",
}

_NAME = re.compile(rf"{PACKAGE}(\.\w+)+")
_QUOTED = re.compile(rf"[\"']{PACKAGE}\.")


class Finding(NamedTuple):
    """The name of a module in a string of one that must not import it."""

    module: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: names `{self.name}`, which is not below it"


@dataclass(frozen=True)
class Layers:
    """The layers of one contract.

    Attributes:
        container: the package whose modules stand in layers.
        ranks: the layer of each module by its name in the container; 0 is the highest.
        are_closed: for each layer, whether its modules do not see each other.
    """

    container: str
    ranks: Mapping[str, int]
    are_closed: Sequence[bool]

    @staticmethod
    def of(contract: Mapping[str, Any]) -> "Layers":  # Any: values of TOML
        lines = contract["layers"]
        (container,) = contract["containers"]
        names = ((n, rank) for rank, line in enumerate(lines) for n in _names(line))
        return Layers(container, dict(names), ["|" in line for line in lines])

    def layer_of(self, module: str) -> str | None:
        """The name in :attr:`ranks` of what a module belongs to."""
        if not module.startswith(f"{self.container}."):
            return None
        parts = module.removeprefix(f"{self.container}.").split(".")
        names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        return next((name for name in names if name in self.ranks), None)

    def allow(self, source: str, target: str) -> bool:
        """Whether a module may import another."""
        above, below = self.layer_of(source), self.layer_of(target)
        if above is None or below is None or above == below:
            return True
        rank = self.ranks[above]
        is_beside = rank == self.ranks[below]
        return not self.are_closed[rank] if is_beside else rank < self.ranks[below]


def _names(line: str) -> list[str]:
    return [name.strip("() ") for name in re.split(r"[|:]", line)]


def contracts() -> list[Layers]:
    """The contracts of ``pyproject.toml`` about layers."""
    read = api.read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    return [Layers.of(options) for options in read if options["type"] == "layers"]


def named_modules(source: str, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """The modules that strings of a module name: their lines, and their names.

    A string is one if it is exactly the name of a module. Of a string with computed parts,
    what stands before the first is the name of a package.
    """
    if not _QUOTED.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            first = node.values[0] if node.values else None
            text = first.value if isinstance(first, ast.Constant) else ""
            name = str(text).rpartition(".")[0]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value
        else:
            continue
        if _NAME.fullmatch(name) and name in known:
            yield node.lineno, name


def module_of(path: Path) -> str:
    """The name of the module in a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == PACKAGE else (PACKAGE, *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def findings(
    module: str, source: str, known: frozenset[str], layers: Sequence[Layers]
) -> Iterator[Finding]:
    """The names in a module that it must not name by the layers."""
    for line, name in named_modules(source, known):
        if not all(layer.allow(module, name) for layer in layers):
            yield Finding(module, line, name)


def unlisted() -> tuple[list[Finding], list[tuple[str, str]]]:
    """What the package has and no exception names; exceptions that nothing needs."""
    folders = (ROOT / PACKAGE, ROOT / "dialects")
    files = {
        module_of(f): f for folder in folders for f in sorted(folder.rglob("*.py"))
    }
    known, layers = frozenset(files), contracts()
    found = [
        finding
        for module, file in files.items()
        for finding in findings(module, file.read_text(), known, layers)
        if module != HOOKS
    ]
    used = {(f.module, f.name) for f in found}
    wrong = [f for f in found if (f.module, f.name) not in EXCEPTIONS]
    return wrong, [key for key in EXCEPTIONS if key not in used]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    wrong, unneeded = unlisted()
    for finding in wrong:
        print(f"{finding}. Hint: set a hook of {HOOKS}, or move what it needs down.")
    for module, name in unneeded:
        print(f"{module}: no longer has the exception `{name}` of {__name__}")
    return int(bool(wrong or unneeded))


if __name__ == "__main__":
    sys.exit(main())
