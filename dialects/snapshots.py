"""Exports the dialects as IRDL files for stock ``mlir-opt``; run by ``make irdl``.

``cat dialects/*.irdl.mlir > all.irdl.mlir; mlir-opt --irdl-file=all.irdl.mlir dump.mlir``
parses and verifies a dump at any level without Python.
"""

from pathlib import Path

from relax_mlir.dialects.ext import Dialect
from relax_mlir.dialects.relax import Relax
from relax_mlir.dialects.tir import Tir

__all__ = ["FOLDER", "snapshots", "write_snapshots"]

FOLDER = Path(__file__).parent

_HEADER = "// The {name} dialect in IRDL. Written by `make irdl`.\n"


def snapshots() -> dict[str, str]:
    """Maps file names to IRDL text, one file per dialect."""
    dialects: tuple[type[Dialect], ...] = (Relax, Tir)
    return {
        f"{d.DIALECT_NAMESPACE}.irdl.mlir": _HEADER.format(name=d.DIALECT_NAMESPACE)
        + d.irdl_text()
        for d in dialects
    }


def write_snapshots(folder: Path = FOLDER) -> None:
    """Writes all snapshots to ``folder``."""
    for name, text in snapshots().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_snapshots()
