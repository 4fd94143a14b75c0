"""File format of compiled models for NVIDIA GPUs, ``.rxm``.

A zip archive like that of models for CPUs, with a launch plan, PTX and weights. It is also
executable: it bundles the sources of its runtime, so that ``python model.rxm`` runs it with
only Python, numpy and the driver.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO

import numpy as np

from relax_mlir.errors import ModelError
from relax_mlir.runtime.container import (
    add_member,
    archive_writer,
    open_archive,
    read_constants,
    read_manifest,
    write_members,
)
from relax_mlir.runtime.cuda.plan import Plan
from relax_mlir.runtime.cuda.plan_checks import check_plan
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.runtime.signature import Signature
from relax_mlir.runtime.sizes import SizeBinder

__all__ = [
    "MANIFEST",
    "Check",
    "Contents",
    "is_packed",
    "pack",
    "read_archive",
    "unpack",
    "write_archive",
]

MANIFEST = "cuda.json"  # identifies the format

_FORMAT = 3
_PTX = "kernels/{}.ptx"
_CHIP = re.compile("sm_[0-9]{2,3}a?")

# Modules of the runtime, which need only the standard library and numpy.
_SOURCES = (
    "relax_mlir.symbolic.constraints",
    "relax_mlir.symbolic.convolution_shapes",
    "relax_mlir.symbolic.bounds",
    "relax_mlir.symbolic.text",
    "relax_mlir.symbolic.dims",
    "relax_mlir.symbolic.intervals",
    "relax_mlir.symbolic.monomials",
    "relax_mlir.symbolic.symbols",
    "relax_mlir.errors",
    "relax_mlir.support.files",
    "relax_mlir.runtime.compiled_model",
    "relax_mlir.runtime.container",
    "relax_mlir.runtime.cuda.__main__",
    "relax_mlir.runtime.cuda.archive",
    "relax_mlir.runtime.cuda.kernel_arguments",
    "relax_mlir.runtime.cuda.arrays",
    "relax_mlir.runtime.cuda.call_queue",
    "relax_mlir.runtime.cuda.cuda_graph",
    "relax_mlir.runtime.cuda.conv_descriptors",
    "relax_mlir.runtime.cuda.cudnn_conv",
    "relax_mlir.runtime.cuda.strided_copy",
    "relax_mlir.runtime.cuda.cublaslt",
    "relax_mlir.runtime.cuda.cudnn",
    "relax_mlir.runtime.cuda.devices",
    "relax_mlir.runtime.cuda.dlpack",
    "relax_mlir.runtime.cuda.driver",
    "relax_mlir.runtime.cuda.executable",
    "relax_mlir.runtime.cuda.input_validation",
    "relax_mlir.runtime.cuda.virtual_memory",
    "relax_mlir.runtime.cuda.launches",
    "relax_mlir.runtime.cuda.libraries",
    "relax_mlir.runtime.cuda.loading",
    "relax_mlir.runtime.cuda.memory",
    "relax_mlir.runtime.cuda.modules",
    "relax_mlir.runtime.cuda.cublaslt_matmul",
    "relax_mlir.runtime.cuda.plan",
    "relax_mlir.runtime.cuda.plan_checks",
    "relax_mlir.runtime.cuda.pointers",
    "relax_mlir.runtime.cuda.matmul_descriptors",
    "relax_mlir.runtime.cuda.library_baselines",
    "relax_mlir.runtime.cuda.session",
    "relax_mlir.runtime.cuda.shared_libraries",
    "relax_mlir.runtime.cuda.tensor_maps",
    "relax_mlir.runtime.cuda.smoke_run",
    "relax_mlir.runtime.elements",
    "relax_mlir.runtime.jit_statistics",
    "relax_mlir.runtime.model_file",
    "relax_mlir.runtime.process_exit",
    "relax_mlir.runtime.profile",
    "relax_mlir.runtime.serializable",
    "relax_mlir.runtime.signature",
    "relax_mlir.runtime.signing",
    "relax_mlir.runtime.sizes",
)
# Packages, which are empty in the archive.
_PACKAGES = tuple(sorted({n.rpartition(".")[0] for n in _SOURCES} | {"relax_mlir"}))
_MAIN_MODULE = "relax_mlir.runtime.cuda.__main__"


@dataclass(frozen=True)
class Check:
    """Expected outputs of a model for random inputs, computed on another machine.

    Attributes:
        seed: of the inputs; sizes: values of their symbolic sizes.
        tolerance: largest difference, relative to the scale of an output.
        outputs: the expected values.
    """

    seed: int
    sizes: Mapping[str, int]
    tolerance: float
    outputs: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Contents:
    """The contents of a file.

    Attributes:
        ptx: of every program of the plan.
        plan: the launch plan of ``main``.
        signature: fields of the signature in JSON form.
        chip: the target of the code, such as ``sm_90a``.
        constants: the weights by key.
        kernels: kernel calls of ``main``, in order.
        check: expected outputs; None if unknown.
    """

    ptx: tuple[bytes, ...]
    plan: Plan
    signature: Mapping[str, Any]  # Any: JSON
    chip: str
    constants: Mapping[str, np.ndarray]
    kernels: tuple[KernelCall, ...] = ()
    check: Check | None = field(default=None, compare=False)


def write_archive(
    target: str | os.PathLike[str] | BinaryIO, contents: Contents
) -> None:
    """Write a file atomically, or write to an open one.

    Raises:
        OSError: the file cannot be written.
    """
    with archive_writer(target) as archive:
        _write(archive, contents)
        for name, source in _sources().items():
            add_member(archive, name, source)


def pack(contents: Contents) -> bytes:
    """The serialised form as a member of another archive, without the runtime."""
    file = io.BytesIO()
    with archive_writer(file) as archive:
        _write(archive, contents)
    return file.getvalue()


def _write(archive: zipfile.ZipFile, contents: Contents) -> None:
    check = contents.check
    manifest: dict[str, Any] = {  # Any: JSON
        "format": _FORMAT,
        "signature": contents.signature,
        "chip": contents.chip,
        "plan": contents.plan.fields(),
        "kernels": [asdict(kernel) for kernel in contents.kernels],
        "check": None,
    }
    arrays = dict(contents.constants)
    if check is not None:
        manifest["check"] = [check.seed, dict(check.sizes), check.tolerance]
        arrays |= {_check_name(n): a for n, a in enumerate(check.outputs)}
    ptx = {_PTX.format(n): text for n, text in enumerate(contents.ptx)}
    write_members(archive, MANIFEST, manifest, ptx, arrays)


def _check_name(number: int) -> str:
    """Key of an expected output among the weights; no other key contains a newline."""
    return f"\n{number}"


def _sources() -> dict[str, bytes]:
    """Sources of the runtime, by member name."""
    sources = {f"{p.replace('.', '/')}/__init__.py": b"" for p in _PACKAGES}
    for name in _SOURCES:
        sources[f"{name.replace('.', '/')}.py"] = _source(name)
    return {**sources, "__main__.py": _source(_MAIN_MODULE)}


def _source(name: str) -> bytes:
    """Source of a module, which may itself be in an archive."""
    spec = importlib.util.find_spec(name)
    loader: Any = None if spec is None else spec.loader  # Any: file or zip loader
    source = None if loader is None else loader.get_source(name)
    if source is None:
        raise ModelError(f"`{name}`: its source is missing, which the file bundles")
    return source.encode()


def read_archive(path: str | os.PathLike[str]) -> Contents:
    """Read a file, with verification of its digest and plan.

    Raises:
        ModelError: the file is missing, damaged, or of another version.
    """
    with open_archive(path) as archive:
        return _read(archive)


def is_packed(data: bytes) -> bool:
    """Whether data are a result of :func:`pack`."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return MANIFEST in archive.namelist()


