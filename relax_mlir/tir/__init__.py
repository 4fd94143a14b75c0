"""Tensor programs as objects, the terms in them, and how to schedule them."""

from importlib import import_module
from typing import Any

from relax_mlir.objects import stmt_functor
from relax_mlir.objects.buffer import (
    Buffer,
    BufferLoad,
    BufferRegion,
    PointerType,
    decl_buffer,
)
from relax_mlir.objects.functions import *  # noqa: F403  it has __all__
from relax_mlir.objects.functions import __all__ as _functions
from relax_mlir.objects.prim import *  # noqa: F403  it has __all__
from relax_mlir.objects.prim import __all__ as _terms
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt import *  # noqa: F403  it has __all__
from relax_mlir.objects.stmt import __all__ as _statements
from relax_mlir.tir import schedule
from relax_mlir.tir.schedule import BlockRV, LoopRV, SBlockRV, Schedule, ScheduleError
from relax_mlir.tir.schedule.index_map import IndexMap
from relax_mlir.tir.schedule.tensor_intrin import TensorIntrin

SBlock, SBlockRealize = Block, BlockRealize  # noqa: F405  TVM's newest names

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "BlockRV",
    "Buffer",
    "BufferLoad",
    "BufferRegion",
    "IndexMap",
    "LoopRV",
    "PointerType",
    "PrimFunc",
    "SBlock",
    "SBlockRV",
    "SBlockRealize",
    "Schedule",
    "ScheduleError",
    "TensorIntrin",
    "decl_buffer",
    "schedule",
    "stmt_functor",
    *_functions,
    *_statements,
    *_terms,
]


def __getattr__(name: str) -> Any:  # Any: a module
    """A module that is loaded when it is first used, such as ``tir.analysis``."""
    if name not in ("analysis", "buffer", "expr", "function", "op", "stmt"):
        raise AttributeError(f"module `relax_mlir.tir` has no attribute `{name}`")
    return import_module(f"relax_mlir.tir.{name}")
