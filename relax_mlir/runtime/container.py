"""What files of compiled models have in common: a zip archive, stored, not compressed.

A manifest in JSON says what the rest is. Every member has zip's checksum. A SHA-256 over
the manifest and the code stands in the manifest, because code that is not what was
written would end the process, or worse.

Imports nothing that compiles: files of models for GPUs carry this module.
"""

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.files import whole_file
from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.model_file import ModelFile, damage_named

__all__ = [
    "add_member",
    "opened",
    "read_constants",
    "read_manifest",
    "read_member",
    "write_members",
    "writing",
]

_DATE = (1980, 1, 1, 0, 0, 0)  # the same model makes the same file

_Json = Mapping[str, Any]  # Any: JSON


def write_members(
    archive: zipfile.ZipFile,
    name: str,
    manifest: _Json,
    code: Mapping[str, bytes],
    constants: Mapping[str, np.ndarray],
) -> None:
    """Write the manifest under a name, code by the names of its members, and weights."""
    shapes = {k: [a.dtype.name, list(a.shape)] for k, a in constants.items()}
    whole = json.loads(json.dumps({**manifest, "constants": shapes}))
    whole["digest"] = _digest(whole, code.values())
    add_member(archive, name, json.dumps(whole).encode())
    for member, data in code.items():
        add_member(archive, member, data)
    for number, array in enumerate(constants.values()):
        flat = np.asarray(array, order="C").reshape(-1)
        add_member(archive, f"constants/{number}", flat.view(np.uint8).data)


def read_manifest(
    archive: zipfile.ZipFile, name: str, version: int, members: str
) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """The manifest, and the code.

    Args:
        version: of the format.
        members: names of the members with code, where ``{}`` is their number; the manifest
            tells as ``objects`` how many there are.

    Raises:
        ValueError: it is damaged, or of another version.
    """
    manifest = json.loads(read_member(archive, name))
    if manifest["format"] != version:
        raise ValueError(
            f"expected format {version}, got {manifest['format']}. Compile it again"
        )
    code = tuple(
        read_member(archive, members.format(number))
        for number in range(manifest["objects"])
    )
    if manifest.pop("digest") != _digest(manifest, code):
        raise ValueError("the code is not what was written")
    return manifest, code


def read_constants(archive: zipfile.ZipFile, manifest: _Json) -> dict[str, np.ndarray]:
    """The weights by key.

    Raises:
        ValueError: one is damaged.
    """
    return {
        key: _array(archive, f"constants/{number}", kind, shape)
        for number, (key, (kind, shape)) in enumerate(manifest["constants"].items())
    }


def add_member(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    """Add a member without a copy of its bytes."""
    info = zipfile.ZipInfo(name, _DATE)
    info.file_size = len(data)  # tells whether it needs 64-bit sizes
    with archive.open(info, "w") as member:
        member.write(data)


@contextmanager
def writing(target: str | os.PathLike[str] | BinaryIO) -> Iterator[zipfile.ZipFile]:
    """An archive to write: to a path, whole or not at all; or to a file that is open.

    Raises:
        OSError: it cannot be written.
        TypeError: it is neither.
    """
    if not isinstance(target, (str, os.PathLike)) and not hasattr(target, "write"):
        kind = type(target).__name__
        raise TypeError(f"expected a path, or a file to write to, got {kind}")
    with ExitStack() as stack:
        if isinstance(target, (str, os.PathLike)):
            target = stack.enter_context(
                stack.enter_context(whole_file(target)).open("wb")
            )
        yield stack.enter_context(zipfile.ZipFile(target, "w", zipfile.ZIP_STORED))


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """An archive to read from: of an open file, or of one that has to be trusted first.

    Raises:
        ModelError: there is no such file, it is not trusted
            (:meth:`~relax_mlir.runtime.model_file.ModelFile.open`), or what is read from it
            is damaged.
    """
    with ExitStack() as stack:
        if not isinstance(path, ModelFile):
            path = stack.enter_context(ModelFile.open(path))
        stack.enter_context(damage_named(str(path)))
        yield stack.enter_context(zipfile.ZipFile(path.file))


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a member, not more than the file can hold."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise ValueError(f"`{name}` is missing") from None
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise ValueError(f"`{name}` is compressed")
    if info.file_size > _size(archive):
        raise ValueError(f"`{name}` is larger than the file")
    data = archive.read(info)
    if len(data) != info.file_size:
        raise ValueError(f"`{name}` is cut off")
    return data


def _size(archive: zipfile.ZipFile) -> int:
    file = archive.fp
    assert file is not None
    place = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(place)
    return size


def _array(
    archive: zipfile.ZipFile,
    name: str,
    kind: str,
    shape: Sequence[Any],  # Any: JSON
) -> np.ndarray:
    element = element_type(kind)
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError(f"`{name}` has the shape {shape}")
    data = read_member(archive, name)
    if len(data) != math.prod(shape) * element.itemsize:
        raise ValueError(
            f"`{name}`: expected {kind}{list(shape)}, got {len(data)} bytes"
        )
    return np.frombuffer(data, element).reshape(shape)


def _digest(manifest: _Json, code: Iterable[bytes]) -> str:
    """Over everything in the manifest, the digest apart, and the code."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for data in code:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
