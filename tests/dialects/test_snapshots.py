"""The dialects as files: stock ``mlir-opt`` reads our dumps with them."""

import subprocess
from functools import cache
from pathlib import Path

import mlir
import pytest

import relax_mlir
from models import zoo
from relax_mlir.dialects.snapshots import FOLDER, snapshots, write_snapshots

MLIR_OPT = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
LEVELS = ("relax", "tir", "planned")


@cache
def dump(model: str, level: str) -> str:
    (build,) = (e.build for e in zoo.ENTRIES if e.name == model)
    module = relax_mlir.import_onnx(build())
    return str(relax_mlir.lower(module, to=level))


@pytest.fixture
def irdl_file(tmp_path: Path) -> Path:
    """All snapshots in one file, which is what mlir-opt takes."""
    joined = tmp_path / "all.irdl.mlir"
    joined.write_text("".join((FOLDER / name).read_text() for name in snapshots()))
    return joined


def mlir_opt(irdl_file: Path, text: str) -> "subprocess.CompletedProcess[str]":
    command = [str(MLIR_OPT), f"--irdl-file={irdl_file}", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True)


@pytest.mark.parametrize("name", snapshots())
def test_snapshots_are_current(name: str) -> None:
    assert (FOLDER / name).read_text() == snapshots()[name], "run `make irdl`"


def test_no_snapshot_is_left_of_a_dialect_that_is_gone(tmp_path: Path) -> None:
    write_snapshots(tmp_path)

    written = sorted(p.name for p in tmp_path.iterdir())
    assert written == sorted(p.name for p in FOLDER.glob("*.mlir"))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", ["fashion_mlp", "bert_tiny"])
def test_stock_mlir_opt_reads_our_dumps(
    model: str, level: str, irdl_file: Path
) -> None:
    result = mlir_opt(irdl_file, dump(model, level))

    assert result.stderr == ""
    assert result.stdout.strip() == dump(model, level).strip()


@pytest.mark.parametrize(
    ("level", "right", "wrong", "problem"),
    [
        ("relax", "relax.matmul", "relax.matmull", "unregistered operation"),
        ("relax", "#relax.const<", "#relax.constant<", "expected dynamic attribute"),
        ("tir", "callee = @", "callee_name = @", 'attribute "callee" is expected'),
        ("tir", 'kinds = "SSR"', "kinds = 3", "expected base attribute"),
        ("planned", 'name = "matmul", ', "", 'attribute "name" is expected'),
        ("planned", "array<i32: 1, 0>", "array<i32: 2, 0>", "sum of elements"),
    ],
)
def test_stock_mlir_opt_refuses_what_the_dialects_do_not_allow(
    level: str, right: str, wrong: str, problem: str, irdl_file: Path
) -> None:
    text = dump("fashion_mlp", level)
    assert right in text

    result = mlir_opt(irdl_file, text.replace(right, wrong, 1))

    assert result.returncode != 0
    assert problem in result.stderr
