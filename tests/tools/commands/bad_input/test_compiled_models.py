"""Damaged compiled models, and those for other machines, are rejected."""

import hashlib
import json
import platform
import zipfile
from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import ModelError
from tests.tools.commands.bad_input.calls import COMMANDS, Call, X


def answer(path: Path) -> np.ndarray | None:
    """The result of a compiled model on X; None if the file is rejected."""
    try:
        return relax_mlir.load(path)(X, np.zeros(2, np.int64))[0]
    except ModelError:
        return None


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_compiled_model_is_rejected(
    damage: str, models: Path, tmp_path: Path
) -> None:
    """Truncated files and bit flips are rejected, or do not change results."""
    whole = (models / "model.rxm").read_bytes()
    path = tmp_path / "m.rxm"
    rng = np.random.default_rng(0)
    expected = answer(models / "model.rxm")
    refused = 0

    for position in rng.integers(0, len(whole), 60).tolist():
        data = bytearray(whole[:position] if damage == "cut" else whole)
        if damage == "flipped":
            data[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        found = answer(path)
        if found is None:
            refused += 1
        else:  # a date, or something else that nobody reads
            np.testing.assert_array_equal(found, expected)

    assert refused >= 50


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path: Path, found: dict[str, bytes], kind: int = 0) -> None:
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in found.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("name", ["manifest.json", "code.so", "constants/0"])
def test_missing_members(name: str, models: Path, tmp_path: Path, call: Call) -> None:
    found = members(models / "model.rxm")
    del found[name]
    write_members(tmp_path / "m.rxm", found)

    run = call(*COMMANDS["run"], tmp_path / "m.rxm")

    run.failed(f"m.rxm: not a compiled model, or damaged: `{name}` is missing")


def test_code_for_another_architecture(
    models: Path, tmp_path: Path, call: Call
) -> None:
    other = "znver3" if platform.machine() == "aarch64" else "neoverse-v1"
    path = tmp_path / "other.rxm"
    target = f"cpu:{other}"
    relax_mlir.compile(models / "model.onnx", target=target, cache=False).save(path)

    run = call(*COMMANDS["run"], path)

    run.failed(r"other.rxm: compiled for \S+, this machine is \S+\n")


def test_modified_code(models: Path, tmp_path: Path, call: Call) -> None:
    found = members(models / "model.rxm")
    found["code.so"] = found["code.so"][:-8] + b"modified"
    write_members(tmp_path / "m.rxm", found)

    run = call(*COMMANDS["run"], tmp_path / "m.rxm")

    run.failed("the digest of the code does not match")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b'"threads": 1', b'"threads": 9', "digest of the code does not match"),
        (b'["n", "20"]', b'["n", "99"]', "digest of the code does not match"),
        (b'["n", "20"]', b'["n", "-9"]', "digest of the code does not match"),
        (b'"format": 5', b'"format": 1', "expected format 5, got 1. Compile it again"),
        (b'"format": 5', b'"farmot": 2', "format"),
        (b'["code.so"', b'["code.so", "a"', "`a` is missing"),
        (b'["code.so"', b'["constants/0"', "digest of the code does not match"),
        (b'["code.so"', b'[["code.so"]', "damaged"),
        (b"{", b"[", "damaged"),
        (b"{", b"{" * 100_000, "damaged"),
        (b"{", b"\xff", "damaged"),
    ],
)
def test_modified_manifests(
    old: bytes, new: bytes, problem: str, models: Path, tmp_path: Path, call: Call
) -> None:
    found = members(models / "model.rxm")
    assert old in found["manifest.json"]
    found["manifest.json"] = found["manifest.json"].replace(old, new)
    write_members(tmp_path / "m.rxm", found)

    call(*COMMANDS["run"], tmp_path / "m.rxm").failed(problem)


def test_compressed_members_are_not_read(
    models: Path, tmp_path: Path, call: Call
) -> None:
    """A small compressed member could expand to more than memory."""
    found = members(models / "model.rxm")
    found["constants/0"] = bytes(10_000_000)
    write_members(tmp_path / "m.rxm", found, zipfile.ZIP_DEFLATED)

    call(*COMMANDS["run"], tmp_path / "m.rxm").failed("is compressed")


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("float32", [-20]), ("float32", [2**62, 4]), ("float32", [21]), ("f", [20])],
)
def test_weights_of_impossible_shapes(
    kind: str, shape: list[int], models: Path, tmp_path: Path, call: Call
) -> None:
    """Even with a matching checksum."""
    found = members(models / "model.rxm")
    manifest = json.loads(found["manifest.json"])
    manifest["constants"]["shift"] = [kind, shape]
    del manifest["digest"]
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name in manifest["code"]:
        digest.update(len(found[name]).to_bytes(8, "little") + found[name])
    manifest["digest"] = digest.hexdigest()
    found["manifest.json"] = json.dumps(manifest).encode()
    write_members(tmp_path / "m.rxm", found)

    call(*COMMANDS["run"], tmp_path / "m.rxm").failed("`constants/0`|element type `f`")
