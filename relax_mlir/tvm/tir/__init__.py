"""TensorIR: PrimFuncs, statements, expressions, layouts and schedules."""

from importlib import import_module
from typing import Any

from relax_mlir.objects.prim import *  # noqa: F403  it has __all__
from relax_mlir.objects.prim import __all__ as _exprs
from relax_mlir.objects.prim.intrinsics import *  # noqa: F403  it has __all__
from relax_mlir.objects.prim.intrinsics import __all__ as _functions
from relax_mlir.objects.prim.pointers import PointerType
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad, BufferRegion, decl_buffer
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.objects.stmt.statements import *  # noqa: F403  it has __all__
from relax_mlir.objects.stmt.statements import __all__ as _statements
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.tir import schedule, stmt_functor
from relax_mlir.tvm.tir.data_layout import (
    BijectiveLayout,
    Layout,
    bijective_layout,
    layout,
)
from relax_mlir.tvm.tir.schedule import (
    BlockRV,
    LoopRV,
    SBlockRV,
    Schedule,
    ScheduleError,
)
from relax_mlir.tvm.tir.schedule.index_map import IndexMap
from relax_mlir.tvm.tir.schedule.tensor_intrin import TensorIntrin

SBlock, SBlockRealize = Block, BlockRealize  # noqa: F405  TVM's newest names

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "BijectiveLayout",
    "BlockRV",
    "Buffer",
    "BufferLoad",
    "BufferRegion",
    "IndexMap",
    "Layout",
    "LoopRV",
    "PointerType",
    "PrimFunc",
    "SBlock",
    "SBlockRV",
    "SBlockRealize",
    "Schedule",
    "ScheduleError",
    "TensorIntrin",
    "bijective_layout",
    "decl_buffer",
    "layout",
    "schedule",
    "stmt_functor",
    *_functions,
    *_statements,
    *_exprs,
]


def __getattr__(name: str) -> Any:  # Any: modules and a function
    """Loads submodules such as ``tir.analysis``, intrinsics and ``build`` on first use."""
    if name == "build":  # imported lazily: a higher layer
        return import_module("relax_mlir.tvm.relax.vm").build_any
    intrinsics = import_module("relax_mlir.tvm.script.tir_calls").INTRINSICS
    if name in intrinsics:
        return intrinsics[name]
    if name not in ("analysis", "buffer", "expr", "function", "op", "stmt"):
        raise AttributeError(f"module `relax_mlir.tvm.tir` has no attribute `{name}`")
    return import_module(f"relax_mlir.tvm.tir.{name}")


check_exports(globals())
