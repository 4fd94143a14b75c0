"""Benchmark command: measurements, reported problems, and the written page."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import child, latency, models
from benchmarks.baselines import F32, Call, Case
from benchmarks.in_f64 import in_f64, outputs_in_f64
from benchmarks.networks import (
    CONVOLUTIONS,
    MATMULS,
    NETWORKS,
    matmul_sizes,
    network,
)
from benchmarks.peak import FmaPeak
from benchmarks.report import Report
from relax_mlir.tools.timing import time_calls

onnxruntime = pytest.importorskip("onnxruntime")


class Absent:
    """A runtime that is not installed."""

    def version(self) -> str:
        raise ImportError("No module named 'absent'")

    def prepare(self, case: Case, threads: int) -> Call:
        raise ImportError("No module named 'absent'")


class Wrong:
    """A runtime that computes zeros."""

    def version(self) -> str:
        return "0"

    def prepare(self, case: Case, threads: int) -> Call:
        return lambda: [np.zeros_like(array) for array in case.outputs]


# Functions for processes of their own.


def die(name: str, runtimes: list[str], threads: int) -> latency.Found:
    """A measurement in which one runtime crashes the process."""
    for runtime in runtimes:
        child.announce(runtime)
        if runtime == "deadly":
            raise SystemExit("killed by a fault")
    return {"model": name, "runtimes": {r: {"ms": 1.0} for r in runtimes}}


def processors() -> int:
    return len(child.usable_cpus())


def can_import(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def grow(size_mb: int) -> float:
    return child.peak_rss_mb() + 0 * len(bytearray(size_mb * 1_000_000))


def found(name: str, speedup: float, *, is_right: bool = True) -> latency.Found:
    """A shortened measurement of a network."""
    theirs = {"is_right": is_right, "speedup": [speedup] * 3}
    runtimes = {"relax_mlir": {"is_right": True}, "onnxruntime": theirs}
    return {"model": name, "precision": "f32", "runtimes": runtimes}


def means_of(lines: Sequence[latency.Found]) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in models.means(lines).rows}


@pytest.mark.slow
def test_quick_run_measures_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"

    command.main(
        ["mlp_b1", "--quick", "--baselines=onnxruntime", "--json", f"--page={page}"]
    )

    (lines,) = json.loads(capsys.readouterr().out)["Whole models"]
    ours, theirs = (lines["runtimes"][r] for r in ("relax_mlir", "onnxruntime"))
    assert list(lines["runtimes"]) == ["relax_mlir", "onnxruntime"]
    assert lines["gflop"] == pytest.approx(2 * (784 * 128 + 128 * 10) / 1e9)
    assert 0 < ours["share_of_peak"] < 1
    assert ours["is_right"]
    assert theirs["error"] < 1e-5  # sums in another order
    median, p10, p90 = theirs["speedup"]
    assert p10 <= median <= p90
    text = page.read_text()
    assert "| mlp_b1 | onnxruntime |" in text
    assert f"onnxruntime {onnxruntime.__version__}" in text
    assert "python -m benchmarks mlp_b1 --quick" in text


@pytest.mark.slow
def test_missing_and_wrong_runtimes_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtimes = {"relax_mlir": F32["relax_mlir"], "absent": Absent(), "wrong": Wrong()}
    monkeypatch.setattr(latency, "F32", runtimes)

    lines = latency.latencies("mlp_b1", list(runtimes), "f32", 1, 2)

    assert lines["runtimes"]["relax_mlir"]["is_right"]
    assert lines["runtimes"]["wrong"]["error"] == 1
    assert not lines["runtimes"]["wrong"]["is_right"]
    assert lines["runtimes"]["absent"] == {
        "problem": "not installed: No module named 'absent'"
    }
    cells = [row[-1] for row in models.lines("title", [lines], 1).rows]
    assert cells[1].startswith("not installed")
    assert cells[2] == "1e+00 wrong"


@pytest.mark.slow
def test_errors_can_be_relative_to_f64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "F32", {"ours": F32["relax_mlir"], "wrong": Wrong()})

    lines = latency.latencies("mlp_b1", ["ours", "wrong"], "f32", 1, 2, in_f64=True)

    ours, wrong = (lines["runtimes"][name] for name in ("ours", "wrong"))
    assert 0 < ours["error"] < 1e-6
    assert ours["is_right"]
    assert wrong["error"] == 1
    assert not wrong["is_right"]


def test_winograd_networks_are_also_measured_without_winograd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Sequence[str]] = {}

    def measure(
        function: object,
        name: str,
        runtimes: Sequence[str],
        *rest: object,
        threads: int,
    ) -> latency.Found:
        asked[name] = runtimes
        return {"model": name, "runtimes": {}}

    monkeypatch.setattr(models, "measure", measure)
    models.models_report(["alexnet", "lstm"], ["onnxruntime"], 1, 1)
    models.winograd_report(["onnxruntime", "openvino"], 1, 1)

    both = ["relax_mlir", "relax_mlir, winograd=never", "onnxruntime"]
    assert asked.pop("lstm") == ["relax_mlir", "onnxruntime"]
    assert set(CONVOLUTIONS) | {"alexnet", "vgg19"} <= set(asked)
    assert all(runtimes == both for runtimes in asked.values())


def test_f64_model_has_no_f32_rounding(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4, 6] x, int64[1] n) => (float[4, 6] y)
        <float[6, 6] w, float[4] scales = {1, 1, 1, 1}> {
        a = MatMul (x, w)
        b = Constant <value_float = 0.1> ()
        c = Mul (a, b)
        d = Cast <to = 1> (n)
        e = Add (c, d)
        shape = Constant <value_ints = [1, 1, 4, 6]> ()
        f = Reshape (e, shape)
        h = Resize <mode = "nearest"> (f, , scales)
        flat = Constant <value_ints = [4, 6]> ()
        y = Reshape (h, flat) }"""
    model = parser.parse_model(text)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 6), (6, 6)))
    model.graph.initializer.append(numpy_helper.from_array(w, "w"))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    arrays = {"x": x, "n": np.array([3])}

    (y,) = outputs_in_f64(Case(path, arrays, [np.empty((4, 6), np.float32)]))

    exact = x.astype(np.float64) @ w.astype(np.float64) * np.float32(0.1) + 3
    np.testing.assert_array_equal(y, exact.astype(np.float32))


