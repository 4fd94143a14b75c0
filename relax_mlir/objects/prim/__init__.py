"""Scalar expressions (PrimExpr): sizes, indices and tensor elements.

A :class:`PrimExpr` is a free-standing tree that belongs to no module. Writing the type,
buffer or statement that holds it turns it into a symbolic size or into MLIR arithmetic.
Names, arithmetic and constant folding follow TVM's ``tir`` (0.14 to 0.27).
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
    "structurally_equal",
    "substitute",
    "with_lanes",
]
