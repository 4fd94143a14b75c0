"""Container format of compiled models: an uncompressed zip archive with a JSON manifest.

Every member has zip's CRC. The manifest holds a SHA-256 of itself and the code, since
damaged code would crash the process, or worse.

Does not import the compiler: model files for GPUs bundle this module.
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

from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.model_file import ModelFile, damage_as_model_error
from relax_mlir.support.files import atomic_file

__all__ = [
    "COMPILE_AGAIN",
    "add_member",
    "archive_writer",
    "manifest_digest",
    "open_archive",
    "read_constants",
    "read_manifest",
    "read_member",
    "write_members",
]

COMPILE_AGAIN = "Compile it again: `relax-mlir compile MODEL.onnx -o MODEL.rxm`"
_DATE = (1980, 1, 1, 0, 0, 0)  # constant, for reproducible files

_Json = Mapping[str, Any]  # Any: JSON


def write_members(
    archive: zipfile.ZipFile,
    name: str,
    manifest: _Json,
    code: Mapping[str, bytes],
    constants: Mapping[str, np.ndarray],
) -> None:
    """Write the manifest, code by member name, and weights."""
    shapes = {k: [a.dtype.name, list(a.shape)] for k, a in constants.items()}
    complete = {**manifest, "code": list(code), "constants": shapes}
    complete = json.loads(json.dumps(complete))
    complete["digest"] = manifest_digest(complete, code.values())
    add_member(archive, name, json.dumps(complete).encode())
    for member, data in code.items():
        add_member(archive, member, data)
    for number, array in enumerate(constants.values()):
        flat = np.asarray(array, order="C").reshape(-1)
        add_member(archive, f"constants/{number}", flat.view(np.uint8).data)


def read_manifest(
    archive: zipfile.ZipFile, name: str, version: int
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read the manifest, and the code by member name.

    Args:
        version: expected version of the format.

    Raises:
        ValueError: the archive is damaged, or of another version.
    """
    manifest = json.loads(read_member(archive, name))
    if manifest["format"] != version:
        raise ValueError(
            f"expected format {version}, got {manifest['format']}. {COMPILE_AGAIN}"
        )
    code = {member: read_member(archive, member) for member in manifest["code"]}
    if manifest.pop("digest") != manifest_digest(manifest, code.values()):
        raise ValueError("the digest of the code does not match")
    return manifest, code


def read_constants(archive: zipfile.ZipFile, manifest: _Json) -> dict[str, np.ndarray]:
    """Read the weights by key.

    Raises:
        ValueError: a member is damaged.
    """
    return {
        key: _array(archive, f"constants/{number}", kind, shape)
        for number, (key, (kind, shape)) in enumerate(manifest["constants"].items())
    }


def add_member(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    """Add a member without copying its bytes."""
    info = zipfile.ZipInfo(name, _DATE)
    info.file_size = len(data)  # decides on zip64
    with archive.open(info, "w") as member:
        member.write(data)


@contextmanager
def archive_writer(
    target: str | os.PathLike[str] | BinaryIO,
) -> Iterator[zipfile.ZipFile]:
    """An archive for writing: to a path, atomically, or to an open file.

    Raises:
        OSError: the file cannot be written.
        TypeError: the target is neither.
    """
    if not isinstance(target, (str, os.PathLike)) and not hasattr(target, "write"):
        kind = type(target).__name__
        raise TypeError(f"expected a path, or a file to write to, got {kind}")
    with ExitStack() as stack:
        if isinstance(target, (str, os.PathLike)):
            target = stack.enter_context(
                stack.enter_context(atomic_file(target)).open("wb")
            )
        yield stack.enter_context(zipfile.ZipFile(target, "w", zipfile.ZIP_STORED))


@contextmanager
def open_archive(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """An archive for reading, of an open file, or of a path after the trust check.

    Raises:
        ModelError: the file is missing, not trusted
            (:meth:`~relax_mlir.runtime.model_file.ModelFile.open`), or damaged.
    """
    with ExitStack() as stack:
        if not isinstance(path, ModelFile):
            path = stack.enter_context(ModelFile.open(path))
        stack.enter_context(damage_as_model_error(str(path)))
        yield stack.enter_context(zipfile.ZipFile(path.file))


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a member, with validation of its declared size."""
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
        raise ValueError(f"`{name}` is truncated")
    return data


def _size(archive: zipfile.ZipFile) -> int:
    file = archive.fp
    assert file is not None
    position = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(position)
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


def manifest_digest(manifest: _Json, code: Iterable[bytes] = ()) -> str:
    """SHA-256 of the manifest without its digest, and of the code."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for data in code:
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
