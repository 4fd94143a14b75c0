"""The dataflow pattern language (DPL): pattern matching and rewriting of Relax graphs."""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.dpl.context import PatternContext
from relax_mlir.tvm.relax.dpl.pattern import *  # noqa: F403  one list of names, in one place
from relax_mlir.tvm.relax.dpl.pattern import __all__ as _patterns
from relax_mlir.tvm.relax.dpl.rewrite import (
    ExprPatternRewriter,
    OrRewriter,
    PatternMatchingRewriter,
    TupleRewriter,
    rewrite_bindings,
    rewrite_call,
)

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "ExprPatternRewriter",
    "OrRewriter",
    "PatternContext",
    "PatternMatchingRewriter",
    "TupleRewriter",
    "rewrite_bindings",
    "rewrite_call",
    *_patterns,
]

check_exports(globals())
