"""The model cache: hits, and invalidation by every input of the compilation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import relax_mlir
from relax_mlir.codegen.object_cache import ObjectCache
from relax_mlir.compiler import dispatch
from relax_mlir.dialects import op_interface
from relax_mlir.runtime import cuda
from relax_mlir.runtime.cuda import devices
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.frontends.onnx.differential import parse

_TEXT = """g (float[2, 8] x) => (float[2, 3] y)
    <float[8, 3] w = {{{numbers}}}> {{ y = MatMul (x, w) }}"""


def model(first: float = 1.0) -> onnx.ModelProto:
    numbers = ", ".join(map(str, [first, *range(23)]))
    return parse(_TEXT.format(numbers=numbers), opset=17)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "model.onnx"
    made.write_bytes(model().SerializeToString())
    return made


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was compiled, and not found."""
    found: list[object] = []
    real = dispatch.compile_module

    def count(mod: object, *args: object) -> object:
        found.append(mod)
        return real(mod, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(dispatch, "compile_module", count)
    return found


def product(first: float) -> float:
    """The first number of the second row."""
    return 8 * first + sum((9 + i) * (3 * i + 2) for i in range(7))


def run(model: relax_mlir.CompiledModel) -> np.ndarray:
    (y,) = model(np.arange(16, dtype=np.float32).reshape(2, 8))
    return y


def test_the_second_time_it_is_loaded(
    path: Path, tmp_path: Path, compiled: list[object]
) -> None:
    first = relax_mlir.compile(path, cache=tmp_path / "cache")
    second = relax_mlir.compile(str(path), cache=tmp_path / "cache", threads=2)

    assert len(compiled) == 1
    assert second.threads == 2
    np.testing.assert_array_equal(run(first), run(second))
    assert first.signature == second.signature


def test_bytes_of_the_same_model_find_it(
    path: Path, tmp_path: Path, compiled: list[object]
) -> None:
    relax_mlir.compile(path, cache=tmp_path)
    relax_mlir.compile(path.read_bytes(), cache=tmp_path)

    assert len(compiled) == 1


def test_models_for_gpus_are_kept_as_well(
    path: Path, tmp_path: Path, compiled: list[object]
) -> None:
    first, second = (
        relax_mlir.compile(path, target="cuda:sm_90", cache=tmp_path) for _ in range(2)
    )

    assert len(compiled) == 1
    assert isinstance(first, CudaExecutable)
    assert isinstance(second, CudaExecutable)
    assert first.contents.ptx == second.contents.ptx
    assert first.size_bytes == second.size_bytes


def test_the_gpu_of_this_machine_decides_about_its_code(
    path: Path,
    tmp_path: Path,
    compiled: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for chip in (80, 90):
        for module in (cuda, devices):
            monkeypatch.setattr(module, "compute_capability", lambda chip=chip: chip)
        made = relax_mlir.compile(path, target="cuda", cache=tmp_path)
        assert isinstance(made, CudaExecutable)
        assert made.target == f"cuda:sm_{chip}"

    assert len(compiled) == 2


@pytest.mark.parametrize(
    "other",
    [{"precision": "f16"}, {"target": "cpu:x86-64-v3"}, {"dump": "dump"}],
    ids=["precision", "target", "dump"],
)
def test_other_options_compile_again(
    path: Path, tmp_path: Path, compiled: list[object], other: dict[str, Any]
) -> None:
    other = {k: str(tmp_path / v) if k == "dump" else v for k, v in other.items()}
    relax_mlir.compile(path, cache=tmp_path)
    relax_mlir.compile(path, cache=tmp_path, **other)

    assert len(compiled) == 2


def test_another_weight_compiles_again(
    path: Path, tmp_path: Path, compiled: list[object]
) -> None:
    before = run(relax_mlir.compile(path, cache=tmp_path))
    path.write_bytes(model(first=100.0).SerializeToString())
    after = run(relax_mlir.compile(path, cache=tmp_path))

    assert len(compiled) == 2
    assert after[1, 0] - before[1, 0] == 99 * 8


def test_weights_in_other_files_are_read_each_time(
    tmp_path: Path, compiled: list[object]
) -> None:
    for first in (1.0, 3.0):
        onnx.save_model(
            model(first),
            tmp_path / "model.onnx",
            save_as_external_data=True,
            location="weights.bin",
            size_threshold=0,
        )
        made = relax_mlir.compile(tmp_path / "model.onnx", cache=tmp_path)
        assert run(made)[1, 0] == product(first)

    assert len(compiled) == 2


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_damaged_entry_counts_as_absent(
    path: Path, tmp_path: Path, compiled: list[object], is_cut: bool
) -> None:
    expected = run(relax_mlir.compile(path, cache=tmp_path))
    (entry,) = tmp_path.glob("*.rxm")
    data = entry.read_bytes()
    middle = len(data) // 2
    changed = data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]
    entry.write_bytes(data[:middle] if is_cut else changed)

    np.testing.assert_array_equal(
        run(relax_mlir.compile(path, cache=tmp_path)), expected
    )
    assert len(compiled) == 2


def test_the_entry_of_another_model_counts_as_absent(
    path: Path, tmp_path: Path, compiled: list[object]
) -> None:
    relax_mlir.compile(path, cache=tmp_path)
    (first,) = tmp_path.glob("*.rxm")
    path.write_bytes(model(first=100.0).SerializeToString())
    relax_mlir.compile(path, cache=tmp_path)
    (second,) = set(tmp_path.glob("*.rxm")) - {first}
    shutil.copy(first, second)

    assert run(relax_mlir.compile(path, cache=tmp_path))[1, 0] == product(100.0)
    assert len(compiled) == 3


def test_a_saved_model_is_no_entry(
    path: Path, tmp_path: Path, compiled: list[object]
) -> None:
    made = relax_mlir.compile(path, cache=tmp_path)
    (entry,) = tmp_path.glob("*.rxm")
    made.save(entry)
    entry.chmod(0o600)
    relax_mlir.compile(path, cache=tmp_path)

    assert len(compiled) == 2


def test_without_a_cache_nothing_is_kept(path: Path, compiled: list[object]) -> None:
    relax_mlir.compile(path, cache=False)
    relax_mlir.compile(path, cache=False)

    assert len(compiled) == 2


def test_models_that_take_much_of_the_limit_are_not_kept(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAX_MLIR_CACHE_BYTES", "4000")
    relax_mlir.compile(path, cache=tmp_path)

    assert not list(tmp_path.glob("*.rxm"))
    assert ObjectCache(tmp_path).size().models == 0


def test_rules_of_others_decide_too(
    path: Path, tmp_path: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    relax_mlir.compile(path, cache=tmp_path)
    monkeypatch.setattr(
        op_interface, "_RULES", {k: dict(v) for k, v in op_interface._RULES.items()}
    )
    op_interface.onnx_rule("mine::Square", since=1)(lambda node: node.inputs[0])
    relax_mlir.compile(path, cache=tmp_path)

    assert len(compiled) == 2


def test_a_file_that_changes_meanwhile_is_not_kept(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, real = path.read_bytes(), dispatch.compile_module

    def changed(mod: object, *args: object) -> object:
        path.write_bytes(model(first=100.0).SerializeToString())
        return real(mod, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(dispatch, "compile_module", changed)
    relax_mlir.compile(path, cache=tmp_path)

    assert not list(tmp_path.glob("*.rxm"))
    monkeypatch.setattr(dispatch, "compile_module", real)
    path.write_bytes(first)
    assert run(relax_mlir.compile(path, cache=tmp_path))[1, 0] == product(1)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(relax_mlir.RelaxError, match="not a regular file"):
        relax_mlir.compile(tmp_path / "pipe", cache=tmp_path)
    with pytest.raises(relax_mlir.RelaxError, match="cannot be read"):
        relax_mlir.compile("a\0b", cache=tmp_path)


def test_a_name_is_no_other_file(tmp_path: Path, compiled: list[object]) -> None:
    made = parse("g (float[2] x) => (float[2] y) { y = Relu (x) }", opset=17)
    made.graph.node[0].name = "head/location"
    for _ in range(2):
        relax_mlir.compile(made.SerializeToString(), cache=tmp_path)

    assert len(compiled) == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        relax_mlir.RelaxError, match=r"none.onnx: there is no such file"
    ):
        relax_mlir.compile(tmp_path / "none.onnx", cache=tmp_path)


def test_a_warm_start_loads_no_compiler(path: Path, tmp_path: Path) -> None:
    code = (
        "import sys, relax_mlir\n"
        "relax_mlir.compile(sys.argv[1], cache=sys.argv[2])\n"
        "print([m for m in sys.modules if m.startswith('relax_mlir.passes')])\n"
    )

    def start() -> str:
        command = [sys.executable, "-c", code, str(path), str(tmp_path)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, env=dict(os.environ)
        )
        return done.stdout

    assert "relax_mlir.passes" in start()
    assert start() == "[]\n"
