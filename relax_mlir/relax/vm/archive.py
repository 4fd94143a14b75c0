"""Files of compiled modules with several functions, or with a host program.

A zip archive, stored: ``vm.json`` says what the rest is, and holds the host program as
data, with a SHA-256 over itself. Machine code and constants are members of their own, in
the format of compiled models. Loading checks all of it and runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from relax_mlir.errors import RunError
from relax_mlir.files import whole_file
from relax_mlir.relax.vm.executable import Code, HostCode, VMExecutable
from relax_mlir.relax.vm.host_program import HostFunction, HostProgram
from relax_mlir.relax.vm.host_verifier import Callees, check_program
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
from relax_mlir.runtime.source_model import SourceModel
from relax_mlir.targets import Target

__all__ = ["load", "save"]

_FORMAT = 6
_MANIFEST = "vm.json"


def save(
    path: str | os.PathLike[str], executable: VMExecutable | KernelModule | StagedModel
) -> None:
    """Write a file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    are_kernels = isinstance(executable, KernelModule)
    signature, source = None, None
    if isinstance(executable, KernelModule):
        executable = VMExecutable({}, HostCode(programs=executable.kernels))
    elif isinstance(executable, StagedModel):
        signature, source = asdict(executable.signature), executable.source
        executable = executable.executable
    host, options = executable.host, executable.options
    manifest = {
        "format": _FORMAT,
        "are_kernels": are_kernels,
        "signature": signature,
        "target": _fields(options.target),
        "precision": options.precision,
        "library": options.library,
        "winograd": options.winograd,
        "checks": options.checks,
        "threads": options.threads,
        "codes": {n: [list(c.params), c.nest] for n, c in executable.codes.items()},
        "segments": {n: [list(c.params), c.nest] for n, c in host.segments.items()},
        "programs": {
            n: [k.name, list(k.written), k.asserted and k.asserted.to_json()]
            for n, k in host.programs.items()
        },
        "shown": {n: list(params) for n, params in executable.shown.items()},
        "host": host.program.to_json(),
    }
    constants = {**host.constants, **(source.constants() if source else {})}
    try:
        manifest = json.loads(json.dumps(manifest))
    except TypeError as error:  # of an executable that was made by hand
        raise RunError(f"save: the executable cannot be written: {error}") from error
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
        add_member(archive, "constants", pack(_of_constants(constants)))


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
        manifest = _manifest(archive)
        contents = {
            kind: {
                name: _unpacked(read_member(archive, f"{kind}/{name}"))
                for name in manifest[kind]
            }
            for kind in ("codes", "segments", "programs")
        }
        constants = unpack(read_member(archive, "constants")).constants
        described = _Described.of(manifest, threads)
    # Code for another machine is refused by an error of its own: it is not damaged.
    loaded = {
        kind: {n: _loaded(c, str(path), threads) for n, c in members.items()}
        for kind, members in contents.items()
    }
    with opened(path):
        return described.executable(loaded, constants)


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    """What the file says of itself.

    Raises:
        ValueError: it is damaged, or of another version.
    """
    manifest = json.loads(read_member(archive, _MANIFEST))
    if manifest["format"] != _FORMAT:
        raise ValueError(
            f"expected format {_FORMAT}, got {manifest['format']}. Compile it again"
        )
    if manifest.pop("digest") != _digest(manifest):
        raise ValueError("the code is not what was written")
    return manifest


@dataclass(frozen=True)
class _Described:
    """A manifest, checked as far as it can be without the machine code.

    Attributes:
        manifest: its fields, as JSON holds them.
        program: the host program.
        asserted: by tensor program, what checks its arguments.
        options: how what is compiled when it runs is compiled.
        signature: of a model parts of which are compiled when it runs.
    """

    manifest: Mapping[str, Any]
    program: HostProgram
    asserted: Mapping[str, HostFunction | None]
    options: StageOptions
    signature: Signature | None

    @staticmethod
    def of(manifest: Mapping[str, Any], threads: int | None) -> _Described:
        """What a manifest says.

        Raises:
            Exception: of whatever kind, it is damaged.
        """
        target, signature = manifest["target"], manifest["signature"]
        options = StageOptions(
            target=target if isinstance(target, str) else Target(**target),
            precision=manifest["precision"],
            library=manifest["library"],
            winograd=manifest["winograd"],
            checks=manifest["checks"],
            threads=manifest["threads"] if threads is None else threads,
        )
        return _Described(
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
    ) -> VMExecutable | KernelModule | StagedModel:
        """What the file holds, ready to be called.

        Args:
            loaded: machine code by kind and name.
            constants: arrays by name.

        Raises:
            ValueError: the host program does not fit the rest.
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
        made = StagedModel(executable, self.signature)
        made.source = SourceModel.of_constants(constants)
        return made


def _asserted(name: str, fields: Any) -> HostFunction | None:
    """What checks the arguments of a tensor program.

    Raises:
        ValueError: it is damaged.
    """
    if fields is None:
        return None
    made = HostFunction.from_json(fields)
    check_program(HostProgram({name: made}), Callees({}, (), ()), {name: made.params})
    return made


def _kernel(
    name: str, code: CompiledModel, written: Any, asserted: HostFunction | None
) -> Kernel:
    """A tensor program.

    Raises:
        ValueError: what is said of its parameters does not fit its code.
    """
    count = len(code.signature.inputs)
    if any(type(n) is not int or not 0 <= n < count for n in written):
        raise ValueError(
            f"program `{name}`: expected numbers of {count} parameters that it writes, "
            f"got {written!r:.60}"
        )
    if asserted is not None and len(asserted.params) != count:
        raise ValueError(
            f"program `{name}`: expected a check of {count} parameters, got "
            f"{len(asserted.params)}"
        )
    return Kernel(name, code, tuple(written), asserted)


def _code(name: str, code: CompiledModel, params: Any, nest: Any) -> Code:
    """A function that is all machine code.

    Raises:
        ValueError: what is said of its parameters or results does not fit its code.
    """
    count = len(code.output_names)
    is_fit = isinstance(params, list) and all(isinstance(p, str) for p in params)
    if not is_fit or _leaves(nest) != count:
        raise ValueError(
            f"`{name}`: expected names of parameters, and {count} results, got "
            f"{params!r:.60} and {nest!r:.60}"
        )
    return Code(code, params, nest)


def _leaves(nest: Any) -> int:
    """How many tensors a nested result has.

    Raises:
        ValueError: it is neither None nor a list.
    """
    if nest is None:
        return 1
    if not isinstance(nest, list):
        raise ValueError(f"expected nested results, got {nest!r:.60}")
    return sum(map(_leaves, nest))
