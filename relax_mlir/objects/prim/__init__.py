"""Scalar expressions: what sizes, indices and the elements of tensors are written in.

A :class:`PrimExpr` is a term: it stands nowhere yet. It becomes a symbolic size of a
type, or arithmetic in a tensor program, when something that holds it is written.
Names, arithmetic and folding follow TVM's ``tir`` (0.14 to 0.27).
"""

from relax_mlir.objects.prim.calls import Call
from relax_mlir.objects.prim.constants import FloatImm, IntImm, StringImm, convert
from relax_mlir.objects.prim.conversion import (
    Broadcast,
    Cast,
    Ramp,
    cast,
    const,
    matched,
)
from relax_mlir.objects.prim.expr import PrimExpr
from relax_mlir.objects.prim.lanes import lanes_of, with_lanes
from relax_mlir.objects.prim.operations import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryExpr,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
    binary,
    fold_exactly,
    rounded,
)
from relax_mlir.objects.prim.reduction import CommReducer, Reduce
from relax_mlir.objects.prim.selection import Not, Select, Shuffle
from relax_mlir.objects.prim.substitution import substitute
from relax_mlir.objects.prim.traversal import post_order, structurally_equal
from relax_mlir.objects.prim.variables import IterVar, Let, Range, SizeVar, Var

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "BinaryExpr",
    "Broadcast",
    "Call",
    "Cast",
    "CommReducer",
    "Div",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "IntImm",
    "IterVar",
    "Let",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "PrimExpr",
    "Ramp",
    "Range",
    "Reduce",
    "Select",
    "Shuffle",
    "SizeVar",
    "StringImm",
    "Sub",
    "Var",
    "binary",
    "cast",
    "const",
    "convert",
    "fold_exactly",
    "lanes_of",
    "matched",
    "post_order",
    "rounded",
    "structurally_equal",
    "substitute",
    "with_lanes",
]
