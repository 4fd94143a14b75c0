"""Model files for GPUs: contents, and the bundled runtime."""

import importlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import relax_mlir
from relax_mlir.compiler import driver as compiler
from relax_mlir.compiler.kernel_modules import CompilationUnit, CompiledUnit
from relax_mlir.errors import ModelError
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.cuda import archive
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.smoke_run import main as try_file
from relax_mlir.tools.cli import main
from tests.frontends.onnx.differential import parse
from tests.gpu.example import run_where_little_is
from tests.gpu.stub import TARGET, Emulation, Stub

_TYPE = 'tensor<?x8xf32, #relax.shape<["n", "8"]>>'
_TEXT = f"""
func.func @main(%x: {_TYPE}) -> ({_TYPE}, {_TYPE}) {{
  %w = "relax.constant"() {{value = dense<2.0> : tensor<f32>}} : () -> tensor<f32>
  %y = "relax.nn_softmax"(%x) {{axis = -1 : i64}} : ({_TYPE}) -> {_TYPE}
  %z = "relax.multiply"(%y, %w) : ({_TYPE}, tensor<f32>) -> {_TYPE}
  return %z, %x : {_TYPE}, {_TYPE}
}}
"""
_COPY = f"func.func @main(%x: {_TYPE}) -> {_TYPE} {{ return %x : {_TYPE} }}"


