"""File format of compiled modules with several functions, or with a host program.

An uncompressed zip archive. ``vm.json`` is the manifest: it describes the members, holds
the host program as data, and a SHA-256 of itself. Machine code and constants are members
in the format of compiled models. Loading verifies everything and executes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.errors import RunError
from relax_mlir.runtime.archive import (
    Contents,
    add_member,
    open_archive,
    pack,
    read_member,
    unpack,
)
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.container import (
    archive_writer,
    manifest_digest,
    read_manifest,
)
from relax_mlir.runtime.cpu_features import Machine
from relax_mlir.runtime.cuda import archive as cuda_archive
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.executable import Executable
from relax_mlir.runtime.host.jit_model import JITModel
from relax_mlir.runtime.host.jit_options import JITOptions
from relax_mlir.runtime.host.kernels import Kernel, KernelModule
from relax_mlir.runtime.host.program import HostFunction, HostProgram
from relax_mlir.runtime.host.verifier import Callees, check_program
from relax_mlir.runtime.host.vm_executable import (
    HostCode,
    NativeFunction,
    VMExecutable,
)
from relax_mlir.runtime.machine_code import MachineCode
from relax_mlir.runtime.signature import Signature
from relax_mlir.runtime.source_model import SourceModel

__all__ = ["load", "save"]

_FORMAT = 8
_MANIFEST = "vm.json"


def save(
    path: str | os.PathLike[str] | BinaryIO,
    executable: VMExecutable | KernelModule | JITModel,
) -> None:
    """Write a file atomically, or write to an open one.

    Raises:
        OSError: the file cannot be written.
    """
    are_kernels = isinstance(executable, KernelModule)
    signature, source = None, None
    if isinstance(executable, KernelModule):
        executable = VMExecutable({}, HostCode(programs=executable.kernels))
    elif isinstance(executable, JITModel):
        signature, source = executable.signature.to_fields(), executable.source
        executable = executable.executable
    host = executable.host
    constants = {**host.constants, **(source.constants() if source else {})}
    try:
        fields = _fields(executable, signature, are_kernels)
        manifest = json.loads(json.dumps(fields))
    except (AttributeError, TypeError) as error:  # of a manually constructed executable
        raise RunError(f"save: the executable cannot be written: {error}") from error
    manifest["digest"] = manifest_digest(manifest)
    members = {
        **{f"codes/{n}": c.executable for n, c in executable.codes.items()},
        **{f"segments/{n}": c.executable for n, c in host.segments.items()},
        **{f"programs/{n}": k.code for n, k in host.programs.items()},
    }
    with archive_writer(path) as archive:
        add_member(archive, _MANIFEST, json.dumps(manifest).encode())
        for name, code in members.items():
            add_member(archive, name, _packed(code))
        add_member(archive, "constants", pack(_constants_archive(constants)))


def _fields(
    executable: VMExecutable, signature: Any, are_kernels: bool
) -> dict[str, Any]:  # Any: JSON
    """The manifest of an executable."""
    host, options = executable.host, executable.options
    return {
        "format": _FORMAT,
        "code": [],  # that of the parts is in members of their own
        "are_kernels": are_kernels,
        "signature": signature,
        **options.to_fields(),
        "codes": {n: [list(c.params), c.nest] for n, c in executable.codes.items()},
        "segments": {n: [list(c.params), c.nest] for n, c in host.segments.items()},
        "programs": {
            n: [k.name, list(k.written), k.asserted and k.asserted.to_json()]
            for n, k in host.programs.items()
        },
        "shown": {n: list(params) for n, params in executable.hosted.items()},
        "host": host.program.to_json(),
    }


def _packed(code: CompiledModel) -> bytes:
    """A member of the archive: machine code in its serialised form."""
    if isinstance(code, CudaExecutable):
        return cuda_archive.pack(code.contents)
    assert isinstance(code, Executable)
    return pack(code.contents())


def _unpacked(data: bytes) -> Contents | cuda_archive.Contents:
    """Inverse of :func:`_packed`.

    Raises:
        ValueError: the member is damaged, or of another version.
    """
    if cuda_archive.is_packed(data):
        return cuda_archive.unpack(data)
    return unpack(data)


def _loaded(
    contents: Contents | cuda_archive.Contents, path: str, threads: int | None
) -> CompiledModel:
    """Load machine code into a callable model.

    Raises:
        CompileError: the code is for another machine, or cannot be loaded.
    """
    if isinstance(contents, cuda_archive.Contents):
        return CudaExecutable(contents)
    return Executable.of_contents(contents, path, threads)


def _constants_archive(constants: Mapping[str, np.ndarray]) -> Contents:
    """Constants as the archive of a model without code."""
    return Contents(MachineCode(), {}, Machine("", "", ()), constants, 1)


def load(
    path: str | os.PathLike[str], threads: int | None
) -> VMExecutable | KernelModule | JITModel:
    """Load a file that :func:`save` wrote.

    Args:
        path: of the file.
        threads: maximum number of threads per call; None for the saved value.

    Raises:
        ModelError: the file is damaged, or of another version.
        CompileError: its code is for another machine, or cannot be loaded.
    """
    with open_archive(path) as archive:
        manifest, _ = read_manifest(archive, _MANIFEST, _FORMAT)
        contents = {
            kind: {
                name: _unpacked(read_member(archive, f"{kind}/{name}"))
                for name in manifest[kind]
            }
            for kind in ("codes", "segments", "programs")
        }
        constants = unpack(read_member(archive, "constants")).constants
        verified = _Manifest.of(manifest, threads)
    # Outside of `open_archive`: code for another machine is not a damaged file.
    loaded = {
        kind: {n: _loaded(c, str(path), threads) for n, c in members.items()}
        for kind, members in contents.items()
    }
    with open_archive(path):
        return verified.executable(loaded, constants)


@dataclass(frozen=True)
class _Manifest:
    """A manifest, verified as far as possible without the machine code.

    Attributes:
        manifest: its fields in JSON form.
        program: the host program.
        asserted: the argument check of each kernel, by name.
        options: compile options of JIT-compiled subgraphs.
        signature: of a model with JIT-compiled subgraphs; else None.
    """

    manifest: Mapping[str, Any]
    program: HostProgram
    asserted: Mapping[str, HostFunction | None]
    options: JITOptions
    signature: Signature | None

    @staticmethod
    def of(manifest: Mapping[str, Any], threads: int | None) -> _Manifest:
        """Parse a manifest.

        Raises:
            Exception: of any type, if the manifest is damaged.
        """
        signature, options = manifest["signature"], JITOptions.from_fields(manifest)
        if threads is not None:
            options = replace(options, threads=threads)
        return _Manifest(
            manifest,
            HostProgram.from_json(manifest["host"]),
            {n: _asserted(n, a) for n, (_, _, a) in manifest["programs"].items()},
            options,
            None if signature is None else Signature.from_fields(signature),
        )

    def executable(
        self,
        loaded: Mapping[str, Mapping[str, CompiledModel]],
        constants: Mapping[str, np.ndarray],
    ) -> VMExecutable | KernelModule | JITModel:
        """Link the manifest with its machine code and constants.

        Args:
            loaded: machine code by kind and name.
            constants: arrays by name.

        Raises:
            ValueError: the host program is inconsistent with the other members.
        """
        programs = {
            name: _kernel(called, code, written, self.asserted[name])
            for name, (called, written, _) in self.manifest["programs"].items()
            for code in [loaded["programs"][name]]
        }
        if self.manifest["are_kernels"]:
            return KernelModule(programs)
        codes, segments = (
            {
                name: _code(name, loaded[kind][name], params, nest)
                for name, (params, nest) in self.manifest[kind].items()
            }
            for kind in ("codes", "segments")
        )
        host = HostCode(self.program, segments, programs, constants)
        executable = VMExecutable(codes, host, self.manifest["shown"], self.options)
        if self.signature is None:
            return executable
        model = JITModel(executable, self.signature)
        model.source = SourceModel.of_constants(constants)
        return model


def _asserted(name: str, fields: Any) -> HostFunction | None:
    """The argument check of a kernel, verified.

    Raises:
        ValueError: the check is damaged.
    """
    if fields is None:
        return None
    check = HostFunction.from_json(fields)
    program = HostProgram({name: check})
    check_program(program, Callees({}, (), ()), {name: check.params})
    return check


def _kernel(
    name: str, code: CompiledModel, written: Any, asserted: HostFunction | None
) -> Kernel:
    """A kernel.

    Raises:
        ValueError: its manifest entry is inconsistent with its code.
    """
    count = len(code.signature.inputs)
    if any(type(n) is not int or not 0 <= n < count for n in written):
        raise ValueError(
            f"program `{name}`: expected indices of written parameters, of {count}, got "
            f"{written!r:.60}"
        )
    if asserted is not None and len(asserted.params) != count:
        raise ValueError(
            f"program `{name}`: expected a check of {count} parameters, got "
            f"{len(asserted.params)}"
        )
    return Kernel(name, code, tuple(written), asserted)


def _code(name: str, code: CompiledModel, params: Any, nest: Any) -> NativeFunction:
    """A function that is compiled as a whole.

    Raises:
        ValueError: its manifest entry is inconsistent with its code.
    """
    count = len(code.output_names)
    is_valid = isinstance(params, list) and all(isinstance(p, str) for p in params)
    if not is_valid or _leaves(nest) != count:
        raise ValueError(
            f"`{name}`: expected names of parameters, and {count} results, got "
            f"{params!r:.60} and {nest!r:.60}"
        )
    return NativeFunction(code, params, nest)


def _leaves(nest: Any) -> int:
    """Number of tensors of a nested result.

    Raises:
        ValueError: the nesting is neither None nor a list.
    """
    if nest is None:
        return 1
    if not isinstance(nest, list):
        raise ValueError(f"expected nested results, got {nest!r:.60}")
    return sum(map(_leaves, nest))
