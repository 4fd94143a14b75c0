"""``MetaScheduleApplyDatabase``: compile a module with what tuning has found."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from mlir import ir

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.relax.transform.meta_schedule_tune_tir import DATABASE
from relax_mlir.rewriting import Pass
from relax_mlir.tuning_database import TUNING, TuningDatabase

__all__ = ["MetaScheduleApplyDatabase"]


@dataclass(frozen=True)
class MetaScheduleApplyDatabase(Pass):
    """Let a module be compiled with the database of a folder.

    Its kernels are known when it is compiled, after fusion; so the module gets the file's
    name as the attribute ``relax.tuning``, which the compiler obeys.

    Args:
        work_dir: the folder that ``MetaScheduleTuneTIR`` wrote to.
        enable_warning: accepted and without effect.

    Raises:
        PassError: there is no folder.
        OSError: it has no database.
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
        path = Path(self.work_dir).absolute() / DATABASE
        TuningDatabase.read(path)
        name = ir.StringAttr.get(str(path), module.context)
        module.mlir.operation.attributes[TUNING] = name
