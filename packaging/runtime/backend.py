"""Build backend of ``relax-mlir-runtime``: scikit-build-core, on a copy of its files.

In the repository the files stand in the tree of ``relax_mlir``, which holds the compiler, too;
in a source archive of the runtime they stand beside this module.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scikit_build_core import build

__all__ = [
    "FILES",
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

# What the runtime's wheel is built from, and the compiler's wheel leaves out.
FILES = (
    "CMakeLists.txt",
    "LICENSE",
    "relax_mlir/__init__.py",
    "relax_mlir/__main__.py",
    "relax_mlir/errors.py",
    "relax_mlir/py.typed",
    "relax_mlir/runtime",
    "relax_mlir/support",
    "relax_mlir/symbolic",
)
_Settings = dict[str, list[str] | str] | None

_HERE = Path(__file__).parent
_TREE = _HERE.parents[1]

get_requires_for_build_sdist = build.get_requires_for_build_sdist
get_requires_for_build_wheel = build.get_requires_for_build_wheel
get_requires_for_build_editable = build.get_requires_for_build_editable


def build_wheel(
    wheel_directory: str,
    config_settings: _Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel."""
    folder = os.path.abspath(wheel_directory)
    with _collected():
        return build.build_wheel(folder, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: _Settings = None) -> str:
    """Build a source archive."""
    folder = os.path.abspath(sdist_directory)
    with _collected():
        return build.build_sdist(folder, config_settings)


def build_editable(
    wheel_directory: str,
    config_settings: _Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the native runtime inside of the tree, and a wheel that is a path to it."""
    folder = os.path.abspath(wheel_directory)
    settings = {**(config_settings or {}), "cmake.source-dir": str(_TREE)}
    with _collected():
        return build.build_editable(folder, settings, metadata_directory)


@contextmanager
def _collected() -> Iterator[None]:
    """Make a folder with the files of the distribution the working directory."""
    if (_HERE / "relax_mlir").exists():  # an unpacked source archive
        yield
        return
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        built = shutil.ignore_patterns("__pycache__", "*.so", "*.o", ".*")
        shutil.copytree(_HERE, folder, ignore=built, dirs_exist_ok=True)
        for name in FILES:
            source, copy = _TREE / name, Path(folder, name)
            copy.parent.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=built)
            else:
                shutil.copy(source, copy)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
