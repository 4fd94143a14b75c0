"""Files of compiled modules with several functions, or with Python around machine code.

A zip archive, stored: ``vm.json`` says what the rest is, with a SHA-256 over itself and
the Python, because code that is not what was written might do anything. Machine code and
constants are members of their own, in the format of compiled models.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from relax_mlir.files import whole_file
from relax_mlir.relax.vm.executable import Code, HostCode, VMExecutable
from relax_mlir.relax.vm.kernels import Kernel, KernelModule
from relax_mlir.relax.vm.stage_options import StageOptions
from relax_mlir.relax.vm.staged_model import StagedModel
from relax_mlir.runtime.archive import (
    Contents,
    add_member,
    opened,
    pack,
    read_member,
    unpack,
)
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda import archive as cuda_archive
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.executable import Executable
from relax_mlir.runtime.machine import Machine
from relax_mlir.runtime.signature import Signature
from relax_mlir.targets import Target

__all__ = ["load", "save"]

_FORMAT = 4
_MANIFEST = "vm.json"


def save(
    path: str | os.PathLike[str], executable: VMExecutable | KernelModule | StagedModel
) -> None:
    """Write a file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    are_kernels = isinstance(executable, KernelModule)
    signature = None
    if isinstance(executable, KernelModule):
        executable = VMExecutable({}, HostCode(programs=executable.kernels))
    elif isinstance(executable, StagedModel):
        signature = asdict(executable.signature)
        executable = executable.executable
    host, options = executable.host, executable.options
    manifest = {
        "format": _FORMAT,
        "are_kernels": are_kernels,
        "signature": signature,
        "target": _fields(options.target),
        "precision": options.precision,
        "library": options.library,
        "threads": options.threads,
        "codes": {n: [list(c.params), c.nest] for n, c in executable.codes.items()},
        "segments": {n: [list(c.params), c.nest] for n, c in host.segments.items()},
        "programs": {
            n: [k.name, list(k.written), [list(a) for a in k.asserted]]
            for n, k in host.programs.items()
        },
        "shown": {n: list(params) for n, params in executable.shown.items()},
        "text": host.text,
        "script": executable.as_text(),
    }
    manifest = json.loads(json.dumps(manifest))
    manifest["digest"] = _digest(manifest)
    members = {
        **{f"codes/{n}": c.executable for n, c in executable.codes.items()},
        **{f"segments/{n}": c.executable for n, c in host.segments.items()},
        **{f"programs/{n}": k.code for n, k in host.programs.items()},
    }
    with (
        whole_file(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        add_member(archive, _MANIFEST, json.dumps(manifest).encode())
        for name, code in members.items():
            add_member(archive, name, _packed(code))
        add_member(archive, "constants", pack(_of_constants(host.constants)))


def _packed(code: CompiledModel) -> bytes:
    """Machine code as a member of a file."""
    if isinstance(code, CudaExecutable):
        return cuda_archive.pack(code.contents)
    assert isinstance(code, Executable)
    return pack(code.contents())


def _unpacked(data: bytes) -> Contents | cuda_archive.Contents:
    """What :func:`_packed` packed.

    Raises:
        ValueError: it is damaged, or of another version.
    """
    if cuda_archive.is_packed(data):
        return cuda_archive.unpack(data)
    return unpack(data)


def _loaded(
    contents: Contents | cuda_archive.Contents, path: str, threads: int | None
) -> CompiledModel:
    """Machine code, ready to be called.

    Raises:
        CompileError: it is for another machine, or cannot be loaded.
    """
    if isinstance(contents, cuda_archive.Contents):
        return CudaExecutable(contents)
    return Executable.of_contents(contents, path, threads)


def _fields(target: str | Target) -> str | Mapping[str, Any]:
    """A target as JSON holds it."""
    return target if isinstance(target, str) else asdict(target)


def _of_constants(constants: Mapping[str, np.ndarray]) -> Contents:
    """Arrays as a model without code."""
    return Contents((), {}, Machine("", "", ()), constants, 1)


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def load(
    path: str | os.PathLike[str], threads: int | None
) -> VMExecutable | KernelModule | StagedModel:
    """Read what :func:`save` wrote.

    Args:
        path: of the file.
        threads: how many may work on one call; None: as many as when it was written.

    Raises:
        ModelError: the file is damaged, or of another version.
        CompileError: its code is for another machine, or cannot be loaded.
    """
    with opened(path) as archive:
        manifest = json.loads(read_member(archive, _MANIFEST))
        if manifest["format"] != _FORMAT:
            raise ValueError(
                f"expected format {_FORMAT}, got {manifest['format']}. Compile it again"
            )
        if manifest.pop("digest") != _digest(manifest):
            raise ValueError("the code is not what was written")
        contents = {
            (kind, name): _unpacked(read_member(archive, f"{kind}/{name}"))
            for kind in ("codes", "segments", "programs")
            for name in manifest[kind]
        }
        constants = unpack(read_member(archive, "constants")).constants
    loaded = {k: _loaded(c, str(path), threads) for k, c in contents.items()}

    def codes(kind: str) -> dict[str, Code]:
        return {
            name: Code(loaded[kind, name], params, nest)
            for name, (params, nest) in manifest[kind].items()
        }

    programs = {
        name: Kernel(
            called,
            loaded["programs", name],
            tuple(written),
            tuple((condition, message) for condition, message in asserted),
        )
        for name, (called, written, asserted) in manifest["programs"].items()
    }
    if manifest["are_kernels"]:
        return KernelModule(programs)
    host = HostCode(manifest["text"], codes("segments"), programs, constants)
    shown, script = manifest["shown"], manifest["script"]
    target = manifest["target"]
    options = StageOptions(
        target=target if isinstance(target, str) else Target(**target),
        precision=manifest["precision"],
        library=manifest["library"],
        threads=manifest["threads"] if threads is None else threads,
    )
    executable = VMExecutable(codes("codes"), host, shown, script, options)
    if manifest["signature"] is None:
        return executable
    return StagedModel(executable, Signature.from_fields(manifest["signature"]))