def unpack(data: bytes) -> Contents:
    """Inverse of :func:`pack`.

    Raises:
        ValueError: the data are damaged, or of another version.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _read(archive)


def _read(archive: zipfile.ZipFile) -> Contents:
    manifest, code = read_manifest(archive, MANIFEST, _FORMAT)
    ptx = tuple(code[_PTX.format(number)] for number in range(len(code)))
    arrays = read_constants(archive, manifest)
    signature, check = manifest["signature"], None
    if manifest["check"] is not None:
        seed, sizes, tolerance = manifest["check"]
        count = len(signature["outputs"])
        outputs = tuple(arrays.pop(_check_name(n)) for n in range(count))
        check = Check(seed, sizes, tolerance, outputs)
    plan = Plan.from_fields(manifest["plan"])
    kernels = tuple(map(KernelCall.from_fields, manifest["kernels"]))
    contents = Contents(ptx, plan, signature, manifest["chip"], arrays, kernels, check)
    _check(contents)
    return contents


def _check(contents: Contents) -> None:
    """Verify the contents of a file.

    Raises:
        ValueError: a part is invalid, or inconsistent with another.
    """
    if not _CHIP.fullmatch(contents.chip):
        raise ValueError(f"unknown chip {contents.chip!r}")
    signature = Signature.from_fields(contents.signature)
    SizeBinder(signature)
    counts = {
        "input": len(signature.inputs),
        "output": len(signature.outputs),
        "constant": len(signature.constants),
        "arena": 1,
    }
    kernels = len(contents.kernels)
    check_plan(contents.plan, contents.ptx, counts, signature.symbols, kernels)
