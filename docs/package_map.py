"""The diagram of the packages in ``docs/architecture.md``, drawn from their imports."""

import ast
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any  # options of contracts

import grimp
from importlinter.api import read_configuration

from tests.lint.import_layers import installed_layout

__all__ = ["PAGE", "page_with_map"]

PAGE = Path(__file__).parent / "architecture.md"

_ROOT = Path(__file__).parents[1]
_BEGIN, _END = "<!-- map -->\n", "<!-- end of map -->\n"


def page_with_map() -> str:
    """The text of the page with a map of the packages as they are."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN)
    after = rest.split(_END)[1]
    return f"{before}{_BEGIN}{_map()}{_END}{after}"


def _map() -> str:
    layers = _layers()
    names = [name for layer in layers for name in layer]
    imports = _without_shortcuts(_imports(names))
    lines = ["", "| layer | package | contents |", "|---|---|---|"]
    for number, layer in enumerate(layers):
        for name in layer:
            folder = "dialects" if name == "dialects" else f"relax_mlir/{name}"
            place = folder.replace(".", "/")
            lines.append(f"| {len(layers) - number} | `{place}` | {_sentence(name)} |")
    lines += ["", "```mermaid", "flowchart TD"]
    for name in names:
        lines += [f"  {_id(name)}[{name}] --> {_id(other)}" for other in imports[name]]
    return "\n".join([*lines, "```", "", ""])


def _id(name: str) -> str:
    return name.replace(".", "_")


def _contract() -> dict[str, Any]:
    """The layers and the imports they ignore, as import-linter checks them."""
    read = read_configuration(str(_ROOT / "pyproject.toml"))
    options = read["contracts_options"]
    return next(c for c in options if c.get("containers") == ["relax_mlir"])


def _layers() -> list[list[str]]:
    """The packages by layer, highest first."""
    return [
        layer.replace(":", "|").replace(" ", "").split("|")
        for layer in _contract()["layers"]
    ]


def _imports(names: Iterable[str]) -> dict[str, list[str]]:
    """Which packages each of some packages imports, other than in annotations."""
    graph = _import_graph()
    for ignored in _contract()["ignore_imports"]:
        importer, imported = ignored.split(" -> ")
        graph.remove_import(importer=importer, imported=imported)
    modules = {n: _modules(graph.modules, f"relax_mlir.{n}") for n in names}
    owner = {module: name for name, found in modules.items() for module in found}
    found: dict[str, list[str]] = {}
    for name, own in modules.items():
        targets = {
            owner[other]
            for module in own
            for other in graph.find_modules_directly_imported_by(module)
            if other in owner
        }
        found[name] = [n for n in names if n in targets - {name}]
    return found


def _import_graph() -> grimp.ImportGraph:
    """The imports of the package, other than in annotations, with those of ``dialects``."""
    loaded = sys.modules.pop("relax_mlir", None)  # which would be searched instead
    with installed_layout() as folder:
        sys.path.insert(0, str(folder))
        try:
            return grimp.build_graph("relax_mlir", exclude_type_checking_imports=True)
        finally:
            sys.path.remove(str(folder))
            if loaded is not None:
                sys.modules["relax_mlir"] = loaded


def _modules(modules: Iterable[str], package: str) -> list[str]:
    return [m for m in modules if m == package or m.startswith(f"{package}.")]


def _without_shortcuts(imports: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Imports without those that lead where a longer way leads, too."""
    reached: dict[str, set[str]] = {}

    def reach(name: str, seen: frozenset[str] = frozenset()) -> set[str]:
        if name not in reached:
            ways = [n for n in imports[name] if n not in seen]
            below = {m for n in ways for m in reach(n, seen | {name})}
            reached[name] = {*ways, *below}
        return reached[name]

    return {
        name: [
            other
            for other in others
            if not any(other in reach(n) for n in others if n != other)
            or name in reach(other)
        ]
        for name, others in imports.items()
    }


def _sentence(name: str) -> str:
    """The first line of a package's docstring."""
    spec = find_spec(f"relax_mlir.{name}")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    doc = (ast.get_docstring(tree) or "").splitlines()
    return " ".join(takewhile(bool, doc)).replace("``", "`")