def test_tensor_needed_in_both_types() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 1, 2, 2] x, float[4] s) => (float[1, 1, a, b] y) {
        two = Add (s, s)
        y = Resize <mode = "nearest"> (x, , s) }"""

    with pytest.raises(ValueError, match="`s`: expected to be read as f32 only"):
        in_f64(parser.parse_model(text))


@pytest.mark.slow
def test_crashing_runtime_is_named_and_skipped() -> None:
    lines = latency.measure(die, "mlp_b1", ["a", "deadly", "b"], 1, threads=1)

    assert lines["runtimes"] == {
        "a": {"ms": 1.0},
        "deadly": {"problem": "killed by a fault"},
        "b": {"ms": 1.0},
    }


@pytest.mark.slow
def test_child_process_gets_one_processor_per_thread() -> None:
    assert child.call(processors, threads=1) == 1


@pytest.mark.slow
def test_package_can_be_hidden() -> None:
    assert child.call(can_import, "xmlrpc.client")
    assert not child.call(can_import, "xmlrpc.client", hidden=["xmlrpc"])


@pytest.mark.slow
def test_peak_memory_excludes_the_parent_process() -> None:
    ballast = np.ones(
        100_000_000, np.uint8
    )  # what a count that goes on would start with

    before = child.call(grow, 0)

    assert child.peak_rss_mb() > ballast.nbytes / 1e6
    assert before < child.peak_rss_mb() - 50


def test_means_cover_counted_and_correct_models() -> None:
    lines = [
        found("mlp_b1", 2.0),
        found("vgg19", 0.5),
        found("alexnet", 100.0),
        found("unet", 100.0, is_right=False),
    ]

    (mean,) = means_of(lines).values()

    assert mean == ("2 of 3", "1.00", "1.3, each 1.0", "no", "vgg19 0.50")


@pytest.mark.parametrize(
    ("speedups", "reached"),
    [((2.0, 1.1), "yes"), ((2.0, 0.99), "no"), ((1.2, 1.2), "no")],
)
def test_goals_apply_to_the_mean_and_to_every_model(
    speedups: tuple[float, float], reached: str
) -> None:
    first, second = speedups

    row = means_of([found("mlp_b1", first), found("vgg19", second)])["onnxruntime f32"]

    assert row[3] == reached


def test_peak_uses_vector_instructions() -> None:
    peak = FmaPeak()
    peak()

    one, two = (FmaPeak(threads).flops for threads in (1, 2))

    assert two == 2 * one == 2 * peak.flops
    np.testing.assert_allclose(peak.rates(np.array([0.5])), 2 * one)


def test_peak_loop_is_not_optimized_away() -> None:
    few, many = (FmaPeak().run(count) for count in (1, 1001))

    assert many > few  # every step adds to every sum


def test_matmul_names_contain_their_sizes() -> None:
    model = network(MATMULS[-1]).entry.build()

    assert matmul_sizes(MATMULS[-1]) == (128, 3072, 768)
    (weight,) = model.graph.initializer
    assert tuple(weight.dims) == (3072, 768)
    with pytest.raises(KeyError):
        network("gemm_3")


def test_network_names_are_unique() -> None:
    assert len({n.name for n in NETWORKS}) == len(NETWORKS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resnet51"], "no network `resnet51`"),
        (
            ["--baselines=tvm"],
            "`tvm`: expected names from onnxruntime, openvino, inductor",
        ),
        (["--threads=0"], "argument --threads"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(arguments)

    assert message in capsys.readouterr().err


def test_report_is_the_same_as_table_and_markdown() -> None:
    rows = [("a|b", "1.5"), ("[c]", "2")]
    report = Report("Title", "A note.", ("name", "number"), rows, [])
    console = Console(width=60)

    with console.capture() as shown:
        console.print(report.table())

    assert "a|b" in shown.get()
    assert "[c]" in shown.get()
    assert report.markdown().splitlines() == [
        "## Title",
        "",
        "A note.",
        "",
        "| name | number |",
        "| --- | ---: |",
        "| a\\|b | 1.5 |",
        "| [c] | 2 |",
    ]


def test_pause_is_not_measured() -> None:
    begin = time.perf_counter()
    times = time_calls(lambda: time.sleep(0.02), rounds=1, pause_s=0.1)

    assert time.perf_counter() - begin > 0.1
    assert times.max() < 0.1
