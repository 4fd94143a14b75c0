"""Schedulable TIR, under TVM's newest name: ``tvm.s_tir``."""

import sys
from importlib import import_module

from relax_mlir.objects.stmt.functor import renew_defs
from relax_mlir.objects.stmt.statements import MatchBufferRegion
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm import dlight
from relax_mlir.tvm.tir import BijectiveLayout as SBijectiveLayout
from relax_mlir.tvm.tir import IndexMap, SBlock, SBlockRealize, TensorIntrin, schedule
from relax_mlir.tvm.tir import Layout as SLayout
from relax_mlir.tvm.tir import bijective_layout as sbijective_layout
from relax_mlir.tvm.tir import layout as slayout
from relax_mlir.tvm.tir.schedule import *  # noqa: F403  it has __all__

__all__ = [
    "IndexMap",
    "MatchBufferRegion",
    "SBijectiveLayout",
    "SBlock",
    "SBlockRealize",
    "SLayout",
    "TensorIntrin",
    "dlight",
    "renew_defs",
    "sbijective_layout",
    "schedule",
    "slayout",
]
__all__ += schedule.__all__

# `from relax_mlir.tvm.s_tir.schedule.trace import Trace` must import the same classes.
sys.modules[f"{__name__}.schedule"] = schedule
sys.modules[f"{__name__}.dlight"] = dlight
for _name in (
    *("analysis", "block_scope", "instruction", "schedule", "state", "testing"),
    "trace",
):
    _original = f"relax_mlir.tvm.tir.schedule.{_name}"
    sys.modules[f"{__name__}.schedule.{_name}"] = import_module(_original)

check_exports(globals())
