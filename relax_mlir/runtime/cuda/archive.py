"""The file format of compiled models for NVIDIA GPUs, ``.rxm``.

A zip archive as that of models for CPUs: a plan, PTX and weights. It is a program as
well: it carries the sources of its runtime, so that ``python model.rxm`` runs it where
there are only Python, numpy and the driver.
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
    opened,
    read_constants,
    read_manifest,
    write_members,
    writing,
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

MANIFEST = "cuda.json"  # a member that only such files have

_FORMAT = 2
_PTX = "kernels/{}.ptx"
_CHIP = re.compile("sm_[0-9]{2,3}a?")

# What runs a model, and needs nothing but the standard library and numpy.
_SOURCES = (
    "relax_mlir.dialects.constraints",
    "relax_mlir.dialects.convolution_shapes",
    "relax_mlir.dialects.dim_bounds",
    "relax_mlir.dialects.dim_text",
    "relax_mlir.dialects.dims",
    "relax_mlir.dialects.intervals",
    "relax_mlir.dialects.monomials",
    "relax_mlir.dialects.symbols",
    "relax_mlir.errors",
    "relax_mlir.files",
    "relax_mlir.runtime.compiled_model",
    "relax_mlir.runtime.container",
    "relax_mlir.runtime.cuda.__main__",
    "relax_mlir.runtime.cuda.archive",
    "relax_mlir.runtime.cuda.arguments",
    "relax_mlir.runtime.cuda.arrays",
    "relax_mlir.runtime.cuda.calls",
    "relax_mlir.runtime.cuda.captured",
    "relax_mlir.runtime.cuda.convolutions",
    "relax_mlir.runtime.cuda.convolver",
    "relax_mlir.runtime.cuda.copies",
    "relax_mlir.runtime.cuda.cublaslt",
    "relax_mlir.runtime.cuda.cudnn",
    "relax_mlir.runtime.cuda.devices",
    "relax_mlir.runtime.cuda.dlpack",
    "relax_mlir.runtime.cuda.driver",
    "relax_mlir.runtime.cuda.executable",
    "relax_mlir.runtime.cuda.given",
    "relax_mlir.runtime.cuda.growing_memory",
    "relax_mlir.runtime.cuda.launches",
    "relax_mlir.runtime.cuda.libraries",
    "relax_mlir.runtime.cuda.loading",
    "relax_mlir.runtime.cuda.memory",
    "relax_mlir.runtime.cuda.modules",
    "relax_mlir.runtime.cuda.multiplier",
    "relax_mlir.runtime.cuda.plan",
    "relax_mlir.runtime.cuda.plan_checks",
    "relax_mlir.runtime.cuda.pointers",
    "relax_mlir.runtime.cuda.products",
    "relax_mlir.runtime.cuda.rivals",
    "relax_mlir.runtime.cuda.session",
    "relax_mlir.runtime.cuda.shared_libraries",
    "relax_mlir.runtime.cuda.tensor_maps",
    "relax_mlir.runtime.cuda.trial",
    "relax_mlir.runtime.elements",
    "relax_mlir.runtime.model_file",
    "relax_mlir.runtime.process_exit",
    "relax_mlir.runtime.profile",
    "relax_mlir.runtime.signature",
    "relax_mlir.runtime.signing",
    "relax_mlir.runtime.sizes",
)
# Packages that are more than their modules at home, and nothing more there.
_PACKAGES = ("relax_mlir", "relax_mlir.dialects", "relax_mlir.runtime")
_PACKAGES += ("relax_mlir.runtime.cuda",)
_START = "relax_mlir.runtime.cuda.__main__"


@dataclass(frozen=True)
class Check:
    """What a model computes from some random inputs, on another machine.

    Attributes:
        seed: of the inputs; sizes: of their open dimensions.
        tolerance: largest difference, relative to the scale of an output.
        outputs: that were computed there.
    """

    seed: int
    sizes: Mapping[str, int]
    tolerance: float
    outputs: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Contents:
    """What a file holds.

    Attributes:
        ptx: of every program of the plan.
        plan: what ``main`` does.
        signature: fields of the signature, as JSON holds them.
        chip: what the code is for, such as ``sm_90a``.
        constants: the weights by key.
        kernels: that ``main`` calls, in order.
        check: what it is to compute, if somebody has said so.
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
    """Write a file, whole or not at all; or to one that is open.

    Raises:
        OSError: it cannot be written.
    """
    with writing(target) as archive:
        _write(archive, contents)
        for name, source in _sources().items():
            add_member(archive, name, source)


def pack(contents: Contents) -> bytes:
    """The same for a part of another file, without the runtime."""
    file = io.BytesIO()
    with writing(file) as archive:
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
        "objects": len(contents.ptx),
        "check": None,
    }
    arrays = dict(contents.constants)
    if check is not None:
        manifest["check"] = [check.seed, dict(check.sizes), check.tolerance]
        arrays |= {_check_name(n): a for n, a in enumerate(check.outputs)}
    ptx = {_PTX.format(n): text for n, text in enumerate(contents.ptx)}
    write_members(archive, MANIFEST, manifest, ptx, arrays)


def _check_name(number: int) -> str:
    """The key of an output among the weights; no other has a line's end in it."""
    return f"\n{number}"


def _sources() -> dict[str, bytes]:
    """The runtime, by the names that its files have in an archive."""
    found = {f"{p.replace('.', '/')}/__init__.py": b"" for p in _PACKAGES}
    for name in _SOURCES:
        found[f"{name.replace('.', '/')}.py"] = _source(name)
    return {**found, "__main__.py": _source(_START)}


def _source(name: str) -> bytes:
    """The text of a module of ours, which may itself be in an archive."""
    spec = importlib.util.find_spec(name)
    loader: Any = None if spec is None else spec.loader  # Any: of files, or of archives
    source = None if loader is None else loader.get_source(name)
    if source is None:
        raise ModelError(f"`{name}`: its source is not there, which the file carries")
    return source.encode()


def read_archive(path: str | os.PathLike[str]) -> Contents:
    """Read a file and check that it is what was written.

    Raises:
        ModelError: there is no such file, it is damaged, or of another version.
    """
    with opened(path) as archive:
        return _read(archive)


def is_packed(data: bytes) -> bool:
    """Whether bytes are what :func:`pack` makes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return MANIFEST in archive.namelist()


def unpack(data: bytes) -> Contents:
    """What :func:`pack` made.

    Raises:
        ValueError: it is damaged, or of another version.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return _read(archive)


def _read(archive: zipfile.ZipFile) -> Contents:
    manifest, ptx = read_manifest(archive, MANIFEST, _FORMAT, _PTX)
    arrays = read_constants(archive, manifest)
    signature, check = manifest["signature"], None
    if manifest["check"] is not None:
        seed, sizes, tolerance = manifest["check"]
        count = len(signature["outputs"])
        outputs = tuple(arrays.pop(_check_name(n)) for n in range(count))
        check = Check(seed, sizes, tolerance, outputs)
    plan = Plan.from_fields(manifest["plan"])
    kernels = tuple(map(KernelCall.from_fields, manifest["kernels"]))
    found = Contents(ptx, plan, signature, manifest["chip"], arrays, kernels, check)
    _check(found)
    return found


def _check(contents: Contents) -> None:
    """Refuse what no compiler has made.

    Raises:
        ValueError: a part is not what it must be, or does not fit another.
    """
    if not _CHIP.fullmatch(contents.chip):
        raise ValueError(f"code for {contents.chip!r}")
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
