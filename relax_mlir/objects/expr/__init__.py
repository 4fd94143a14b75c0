"""Relax expressions as Python objects.

A module holds MLIR only: these objects are read from it
(:mod:`relax_mlir.objects.read.relax`) and written to it
(:mod:`relax_mlir.objects.write.relax`). Variables compare by identity: a function returns
the same object for the same value each time.
"""

from relax_mlir.objects.expr.attrs import Attrs
from relax_mlir.objects.expr.bindings import (
    Binding,
    BindingBlock,
    DataflowBlock,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
    as_sequence,
)
from relax_mlir.objects.expr.calls import Call, is_leaf
from relax_mlir.objects.expr.node import Expr
from relax_mlir.objects.expr.operator import Op
from relax_mlir.objects.expr.struct_info import ShapeExpr
from relax_mlir.objects.expr.values import (
    ArrayData,
    Constant,
    DataTypeImm,
    PrimValue,
    StringImm,
    Tuple,
    TupleGetItem,
    const,
    convert,
)
from relax_mlir.objects.expr.variables import (
    DataflowVar,
    ExternFunc,
    GlobalVar,
    Id,
    Var,
)

__all__ = [
    "ArrayData",
    "Attrs",
    "Binding",
    "BindingBlock",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "Expr",
    "ExternFunc",
    "GlobalVar",
    "Id",
    "If",
    "MatchCast",
    "Op",
    "PrimValue",
    "SeqExpr",
    "ShapeExpr",
    "StringImm",
    "Tuple",
    "TupleGetItem",
    "Var",
    "VarBinding",
    "as_sequence",
    "const",
    "convert",
    "is_leaf",
]
