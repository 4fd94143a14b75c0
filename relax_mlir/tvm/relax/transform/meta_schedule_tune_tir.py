"""``MetaScheduleTuneTIR``: tunes the kernel configurations of a module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from relax_mlir.compiler.tuning.database import TuningDatabase, TuningRecord
from relax_mlir.compiler.tuning.search import TRIALS, tune
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.target import Target

__all__ = ["DATABASE_FILE", "MetaScheduleTuneTir"]

DATABASE_FILE = "tuning.json"  # file name in the working directory


@dataclass(frozen=True)
class MetaScheduleTuneTir(Pass):
    """Tunes the kernels of a module's functions; the module does not change.

    Functions that compile to native code are lowered to kernels as in compilation, so that
    the fused kernels that will run are measured: see :func:`relax_mlir.tune`. Results go to
    a database in the working directory.

    Args:
        work_dir: the working directory.
        max_trials_global: the number of measured configurations of all kernels together.
        max_trials_per_task: the number per kernel.
        op_names: accepted and without effect.

    Raises:
        PassError: ``work_dir`` or ``max_trials_global`` is missing.
    """

    known_as: ClassVar[str] = "MetaScheduleTuneTIR"
    work_dir: str | os.PathLike[str] | None = field(
        default=None, metadata={"text": False}
    )
    max_trials_global: int | None = field(default=None, metadata={"text": False})
    max_trials_per_task: int | None = field(default=None, metadata={"text": False})
    op_names: list[str] | None = field(default=None, metadata={"text": False})

    def run(self, module: IRModule) -> None:
        # Loaded here: it imports passes.
        from relax_mlir.compiler.host.build import native_entry_modules

        if self.work_dir is None or self.max_trials_global is None:
            raise PassError(
                "`MetaScheduleTuneTIR`: expected `work_dir` and `max_trials_global`"
            )
        folder = Path(self.work_dir)
        folder.mkdir(parents=True, exist_ok=True)
        database = folder / DATABASE_FILE
        records: Mapping[tuple[str, str], TuningRecord] = {}
        if database.exists():
            records = TuningDatabase.read(database).records
        trials_left = self.max_trials_global
        for entry in native_entry_modules(module):
            tuned = tune(
                entry,
                database=database,
                target=str(Target.current() or "cpu"),
                trials=self.max_trials_per_task or TRIALS,
                total_trials=trials_left,
            ).records
            trials_left -= sum(
                r.trials for k, r in tuned.items() if records.get(k) != r
            )
            records = tuned
