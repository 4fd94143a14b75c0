"""Collect files with RUN lines, each of which is a test: IR, schedules, tutorials.

It is executed in this process: ``relax-opt ARGUMENTS [2>&1] [| relax-opt ...] [| filecheck
%s ...]``, where ``%s`` is the file; ``python -m tests.tvm.tir.schedule.apply %s ... | filecheck
%s ...`` for the steps of a schedule; or ``python %s | filecheck %s`` for a program. The line
printed on failure can be pasted into a shell.
"""

import contextlib
import ctypes
import gc
import io
import re
import runpy
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from relax_mlir.errors import RelaxError

IR_TESTS = Path(__file__).parent / "ir"
SCHEDULE_GOLDENS = Path(__file__).parent / "tvm/tir/schedule/golden"
TUTORIALS = Path(__file__).parent / "tutorials"
_APPLY = ["-m", "tests.tvm.tir.schedule.apply"]
_RUN = re.compile(r"\s*(?://|#) RUN:\s*(.*)")
_CHECK = re.compile(
    r"\s*(?://|#)\s*(?P<prefix>[A-Z][A-Z0-9_-]*?)"
    r"(-(DAG|COUNT-\d+|EMPTY|LABEL|NEXT|NOT|SAME))?(\{LITERAL\})?:"
)
_OTHER_MARKS = {"COM", "NOTE", "RUN", "TODO"}

# No deadline: a busy machine is not a bug. `make fuzz` searches; `make mutants` only asks
# whether there is a counterexample, not for a small one.
hypothesis.settings.register_profile("repeat", deadline=None, derandomize=True)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)
hypothesis.settings.load_profile("repeat")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--run-slow", action="store_true", help="run tests marked slow")
    parser.addoption(
        "--whole-suite", action="store_true", help="all of ONNX's suite on GPUs"
    )
    parser.addoption(
        "--every-case",
        action="store_true",
        help="all cases of tests of which a share runs by default",
    )
    parser.addoption(
        "--one-case", action="store_true", help="one case of each operator"
    )


