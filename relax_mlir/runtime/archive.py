"""The file format of compiled models, ``.rxm``: a zip archive, stored, not compressed.

``manifest.json`` says what the rest is. Every member has zip's checksum. A SHA-256 over
the manifest and the code stands in the manifest, because code that is not what was
written would end the process, or worse.
"""

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from relax_mlir.dialects.dtypes import dtype
from relax_mlir.errors import ModelError
from relax_mlir.files import whole_file
from relax_mlir.runtime.machine import Machine
from relax_mlir.runtime.profile import KernelCall

__all__ = [
    "Contents",
    "add_member",
    "opened",
    "pack",
    "read_archive",
    "read_member",
    "unpack",
    "write_archive",
]

_FORMAT = 3
_MANIFEST = "manifest.json"
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model makes the same file


@dataclass(frozen=True)
class Contents:
    """What a file holds.

    Attributes:
        code: object files.
        signature: fields of the signature, as JSON holds them.
        machine: what the code is for.
        constants: the weights by key.
        threads: how many may work on one call.
        kernels: that ``main`` calls, in order.
    """

    code: tuple[bytes, ...]
    signature: Mapping[str, Any]  # Any: JSON
    machine: Machine
    constants: Mapping[str, np.ndarray]
    threads: int
    kernels: tuple[KernelCall, ...] = ()


def write_archive(path: str | os.PathLike[str], contents: Contents) -> None:
    """Write a file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    with whole_file(path) as file:
        _write(file, contents)


def pack(contents: Contents) -> bytes:
    """What :func:`write_archive` writes."""
    file = io.BytesIO()
    _write(file, contents)
    return file.getvalue()


def _write(file: Path | IO[bytes], contents: Contents) -> None:
    manifest = {
        "format": _FORMAT,
        "signature": contents.signature,
        "machine": asdict(contents.machine),
        "threads": contents.threads,
        "kernels": [asdict(kernel) for kernel in contents.kernels],
        "objects": len(contents.code),
        "constants": {
            k: [a.dtype.name, list(a.shape)] for k, a in contents.constants.items()
        },
    }
    manifest = json.loads(json.dumps(manifest))
    manifest["digest"] = _digest(manifest, contents.code)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        add_member(archive, _MANIFEST, json.dumps(manifest).encode())
        for number, code in enumerate(contents.code):
            add_member(archive, f"objects/{number}.o", code)
        for number, array in enumerate(contents.constants.values()):
            flat = np.asarray(array, order="C").reshape(-1)
            add_member(archive, f"constants/{number}", flat.view(np.uint8).data)


def add_member(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    """Add a member without a copy of its bytes."""
    info = zipfile.ZipInfo(name, _DATE)
    info.file_size = len(data)  # tells whether it needs 64-bit sizes
    with archive.open(info, "w") as member:
        member.write(data)


def read_archive(path: str | os.PathLike[str]) -> Contents:
    """Read a file and check that it is what was written.

    Raises:
        ModelError: there is no such file, it is damaged, or of another version.
    """
    with opened(path) as archive:
        return _contents(archive)


def unpack(data: bytes) -> Contents:
    """What :func:`pack` made.

    Raises:
        ValueError: it is damaged, or of another version.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _contents(archive)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """An archive to read from.

    Raises:
        ModelError: there is no such file, or what is read from it is damaged.
    """
    if not Path(path).is_file():
        problem = "not a regular file" if Path(path).exists() else "no such file"
        raise ModelError(f"{path}: {problem}")
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # zipfile and JSON raise many kinds for damaged bytes
        reason = str(error) or type(error).__name__
        raise ModelError(
            f"{path}: not a compiled model, or damaged: {reason}"
        ) from error


def _contents(archive: zipfile.ZipFile) -> Contents:
    manifest = json.loads(read_member(archive, _MANIFEST))
    if manifest["format"] != _FORMAT:
        raise ValueError(
            f"expected format {_FORMAT}, got {manifest['format']}. Compile it again"
        )
    code = tuple(
        read_member(archive, f"objects/{number}.o")
        for number in range(manifest["objects"])
    )
    if manifest.pop("digest") != _digest(manifest, code):
        raise ValueError("the code is not what was written")
    machine = manifest["machine"]
    constants = {
        key: _array(archive, f"constants/{number}", kind, shape)
        for number, (key, (kind, shape)) in enumerate(manifest["constants"].items())
    }
    return Contents(
        code,
        manifest["signature"],
        Machine(machine["triple"], machine["cpu"], tuple(machine["features"])),
        constants,
        manifest["threads"],
        tuple(map(KernelCall.from_fields, manifest["kernels"])),
    )


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
    element = dtype(kind)
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError(f"`{name}` has the shape {shape}")
    data = read_member(archive, name)
    if len(data) != math.prod(shape) * element.size_bytes:
        raise ValueError(
            f"`{name}`: expected {kind}{list(shape)}, got {len(data)} bytes"
        )
    return np.frombuffer(data, element.numpy).reshape(shape)


def _digest(manifest: Mapping[str, Any], code: Sequence[bytes]) -> str:
    """Over everything in the manifest, the digest apart, and the code."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for data in code:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
