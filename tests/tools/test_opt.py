"""The command `relax-opt`, and the collector of IR tests."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import relax_mlir
from relax_mlir.errors import IRError, PassError, PipelineError, RelaxError
from relax_mlir.tools import opt

ROOT = Path(relax_mlir.__file__).parents[1]
FUNCTION = """\
func.func @f(%x: i32) -> i32 {
  %0 = arith.constant 1 : i32
  %1 = arith.constant 1 : i32
  %2 = arith.addi %0, %1 : i32
  return %2 : i32
}
"""
OTHER = FUNCTION.replace("@f", "@g")
FAILING = "transform-interpreter{entry-point=nope}"
DYING = '''
import os
from dataclasses import dataclass

from relax_mlir.rewrite.patterns import Pass


@dataclass(frozen=True)
class ZzAbort(Pass):
    """Ends the process, like a failed assertion in C++."""

    def run(self, module):
        os.write(2, b"x.cpp:1: f(): Assertion `isa<X>(y)' failed.\\n")
        os.abort()
'''


def run(*argv: str, text: str = FUNCTION, stderr: io.StringIO | None = None) -> str:
    return opt.run([*argv, "--no-reproducer"], stdin=text, stderr=stderr)


def run_main(
    argv: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    code = opt.main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the current directory, so that reproducers go there too."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "in.mlir"
    path.write_text(FUNCTION)
    return path


def test_it_prints_what_it_reads() -> None:
    text = "module {\n  func.func private @f(i32)\n}\n"

    assert run(text=text) == text


@pytest.mark.parametrize("flag", ["-p", "--pass-pipeline"])
def test_it_runs_a_pipeline(flag: str) -> None:
    assert run(flag, "builtin.module(func.func(cse))").count("arith.constant") == 1


def test_it_reads_and_writes_files(source: Path) -> None:
    assert run(str(source), "-o", "out.mlir", "-p", "cse", text="") == ""
    assert Path("out.mlir").read_text() == run("-p", "cse")


def test_parts_of_a_file_are_modules_of_their_own() -> None:
    text = f"// a comment\n{FUNCTION}// -----\n{OTHER}// ------\n// not -----\n"

    first, second = run("--split-input-file", "-p", "cse", text=text).split(
        "// -----\n"
    )

    assert first == run("-p", "cse")
    assert second == run("-p", "cse", text=OTHER)


def test_parts_keep_their_line_numbers() -> None:
    text = f"{FUNCTION}// -----\n\nfunc.func @broken(\n"

    with pytest.raises(IRError, match="malformed module: <stdin>:9:"):
        run("--split-input-file", text=text)


def test_names_twice_are_fine_only_in_two_parts() -> None:
    with pytest.raises(IRError, match="redefinition of symbol named 'f'"):
        run(text=f"{FUNCTION}// -----\n{FUNCTION}")


def test_locations_are_printed_on_demand() -> None:
    assert "loc(" not in run()
    assert 'loc("-":4:8)' in run("--mlir-print-debuginfo")


@pytest.mark.parametrize(
    ("flags", "titles"),
    [
        (["--mlir-print-ir-before-all"], ["Before cse", "Before symbol-dce"]),
        (["--mlir-print-ir-after-all"], ["After cse", "After symbol-dce"]),
        (["--mlir-print-ir-after-change"], ["After cse"]),
    ],
)
def test_dumps_go_to_stderr(flags: list[str], titles: list[str]) -> None:
    stderr = io.StringIO()

    assert "Dump" not in run(*flags, "-p", "cse,symbol-dce", stderr=stderr)

    assert re.findall("IR Dump (.*) //--", stderr.getvalue()) == titles


def test_times_go_to_stderr() -> None:
    stderr = io.StringIO()

    run("--mlir-timing", "-p", "cse,symbol-dce", stderr=stderr)

    assert re.search(r"cse\n.*symbol-dce\n.*\n.*100.0%  total\n$", stderr.getvalue())


def test_our_passes_are_listed_by_level() -> None:
    listed = run("--list-passes")

    assert re.search(r"^relax:\n  relax-\w+", listed)
    assert re.search(r"^  relax-legalize +\w.*\.$", listed, re.MULTILINE)
    assert re.search(r"^  relax-fuse-ops .*\n      max-ops: int = \d+$", listed, re.M)
    assert listed.index("\ntir:\n  tir-") < listed.index("\nschedule:\n  schedule-")


def test_it_lowers_to_a_level() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "relax.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = "relax.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""

    lowered = run("-p", "relax-simplify", "--to=tir", "--target=cpu", text=text)

    assert lowered.count('"relax.call_tir"') == 1
    assert "tir.prim_func" in lowered
    assert "relax.exp" not in lowered
    with pytest.raises(RelaxError, match="unknown level `tri`"):
        run("--to=tri", text=text)
    with pytest.raises(RelaxError, match="--target needs --to"):
        run("--target=cpu", text=text)


def test_the_version_names_what_matters() -> None:
    assert re.fullmatch(
        r"relax-opt \S.*, MLIR 22\.\S+, Python 3\.\S+\n", run("--version")
    )


def test_errors_are_raised_in_process(source: Path) -> None:
    with pytest.raises(PipelineError, match="unknown pass `cze`"):
        run("-p", "cze")
    with pytest.raises(PassError, match=f"pass 1 of 1, `{FAILING}`: in.mlir:0:0: "):
        run("in.mlir", "-p", FAILING)
    with pytest.raises(RelaxError, match="unrecognized arguments: --nope"):
        run("--nope")
    with pytest.raises(RelaxError, match="--verify-each: expected 0 or 1, got `2`"):
        run("--verify-each=2")
    with pytest.raises(FileNotFoundError):
        run("missing.mlir")
    source.write_bytes(b"\xff")
    with pytest.raises(RelaxError, match="expected text in UTF-8"):
        run("in.mlir")


def test_expected_errors_are_printed() -> None:
    assert run("--expect-error", "-p", "cze").startswith(
        "error: pipeline, character 1: "
    )


def test_an_expected_error_must_come() -> None:
    with pytest.raises(RelaxError, match="<stdin>: expected an error, got none"):
        run("--expect-error", "-p", "cse")


def test_every_part_must_have_its_expected_error() -> None:
    bad = "func.func @g() { nope }\n"
    flags = ["--expect-error", "--split-input-file"]

    printed = run(*flags, text=f"{bad}// -----\n{bad}")

    assert re.findall("error: .*<stdin>:(.):", printed) == ["1", "3"]
    with pytest.raises(RelaxError, match="expected an error, got none"):
        run(*flags, text=f"{bad}// -----\n{FUNCTION}")


@pytest.mark.parametrize("flags", [[], ["--verify-each"], ["--verify-each=1"]])
def test_modules_are_verified(
    flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(
        opt,
        "opt",
        lambda module, _, *, verify, instruments: seen.append(verify) or module,
    )

    run(*flags)
    run("--no-verify")
    run("--verify-each=0")

    assert seen == [True, False, False]


def test_exit_codes_and_streams(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_main(["in.mlir", "-p", "cse"], capsys) == (0, run("-p", "cse"), "")
    assert run_main(["missing.mlir"], capsys) == (
        1,
        "",
        "error: missing.mlir: No such file or directory\n",
    )
    code, out, err = run_main(["in.mlir", "--expect-error", "-p", "cze"], capsys)
    assert (code, err) == (0, "")
    assert out.startswith("error: ")


def test_a_failure_leaves_a_reproducer(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run_main(["in.mlir", "-p", f"cse,{FAILING}"], capsys)

    assert (code, out) == (1, "")
    first, *_, last = err.splitlines()
    assert first.startswith(
        f"error: pass 2 of 2, `{FAILING}`: in.mlir:0:0: could not find"
    )
    command = last.removeprefix("reproduce with: relax-opt ").replace("'", "").split()
    (path,) = source.parent.glob("reproducer-*.mlir")
    assert command == [path.name, "-p", FAILING]
    assert path.read_text().count("arith.constant") == 1
    again = run_main(command, capsys)
    assert again[0] == 1
    assert f"pass 1 of 1, `{FAILING}`" in again[2]


def test_no_reproducer_is_written_where_none_is_wanted(source: Path) -> None:
    with pytest.raises(PassError):
        opt.run(["in.mlir", "-p", FAILING, "--no-reproducer"])
    opt.run(["in.mlir", "-p", FAILING, "--expect-error"])
    with pytest.raises(PassError):
        opt.run(["in.mlir", "-p", FAILING, "--crash-dir", "sub"])

    assert [p.name for p in source.parent.iterdir() if p != source] == ["sub"]


def test_tracebacks_only_on_demand(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["in.mlir", "--no-reproducer", "-p", "cze"]

    assert "Traceback" not in run_main(flags, capsys)[2]
    assert "Traceback" in run_main([*flags, "--debug"], capsys)[2]


# -- in a process of its own ------------------------------------------------------------


@pytest.mark.slow
def test_isolation_changes_nothing_else(source: Path) -> None:
    stderr, isolated_stderr = io.StringIO(), io.StringIO()
    flags = ["in.mlir", "-p", "cse,symbol-dce", "--mlir-print-ir-after-all"]

    plain = run(*flags, stderr=stderr)
    isolated = run(*flags, "--isolate", stderr=isolated_stderr)

    assert isolated == plain
    assert isolated_stderr.getvalue() == stderr.getvalue()


@pytest.mark.slow
def test_isolated_errors_read_the_same(source: Path) -> None:
    flags = ["in.mlir", "-p", FAILING, "--expect-error"]

    assert run(*flags, "--isolate") == run(*flags)


@pytest.mark.slow
def test_isolation_survives_death(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = source.parent / "site"
    folder.mkdir()
    (folder / "zz_abort.py").write_text(DYING)
    (folder / "sitecustomize.py").write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        f"import relax_mlir.passes.relax as r; r.__path__.append({str(folder)!r})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))

    with pytest.raises(PassError) as caught:
        opt.run(["in.mlir", "-p", "cse,relax-zz-abort,symbol-dce", "--isolate"])

    first, last = str(caught.value).splitlines()
    assert first == (
        "SIGABRT ended the process: x.cpp:1: f(): Assertion `isa<X>(y)' failed."
    )
    (path,) = source.parent.glob("reproducer-*.mlir")
    command = f"{path.name} --isolate -p relax-zz-abort"
    assert last == f"reproduce with: relax-opt {command}"
    with pytest.raises(PassError, match="SIGABRT ended the process"):
        opt.run(command.split())
    assert opt.run([*command.split(), "--expect-error"]).startswith("error: SIGABRT")


@pytest.mark.slow
def test_the_command_works(source: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "relax_mlir.tools.opt", "-", "-p", "cse"],
        input=FUNCTION,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, run("-p", "cse"), "")


# -- the collector of IR tests -----------------------------------------------------------


def collect(tmp_path: Path, *texts: str) -> str:
    """What pytest says about files of IR tests, `0.mlir` and so on."""
    (tmp_path / "ir").mkdir()
    (tmp_path / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    for number, text in enumerate(texts):
        (tmp_path / "ir" / f"{number}.mlir").write_text(text)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-rA",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    ).stdout


@pytest.mark.slow
def test_each_run_line_is_a_test(tmp_path: Path) -> None:
    printed = collect(
        tmp_path,
        "// RUN: relax-opt %s -p cse | filecheck %s\n"
        "// RUN: relax-opt %s | relax-opt - -p cse \\\n"
        "// RUN:   | filecheck %s --check-prefix=MORE\n"
        "// RUN: relax-opt %s --mlir-timing 2>&1 | filecheck %s --check-prefix=TIME\n"
        "// RUN: relax-opt %s\n"
        "// NOTE: a remark\n"
        "// CHECK-COUNT-1: arith.constant\n"
        "// MORE: arith.constant 2\n"
        "// TIME: time_ms\n"
        f"{FUNCTION}",
    )

    passed = re.findall(r"PASSED .*0\.mlir::(run\d)$", printed, re.MULTILINE)
    assert passed == ["run1", "run4", "run5"]
    assert re.search(r"FAILED .*0\.mlir::run2 - ", printed)
    assert "relax-opt - -p cse | filecheck" in re.sub(" +", " ", printed)


@pytest.mark.slow
def test_files_that_test_nothing_fail(tmp_path: Path) -> None:
    check = "// RUN: relax-opt %s | filecheck %s\n"
    cases = {
        FUNCTION: "0.mlir: no `RUN:` line",
        f"// RUN: relax-opt %s\n// CHECK: x\n{FUNCTION}": (
            "1.mlir: line 2: no RUN line checks `CHECK`"
        ),
        f"{check}// CHECK: f\n// CHECK-NXT: x\n{FUNCTION}": (
            "2.mlir: line 3: no RUN line checks `CHECK-NXT`"
        ),
        f"// RUN: mlir-opt %s\n{FUNCTION}": "unknown tool `mlir-opt` in a RUN line",
        "// RUN: relax-opt %s -p cze\n": "unknown pass `cze`",
    }

    printed = collect(tmp_path, *cases)

    assert all(message in printed for message in cases.values())
    assert "5 failed, 2 passed" in printed
