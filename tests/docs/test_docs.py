"""The code in README.md, CONTRIBUTING.md and docs/ runs, and prints what they say.

A section, from one ``##`` heading to the next, is a test. Its blocks run in order, in a
folder where ``models`` and ``dialects`` are those of the checkout:

- ``python``: executed. With ``>>>`` in it, what it prints must be what stands there,
  where ``...`` is any text. If the first line is a comment with a path of the checkout,
  the block is a file to write, or lines to add to the file that is there.
- ``console``: ``relax-opt`` and ``relax-mlir`` run in this process; what makes or tests
  the checkout itself does not.
- ``mlir``: with a path of ``tests/ir`` in its first line, a test of a pass.
- ``py``: needs a package that is optional; not run here.
"""

import contextlib
import doctest
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import mlir
import onnx
import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from docs import generate, package_map
from relax_mlir.dialects import op_interface, relax
from relax_mlir.tools import cli, opt

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_FILE = re.compile(r"(?:#|//) ((?:relax_mlir|dialects|tests)/[\w/]+\.(?:py|mlir))\n")
_LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_TOOLS: dict[str, Callable[[list[str]], int]] = {
    "relax-mlir": cli.main,
    "relax-opt": opt.main,
}
_SHELL = {"cat", "mlir-opt"}
_NOT_RUN = {"git", "make", "pip", "pytest", "python", "python3", "source"}
# They measure, or run a model after each of forty passes.
_SLOW = {"Values after every pass", "When something is slow or broken"}


