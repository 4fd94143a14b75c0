"""``MetaScheduleTuneTIR``: find the fastest configurations of a module's kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.relax.target import Target
from relax_mlir.rewriting import Pass
from relax_mlir.tuning import TRIALS, tune
from relax_mlir.tuning_database import TuningDatabase, TuningRecord

__all__ = ["DATABASE", "MetaScheduleTuneTir"]

DATABASE = "tuning.json"  # in the folder


@dataclass(frozen=True)
class MetaScheduleTuneTir(Pass):
    """Tune the kernels that the functions of a module become; the module stays the same.

    Functions that are all machine code are taken down to kernels as compiling them does,
    so what is measured is what will run, fused: see :func:`relax_mlir.tune`. What is
    found goes to a database in the folder.

    Args:
        work_dir: the folder.
        max_trials_global: configurations that are measured, of all kernels together.
        max_trials_per_task: of one kernel.
        op_names: accepted and without effect.

    Raises:
        PassError: there is no folder, or no number of trials.
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
        from relax_mlir.relax.vm.build import native_entries

        if self.work_dir is None or self.max_trials_global is None:
            raise PassError(
                "`MetaScheduleTuneTIR`: expected `work_dir` and `max_trials_global`"
            )
        folder = Path(self.work_dir)
        folder.mkdir(parents=True, exist_ok=True)
        database = folder / DATABASE
        known: Mapping[tuple[str, str], TuningRecord] = {}
        if database.exists():
            known = TuningDatabase.read(database).records
        left = self.max_trials_global
        for entry in native_entries(module):
            found = tune(
                entry,
                database=database,
                target=str(Target.current() or "cpu"),
                trials=self.max_trials_per_task or TRIALS,
                total_trials=left,
            ).records
            left -= sum(r.trials for k, r in found.items() if known.get(k) != r)
            known = found