@pytest.fixture
def every_case(request: pytest.FixtureRequest) -> bool:
    """Whether all cases are asked for."""
    return bool(request.config.getoption("--every-case"))


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if not config.getoption("--every-case"):
        _leave_out(config, items)
    if not config.getoption("--run-slow"):
        _skip(items, "slow", "slow; run with --run-slow")
    if any("gpu" in item.keywords for item in items) and not _has_gpu():
        _skip(items, "gpu", "no NVIDIA device")


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect cases marked `every_case`, and all but a share of tests marked `sampled`."""
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        sampled = item.get_closest_marker("sampled")
        number = 0
        if sampled is not None:
            test = item.nodeid.partition("[")[0]
            number = seen[test] % sampled.args[0]
            seen[test] += 1
        stays = number == 0 and item.get_closest_marker("every_case") is None
        (kept if stays else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


@pytest.fixture(autouse=True, scope="module")
def _lasting_objects() -> None:
    """Spare collections of garbage, of which tests ask for many, what lives anyway.

    Those are caches of the package and what pytest keeps: by the end half a million objects,
    which take a collection 0.2 s to visit.
    """
    gc.collect()
    gc.freeze()


def _skip(items: list[pytest.Item], mark: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(mark):
            item.add_marker(pytest.mark.skip(reason=reason))


def _has_gpu() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return (
        driver.cuInit(0) == 0
        and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        and count.value > 0
    )


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    is_ir = file_path.suffix == ".mlir" and IR_TESTS in file_path.parents
    goldens = (SCHEDULE_GOLDENS, TUTORIALS)
    is_golden = file_path.suffix == ".py" and file_path.parent in goldens
    if is_ir or is_golden:
        return IrFile.from_parent(parent, path=file_path)
    return None


class IrFile(pytest.File):
    """A file of IR, or a program with steps of a schedule, with RUN lines."""

    def collect(self) -> Iterator[pytest.Item]:
        text = self.path.read_text(encoding="utf-8")
        used: set[str] = set()
        for line, command in _run_lines(text):
            used |= _prefixes(command)
            yield IrTest.from_parent(
                self, name=f"run{line}", line=line, command=command
            )
        if problem := _problem(text, used):
            yield MalformedIrFile.from_parent(self, name="malformed", problem=problem)


def _run_lines(text: str) -> Iterator[tuple[int, str]]:
    """The number and the command of every RUN line; a backslash continues on the next."""
    begun = ""
    start = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _RUN.match(line):
            start = start if begun else number
            begun += match[1]
            if not begun.endswith("\\"):
                yield start, begun
                begun = ""
            begun = begun.removesuffix("\\")


def _prefixes(command: str) -> set[str]:
    """The check prefixes that a RUN line looks at."""
    last = shlex.split(command.split(" | ")[-1])
    if last[0] != "filecheck":
        return set()
    with contextlib.suppress(RuntimeError):  # bad options: the test itself will fail
        return set(parse_argv_options(last).check_prefixes)
    return set()


def _problem(text: str, used: set[str]) -> str | None:
    """What is wrong with the file as a whole."""
    if not any(True for _ in _run_lines(text)):
        return "no `RUN:` line"
    for number, line in enumerate(text.splitlines(), start=1):
        match = _CHECK.match(line)
        if match and match["prefix"] not in used | _OTHER_MARKS:
            return f"line {number}: no RUN line checks `{match['prefix']}`"
    return None


class MalformedIrFile(pytest.Item):
    """Fails for a file that does not test what it seems to."""

    def __init__(self, *, problem: str, **kwargs: Any) -> None:  # Any: pytest's own
        super().__init__(**kwargs)
        self.problem = problem

    def runtest(self) -> None:
        pytest.fail(f"{self.path}: {self.problem}", pytrace=False)


class IrTest(pytest.Item):
    """One RUN line."""

    def __init__(
        self,
        *,
        line: int,
        command: str,
        **kwargs: Any,  # Any: pytest's own
    ) -> None:
        super().__init__(**kwargs)
        self.line = line
        self.command = command

    def runtest(self) -> None:
        output: str | None = None
        for stage in self.command.split(" | "):
            tool, *arguments = (
                word.replace("%s", str(self.path)) for word in shlex.split(stage)
            )
            if tool == "filecheck":
                _check(arguments, output or "")
                return
            output = _run_tool(tool, arguments, output)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> Any:  # Any: pytest's own
        shown = self.command.replace("%s", str(self.path))
        if isinstance(excinfo.value, AssertionError | RelaxError):
            return f"{shown}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, f"{self.path.name}: {self.command}"


def _run_tool(tool: str, arguments: list[str], stdin: str | None) -> str:
    if tool == "relax-opt":
        return _run_opt(arguments, stdin)
    if tool == "python" and arguments[:2] == _APPLY:
        from tests.tvm.tir.schedule import apply  # loaded late, as below

        return apply.run(arguments[2:])
    if tool == "python" and len(arguments) == 1:
        return _run_program(arguments[0])
    return pytest.fail(f"unknown tool `{tool}` in a RUN line", pytrace=False)


def _run_program(path: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(path, run_name="__main__")
    return printed.getvalue()


def _run_opt(arguments: list[str], stdin: str | None) -> str:
    from relax_mlir.tools import opt  # loaded late: tests of a leaf run without it

    reports = io.StringIO()
    joined = "2>&1" in arguments
    arguments = [argument for argument in arguments if argument != "2>&1"]
    printed = opt.run([*arguments, "--no-reproducer"], stdin or "", reports)
    return reports.getvalue() + printed if joined else printed


def _check(arguments: list[str], output: str) -> None:
    options = parse_argv_options(["filecheck", *arguments])
    matcher = Matcher(options, FInput("output", output), Parser.from_opts(options))
    matcher.stderr = report = io.StringIO()
    if matcher.run():
        raise AssertionError(report.getvalue())
