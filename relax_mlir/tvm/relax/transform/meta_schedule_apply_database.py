"""``MetaScheduleApplyDatabase``: attaches a tuning database to a module."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mlir import ir

from relax_mlir.compiler.tuning.database import TUNING, TuningDatabase
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.meta_schedule_tune_tir import DATABASE_FILE

__all__ = ["MetaScheduleApplyDatabase"]


@dataclass(frozen=True)
class MetaScheduleApplyDatabase(Pass):
    """Makes compilation of a module use the tuning database of a directory.

    Kernels exist only after fusion, so the module just gets the path of the database as the
    attribute ``relax.tuning``, which the compiler reads.

    Args:
        work_dir: the working directory of ``MetaScheduleTuneTIR``.
        enable_warning: accepted and without effect.

    Raises:
        PassError: ``work_dir`` is missing.
        OSError: the directory has no database.
        TuningError: the database is damaged.
    """

    known_as: ClassVar[str] = "MetaScheduleApplyDatabase"
    work_dir: str | os.PathLike[str] | None = field(
        default=None, metadata={"text": False}
    )
    enable_warning: bool = field(default=False, metadata={"text": False})

    def run(self, module: IRModule) -> None:
        if self.work_dir is None:
            raise PassError("`MetaScheduleApplyDatabase`: expected `work_dir`")
        path = Path(self.work_dir).absolute() / DATABASE_FILE
        TuningDatabase.read(path)
        name = ir.StringAttr.get(str(path), module.context)
        module.mlir.operation.attributes[TUNING] = name
