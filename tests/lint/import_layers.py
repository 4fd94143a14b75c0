"""Runs import-linter on the package with ``dialects`` inside, as a wheel has it.

import-linter lists the modules of a package's folder; in a source tree, those of
``relax_mlir.dialects`` are beside it. Run by ``make lint``.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from importlinter import cli

__all__ = ["installed_layout"]

ROOT = Path(__file__).parents[2]


@contextmanager
def installed_layout() -> Iterator[Path]:
    """A temporary folder that holds ``relax_mlir`` as a wheel installs it, made of links."""
    with TemporaryDirectory() as folder:
        package = Path(folder) / "relax_mlir"
        package.mkdir()
        for path in (*(ROOT / "relax_mlir").iterdir(), ROOT / "dialects"):
            if path.suffix == ".py" or (path / "__init__.py").exists():
                (package / path.name).symlink_to(path)
        yield Path(folder)


def main() -> int:
    """Check the contracts of ``pyproject.toml``; 1 if one is broken."""
    with installed_layout() as folder:
        os.chdir(folder)  # where import-linter looks first
        try:
            return cli.lint_imports(
                str(ROOT / "pyproject.toml"),
                cache_dir=str(ROOT / ".import_linter_cache"),
                no_logo=True,
            )
        finally:
            os.chdir(ROOT)


if __name__ == "__main__":
    sys.exit(main())
