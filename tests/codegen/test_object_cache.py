"""The on-disk object cache: hits, corrupt entries, permissions, eviction."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

import relax_mlir
from models import fashion_mlp
from relax_mlir.codegen import object_code
from relax_mlir.codegen.object_cache import ObjectCache, cache_limit_bytes
from relax_mlir.errors import RelaxError


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
    """Put a valid entry under the name of another one."""
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
        damaged(lambda data: data.replace(b"entry 3", b"entry 2")),
        swap,
    ],
)
def test_invalid_entries_are_ignored(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    cache = ObjectCache(tmp_path)
    cache.store("a", b"code")
    damage(tmp_path / "a.o")
    assert cache.load("a") is None


def test_a_read_only_folder_stores_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ObjectCache(tmp_path / "file")
    cache.store("a", b"code")
    assert cache.load("a") is None


def key(number: int, end: str = "") -> str:
    """A key like those of the compiler."""
    return f"{number:0{64 - len(end)}x}{end}"


BODY_BYTES = 1000 - 122  # of an entry whose key has 64 digits


def fill(folder: Path, count: int) -> None:
    """Create entries of 1,000 bytes; number 0 is the oldest."""
    for number in range(count):
        ObjectCache(folder, 1 << 30).store(key(number), b"x" * BODY_BYTES)
        path = folder / f"{key(number)}.o"
        os.utime(path, (number, number))
        assert path.stat().st_size == 1000


def kept(folder: Path) -> list[int]:
    return sorted(int(path.stem, 16) for path in folder.glob("*.o"))


def test_least_recently_used_entries_are_evicted(tmp_path: Path) -> None:
    fill(tmp_path, 8)
    cache = ObjectCache(tmp_path, 8000)
    assert cache.load(key(1)) is not None  # now it was used last

    cache.store(key(8), b"x" * BODY_BYTES)

    assert kept(tmp_path) == [1, 4, 5, 6, 7, 8]
    assert cache.size().size_bytes == 6000


def test_nothing_is_evicted_below_the_limit(tmp_path: Path) -> None:
    fill(tmp_path, 7)

    ObjectCache(tmp_path, 8000).store(key(8), b"x" * BODY_BYTES)

    assert kept(tmp_path) == [0, 1, 2, 3, 4, 5, 6, 8]


def test_small_stores_check_the_size_now_and_then(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    cache = ObjectCache(tmp_path, 3200)

    cache.store(key(9, end="01"), b"tiny")
    assert len(kept(tmp_path)) == 5
    cache.store(key(9, end="00"), b"tiny")
    assert cache.size().size_bytes <= 2400


def test_models_are_evicted_too(tmp_path: Path) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"x" * 4000)

    cache = ObjectCache(tmp_path, 1 << 20)
    for number in range(600):
        cache.store_model(key(number), 4000, write)

    assert cache.size().models > 0
    assert cache.size().size_bytes <= (1 << 20) + 256 * 4000


def test_other_files_are_not_removed(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    for name in ("mine.o", f"{key(7)}.obj", f"{key(8)}.o.bak"):
        (tmp_path / name).write_bytes(b"x" * 4000)

    ObjectCache(tmp_path, 0).store(key(9), b"x")

    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        ["mine.o", f"{key(7)}.obj", f"{key(8)}.o.bak"]
    )


def test_clearing_removes_and_counts_all_entries(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    (tmp_path / "mine.o").write_text("mine")

    removed = ObjectCache(tmp_path).clear()

    assert (removed.kernels, removed.size_bytes) == (3, 3000)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.o"]


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "none")
    assert cache.size() == cache.clear()
    assert cache.size().kernels == 0
    assert not (tmp_path / "none").exists()


def test_the_environment_sets_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELAX_MLIR_CACHE_BYTES", raising=False)
    assert cache_limit_bytes() == 1 << 32
    monkeypatch.setenv("RELAX_MLIR_CACHE_BYTES", "5000")
    assert ObjectCache(Path("unused")).limit_bytes == 5000
    assert ObjectCache(Path("unused"), 7).limit_bytes == 7


@pytest.mark.parametrize("text", ["1G", "-1", "1e9", "\u00b2"])
def test_invalid_limits_are_rejected(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("RELAX_MLIR_CACHE_BYTES", text)

    with pytest.raises(RelaxError, match=f"`RELAX_MLIR_CACHE_BYTES`.*got `{text}`"):
        cache_limit_bytes()


def test_a_second_compile_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = fashion_mlp.inputs(batch=3)["x"]
    first = relax_mlir.compile(fashion_mlp.path(), cache=tmp_path)
    monkeypatch.setattr(object_code, "compile_object", None)
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
