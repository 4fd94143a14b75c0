"""The file format of compiled models for CPUs, ``.rxm``: machine code and weights."""

import io
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.runtime.container import (
    add_member,
    opened,
    read_constants,
    read_manifest,
    read_member,
    write_members,
    writing,
)
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
_OBJECTS = "objects/{}.o"


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


def write_archive(
    target: str | os.PathLike[str] | BinaryIO, contents: Contents
) -> None:
    """Write a file, whole or not at all; or to one that is open.

    Raises:
        OSError: it cannot be written.
    """
    with writing(target) as archive:
        _write(archive, contents)


def pack(contents: Contents) -> bytes:
    """What :func:`write_archive` writes."""
    file = io.BytesIO()
    with writing(file) as archive:
        _write(archive, contents)
    return file.getvalue()


def _write(archive: zipfile.ZipFile, contents: Contents) -> None:
    manifest = {
        "format": _FORMAT,
        "signature": contents.signature,
        "machine": asdict(contents.machine),
        "threads": contents.threads,
        "kernels": [asdict(kernel) for kernel in contents.kernels],
        "objects": len(contents.code),
    }
    code = {_OBJECTS.format(n): data for n, data in enumerate(contents.code)}
    write_members(archive, _MANIFEST, manifest, code, contents.constants)


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


def _contents(archive: zipfile.ZipFile) -> Contents:
    manifest, code = read_manifest(archive, _MANIFEST, _FORMAT, _OBJECTS)
    machine = manifest["machine"]
    return Contents(
        code,
        manifest["signature"],
        Machine(machine["triple"], machine["cpu"], tuple(machine["features"])),
        read_constants(archive, manifest),
        manifest["threads"],
        tuple(map(KernelCall.from_fields, manifest["kernels"])),
    )
