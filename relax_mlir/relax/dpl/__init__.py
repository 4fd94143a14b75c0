"""The pattern language of Relax: match dataflow, and rewrite what matches."""

from relax_mlir.argument_types import check_exports
from relax_mlir.relax.dpl.context import PatternContext
from relax_mlir.relax.dpl.pattern import *  # noqa: F403  one list of names, in one place
from relax_mlir.relax.dpl.pattern import __all__ as _patterns
from relax_mlir.relax.dpl.rewrite import (
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
