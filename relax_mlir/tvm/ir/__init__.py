"""Data structures common to Relax and TIR: ``tvm.ir``."""

from typing import Any

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from relax_mlir.objects.expr import Attrs, Expr, GlobalVar, Op
from relax_mlir.objects.expr import Attrs as DictAttrs
from relax_mlir.objects.expr.struct_info import VDevice
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.global_info import DummyGlobalInfo
from relax_mlir.objects.name_supply import GlobalVarSupply, UniqueNameSupply
from relax_mlir.objects.operators import register_op_attr
from relax_mlir.objects.prim import PrimExpr, Range
from relax_mlir.objects.prim.pointers import PointerType
from relax_mlir.objects.serialization import load_json, save_json
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.ir import (
    analysis,
    attrs,
    base,
    expr,
    function,
    global_info,
    instrument,
    module,
    op,
    supply,
    transform,
    type,
)
from relax_mlir.tvm.relax.ty import FuncType, PrimType, TensorType, TupleType, Type

RelaxExpr = BaseExpr = Expr


def make_node(type_key: str, **kwargs: Any) -> Attrs:
    """Makes an attribute dictionary, the only supported node type.

    Raises:
        ValueError: ``type_key`` names another node type.
    """
    if type_key not in ("ir.DictAttrs", "DictAttrs"):
        raise ValueError(f"make_node: expected `ir.DictAttrs`, got `{type_key}`")
    return Attrs(kwargs)


__all__ = [
    "Attrs",
    "BaseExpr",
    "BaseFunc",
    "DictAttrs",
    "DummyGlobalInfo",
    "Expr",
    "FuncType",
    "GlobalVar",
    "GlobalVarSupply",
    "IRModule",
    "Op",
    "PointerType",
    "PrimExpr",
    "PrimType",
    "Range",
    "RelaxExpr",
    "TensorType",
    "TupleType",
    "Type",
    "UniqueNameSupply",
    "VDevice",
    "analysis",
    "assert_structural_equal",
    "attrs",
    "base",
    "expr",
    "function",
    "global_info",
    "instrument",
    "load_json",
    "make_node",
    "module",
    "op",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
    "supply",
    "transform",
    "type",
]

check_exports(globals())
