"""Tensor programs as objects, the terms in them, and how to schedule them."""

from importlib import import_module
from typing import Any

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.buffer import Buffer, BufferLoad, BufferRegion, decl_buffer
from relax_mlir.objects.functions import *  # noqa: F403  it has __all__
from relax_mlir.objects.functions import __all__ as _functions
from relax_mlir.objects.pointers import PointerType
from relax_mlir.objects.prim import *  # noqa: F403  it has __all__
from relax_mlir.objects.prim import __all__ as _terms
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt import *  # noqa: F403  it has __all__
from relax_mlir.objects.stmt import __all__ as _statements
from relax_mlir.tir import schedule, stmt_functor
from relax_mlir.tir.data_layout import (
    BijectiveLayout,
    Layout,
    bijective_layout,
    layout,
)
from relax_mlir.tir.schedule import BlockRV, LoopRV, SBlockRV, Schedule, ScheduleError
from relax_mlir.tir.schedule.index_map import IndexMap
from relax_mlir.tir.schedule.tensor_intrin import TensorIntrin

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
    *_terms,
]


def __getattr__(name: str) -> Any:  # Any: modules and a function
    """What is loaded when it is first used, such as the module ``tir.analysis``."""
    if name == "build":  # it stands above us
        return import_module("relax_mlir.relax.vm").build_any
    intrinsics = import_module("relax_mlir.script.tir_calls").INTRINSICS
    if name in intrinsics:
        return intrinsics[name]
    if name not in ("analysis", "buffer", "expr", "function", "op", "stmt"):
        raise AttributeError(f"module `relax_mlir.tir` has no attribute `{name}`")
    return import_module(f"relax_mlir.tir.{name}")


check_exports(globals())
