"""File format of compiled models for CPUs, ``.rxm``: machine code and weights."""

import io
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.runtime.container import (
    add_member,
    archive_writer,
    open_archive,
    read_constants,
    read_manifest,
    read_member,
    write_members,
)
from relax_mlir.runtime.cpu_features import Machine
from relax_mlir.runtime.derived_constants import (
    Derivation,
    derivation_of_fields,
    with_derived,
)
from relax_mlir.runtime.machine_code import MachineCode
from relax_mlir.runtime.profile import KernelCall

__all__ = [
    "Contents",
    "add_member",
    "open_archive",
    "pack",
    "read_archive",
    "read_member",
    "unpack",
    "write_archive",
]

_FORMAT = 5
_MANIFEST = "manifest.json"
_LIBRARY, _OBJECT, _ADDRESSES = "code.so", "objects/{}.o", "addresses.o"


@dataclass(frozen=True)
class Contents:
    """The contents of a file.

    Attributes:
        code: its machine code; that of nothing but constants is empty.
        signature: fields of the signature in JSON form.
        machine: the target of the code.
        constants: the weights by key.
        threads: maximum number of threads per call.
        kernels: kernel calls of ``main``, in order.
        derivations: of weights, by key; those of the given sources are not stored.
        functions: names of the registered functions that the code calls.
    """

    code: MachineCode
    signature: Mapping[str, Any]  # Any: JSON
    machine: Machine
    constants: Mapping[str, np.ndarray]
    threads: int
    kernels: tuple[KernelCall, ...] = ()
    derivations: Mapping[str, Derivation] = field(default_factory=dict)
    functions: tuple[str, ...] = ()


def write_archive(
    target: str | os.PathLike[str] | BinaryIO, contents: Contents
) -> None:
    """Write a file atomically, or write to an open one.

    Raises:
        OSError: the file cannot be written.
    """
    with archive_writer(target) as archive:
        _write(archive, contents)


def pack(contents: Contents) -> bytes:
    """The bytes that :func:`write_archive` writes."""
    file = io.BytesIO()
    with archive_writer(file) as archive:
        _write(archive, contents)
    return file.getvalue()


def _write(archive: zipfile.ZipFile, contents: Contents) -> None:
    manifest = {
        "format": _FORMAT,
        "signature": contents.signature,
        "machine": asdict(contents.machine),
        "threads": contents.threads,
        "kernels": [asdict(kernel) for kernel in contents.kernels],
        "functions": contents.functions,
        "derived": {k: asdict(d) for k, d in contents.derivations.items()},
    }
    objects = {_OBJECT.format(n): o for n, o in enumerate(contents.code.objects)}
    parts = {_LIBRARY: contents.code.library, _ADDRESSES: contents.code.addresses}
    code = {name: data for name, data in {**objects, **parts}.items() if data}
    constants = contents.constants
    stored = {k: a for k, a in constants.items() if k not in contents.derivations}
    write_members(archive, _MANIFEST, manifest, code, stored)


def read_archive(path: str | os.PathLike[str]) -> Contents:
    """Read a file, with verification of its digest.

    Raises:
        ModelError: the file is missing, damaged, or of another version.
    """
    with open_archive(path) as archive:
        return _contents(archive)


def unpack(data: bytes) -> Contents:
    """Inverse of :func:`pack`.

    Raises:
        ValueError: the data are damaged, or of another version.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _contents(archive)


def _contents(archive: zipfile.ZipFile) -> Contents:
    manifest, code = read_manifest(archive, _MANIFEST, _FORMAT)
    machine = manifest["machine"]
    library, addresses = (code.pop(name, b"") for name in (_LIBRARY, _ADDRESSES))
    objects = tuple(code.pop(_OBJECT.format(number)) for number in range(len(code)))
    fields = manifest["derived"].items()
    derivations = {key: derivation_of_fields(value) for key, value in fields}
    return Contents(
        MachineCode(library, objects, addresses),
        manifest["signature"],
        Machine(machine["triple"], machine["cpu"], tuple(machine["features"])),
        with_derived(read_constants(archive, manifest), derivations),
        manifest["threads"],
        tuple(map(KernelCall.from_fields, manifest["kernels"])),
        derivations,
        tuple(map(str, manifest["functions"])),
    )
