"""Mutation testing of passes and analyses: ``make mutants``.

A mutant is a module with one wrong place: a condition negated, a comparison or an operator
swapped, a number one too large, a statement or an entry of a table left out. Each mutant runs
in a forked process, never on disk, against the tests of its module alone: the files of a pass
in ``tests/ir``, and the files that :mod:`tests.mutants.table` declares. A mutant
that they do not notice has survived: a behaviour without a test, or code that makes no
difference.

``python -m tests.mutants relax-fuse-ops`` runs one pass, ``python -m tests.mutants
dialects.intervals`` one analysis.
"""

import argparse
import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
IR_TESTS = TESTS / "ir"
PASS_SHARE = 0.7
ANALYSIS_SHARE = 0.9

_CPU_LIMIT_S = 60.0  # of one mutant; a loop that does not end is noticed
_WAIT_LIMIT_S = 300  # for one that waits for what never comes
_NOT_RUN = 99  # the exit status of a process in which pytest did not come to an end
_PRELOAD_WARNING = "ignore::pytest.PytestAssertRewriteWarning"
_ARGUMENTS = [
    *("-x", "-q", "-n0", "--tb=no", "-p", "no:cacheprovider"),
    *("-W", _PRELOAD_WARNING, "--hypothesis-profile=mutants"),
]
# What is loaded before processes fork; tests load their own modules.
_PRELOADED = ("relax_mlir.", "mlir.", "numpy.", "onnx.", "hypothesis.", "filecheck.")

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.And: ast.Or,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Eq: ast.NotEq,
    ast.FloorDiv: ast.Mult,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Mod: ast.FloorDiv,
    ast.Mult: ast.FloorDiv,
    ast.NotEq: ast.Eq,
    ast.NotIn: ast.In,
    ast.Or: ast.And,
    ast.Sub: ast.Add,
}
_OPPOSITES = {"all": "any", "any": "all", "max": "min", "min": "max"}
# Arguments that change what is checked, or how fast, but no result.
_UNOBSERVED = ("frozen", "maxsize", "slots", "strict")


@dataclass(frozen=True)
class Mutant:
    """A module with one wrong place.

    Attributes:
        line: where it is.
        change: what stood there, and what stands there now.
        source: the whole module.
    """

    line: int
    change: str
    source: str


class _Planter(ast.NodeTransformer):
    """Makes the ``target``-th of all possible changes; counts them on the way."""

    def __init__(self, target: int = -1) -> None:
        self.target = target
        self.count = 0
        self.line = 0
        self.change = ""
        self._may_return_none = False

    def visit(self, node: ast.AST) -> ast.AST:
        """Change a node, or what is in it; messages, types and decorators stay."""
        if _is_left_alone(node):
            return node
        for change in self._changes(node):
            self.count += 1
            if self.count == self.target:
                place = node.iter if isinstance(node, ast.comprehension) else node
                self.line = getattr(place, "lineno", 0)
                self.change = f"{_brief(node)}  ->  {_brief(change)}"
                return ast.copy_location(change, node)
        if isinstance(node, ast.AnnAssign):  # not its annotation
            node.value = node.value and self._visited(node.value)
            return node
        if isinstance(node, ast.FunctionDef):
            return self._function(node)
        if isinstance(node, ast.ClassDef):
            node.body = [self._visited(statement) for statement in node.body]
            return node
        return self.generic_visit(node)

    def _visited(self, node: Any) -> Any:  # Any: a change is of the same kind
        return self.visit(node)

    def _function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        arguments = node.args
        arguments.defaults = [self._visited(d) for d in arguments.defaults]
        arguments.kw_defaults = [d and self._visited(d) for d in arguments.kw_defaults]
        outer = self._may_return_none
        self._may_return_none = node.returns is not None and "None" in _words(
            node.returns
        )
        node.body = [self._visited(statement) for statement in node.body]
        self._may_return_none = outer
        return node

    def _changes(self, node: ast.AST) -> list[ast.AST]:
        if isinstance(node, ast.Return) and self._may_return_none and node.value:
            is_none = isinstance(node.value, ast.Constant) and node.value.value is None
            return [] if is_none else [ast.Return(ast.Constant(None))]
        return _changes(node)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.keyword(name):
            return name in _UNOBSERVED
        case ast.If(ast.Name("TYPE_CHECKING")):
            return True
        case ast.Assign([ast.Name("__all__")]):
            return True
        case ast.AnnAssign(annotation=annotation):
            return _words(annotation) & {"TypeAlias", "TypeVar"} != set()
    return False


