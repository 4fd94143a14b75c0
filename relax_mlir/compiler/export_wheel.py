"""Export of models to wheels, which need numpy alone.

Source of the format: the binary distribution format of the Python packaging specifications.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import tempfile
import zipfile
from collections.abc import Sequence
from inspect import getsource
from pathlib import Path
from string import Template
from typing import Any

from relax_mlir.codegen.object_code import host_cpu
from relax_mlir.compiler.export import export
from relax_mlir.runtime import exported_library
from relax_mlir.support.files import atomic_file, check_writable

__all__ = ["export_wheel"]

_VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")
_LIBRARY = "model.so"


def export_wheel(
    mod: Any,  # Any: modules, functions, models
    folder: str | os.PathLike[str],
    *,
    name: str,
    version: str = "0.1.0",
    targets: Sequence[str] | None = None,
    **options: Any,  # Any: arguments of `export`
) -> tuple[Path, list[str]]:
    """Compile a model to a wheel: ``import name; name.run(array)``.

    Args:
        mod: as for :func:`relax_mlir.compile`.
        folder: where the wheel is written.
        name: of the package, an identifier.
        version: of the distribution.
        targets: as for :func:`relax_mlir.export`.
        options: further arguments of :func:`relax_mlir.export`.

    Returns:
        The path of the wheel, and the targets that it has code for.

    Raises:
        ValueError: the name or the version is not valid.
        UnsupportedError, CompileError, OSError: as for :func:`relax_mlir.export`.
    """
    if not _VERSION.fullmatch(version):
        raise ValueError(
            f"export: version: expected one such as `1.0`, got `{version}`"
        )
    tag = f"py3-none-{_platform_tag()}"
    wheel = Path(folder) / f"{name}-{version}-{tag}.whl"
    check_writable(wheel)
    with tempfile.TemporaryDirectory(prefix="relax_mlir-export-") as made:
        library = Path(made) / _LIBRARY
        kept = export(mod, library, targets=targets, name=name, **options)
        info = f"{name}-{version}.dist-info"
        files = {
            f"{name}/__init__.py": _package(name).encode(),
            f"{name}/exported_library.py": getsource(exported_library).encode(),
            f"{name}/{_LIBRARY}": library.read_bytes(),
            f"{info}/METADATA": _METADATA.format(name=name, version=version).encode(),
            f"{info}/WHEEL": _WHEEL.format(tag=tag).encode(),
        }
    with atomic_file(wheel) as path, zipfile.ZipFile(path, "w", _DEFLATED) as archive:
        for file, data in {**files, **_record(files, f"{info}/RECORD")}.items():
            entry = zipfile.ZipInfo(file)  # of the same time always
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, _DEFLATED)
    return wheel, kept


_DEFLATED = zipfile.ZIP_DEFLATED


def _platform_tag() -> str:
    """The systems whose C library the model runs with: this one's version, or a newer one."""
    architecture = host_cpu()[0].partition("-")[0]
    library, release = platform.libc_ver()
    if library != "glibc":
        return f"linux_{architecture}"
    return f"manylinux_{release.replace('.', '_')}_{architecture}"


def _record(files: dict[str, bytes], path: str) -> dict[str, bytes]:
    """The list of files with their digests."""
    lines: list[str] = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        lines.append(f"{name},sha256={digest.rstrip(b'=').decode()},{len(data)}\n")
    return {path: "".join([*lines, f"{path},,\n"]).encode()}


def _package(name: str) -> str:
    template = Path(__file__).with_name("exported_package.py.template").read_text()
    return Template(template).substitute(name=name)


_METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: A model exported by relax_mlir
Requires-Python: >=3.10
Requires-Dist: numpy>=1.26
"""

_WHEEL = """\
Wheel-Version: 1.0
Generator: relax_mlir
Root-Is-Purelib: false
Tag: {tag}
"""
