"""Compiled kernels on disk: found again, and never trusted when anything is off."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from models import fashion_mlp
from relax_mlir.runtime import objects
from relax_mlir.runtime.object_cache import ObjectCache


def test_an_entry_is_found_again(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "new")
    assert cache.load("a") is None
    cache.store("a", b"code")
    assert ObjectCache(tmp_path / "new").load("a") == b"code"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.o"]


def damaged(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return damage


def swap(path: Path) -> None:
    """Put a whole and valid entry under another's name."""
    other = path.with_name("b.o")
    ObjectCache(path.parent).store("b", b"other code")
    other.replace(path)


@pytest.mark.parametrize(
    "damage",
    [
        damaged(lambda data: b""),
        damaged(lambda data: data[:-1]),
        damaged(lambda data: data + b"x"),
        damaged(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        damaged(lambda data: b"\x7fELF" + data),
        damaged(lambda data: data.replace(b"object 2", b"object 1")),
        swap,
    ],
)
def test_what_is_not_this_entry_counts_as_absent(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    cache = ObjectCache(tmp_path)
    cache.store("a", b"code")
    damage(tmp_path / "a.o")
    assert cache.load("a") is None


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ObjectCache(tmp_path / "file")
    cache.store("a", b"code")
    assert cache.load("a") is None


def test_a_second_compile_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = fashion_mlp.inputs(batch=3)["x"]
    first = relax_mlir.compile(fashion_mlp.path(), cache=tmp_path)
    monkeypatch.setattr(objects, "compile_object", None)
    again = relax_mlir.compile(fashion_mlp.path(), cache=tmp_path)
    np.testing.assert_array_equal(again(images)[0], first(images)[0])


def test_damaged_entries_are_compiled_again(tmp_path: Path) -> None:
    images = fashion_mlp.inputs(batch=3)["x"]
    first = relax_mlir.compile(fashion_mlp.path(), cache=tmp_path)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    again = relax_mlir.compile(fashion_mlp.path(), cache=tmp_path)
    np.testing.assert_array_equal(again(images)[0], first(images)[0])
    assert all(len(path.read_bytes()) > 100 for path in tmp_path.iterdir())