@dataclass(frozen=True)
class Block:
    """Code between two fences."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Section:
    """What runs together."""

    page: Path
    title: str
    blocks: tuple[Block, ...]


def blocks(text: str, start: int = 0, end: int | None = None) -> Iterator[Block]:
    for found in _BLOCK.finditer(text, start, len(text) if end is None else end):
        line = text.count("\n", 0, found.start(2))
        yield Block(found[1], found[2], line)


def sections(page: Path) -> Iterator[Section]:
    text = page.read_text(encoding="utf-8")
    starts = [(0, "top"), *((m.start(), m[1]) for m in _SECTION.finditer(text))]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    for (start, title), end in zip(starts, ends, strict=True):
        found = tuple(blocks(text, start, end))
        if any(block.language in _RUN for block in found):
            yield Section(page, title, found)


class Run:
    """Runs the blocks of one section.

    Args:
        page: where they stand.
        folder: where files that they add to the checkout are written.
        monkeypatch: takes back what they add to modules.
    """

    def __init__(
        self, page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.page = page
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.names: dict[str, object] = {"__name__": "__main__"}

    def python(self, block: Block) -> None:
        if file := _FILE.match(block.text):
            self.add(file[1], block.text)
        elif block.text.startswith(">>>"):
            self.session(block)
        else:
            exec(block.text, self.names)

    def session(self, block: Block) -> None:
        name, line = self.page.name, block.line
        parsed = doctest.DocTestParser().get_doctest(
            block.text, self.names, name, name, line
        )
        report = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=_LIKE)
        runner.run(parsed, out=report.write, clear_globs=False)
        self.names.update(parsed.globs)
        assert not runner.failures, report.getvalue()

    def add(self, path: str, text: str) -> None:
        """Write a file of the package, or run what is added to one in its module."""
        # Kernels are cached by the sources on disk, of which these lines are no part.
        self.monkeypatch.setenv("XDG_CACHE_HOME", str(self.folder.parent / "cache"))
        name = path.removesuffix(".py").replace("/", ".")
        name = name if name.startswith("relax_mlir.") else f"relax_mlir.{name}"
        if (ROOT / path).exists():
            self.add_to(importlib.import_module(name), text)
            return
        package = importlib.import_module(name.rpartition(".")[0])
        self.folder.mkdir(exist_ok=True)
        (self.folder / Path(path).name).write_text(text)
        places = [*package.__path__, str(self.folder)]
        self.monkeypatch.setattr(package, "__path__", places)
        importlib.invalidate_caches()

    def add_to(self, module: ModuleType, text: str) -> None:
        before = dict(vars(module))
        names = dict(before)
        exec(text, names)
        for name, value in names.items():
            if name not in before or before[name] is not value:
                self.monkeypatch.setitem(vars(module), name, value)

    def mlir(self, block: Block) -> None:
        """Run every RUN line, as the collector of ``tests/ir`` does."""
        path = self.folder / "test.mlir"
        path.write_text(block.text)
        commands = re.findall(
            r"^// RUN: relax-opt (.*) \| filecheck %s$", block.text, re.M
        )
        assert commands or not _FILE.match(block.text)
        for command in commands:
            words = shlex.split(command.replace("%s", str(path)))
            options = parse_argv_options(["filecheck", str(path)])
            printed = FInput("output", opt.run(words))
            matcher = Matcher(options, printed, Parser.from_opts(options))
            matcher.stderr = report = io.StringIO()
            assert matcher.run() == 0, report.getvalue()

    def console(self, block: Block) -> None:
        nothing, *commands = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
        assert not nothing, f"output before the first command: {nothing}"
        for command in commands:
            line, _, expected = command.partition("\n")
            printed = command_output(line)
            same = doctest.OutputChecker().check_output(expected, printed, _LIKE)
            assert same or not expected, f"$ {line}\n{printed}"


def command_output(line: str) -> str:
    """What a command prints; nothing if it is not one that can run here."""
    tool, *words = shlex.split(line.removeprefix(".venv/bin/"), comments=True)
    if tool in _NOT_RUN:
        return ""
    if tool in _SHELL:
        return shell_output(line)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = _TOOLS[tool](words)
    assert bool(code) == ("error: " in printed.getvalue()), printed.getvalue()
    return printed.getvalue()


def shell_output(line: str) -> str:
    tools = Path(next(iter(mlir.__path__))) / "bin"
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_RUN: dict[str, Callable[[Run, Block], None]] = {
    "console": Run.console,
    "mlir": Run.mlir,
    "python": Run.python,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where blocks write; what they register in this process is gone afterwards."""
    work = tmp_path / "work"
    work.mkdir()
    for name in ("dialects", "models"):
        (work / name).symlink_to(ROOT / name)
    monkeypatch.chdir(work)
    rules = {name: dict(versions) for name, versions in op_interface._RULES.items()}
    monkeypatch.setattr(op_interface, "_RULES", rules)
    monkeypatch.setattr(relax.Relax, "operations", list(relax.Relax.operations))
    loaded = set(sys.modules)
    yield tmp_path / "added"
    for name in set(sys.modules) - loaded:
        if getattr(sys.modules[name], "__file__", "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(
            section,
            id=f"{page.stem}-{section.title}",
            marks=[pytest.mark.slow] if section.title in _SLOW else [],
        )
        for page in PAGES
        for section in sections(page)
    ],
)
def test_code_runs_and_prints_what_the_page_says(
    section: Section, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(section.page, folder, monkeypatch)

    for block in section.blocks:
        if block.language in _RUN:
            _RUN[block.language](run, block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = _LINK.findall(page.read_text(encoding="utf-8"))

    lost = [link for link in links if not (page.parent / link).exists()]

    assert [link for link in lost if "://" not in link] == []


def test_blocks_say_what_language_they_are_in() -> None:
    """Else they would not run. `tests/compiler/test_export.py` compiles C."""
    languages = {b.language for page in PAGES for b in blocks(page.read_text())}

    assert languages <= {*_RUN, "c", "mermaid", "py", "text"}


def test_map_of_the_packages_is_current() -> None:
    """Run ``make docs`` after a change of packages or of imports between them."""
    page = package_map.PAGE.read_text(encoding="utf-8")

    assert page == package_map.page_with_map()


@pytest.mark.slow
def test_score_of_the_suite_is_current() -> None:
    """Run ``make docs`` after a change of the tests that do not pass."""
    written = generate.ONNX.read_text(encoding="utf-8")
    if f"that onnx {onnx.__version__} has" not in written:
        pytest.skip("written for another version of onnx")

    assert written == generate.onnx_page()


def test_list_of_operators_is_current() -> None:
    """Run ``make docs`` after a change of operators or rules."""
    written = generate.OPERATORS.read_text(encoding="utf-8")
    if f"for onnx {onnx.__version__}." not in written:
        pytest.skip("written for another version of onnx")

    assert written == generate.operators_page()