def _words(node: ast.AST) -> set[str]:
    """The names in an annotation, those in strings included."""
    text = ast.unparse(node).replace('"', " ").replace("'", " ")
    return set("".join(c if c.isalnum() else " " for c in text).split())


def _brief(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def _changes(node: ast.AST) -> list[ast.AST]:
    """What could be wrong in place of a node, but right elsewhere."""
    match node:
        case ast.If() | ast.IfExp() | ast.While() | ast.comprehension():
            return _turned_around(node)
        case ast.Compare(left, operators, comparators):
            return list(_compared(left, operators, comparators))
        case ast.BoolOp(operator, values):
            return [ast.BoolOp(_swapped(operator), values)]
        case ast.BinOp(left, operator, right) if type(operator) in _SWAPPED:
            return _calculated(left, operator, right)
        case ast.AugAssign(target, operator, value) if type(operator) in _SWAPPED:
            return [ast.AugAssign(target, _swapped(operator), value)]
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            return [operand]
        case ast.Dict() | ast.List() | ast.Set() | ast.Tuple():
            return list(_shortened(node))
    return _replaced(node)


def _replaced(node: ast.AST) -> list[ast.AST]:
    """A constant, a name or a statement changed."""
    match node:
        case ast.Constant(bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(int(value)):
            return [ast.Constant(value + 1)]
        case ast.Name(name, ast.Load()) if name in _OPPOSITES:
            return [ast.Name(_OPPOSITES[name], ast.Load())]
        case ast.Expr(ast.Call()) | ast.Continue() | ast.Break():
            return [ast.Pass()]
    return []


def _calculated(left: ast.expr, operator: ast.operator, right: ast.expr) -> list[Any]:
    """An arithmetic operation swapped; a quotient also rounded up."""
    changes: list[ast.AST] = [ast.BinOp(left, _swapped(operator), right)]
    if isinstance(operator, ast.FloorDiv):
        down = ast.BinOp(ast.UnaryOp(ast.USub(), left), operator, right)
        changes.append(ast.UnaryOp(ast.USub(), down))
    return changes


def _compared(
    left: ast.expr, operators: list[ast.cmpop], comparators: list[ast.expr]
) -> Iterator[ast.Compare]:
    """A comparison with one operator swapped, each of a chain in turn."""
    for place, operator in enumerate(operators):
        changed = [*operators[:place], _swapped(operator), *operators[place + 1 :]]
        yield ast.Compare(left, changed, comparators)


def _shortened(node: ast.AST) -> Iterator[ast.AST]:
    """A table of names, or a dictionary, with each of its entries left out."""
    match node:
        case ast.Dict(keys, values) if len(keys) > 1:
            for gone in range(len(keys)):
                yield ast.Dict(_without(keys, gone), _without(values, gone))
        case ast.Set(entries) | ast.List(entries) | ast.Tuple(entries):
            is_table = len(entries) > 1 and all(map(_is_text, entries))
            for gone in range(len(entries) if is_table else 0):
                yield _display(node, _without(entries, gone))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _display(node: ast.AST, entries: list[ast.expr]) -> ast.AST:
    """A set, list or tuple with other entries."""
    if isinstance(node, ast.Set):
        return ast.Set(entries)
    kind = ast.List if isinstance(node, ast.List) else ast.Tuple
    return kind(entries, ast.Load())


def _without(entries: Sequence[Any], gone: int) -> list[Any]:
    return [*entries[:gone], *entries[gone + 1 :]]


def _turned_around(node: ast.AST) -> list[ast.AST]:
    """A condition negated; where an operator in it changes, that is negation enough."""
    match node:
        case ast.If(test, body, orelse) if not _is_negatable(test):
            return [ast.If(_negated(test), body, orelse)]
        case ast.IfExp(test, body, orelse) if not _is_negatable(test):
            return [ast.IfExp(_negated(test), body, orelse)]
        case ast.While(test, body, orelse) if not _is_negatable(test):
            return [ast.While(_negated(test), body, orelse)]
        case ast.comprehension(target, source, [test, *others], is_async):
            if not _is_negatable(test):
                tests = [_negated(test), *others]
                return [ast.comprehension(target, source, tests, is_async)]
    return []


def _is_negatable(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Constant)
        or (isinstance(test, ast.Compare) and len(test.ops) == 1)
        or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))
    )


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _swapped(operator: ast.AST) -> Any:  # Any: operators have no common class
    return _SWAPPED[type(operator)]()


