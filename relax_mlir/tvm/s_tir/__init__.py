"""Schedules of tensor programs, by TVM's newest name: ``tvm.s_tir``."""

import sys
from importlib import import_module

from relax_mlir.tir import SBlock, SBlockRealize, TensorIntrin, schedule
from relax_mlir.tir.schedule import *  # noqa: F403  it has __all__

__all__ = ["SBlock", "SBlockRealize", "TensorIntrin", "schedule"]
__all__ += schedule.__all__

# `from relax_mlir.s_tir.schedule.trace import Trace` has to find the same classes.
sys.modules[f"{__name__}.schedule"] = schedule
for _name in ("instruction", "schedule", "state", "testing", "trace"):
    _found = f"relax_mlir.tir.schedule.{_name}"
    sys.modules[f"{__name__}.schedule.{_name}"] = import_module(_found)
