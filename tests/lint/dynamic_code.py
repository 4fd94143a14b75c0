"""Nothing in the package turns text into code: ``python -m tests.lint.dynamic_code``.

Text of models, modules, files of compiled models, databases and traces is data. What could
make it code (``exec``, ``pickle``, an import of a computed name, a shell) is refused here
wherever it stands, but for the places that are listed with a reason.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("relax_mlir", "dialects")

# Whatever is named like this and is called, or handed on.
_BUILTINS = frozenset({"exec", "eval", "compile", "__import__", "breakpoint"})
_MODULES = frozenset(
    {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "runpy", "code"}
    | {"codeop", "imp", "yaml", "jsonpickle"}
)
_FUNCTIONS = frozenset(
    {"os.system", "os.popen", "types.CodeType", "types.FunctionType", "torch.load"}
    | {"subprocess.getoutput", "subprocess.getstatusoutput", "joblib.load"}
)

# Functions whose computed names of modules are names of this package: see `_is_own_prefix`.
_IMPORTS = frozenset({"import_module", "importlib.import_module"})

_LAST = {name.rpartition(".")[2] for name in _FUNCTIONS | _IMPORTS}
_WORDS = re.compile(
    rf"\b({'|'.join(_BUILTINS | _MODULES | _LAST)}|builtins|allow_pickle|shell)\b"
)

_TABLE = "the name is a constant of a table in the module"

EXCEPTIONS: Mapping[tuple[str, str], str] = {
    (
        "relax_mlir/nn/jit.py",
        "`import_module(name)` has a computed name",
    ): _TABLE,
    (
        "relax_mlir/objects/serialization.py",
        "`import_module(module)` has a computed name",
    ): "the name is checked to be of `relax_mlir.objects`; only classes of it are used",
    (
        "relax_mlir/pipeline/catalog.py",
        "`importlib.import_module` is handed on",
    ): _TABLE,
    (
        "relax_mlir/pipeline/catalog.py",
        "`importlib.import_module(module)` has a computed name",
    ): "a package of ours, and a file in it that a pattern of letters and dashes names",
    (
        "relax_mlir/support/hooks.py",
        "`import_module(self._provider)` has a computed name",
    ): _TABLE,
    (
        "relax_mlir/support/hooks.py",
        "`import_module(_FUNCTIONS[name])` has a computed name",
    ): _TABLE,
    (
        "relax_mlir/tvm/script/parser/evaluate.py",
        "`builtins` is used",
    ): "scripts are Python of the program that is running, and see what it sees",
    (
        "relax_mlir/tvm/script/parser/source.py",
        "`types.CodeType` is imported",
    ): "an annotation",
    (
        "relax_mlir/tvm/s_tir/__init__.py",
        "`import_module(_original)` has a computed name",
    ): _TABLE,
    (
        "relax_mlir/support/import_alias.py",
        "`import_module(name)` has a computed name",
    ): "the name that an import statement of the running program asks for",
    (
        "relax_mlir/support/import_alias.py",
        "`runpy` is imported",
    ): "runs the program file that the command was given",
}
"""The only places that may, by file and finding; why each is safe."""


class Finding(NamedTuple):
    """A place where text could become code."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        """As a compiler prints it."""
        return f"{self.path}:{self.line}: {self.what}"


def findings(path: str, source: str) -> Iterator[Finding]:
    """Whatever in a module could turn text into code."""
    if not _WORDS.search(source):
        return
    tree = ast.parse(source)
    bound = _bound_names(tree)
    calls = {id(n.func): n for n in ast.walk(tree) if isinstance(n, ast.Call)}
    harmless = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr not in _BUILTINS
    }
    for node in ast.walk(tree):
        if id(node) in harmless and isinstance(node, ast.Name):
            continue  # such as `builtins.range`
        what = _forbidden(node, bound, calls)
        if what:
            yield Finding(path, getattr(node, "lineno", 0), what)


def _bound_names(tree: ast.Module) -> set[str]:
    """Names that a module, or a function in it, gives a meaning of its own."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            found.update(a.asname or a.name for a in node.names)
    methods = {
        inner.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef)
    }
    functions = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    return found - (methods - functions)


def _forbidden(
    node: ast.AST, bound: set[str], calls: Mapping[int, ast.Call]
) -> str | None:
    """What is wrong with a node, if anything."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return _forbidden_import(node)
    if isinstance(node, ast.keyword):
        return _forbidden_keyword(node)
    if isinstance(node, ast.Name):
        if node.id in ("builtins", "__builtins__"):
            return f"`{node.id}` is used"
        if node.id in _BUILTINS - bound:
            return f"`{node.id}` is used"
    last = node.attr if isinstance(node, ast.Attribute) else None
    last = node.id if isinstance(node, ast.Name) else last
    if last in _LAST:
        name = ast.unparse(node)
        if name in _FUNCTIONS:
            return f"`{name}` is used"
        if name in _IMPORTS:
            return _forbidden_lookup(name, calls.get(id(node)))
    return None


def _forbidden_import(node: ast.Import | ast.ImportFrom) -> str | None:
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        wrong = {f"{module}.{name}" for name in names} & _FUNCTIONS
        wrong |= _BUILTINS.intersection(names) if module == "builtins" else set()
        names = [module]
    else:
        wrong = set[str]()
    wrong |= {name for name in names if name.partition(".")[0] in _MODULES}
    return (
        f"{', '.join(f'`{n}`' for n in sorted(wrong))} is imported" if wrong else None
    )


def _forbidden_keyword(node: ast.keyword) -> str | None:
    is_off = isinstance(node.value, ast.Constant) and not node.value.value
    is_forbidden = node.arg in ("allow_pickle", "shell") and not is_off
    return f"`{ast.unparse(node)}` is passed" if is_forbidden else None


def _forbidden_lookup(name: str, call: ast.Call | None) -> str | None:
    """An import of a name that does not say in the source what it is."""
    if call is None:
        return f"`{name}` is handed on"
    if call.args and _is_own_prefix(call.args[0]):
        return None
    return f"`{ast.unparse(call)}` has a computed name"


def _is_own_prefix(node: ast.expr) -> bool:
    """Whether a name of a module is a constant, or certainly one of this package."""
    if isinstance(node, ast.Constant):
        return True
    if not isinstance(node, ast.JoinedStr):
        return False
    first = node.values[0]
    if isinstance(first, ast.FormattedValue):
        return ast.unparse(first.value) == "__name__"
    return isinstance(first, ast.Constant) and str(first.value).startswith(
        "relax_mlir."
    )


def unlisted() -> tuple[list[Finding], list[tuple[str, str]]]:
    """What the package has and no exception names; exceptions that nothing needs."""
    found = [
        finding
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if package == "dialects" or "dialects" not in path.relative_to(ROOT).parts[:2]
        for finding in findings(str(path.relative_to(ROOT)), path.read_text())
    ]
    used = {(f.path, f.what) for f in found}
    wrong = [f for f in found if (f.path, f.what) not in EXCEPTIONS]
    return wrong, [key for key in EXCEPTIONS if key not in used]


def main() -> int:
    """Print what is wrong; 1 if anything is."""
    wrong, unneeded = unlisted()
    for finding in wrong:
        print(f"{finding}, which may turn text into code. Hint: see {__name__}.")
    for path, what in unneeded:
        print(f"{path}: no longer has the exception {what!r} of {__name__}")
    return int(bool(wrong or unneeded))


if __name__ == "__main__":
    sys.exit(main())