def count_sites(source: str) -> int:
    """In how many ways a module can be made wrong."""
    planter = _Planter()
    planter.visit(ast.parse(source))
    return planter.count


def plant(source: str, number: int) -> Mutant:
    """The module with wrong place ``number``, from 1."""
    planter = _Planter(number)
    tree = ast.fix_missing_locations(planter.visit(ast.parse(source)))
    return Mutant(planter.line, planter.change, ast.unparse(tree))


def chosen(sites: int, count: int) -> list[int]:
    """At most ``count`` numbers from 1 to ``sites``, evenly spread."""
    count = min(count, sites)
    return sorted({1 + (i * sites + sites // 2) // count for i in range(count)})


def files_of(name: str) -> list[Path]:
    """The tests of a pass: ``ir/relax/fuse_ops.mlir``, ``fuse_ops_errors.mlir``, ..."""
    level, stem = name.split("-", 1)
    stem = stem.replace("-", "_")
    folder = IR_TESTS / level
    found = [folder / f"{stem}.mlir", *folder.glob(f"{stem}_*.mlir")]
    passes = {n.split("-", 1)[1].replace("-", "_") for n in _list_passes()}
    return sorted(
        f for f in found if f.exists() and (f.stem == stem or f.stem not in passes)
    )


def _list_passes() -> dict[str, Any]:  # Any: classes of passes
    # Loaded late: processes that run mutants load the compiler themselves.
    from relax_mlir.pipeline.catalog import list_passes

    return list_passes()


@dataclass(frozen=True)
class Subject:
    """A module under mutation.

    Attributes:
        name: a pass as in pipelines, or an analysis by its module.
        module: what is changed.
        files: what has to notice.
        count: the most mutants that are planted.
        share: which part of them has to be caught.
    """

    name: str
    module: str
    files: tuple[Path, ...]
    count: int
    share: float


class _Substitution(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a given source, or refuses to import it for None."""

    def __init__(self, module: str, source: str | None) -> None:
        self.module = module
        self.source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        if self.source is None:
            raise ImportError(f"`{fullname}` comes later", name=fullname)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = self
        return spec

    def exec_module(self, module: types.ModuleType) -> None:
        assert self.source is not None
        exec(compile(self.source, f"<wrong {self.module}>", "exec"), module.__dict__)


def load_others(module: str, names: Iterable[str]) -> None:
    """Import the modules that do not depend on ``module``: children inherit them."""
    barrier = _Substitution(module, None)
    sys.meta_path.insert(0, barrier)
    for name in names:
        with contextlib.suppress(ImportError):  # it depends on the module
            importlib.import_module(name)
    sys.meta_path.remove(barrier)


def _run_tests(module: str, source: str, files: Sequence[str], report: int) -> None:
    """In a child: import a module from a source, run tests, exit as pytest does."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        sys.meta_path.insert(0, _Substitution(module, source))
        # Some of its modules may be there without it, and imports then run in circles.
        with contextlib.suppress(Exception):  # the tests will say what is wrong
            importlib.import_module("relax_mlir")
        import pytest

        code = pytest.main([*_ARGUMENTS, *files])
    with open(report, "wb") as pipe:
        pickle.dump([n for n in sys.modules if n.startswith(_PRELOADED)], pipe)
    os._exit(int(code))


def _outcome(
    module: str,
    source: str,
    files: Sequence[Path],
    cpu_limit_s: float = _CPU_LIMIT_S,
) -> tuple[bool, Sequence[str]]:
    """Whether tests noticed something, and which modules they loaded."""
    read, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            signal.setitimer(signal.ITIMER_PROF, cpu_limit_s)
            signal.alarm(_WAIT_LIMIT_S)
            _run_tests(module, source, [str(f) for f in files], report)
        finally:
            os._exit(_NOT_RUN)  # `_run_tests` exits by itself
    os.close(report)
    with open(read, "rb") as pipe:
        loaded = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == _NOT_RUN:
        raise RuntimeError(f"pytest did not run for `{module}`")
    return status != 0, pickle.loads(loaded) if loaded else ()


def is_noticed(
    module: str,
    source: str,
    files: Sequence[Path],
    *,
    cpu_limit_s: float = _CPU_LIMIT_S,
) -> bool:
    """Whether the tests fail with a module from ``source``, end the process, or never end.

    The module, and what imports it, must not be loaded yet.
    """
    return _outcome(module, source, files, cpu_limit_s)[0]


@dataclass(frozen=True)
class Score:
    """How the tests of one module did.

    Attributes:
        caught, planted: numbers of mutants.
        survivors: lines that tell of those that were not noticed.
        problem: why nothing could be said, if so.
    """

    caught: int = 0
    planted: int = 0
    survivors: tuple[str, ...] = ()
    problem: str | None = None

    def is_enough(self, share: float) -> bool:
        """Whether at least one, and that share, was caught."""
        return self.problem is None and self.caught >= max(1.0, share * self.planted)


def score(subject: Subject) -> Score:
    """Plant wrong places in a module, one after the other; in a process of its own."""
    if not subject.files:
        return Score(problem="has no file in tests/ir")
    path = path_of(subject.module)
    source = path.read_text(encoding="utf-8")
    same = ast.unparse(ast.parse(source))
    fails, loaded = _outcome(subject.module, same, subject.files)
    if fails:
        return Score(problem="its tests fail as it is")
    load_others(subject.module, loaded)
    if is_noticed(subject.module, same, subject.files):
        return Score(problem="its tests fail in a forked process")
    mutants = [plant(source, n) for n in chosen(count_sites(source), subject.count)]
    missed = [
        m for m in mutants if not is_noticed(subject.module, m.source, subject.files)
    ]
    lines = tuple(f"{path.name}:{m.line}: {m.change}" for m in missed)
    return Score(len(mutants) - len(missed), len(mutants), lines)


def path_of(module: str) -> Path:
    """The file of a module of the package."""
    path = module.replace(".", "/")
    if path.startswith("relax_mlir/dialects/"):
        path = path.removeprefix("relax_mlir/")
    return TESTS.parent / f"{path}.py"


def _of_pass(name: str, arguments: argparse.Namespace) -> Subject:
    from tests.mutants.table import PASSES

    files = files_of(name)
    if files:
        files += [TESTS / file for file in PASSES.get(name, ())]
    module = _list_passes()[name].__module__
    share = PASS_SHARE if arguments.share is None else arguments.share
    return Subject(name, module, tuple(files), arguments.per_pass, share)


def _of_analysis(name: str, arguments: argparse.Namespace) -> Subject:
    from tests.mutants.table import ANALYSES

    files = tuple(TESTS / file for file in ANALYSES[name])
    share = ANALYSIS_SHARE if arguments.share is None else arguments.share
    return Subject(name, f"relax_mlir.{name}", files, arguments.per_analysis, share)


def _subjects(arguments: argparse.Namespace) -> list[Subject]:
    from tests.mutants.table import ANALYSES

    passes = _list_passes()
    names = arguments.names or [*ANALYSES, *passes]
    return [
        (_of_pass if name in passes else _of_analysis)(name, arguments)
        for name in names
    ]


def _keep_bytecode(folder: str) -> None:
    """Compile each module of the package once, whatever the environment says."""
    sys.dont_write_bytecode = False
    sys.pycache_prefix = folder


def _check_names(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    from relax_mlir.errors import near_misses
    from tests.mutants.table import ANALYSES

    known = [*ANALYSES, *_list_passes()]
    for name in names:
        if name not in known:
            parser.error(f"no pass or analysis `{name}`.{near_misses(name, known)}")


def main(argv: Sequence[str] | None = None) -> int:
    """The command: a line for every module; 1 if tests of some notice too little."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="all passes and analyses by default")
    parser.add_argument("--per-pass", type=int, default=10, help="default: %(default)s")
    parser.add_argument(
        "--per-analysis", type=int, default=40, help="default: %(default)s"
    )
    parser.add_argument(
        "--share",
        type=float,
        help=f"to be caught; default: {PASS_SHARE} of a pass, {ANALYSIS_SHARE} of an analysis",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args(argv)
    _check_names(parser, arguments.names)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    subjects = _subjects(arguments)
    failed = False
    # A process for each module: it must not have loaded what it changes.
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        context.Pool(
            arguments.jobs, _keep_bytecode, (folder,), maxtasksperchild=1
        ) as pool,
    ):
        for subject, result in zip(subjects, pool.imap(score, subjects), strict=True):
            is_enough = result.is_enough(subject.share)
            failed |= not is_enough
            mark = "" if is_enough else "  NOT ENOUGH"
            print(f"{subject.name:<34} {_summary(result)}{mark}")
            for line in result.survivors:
                print(f"    survived  {line}")
            sys.stdout.flush()
    return int(failed)


def _summary(result: Score) -> str:
    return result.problem or f"{result.caught} of {result.planted} caught"
