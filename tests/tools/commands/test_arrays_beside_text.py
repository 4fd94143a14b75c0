"""Modules in two files, text and constants, and their handling by `relax-opt`."""

import io
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir.ir.constant_pool import load_pool, save_pool
from relax_mlir.tools import opt
from tests.tools.commands.examples import SHIFT, X, relu


@pytest.mark.parametrize(
    "dtype",
    [
        *(np.float16, np.float64, np.int8, np.uint64, bool),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4),
    ],
)
def test_constant_pool_keeps_all_element_types(dtype: type, tmp_path: Path) -> None:
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


def test_booleans_of_a_constant_pool_are_normalized(tmp_path: Path) -> None:
    path = tmp_path / "pool.safetensors"
    save_pool(path, {"b": np.array([True, False, True])})
    path.write_bytes(path.read_bytes()[:-3] + b"\2\0\1")

    found = load_pool(path)["b"]

    assert found.view(np.uint8).tolist() == [1, 0, 1]


def test_only_referenced_constants_are_written(compiled: Path, tmp_path: Path) -> None:
    module = relax_mlir.IRModule.load(compiled / "model.mlir")
    module.constants["other"] = np.zeros(3)

    module.save(tmp_path / "m.mlir")

    assert list(load_pool(tmp_path / "m.safetensors")) == ["shift"]


@pytest.mark.parametrize("level", ["relax", "tir", "planned", "linalg", "llvm"])
def test_modules_of_every_level_round_trip(
    level: str, compiled: Path, tmp_path: Path
) -> None:
    module = relax_mlir.import_onnx(compiled / "model.onnx")
    relax_mlir.lower(module, to=level).save(tmp_path / "m.mlir")

    again = relax_mlir.IRModule.load(tmp_path / "m.mlir")

    np.testing.assert_allclose(relax_mlir.run(again, X)[0], relu(X), rtol=1e-6)


def test_relax_opt_reads_and_writes_constants(compiled: Path, tmp_path: Path) -> None:
    out = tmp_path / "planned.mlir"

    opt.run([str(compiled / "model.mlir"), "--to", "planned", "-o", str(out)])

    model = relax_mlir.compile(relax_mlir.IRModule.load(out), cache=False)
    np.testing.assert_allclose(model(X)[0], relu(X), rtol=1e-6)


def test_relax_opt_needs_constants_only_if_a_pass_reads_them(compiled: Path) -> None:
    text = (compiled / "model.mlir").read_text()

    assert opt.run(["-", "-p", "relax-simplify"], stdin=text) == text


def test_relax_opt_takes_constants_for_standard_input(
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
    """Both parts have folded constants of the same name."""
    text = "// -----\n".join(FOLDED.format(operator) for operator in operators)
    pool = str(compiled / "model.safetensors")
    flags = ["--constants", pool, "--split-input-file", "-o", str(out)]
    opt.run(["-", *flags, "-p", "relax-fold-constants,relax-simplify"], stdin=text)


def test_split_inputs_share_a_constants_file(compiled: Path, tmp_path: Path) -> None:
    fold_in_two_parts(["nn_relu", "nn_relu"], compiled, tmp_path / "o.mlir")

    (array,) = load_pool(tmp_path / "o.safetensors").values()
    np.testing.assert_array_equal(array, np.maximum(SHIFT, 0))


def test_split_inputs_with_conflicting_constants_are_rejected(
    compiled: Path, tmp_path: Path
) -> None:
    with pytest.raises(relax_mlir.RelaxError, match="differs between parts"):
        fold_in_two_parts(["nn_relu", "exp"], compiled, tmp_path / "o.mlir")

    assert list(tmp_path.iterdir()) == []


def test_relax_opt_dumps_passes_of_a_lowering(compiled: Path) -> None:
    dumps = io.StringIO()
    flags = ["--to", "tir", "--mlir-print-ir-after-change"]

    opt.run([str(compiled / "model.mlir"), *flags], stderr=dumps)

    assert "IR Dump After relax-legalize" in dumps.getvalue()


def test_reproducer_includes_its_constants(compiled: Path, tmp_path: Path) -> None:
    failing = "transform-interpreter{entry-point=nope}"
    flags = ["-p", failing, "--crash-dir", str(tmp_path)]

    with pytest.raises(relax_mlir.RelaxError, match="reproduce with"):
        opt.run([str(compiled / "model.mlir"), *flags])

    (pool,) = tmp_path.glob("*.safetensors")
    np.testing.assert_array_equal(load_pool(pool)["shift"], SHIFT)
    with pytest.raises(relax_mlir.RelaxError, match="named sequence with name: nope"):
        opt.run([str(pool.with_suffix(".mlir")), "-p", failing, "--no-reproducer"])


@pytest.mark.slow
def test_isolation_keeps_constants(compiled: Path, tmp_path: Path) -> None:
    out, crashes = tmp_path / "out.mlir", tmp_path / "crashes"
    source = str(compiled / "model.mlir")
    flags = ["-p", "transform-interpreter{entry-point=nope}", "--crash-dir"]

    opt.run([source, "--isolate", "-p", "relax-simplify", "-o", str(out)])
    with pytest.raises(relax_mlir.RelaxError, match="reproduce with"):
        opt.run([source, "--isolate", *flags, str(crashes)])

    assert list(load_pool(out.with_suffix(".safetensors"))) == ["shift"]
    assert len(list(crashes.glob("*.safetensors"))) == 1
