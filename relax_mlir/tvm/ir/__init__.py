"""What both levels share: ``tvm.ir``."""

from typing import Any

from relax_mlir.argument_types import check_exports
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Attrs, Expr, GlobalVar, Op
from relax_mlir.objects.expr import Attrs as DictAttrs
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.global_info import DummyGlobalInfo
from relax_mlir.objects.name_supply import GlobalVarSupply, UniqueNameSupply
from relax_mlir.objects.operators import register_op_attr
from relax_mlir.objects.pointers import PointerType
from relax_mlir.objects.prim import PrimExpr, Range
from relax_mlir.objects.serialization import load_json, save_json
from relax_mlir.objects.struct_info import VDevice
from relax_mlir.objects.structure import (
    assert_structural_equal,
    structural_equal,
    structural_hash,
)
from relax_mlir.relax.ty import FuncType, PrimType, TensorType, TupleType, Type
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

RelaxExpr = BaseExpr = Expr


def make_node(type_key: str, **kwargs: Any) -> Attrs:
    """A dictionary of attributes: the only node that is made by its fields.

    Raises:
        ValueError: another node is asked for.
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
