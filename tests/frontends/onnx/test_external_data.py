"""Inline and external weights of ONNX models, and rejected ones."""

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import relax_mlir
from models import fashion_mlp
from relax_mlir.errors import ModelError
from relax_mlir.frontends.onnx import import_onnx
from relax_mlir.frontends.onnx.weights import Weights
from tests.frontends.onnx.differential import parse, random
from tests.frontends.onnx.test_bad_input import as_path, external, good


def test_external_weights_are_read(tmp_path: Path) -> None:
    weight = random(64, 64)
    path = save_external(tmp_path, weight)

    array = import_onnx(path).constants["w"]

    assert not isinstance(owner(array), np.memmap)
    np.testing.assert_array_equal(array, weight)
    assert not array.flags.writeable


def truncate(file: Path) -> None:
    os.truncate(file, 0)


def rewrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(b"\x7f" * file.stat().st_size)


@pytest.mark.slow
@pytest.mark.parametrize("change", [truncate, rewrite, Path.unlink])
@pytest.mark.parametrize("op", ["MatMul", "Add"])
def test_compiled_model_outlives_its_weight_files(
    tmp_path: Path, op: str, change: Callable[[Path], None]
) -> None:
    """A mapped file could crash the process, or change the model's weights."""
    weight = random(64, 64)
    path = save_external(tmp_path, weight, op=op)
    compiled = relax_mlir.compile(path, cache=False)
    imported = import_onnx(path)
    x = random(64, 64)
    (before,) = compiled(x)

    change(tmp_path / "weights.bin")

    np.testing.assert_array_equal(compiled(x)[0], before)
    np.testing.assert_array_equal(imported.constants["w"], weight)


@pytest.mark.parametrize("change", [truncate, rewrite, Path.unlink])
def test_file_modified_during_import_is_rejected(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    save_external(tmp_path, random(64, 64))
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    (tensor,) = model.graph.initializer
    weights = Weights([tmp_path])
    weights.array(tensor)
    os.utime(tmp_path / "weights.bin", ns=(1, 1))  # a clock may be coarse

    change(tmp_path / "weights.bin")

    with pytest.raises(
        ValueError, match=r"`weights\.bin` (was changed|cannot be read)"
    ):
        weights.array(tensor)


def test_model_can_have_more_files_than_the_open_file_limit(tmp_path: Path) -> None:
    save_external(tmp_path, random(64, 64))
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    (tensor,) = model.graph.initializer
    for number in range(40):
        os.link(tmp_path / "weights.bin", tmp_path / f"{number}.bin")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    weights = Weights([tmp_path])
    open_files = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files + 20, limits[1]))
    try:
        for number in range(40):
            tensor.external_data[0].value = f"{number}.bin"
            assert weights.array(tensor).shape == (64, 64)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_external_file_can_hold_many_tensors_at_any_offset(tmp_path: Path) -> None:
    weight = random(64, 64)
    path = save_external(tmp_path, weight, offset=3)  # not aligned: copied

    np.testing.assert_array_equal(import_onnx(path).constants["w"], weight)


def save_external(
    folder: Path, weight: np.ndarray, offset: int = 64, op: str = "MatMul"
) -> Path:
    model = parse(f"g (float[64, 64] x) => (float[64, 64] y) {{ y = {op} (w, x) }}")
    data = b"\0" * offset + weight.tobytes() + b"\0" * 5
    (folder / "weights.bin").write_bytes(data)
    tensor = TensorProto(name="w", dims=weight.shape, data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": "weights.bin", "offset": offset, "length": weight.nbytes}
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def owner(array: np.ndarray) -> Any:
    """The owner of an array's memory."""
    held: Any = array
    while isinstance(held, np.ndarray) and not isinstance(held, np.memmap):
        held = held.base
    return held


def test_raw_data_are_not_copied() -> None:
    module = import_onnx(fashion_mlp.path())

    assert isinstance(owner(module.constants["w0"]), bytes)


def test_external_data_must_be_inside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(secret)
    (folder / "loop.bin").symlink_to(folder / "loop.bin")
    (folder / "folder.bin").mkdir()
    (folder / "short.bin").write_bytes(bytes(15))
    (folder / "empty.bin").write_bytes(b"")

    cases = {
        "../secret.bin": "is outside of the model's folder",
        "link.bin": "is outside of the model's folder",
        str(secret): "expected a path relative to the model",
        "": "expected a path relative to the model",
        "a\0b": "expected a path relative to the model",
        "none.bin": "cannot be read: No such file",
        "loop.bin": "cannot be read",
        "folder.bin": "is not a regular file",
        "short.bin": "exceed `short.bin`: expected bytes 0 to 16, got .* 15",
        "empty.bin": "exceed `empty.bin`",
    }
    for location, message in cases.items():
        model = good()
        external(model, location=location)
        with pytest.raises(ModelError, match=f"initializer `w`: .*{message}"):
            import_onnx(as_path(model, folder))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": -1}, "bad offset: expected a number of bytes, got '-1'"),
        ({"offset": "x"}, "bad offset"),
        ({"offset": 10**30}, "bad offset"),
        ({"offset": 17}, "exceed `data.bin`: expected bytes 17 to 33"),
        ({"offset": 10**18}, "exceed `data.bin`"),
        ({"length": 15}, "wrong length: expected 16 bytes, got 15"),
    ],
)
def test_external_data_must_be_inside_the_file(
    entries: dict[str, object], message: str, tmp_path: Path
) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(32))
    model = good()
    external(model, location="data.bin", **entries)

    with pytest.raises(ModelError, match=message):
        import_onnx(as_path(model, tmp_path))


def test_external_data_require_a_model_path() -> None:
    model = good()
    external(model, location="data.bin")

    with pytest.raises(
        ModelError, match=r"`data\.bin` cannot be found without .* Hint"
    ):
        import_onnx(model)


def test_symlinked_model_uses_its_own_data(tmp_path: Path) -> None:
    """The layout of model hubs' caches."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    (blobs / "d1").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    model = good()
    external(model, location="data.bin")
    (blobs / "m1").write_bytes(model.SerializeToString())
    (snapshot / "model.onnx").symlink_to(blobs / "m1")
    (snapshot / "data.bin").symlink_to(blobs / "d1")

    assert import_onnx(snapshot / "model.onnx").func_ops()
