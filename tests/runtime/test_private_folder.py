"""Cache directories: permissions, and crash safety of writers."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import relax_mlir
from models import fashion_mlp
from models.packaged import FetchError, fetch_member
from relax_mlir.codegen import object_cache
from relax_mlir.codegen.object_cache import CacheWarning, ObjectCache
from relax_mlir.runtime.private_folder import ForeignFolderError, PrivateFolder

KEY = "7" * 64
OTHER_USER = 12345
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")


@pytest.fixture(autouse=True)
def forget_warnings() -> Iterator[None]:
    """Let every test draw the warnings that a process draws once."""
    object_cache._warn_once.cache_clear()
    yield
    object_cache._warn_once.cache_clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# whose


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_folders_and_files_are_the_users_alone(tmp_path: Path, umask: int) -> None:
    cache = ObjectCache(tmp_path / "new" / "cache")
    with umask_of(umask):
        cache.store(KEY, b"code")

    assert cache.load(KEY) == b"code"
    assert mode(cache.folder) == mode(cache.folder.parent) == 0o700
    assert mode(cache.folder / f"{KEY}.o") == 0o600


def test_a_strict_umask_leaves_files_readable(tmp_path: Path) -> None:
    with umask_of(0o777):
        ObjectCache(tmp_path).store(KEY, b"code")

    assert mode(tmp_path / f"{KEY}.o") == 0o600


@contextlib.contextmanager
def umask_of(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def writable_by_group(folder: Path) -> None:
    folder.chmod(0o770)


def writable_by_all(folder: Path) -> None:
    folder.chmod(0o1777)


def a_link(folder: Path) -> None:
    folder.rename(folder.with_name("real"))
    folder.symlink_to("real")


def of_another_user(folder: Path) -> None:
    os.chown(folder, OTHER_USER, OTHER_USER)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (writable_by_group, "others may write to it: expected mode 700, got 770"),
        (writable_by_all, "others may write to it: expected mode 700, got 1777"),
        (a_link, "a symbolic link: expected a directory"),
        pytest.param(of_another_user, "belongs to user 12345", marks=as_root),
    ],
)
def test_a_folder_that_others_can_change_is_not_used(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    cache = ObjectCache(tmp_path / "cache", 1000)
    cache.store(KEY, b"code")
    spoil(cache.folder)

    with pytest.warns(CacheWarning, match=message):
        assert cache.load(KEY) is None
    cache.store(
        "8" * 64, b"x" * 2000
    )  # without another warning, which would be an error
    assert cache.size().kernels == 0
    with cache.open_model(KEY) as file:
        assert file is None
    with pytest.raises(ForeignFolderError, match=message):
        cache.clear()
    with pytest.raises(ForeignFolderError, match=message):
        cache.check()
    assert [p.name for p in cache.folder.iterdir()] == [f"{KEY}.o"]


def test_links_may_lead_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to("scratch")

    ObjectCache(tmp_path / "home" / "relax_mlir").store(KEY, b"code")

    assert ObjectCache(tmp_path / "scratch" / "relax_mlir").load(KEY) == b"code"


@as_root
def test_root_makes_no_folder_for_another_user(tmp_path: Path) -> None:
    """As `sudo` does that leaves HOME as it was."""
    of_another_user(tmp_path)
    cache = ObjectCache(tmp_path / ".cache" / "relax_mlir")

    with pytest.warns(CacheWarning, match="would be created by root in .*12345"):
        cache.store(KEY, b"code")

    assert list(tmp_path.iterdir()) == []


def test_an_entry_that_others_could_write_counts_as_absent(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    entry = tmp_path / f"{KEY}.o"
    cache.store(KEY, b"code")
    entry.chmod(0o620)
    assert cache.load(KEY) is None

    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"
    assert mode(entry) == 0o600


def test_links_to_entries_are_not_followed(tmp_path: Path) -> None:
    cache, entry = ObjectCache(tmp_path / "cache"), tmp_path / "cache" / f"{KEY}.o"
    cache.store(KEY, b"code")
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    whole = (tmp_path / "elsewhere").read_bytes()
    assert cache.load(KEY) is None

    cache.store(KEY, b"new")

    assert not entry.is_symlink()
    assert cache.load(KEY) == b"new"
    assert (tmp_path / "elsewhere").read_bytes() == whole


def test_a_pipe_is_no_entry(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / f"{KEY}.o", 0o600)

    assert ObjectCache(tmp_path).load(KEY) is None


@as_root
def test_an_entry_of_another_user_counts_as_absent(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.store(KEY, b"code")
    of_another_user(tmp_path / f"{KEY}.o")

    assert cache.load(KEY) is None


@pytest.mark.slow
def test_a_compile_beside_a_foreign_cache_works(tmp_path: Path) -> None:
    images = fashion_mlp.inputs(batch=3)["x"]
    expected = relax_mlir.compile(fashion_mlp.path(), cache=tmp_path / "c")(images)
    kept = sorted(p.name for p in (tmp_path / "c").iterdir())
    (tmp_path / "c").chmod(0o777)

    with pytest.warns(CacheWarning, match="no cache is used") as caught:
        found = relax_mlir.compile(fashion_mlp.path(), cache=tmp_path / "c")(images)

    assert len(caught) == 1
    np.testing.assert_array_equal(found, expected)
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == kept


def test_packages_are_not_taken_from_a_foreign_folder(tmp_path: Path) -> None:
    folder = tmp_path / "none-1" / "files"
    folder.mkdir(parents=True)
    (folder / "m.onnx").write_bytes(b"model")
    assert fetch_member("none==1", "m.onnx", tmp_path).read_bytes() == b"model"

    folder.chmod(0o777)

    with pytest.raises(FetchError, match="others may write to it"):
        fetch_member("none==1", "m.onnx", tmp_path)


# whole or not at all

KILL_AT_EVERY_CALL = '''
"""Stores an entry again and again, killed at one system call later each time."""
import ctypes, json, os, signal, sys
from pathlib import Path
from relax_mlir.codegen.object_cache import ObjectCache

TRACEME, SYSCALL, SETOPTIONS, EXITKILL = 0, 24, 0x4200, ctypes.c_void_p(1 << 20)
libc = ctypes.CDLL(None, use_errno=True)
folder, key = Path(sys.argv[1]), sys.argv[2]
new = b"new" * 20_000


def store():
    cache = ObjectCache(folder)
    cache.store(key, new)
    cache.store_model(key, len(new), lambda file: (file.write(new[:9]), file.write(new[9:])))


def is_killed_at(number):
    child = os.fork()
    if child == 0:
        if libc.ptrace(TRACEME, 0, None, None) != 0:
            os._exit(99)
        os.kill(os.getpid(), signal.SIGSTOP)
        store()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        sys.exit(99)
    libc.ptrace(SETOPTIONS, child, None, EXITKILL)
    for _ in range(number):
        if libc.ptrace(SYSCALL, child, None, None) != 0:
            sys.exit(99)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, status
            return False
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


number, found = 0, []
while is_killed_at(number):
    cache = ObjectCache(folder)
    with cache.open_model(key) as file:
        model = None if file is None else file.read() == new
    kernel = cache.load(key)
    found.append([None if kernel is None else kernel == new, model, cache.size().leftovers])
    cache.clear()
    found[-1].append(len(os.listdir(folder)) if folder.exists() else 0)
    number += 1
print(json.dumps(found))
'''


@pytest.mark.slow
def test_a_writer_may_be_killed_at_any_system_call(tmp_path: Path) -> None:
    """Half a file is never met, and what is left is found and removed."""
    command = [sys.executable, "-c", KILL_AT_EVERY_CALL, str(tmp_path / "c"), KEY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 99:
        pytest.skip("processes may not be traced here")
    assert done.returncode == 0, done.stderr

    found = json.loads(done.stdout)

    assert len(found) > 60
    kernels, models, leftovers, after = zip(*found, strict=True)
    assert {None, True} == set(kernels) == set(models)
    assert {0, 1} == set(leftovers)
    assert {0} == set(after)


def test_a_killed_writer_leaves_what_is_counted_and_removed(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, 1000)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    with writer, writer.stdout:
        writer.stdout.readline()
        assert cache.size().leftovers == 0  # still written
        cache.clear()
        assert len(list(tmp_path.iterdir())) == 1
        writer.kill()
        writer.wait()

    assert (cache.size().leftovers, cache.size().size_bytes) == (1, 5000)
    cache.store(KEY, b"x" * 10)
    assert [p.name for p in tmp_path.iterdir()] == [f"{KEY}.o"]


WRITE_FOR_EVER = """
import fcntl, os, sys, time
file = os.open(sys.argv[1] + "/.0123456789abcdef.tmp", os.O_CREAT | os.O_RDWR, 0o600)
fcntl.flock(file, fcntl.LOCK_EX)
os.write(file, b"x" * 5000)
print("ready", flush=True)
time.sleep(60)
"""


def test_temporary_files_are_locked_while_they_are_written(tmp_path: Path) -> None:
    folder = PrivateFolder(tmp_path)

    with folder.writing("a") as file:
        file.write(b"half")
        assert folder.leftovers(remove=True) == []
        (temporary,) = tmp_path.iterdir()
        with temporary.open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert (tmp_path / "a").read_bytes() == b"half"


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with PrivateFolder(tmp_path).writing("a") as file:
            file.write(b"half")
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        write()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("free_bytes", [0, 1, 60, 122, 5000])
def test_a_full_disk_keeps_the_entry_as_it_was(tmp_path: Path, free_bytes: int) -> None:
    cache = ObjectCache(tmp_path)
    cache.store(KEY, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, limits[1]))
    try:
        cache.store(KEY, b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert cache.load(KEY) == b"old"
    assert [p.name for p in tmp_path.iterdir()] == [f"{KEY}.o"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any folder")
def test_a_folder_to_read_is_read(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    cache.store(KEY, b"code")
    tmp_path.chmod(0o500)
    try:
        cache.store("8" * 64, b"more")
        assert cache.load(KEY) == b"code"
        assert cache.size().kernels == 1
    finally:
        tmp_path.chmod(0o700)


def test_readers_writers_and_trims_at_once_meet_whole_entries(tmp_path: Path) -> None:
    bodies = [bytes([n]) * 50_000 for n in range(4)]
    cache = ObjectCache(tmp_path, 150_000)  # fewer than are written
    problems: list[object] = []

    def work(number: int) -> None:
        for turn in range(12):
            index = (number + turn) % 4
            cache.store(f"{index:064x}", bodies[index])
            found = cache.load(f"{index:064x}")
            if found not in (None, bodies[index]):
                problems.append(found)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []
    assert cache.size().leftovers == 0
    assert cache.size().size_bytes <= 150_000 + 4 * 50_122


def test_a_model_under_the_name_of_another_counts_as_absent(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    for key, body in (("a" * 64, b"a"), ("b" * 64, b"b")):
        cache.store_model(key, 1, lambda file, body=body: file.write(body))
    shutil.copy(tmp_path / f"{'a' * 64}.rxm", tmp_path / f"{'b' * 64}.rxm")

    with cache.open_model("b" * 64) as file:
        assert file is None
    with cache.open_model("a" * 64) as file:
        assert file is not None
        assert file.read() == b"a"


@pytest.mark.parametrize("place", [0, 30, 100, 121, 122, -1])
def test_a_model_with_one_other_bit_counts_as_absent(
    tmp_path: Path, place: int
) -> None:
    cache = ObjectCache(tmp_path)
    cache.store_model(KEY, 1, lambda file: file.write(b"x" * 100))
    entry = tmp_path / f"{KEY}.rxm"
    data = bytearray(entry.read_bytes())
    data[place] ^= 1
    entry.write_bytes(data)

    with cache.open_model(KEY) as file:
        assert file is None


def test_no_warning_where_nothing_is_wrong(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = ObjectCache(tmp_path / "none")
        assert cache.load(KEY) is None
        cache.store(KEY, b"code")
        assert cache.load(KEY) == b"code"
