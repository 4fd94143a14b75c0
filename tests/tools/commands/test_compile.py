"""`relax-mlir compile` and its output files."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from relax_mlir.codegen.target_machines import machine_of
from relax_mlir.errors import CompileError
from relax_mlir.runtime.archive import Contents, write_archive
from relax_mlir.runtime.cpu_features import Machine
from relax_mlir.runtime.machine_code import MachineCode
from relax_mlir.tools.cli import main
from tests.tools.commands.examples import X, relu


@pytest.mark.parametrize("source", ["model.onnx", "model.mlir"])
def test_compiled_file_runs(
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


def test_compile_without_cache_stores_nothing(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source, out = str(compiled / "model.onnx"), str(tmp_path / "o.rxm")

    main(["compile", source, "-o", out, "--no-cache"])
    assert not (tmp_path / "cache").exists()

    main(["compile", source, "-o", out])
    assert list((tmp_path / "cache").rglob("*.o"))


def test_compile_for_another_machine(compiled: Path, tmp_path: Path) -> None:
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


def test_processor_implies_its_features() -> None:
    machine = machine_of("x86_64-unknown-linux-gnu", "znver3", "")

    assert {"avx2", "fma", "sse4.1"} < set(machine.features)
    assert not {"avx512f", "xsave"} & set(machine.features)


def test_saved_model_is_reproducible(compiled: Path, tmp_path: Path) -> None:
    relax_mlir.load(compiled / "model.rxm").save(tmp_path / "again.rxm")

    first = (compiled / "model.rxm").read_bytes()
    assert (tmp_path / "again.rxm").read_bytes() == first


def test_saving_copies_no_weights(tmp_path: Path) -> None:
    weight = np.zeros((1 << 20, 4), np.float32)
    contents = Contents(MachineCode(), {}, Machine("x", "y", ()), {"w": weight}, 1)

    tracemalloc.start()
    try:
        write_archive(tmp_path / "m.rxm", contents)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (tmp_path / "m.rxm").stat().st_size > weight.nbytes
    assert peak_bytes < weight.nbytes / 8