def x(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "model.mlir"
    path.write_text(_TEXT)
    return path


@pytest.fixture(scope="module")
def file(source: Path) -> Path:
    """A file written by `relax-mlir compile --check`."""
    path = source.with_name("model.rxm")
    command = ["compile", str(source), "--target", TARGET, "--check", "-o", str(path)]
    assert main([*command, "--no-cache"]) == 0
    return path


@pytest.fixture
def known(file: Path, emulation: Emulation) -> Emulation:
    """The emulator with the file's kernels."""
    return emulation


def test_a_loaded_model_is_what_was_saved(
    file: Path, known: Emulation, tmp_path: Path
) -> None:
    model = relax_mlir.load(file)

    model.save(tmp_path / "again.rxm")

    assert isinstance(model, CudaExecutable)
    assert (tmp_path / "again.rxm").read_bytes() == file.read_bytes()
    y, same = model(x(4))
    e = np.exp(x(4).astype(np.float64))
    np.testing.assert_allclose(y, 2 * e / e.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(same, x(4))


def test_a_file_says_what_it_is_for(file: Path) -> None:
    with zipfile.ZipFile(file) as opened:
        manifest = json.loads(opened.read("cuda.json"))

    assert manifest["chip"] == "sm_90a"
    assert [k["name"] for k in manifest["kernels"]] == [
        k.name for k in relax_mlir.load(file).kernels
    ]


@pytest.mark.parametrize("member", ["cuda.json", "kernels/0.ptx", "constants/0"])
def test_a_damaged_file_is_refused(member: str, file: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.rxm"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(damaged, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename == member:
                data = data[:-2] + b"00" if member != "constants/0" else data + b"0"
            new.writestr(zipfile.ZipInfo(info.filename, info.date_time), data)

    with pytest.raises(ModelError, match="not a compiled model, or damaged"):
        relax_mlir.load(damaged)


def test_a_file_of_another_version_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = relax_mlir.load(file)
    monkeypatch.setattr(archive, "_FORMAT", 7)
    model.save(tmp_path / "newer.rxm")
    monkeypatch.undo()

    with pytest.raises(
        ModelError, match=r"expected format 3, got 7\. Compile it again"
    ):
        relax_mlir.load(tmp_path / "newer.rxm")


def test_it_compiles_and_saves_but_does_not_run_without_a_driver(file: Path) -> None:
    done = run(file, libraries=None)

    assert done.returncode == 2
    assert "NVIDIA's driver (`libcuda.so.1`) cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr


# as programs


def run(
    file: Path, *arguments: str, libraries: Path | None, python: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `python file` with folders of libraries and of Python modules."""
    places = {"LD_LIBRARY_PATH": libraries, "PYTHONPATH": python}
    environment = {k: v for k, v in os.environ.items() if k not in places}
    environment |= {name: str(path) for name, path in places.items() if path}
    command = [sys.executable, str(file), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_a_file_runs_with_python_and_numpy_alone(
    library: Path, poor: Path, tmp_path: Path
) -> None:
    made = relax_mlir.compile(IRModule.parse(_COPY), target=TARGET, cache=False)
    made.save(tmp_path / "copy.rxm")

    done = run(
        *(tmp_path / "copy.rxm", "--size", "n=5", "--calls", "3"),
        libraries=library.parent,
        python=poor,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "GPU 0: Stub 0, sm_90, 1 GB, driver of CUDA 13.0" in done.stdout
    assert "random inputs, seed 0, n = 5" in done.stdout
    assert "ok    y0: differs from a second call by 0 of its scale" in done.stdout
    assert re.search(r"a call, CUDA graph: \d+\.\d us", done.stdout)
    assert re.search(r"a captured call: \d+\.\d us", done.stdout)


def test_wrong_values_end_with_1(library: Path, poor: Path, file: Path) -> None:
    done = run(file, libraries=library.parent, python=poor)

    assert done.returncode == 1  # the stub's kernels do nothing
    assert "WRONG y0: differs from the CPU's by inf" in done.stdout
    assert "ok    y1: differs from the CPU's by 0 of its scale" in done.stdout


def test_right_values_end_with_0(
    file: Path, known: Emulation, capsys: pytest.CaptureFixture[str]
) -> None:
    status = try_file(["trial", str(file), "--calls", "1"])

    shown = capsys.readouterr().out
    assert status == 0, shown
    assert re.search(
        r"ok    y0: differs from the CPU's by [\d.]+e-0[78] of its scale", shown
    )
    names = [k.name for k in relax_mlir.load(file).kernels]
    assert all(re.search(rf" us .*1x {name} \(", shown) for name in names)
    assert re.search(r"copies within the GPU, read and write: \d+ GB/s", shown)


class FakeTorch(ModuleType):
    """A stand-in for PyTorch for the comparison of matmuls."""

    __version__ = "0.0"
    float32 = "float32"

    class Matrix:
        def __init__(self, *shape: int) -> None:
            self.shape = shape

        def to(self, kind: str) -> "FakeTorch.Matrix":
            assert kind == "float32"
            return self

        def __matmul__(self, other: "FakeTorch.Matrix") -> None:
            FakeTorch.multiplied.append((self.shape, other.shape))

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None: ...

        def synchronize(self) -> None: ...

        def elapsed_time(self, end: "FakeTorch.Event") -> float:
            return 0.5

    multiplied: ClassVar[list[tuple[tuple[int, ...], ...]]] = []

    def __init__(self, has_gpu: bool) -> None:
        super().__init__("torch")
        self.cuda = SimpleNamespace(Event=self.Event, is_available=lambda: has_gpu)
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace()))

    def randn(self, *shape: int, device: str) -> "FakeTorch.Matrix":
        assert device == "cuda"
        return self.Matrix(*shape)


def test_matmuls_are_compared_with_pytorch(
    emulation: Emulation,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = relax_mlir.import_onnx(
        parse(
            "g (float[3, 5] x, float[5, 7] w) => (float[3, 7] y) { y = MatMul (x, w) }"
        )
    )
    model = relax_mlir.compile(module, target=TARGET, cache=False)
    assert isinstance(model, CudaExecutable)
    file = tmp_path / "product.rxm"
    model.save(file)

    monkeypatch.setitem(sys.modules, "torch", FakeTorch(has_gpu=True))
    assert try_file(["trial", str(file), "--calls", "1"]) == 0
    assert " 500.0 us torch 1 x [3, 5] @ [5, 7] of f32" in capsys.readouterr().out
    assert {*FakeTorch.multiplied} == {((1, 3, 5), (1, 5, 7))}

    monkeypatch.setitem(sys.modules, "torch", FakeTorch(has_gpu=False))
    assert try_file(["trial", str(file), "--calls", "1"]) == 0
    assert "PyTorch 0.0 has no GPU to compare matmuls with" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "torch", None)
    assert try_file(["trial", str(file), "--calls", "1"]) == 0
    assert "no PyTorch to compare matmuls with" in capsys.readouterr().out


def test_inputs_of_a_users_sizes_are_not_compared_with_the_cpu(
    file: Path, known: Emulation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert try_file(["trial", str(file), "--size", "n=9", "--calls", "1"]) == 0

    shown = capsys.readouterr().out
    assert "seed 0, n = 9" in shown
    assert "differs from a second call by 0 of its scale" in shown


def test_modules_that_travel_import_nothing_else(file: Path, poor: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1])\n" + "\n".join(
        f"import {name}" for name in archive._SOURCES if not name.endswith("__main__")
    )
    code += "\nassert relax_mlir.errors.__file__.startswith(sys.argv[1])"

    run_where_little_is(poor, code, str(file))


def test_a_file_saves_itself_again(file: Path, poor: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from relax_mlir.runtime.cuda.loading import load\n"
        "load(sys.argv[1]).save(sys.argv[2])\n"
    )
    again = tmp_path / "again.rxm"

    run_where_little_is(poor, code, str(file), str(again))

    assert again.read_bytes() == file.read_bytes()


def test_sources_that_are_not_there_are_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_SOURCES", ("relax_mlir.nowhere",))

    with pytest.raises(
        ModelError, match=r"`relax_mlir\.nowhere`: its source is missing"
    ):
        relax_mlir.load(file).save(tmp_path / "model.rxm")
    assert not (tmp_path / "model.rxm").exists()


# commands


def test_compile_tells_the_target(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.rxm"

    status = main(["compile", str(source), "--target", TARGET, "-o", str(out)])

    assert status == 0
    assert "for cuda:sm_90a" in capsys.readouterr().out
    assert relax_mlir.load(out).contents.check is None  # not requested


def test_check_is_for_gpus(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["compile", str(source), "--check", "-o", str(tmp_path / "m.rxm")])

    assert status != 0
    assert "`--check` is for models that run on a GPU" in capsys.readouterr().err


def test_run_reads_it(
    file: Path, known: Emulation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", x(3))
    given, out = f"x0={tmp_path / 'x.npy'}", f"y1={tmp_path / 'y.npy'}"

    assert main(["run", str(file), "--input", given, "--output", out]) == 0

    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x(3))


def test_run_without_a_gpu_is_an_error(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = importlib.import_module("relax_mlir.runtime.cuda.driver")
    monkeypatch.setattr(driver, "LIBRARY", "libcuda_that_is_not_there.so")

    assert main(["run", str(file), "--random-inputs"]) == 1
    assert "cannot be loaded" in capsys.readouterr().err


def test_profile_measures_it(
    file: Path, known: Emulation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(file), "--calls", "2", "--json"]) == 0

    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert {k["name"] for k in kernels} == {
        k.name for k in relax_mlir.load(file).kernels
    }


def test_doctor_tells_driver_and_gpus(
    stub: Stub, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stub.device(count=2)

    assert main(["doctor"]) == 0

    line = capsys.readouterr().out.splitlines()[-1]
    assert line.endswith(
        "cuda                      driver of CUDA 13.0; GPU 0: Stub 0, sm_90, 1.1 GB; "
        "GPU 1: Stub 1, sm_90, 1.1 GB"
    )


def test_kernels_are_compiled_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    compile_unit = compiler._compile_unit

    def counted(
        unit: CompilationUnit, *rest: Any
    ) -> CompiledUnit:  # Any: what it takes
        made.append(unit.symbol)
        return compile_unit(unit, *rest)

    monkeypatch.setattr(compiler, "_compile_unit", counted)
    contents: list[archive.Contents] = []

    for _ in range(2):
        module, cache = IRModule.parse(_TEXT), tmp_path / "cache"
        model = relax_mlir.compile(module, target=TARGET, cache=cache)
        assert isinstance(model, CudaExecutable)
        contents.append(model.contents)

    first, second = contents
    assert len(made) == len(first.ptx)
    assert all(symbol.startswith("k_") for symbol in made)
    assert (first.plan, first.ptx) == (second.plan, second.ptx)
