"""Relax in Python: expressions, operators, builders, passes."""

from importlib import import_module
from typing import Any

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.expr import (
    Attrs,
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    const,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.global_info import DummyGlobalInfo
from relax_mlir.objects.struct_info import (
    DynTensorType,
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.relax import op
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.op.calls import (
    call_dps_packed,
    call_pure_packed,
    call_tir,
    call_tir_inplace,
    call_tir_with_grad,
)

__all__ = [
    "Attrs",
    "Binding",
    "BindingBlock",
    "BlockBuilder",
    "Call",
    "Constant",
    "DataTypeImm",
    "DataflowBlock",
    "DataflowVar",
    "DummyGlobalInfo",
    "DynTensorType",
    "Expr",
    "ExternFunc",
    "FuncStructInfo",
    "Function",
    "GlobalVar",
    "If",
    "MatchCast",
    "ObjectStructInfo",
    "Op",
    "PrimStructInfo",
    "PrimValue",
    "SeqExpr",
    "ShapeExpr",
    "ShapeStructInfo",
    "StringImm",
    "StructInfo",
    "TensorStructInfo",
    "Tuple",
    "TupleGetItem",
    "TupleStructInfo",
    "VDevice",
    "Var",
    "VarBinding",
    "call_dps_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "call_tir_with_grad",
    "const",
    "extern",
    "op",
]

# TVM's newer names of struct info.
Type = StructInfo
TensorType, ShapeType, TupleType = TensorStructInfo, ShapeStructInfo, TupleStructInfo
ObjectType = AnyType = ObjectStructInfo
PrimType, FuncType = PrimStructInfo, FuncStructInfo
extern = ExternFunc
prim_value = PrimValue

# What is loaded when it is first used, by the module that holds it.
_LATE = {
    **dict.fromkeys(("ExprFunctor", "PyExprMutator", "PyExprVisitor"), "expr_functor"),
    **dict.fromkeys(("VirtualMachine", "VMExecutable", "build"), "vm"),
    "DataflowBlockRewrite": "binding_rewrite",
    **dict.fromkeys(
        ("get_default_pipeline", "get_pipeline", "register_pipeline"), "pipeline"
    ),
    **dict.fromkeys(("get_shape_of", "make_shape"), "expr"),
    "convert_to_expr": "utils",
}
# What old scripts take from here instead of from `R`.
_SCRIPT = ("Tensor", "dataflow", "function", "match_cast", "output")


def __getattr__(name: str) -> Any:  # Any: modules, classes and functions
    """A part that is loaded when it is first used, or an operator, as old scripts spell it."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _SCRIPT:
        return getattr(import_module("relax_mlir.script.relax"), name)
    if name in _LATE:
        return getattr(import_module(f"relax_mlir.relax.{_LATE[name]}"), name)
    try:
        return import_module(f"relax_mlir.relax.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"relax_mlir.relax.{name}":
            raise
    return getattr(op, name)


check_exports(globals())
