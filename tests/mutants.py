"""Plant wrong lines in passes and see their tests fail: ``make mutants``.

Every pass is changed in one place at a time: a condition turned around, a comparison
or an operator swapped, a number one too large, a statement left out. The changed source
replaces the module in a process of its own, never on disk, and the files of the pass in
``tests/ir`` run there. A change that they do not notice has survived: a behaviour
without a test, or a line that makes no difference.
"""

import argparse
import ast
import importlib
import multiprocessing
import os
import sys
import tempfile
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from relax_mlir.pipeline.catalog import list_passes

IR_TESTS = Path(__file__).parent / "ir"
TIME_LIMIT_S = 60.0

_PRELOAD_WARNING = "ignore::pytest.PytestAssertRewriteWarning"
# What a child process has loaded before it is asked for; nothing here makes a context.
_ARGUMENTS = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-W", _PRELOAD_WARNING]
_PRELOADED = ["hypothesis", "pytest", "filecheck.matcher", "relax_mlir.tools.opt"]

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.And: ast.Or,
    ast.Eq: ast.NotEq,
    ast.FloorDiv: ast.Mult,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Mult: ast.FloorDiv,
    ast.NotEq: ast.Eq,
    ast.NotIn: ast.In,
    ast.Or: ast.And,
    ast.Sub: ast.Add,
}


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

    def visit(self, node: ast.AST) -> ast.AST:
        """Change a node, or what is in it; messages, annotations and `strict=` stay."""
        if isinstance(node, ast.Raise | ast.AnnAssign | ast.JoinedStr) or (
            isinstance(node, ast.keyword) and node.arg == "strict"
        ):
            return node
        for change in _changes(node):
            self.count += 1
            if self.count == self.target:
                place = node.iter if isinstance(node, ast.comprehension) else node
                self.line = getattr(place, "lineno", 0)
                self.change = f"{_brief(node)}  ->  {_brief(change)}"
                return ast.copy_location(change, node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):  # not their decorators
            node.body = [self.visit(statement) for statement in node.body]  # pyright: ignore[reportAttributeAccessIssue]
            return node
        return self.generic_visit(node)


def _brief(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def _changes(node: ast.AST) -> list[ast.AST]:
    """What could be wrong in place of a node, but right elsewhere."""
    match node:
        case ast.If() | ast.IfExp() | ast.While() | ast.comprehension():
            return _turned_around(node)
        case ast.Compare(left, [operator], [right]) if type(operator) in _SWAPPED:
            return [ast.Compare(left, [_swapped(operator)], [right])]
        case ast.BoolOp(operator, values):
            return [ast.BoolOp(_swapped(operator), values)]
        case ast.BinOp(left, operator, right) if type(operator) in _SWAPPED:
            return [ast.BinOp(left, _swapped(operator), right)]
        case ast.AugAssign(target, operator, value) if type(operator) in _SWAPPED:
            return [ast.AugAssign(target, _swapped(operator), value)]
        case ast.Constant(bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(int(value)):
            return [ast.Constant(value + 1)]
        case ast.Expr(ast.Call()) | ast.Continue() | ast.Break():
            return [ast.Pass()]
    return []


def _turned_around(node: ast.AST) -> list[ast.AST]:
    """A condition negated; a comparison is left to the change of its operator."""
    match node:
        case ast.If(test, body, orelse) if not isinstance(test, ast.Compare):
            return [ast.If(_negated(test), body, orelse)]
        case ast.IfExp(test, body, orelse) if not isinstance(test, ast.Compare):
            return [ast.IfExp(_negated(test), body, orelse)]
        case ast.While(test, body, orelse) if not isinstance(test, ast.Constant):
            return [ast.While(_negated(test), body, orelse)]
        case ast.comprehension(target, source, [test, *others], is_async):
            return [
                ast.comprehension(target, source, [_negated(test), *others], is_async)
            ]
    return []


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
    passes = {n.split("-", 1)[1].replace("-", "_") for n in list_passes()}
    return sorted(
        f for f in found if f.exists() and (f.stem == stem or f.stem not in passes)
    )


def _run_tests(module: str, source: str | None, files: Sequence[str]) -> None:
    """In a child: put a source in place of a module, run tests, exit as pytest does."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        if source is not None:
            _replace_module(module, source)
        code = pytest.main([*_ARGUMENTS, *files])
    os._exit(int(code))


def _replace_module(name: str, source: str) -> None:
    original = importlib.import_module(name)
    module = types.ModuleType(name)
    module.__spec__, module.__file__ = original.__spec__, original.__file__
    sys.modules[name] = module
    exec(compile(source, f"<wrong {name}>", "exec"), module.__dict__)
    # Those who imported something from it get the wrong one.
    loaded = [m for n, m in sys.modules.items() if n.startswith("relax_mlir.")]
    for other in loaded:
        for key, value in list(vars(other).items()):
            if getattr(value, "__module__", None) == name and key in vars(module):
                setattr(other, key, vars(module)[key])


def is_noticed(module: str, source: str | None, files: Sequence[Path]) -> bool:
    """Whether the tests fail, or end the process, or never end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    child = context.Process(
        target=_run_tests, args=(module, source, [str(f) for f in files])
    )
    child.start()
    child.join(TIME_LIMIT_S)
    if child.is_alive():
        child.kill()
        child.join()
    if child.exitcode not in (0, 1) and (child.exitcode or 0) > 0:
        raise RuntimeError(f"pytest ended with {child.exitcode} for `{module}`")
    return child.exitcode != 0


@dataclass(frozen=True)
class Score:
    """How the tests of one pass did.

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


def score(name: str, count: int) -> Score:
    """Plant at most ``count`` wrong places in a pass, one after the other."""
    files = files_of(name)
    if not files:
        return Score(problem="has no file in tests/ir")
    files += IR_TESTS.parent.glob(f"test_{files[0].stem}.py")
    module = list_passes()[name].__module__
    if is_noticed(module, None, files):
        return Score(problem="its tests fail as it is")
    path = Path(str(importlib.import_module(module).__file__))
    source = path.read_text(encoding="utf-8")
    mutants = [plant(source, n) for n in chosen(count_sites(source), count)]
    missed = [m for m in mutants if not is_noticed(module, m.source, files)]
    lines = tuple(f"{path.name}:{m.line}: {m.change}" for m in missed)
    return Score(len(mutants) - len(missed), len(mutants), lines)


def main(argv: Sequence[str] | None = None) -> int:
    """The command: a line for every pass; 1 if tests of some pass notice too little."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("passes", nargs="*", help="all of ours if none is given")
    parser.add_argument("--per-pass", type=int, default=10, help="default: %(default)s")
    parser.add_argument(
        "--share", type=float, default=0.7, help="to be caught; default: %(default)s"
    )
    arguments = parser.parse_args(argv)
    failed = False
    for name in arguments.passes or list_passes():
        result = score(name, arguments.per_pass)
        is_enough = result.is_enough(arguments.share)
        failed |= not is_enough
        print(f"{name:<24} {_summary(result)}{'' if is_enough else '  NOT ENOUGH'}")
        for line in result.survivors:
            print(f"    survived  {line}")
        sys.stdout.flush()
    return int(failed)


def _summary(result: Score) -> str:
    return result.problem or f"{result.caught} of {result.planted} caught"


if __name__ == "__main__":
    sys.exit(main())
