"""The expressions of Relax as Python objects.

What stands in a module is read from MLIR as these objects (:mod:`.reader`), and written
to it from them (:mod:`.writer`); a module holds MLIR alone. Variables are compared by
identity: one function gives the same object for the same value each time it is asked.
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
from relax_mlir.objects.expr.operator import Op
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
from relax_mlir.objects.node import Expr
from relax_mlir.objects.struct_info import ShapeExpr

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
