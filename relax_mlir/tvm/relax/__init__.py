"""The ``tvm.relax`` API: expressions, operators, builders, passes."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from relax_mlir.objects.block_builder import BlockBuilder
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
from relax_mlir.objects.expr.struct_info import (
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.global_info import DummyGlobalInfo
from relax_mlir.pipeline.named_pipelines import PIPELINE_MAP
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relax.op.calls import (
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

# TVM's newer names of the struct info classes.
Type = StructInfo
TensorType, ShapeType, TupleType = TensorStructInfo, ShapeStructInfo, TupleStructInfo
ObjectType = AnyType = ObjectStructInfo
PrimType, FuncType = PrimStructInfo, FuncStructInfo
extern = ExternFunc
prim_value = PrimValue

# Names that are imported on first use, and the module of each.
_LAZY = {
    **dict.fromkeys(("ExprFunctor", "PyExprMutator", "PyExprVisitor"), "expr_functor"),
    **dict.fromkeys(("VirtualMachine", "VMExecutable", "build"), "vm"),
    "DataflowBlockRewrite": "binding_rewrite",
    **dict.fromkeys(
        ("get_default_pipeline", "get_pipeline", "register_pipeline"), "pipeline"
    ),
    **dict.fromkeys(("get_shape_of", "make_shape"), "expr"),
    "convert_to_expr": "utils",
}


def _pipeline(function: str) -> Callable[..., Any]:  # Any: its arguments, and a pass
    """A function of :mod:`relax_mlir.tvm.relax.pipeline`, which is imported on use."""

    def create(**arguments: Any) -> Any:
        return getattr(import_module(f"{__name__}.pipeline"), function)(**arguments)

    return create


PIPELINE_MAP |= {
    "zero": _pipeline("zero_pipeline"),
    "default": _pipeline("default_build_pipeline"),
    "default_build": _pipeline("default_build_pipeline"),
}
# TVMScript names that older scripts read from `relax` instead of `R`.
_SCRIPT = ("Tensor", "dataflow", "function", "match_cast", "output")


def __getattr__(name: str) -> Any:  # Any: modules, classes and functions
    """Resolves lazily imported names, and operators as ``relax.<op>`` (older TVM)."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _SCRIPT:
        return getattr(import_module("relax_mlir.tvm.script.relax"), name)
    if name in _LAZY:
        return getattr(import_module(f"relax_mlir.tvm.relax.{_LAZY[name]}"), name)
    try:
        return import_module(f"relax_mlir.tvm.relax.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"relax_mlir.tvm.relax.{name}":
            raise
    return getattr(op, name)


check_exports(globals())
