"""AST printer: dumps Relax expressions as trees of nodes with all fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
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
)
from relax_mlir.objects.expr.struct_info import (
    DynTensorType,
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.function import Function

__all__ = ["ASTPrinter", "dump_ast"]


@dataclass(frozen=True)
class ASTPrinter:
    """Printer of expression trees.

    Attributes:
        indent_str: indentation per level.
        include_struct_info_annotations: print the struct info of expressions.
        include_type_annotations: print the static types of expressions.
        include_call_attrs: print the attributes of calls.
    """

    indent_str: str = "    "
    include_struct_info_annotations: bool = True
    include_type_annotations: bool = False
    include_call_attrs: bool = True

    def visit_expr(self, expr: Expr | Binding | BindingBlock) -> str:
        """Print an expression, a binding or a block.

        Raises:
            TypeError: it is none of these.
        """
        for kind, print_fields in _FIELDS.items():
            if isinstance(expr, kind):
                fields = print_fields(self, expr)
                if isinstance(expr, Expr) and not isinstance(expr, _UNTYPED):
                    fields |= self._annotations(expr)
                return self._node(type(expr).__name__, fields)
        raise TypeError(f"`{type(expr).__name__}` is not a Relax AST node")

    def _annotations(self, expr: Expr) -> dict[str, str]:
        info = expr.struct_info_or_none()
        fields: dict[str, str] = {}
        if info is not None and self.include_struct_info_annotations:
            fields["struct_info"] = self.visit_struct_info_(info)
        if info is not None and self.include_type_annotations:
            fields["checked_type_"] = self.visit_type_(info)
        return fields

    def visit_struct_info_(self, info: StructInfo) -> str:
        """Print struct info."""
        fields: dict[str, str] = {}
        if isinstance(info, TensorStructInfo):
            fields["dtype"] = "" if info.dtype == "void" else info.dtype
            shape = info.shape
            shape_field = {} if shape is None else {"shape": self.visit_expr(shape)}
            fields |= shape_field or {"ndim": str(info.ndim)}
        elif isinstance(info, ShapeStructInfo):
            fields["ndim"] = str(info.ndim)
            if info.values is not None:
                fields["values"] = self._list(map(self._prim_expr, info.values))
        elif isinstance(info, PrimStructInfo):
            fields["dtype"] = info.dtype
        elif isinstance(info, TupleStructInfo):
            fields["fields"] = self._list(map(self.visit_struct_info_, info.fields))
        elif isinstance(info, FuncStructInfo):
            if info.params is not None:
                params = map(self.visit_struct_info_, info.params)
                fields["params"] = self._list(params)
            fields["ret"] = self.visit_struct_info_(info.ret)
            fields["purity"] = str(info.purity)
        return self._node(type(info).__name__, fields)

    def visit_type_(self, info: StructInfo | DynTensorType) -> str:
        """Print the static type that struct info implies."""
        if isinstance(info, (TensorStructInfo, DynTensorType)):
            dtype = {} if info.dtype == "void" else {"dtype": str(info.dtype)}
            return self._node("DynTensorType", {"ndim": str(info.ndim), **dtype})
        if isinstance(info, ShapeStructInfo):
            return self._node("ShapeType", {"ndim": str(info.ndim)})
        if isinstance(info, PrimStructInfo):
            return self._node("PrimType", {"dtype": info.dtype})
        if isinstance(info, TupleStructInfo):
            fields = self._list(map(self.visit_type_, info.fields))
            return self._node("TupleType", {"fields": fields})
        if isinstance(info, FuncStructInfo) and info.params is not None:
            params = self._list(map(self.visit_type_, info.params))
            ret = self.visit_type_(info.ret)
            return self._node("FuncType", {"arg_types": params, "ret_type": ret})
        is_function = isinstance(info, FuncStructInfo)
        return self._node("PackedFuncType" if is_function else "ObjectType", {})

    def _node(self, name: str, fields: Mapping[str, str]) -> str:
        return self._list([f"{n}={v}" for n, v in fields.items()], f"{name}(", ")")

    def _list(self, items: Iterable[str], opens: str = "[", closes: str = "]") -> str:
        """Joins items: on one line if there is at most one single-line item."""
        listed = list(items)
        if not listed or (len(listed) == 1 and "\n" not in listed[0]):
            return opens + "".join(listed) + closes
        lines = ",\n".join(listed).split("\n")
        inside = "\n".join(self.indent_str + line for line in lines)
        return f"{opens}\n{inside}\n{closes}"

    def _exprs(self, values: Iterable[Any]) -> str:
        return self._list(map(self.visit_expr, values))

    def _prim_expr(self, expr: prim.PrimExpr) -> str:
        text = str(expr)
        if isinstance(expr, prim.Var):
            text = f"{expr.name}: {expr.dtype}"
        elif isinstance(expr, prim.IntImm) and expr.dtype != "bool":
            text = f"T.{expr.dtype}({expr.value})"
        return self._node("PrimExpr", {"value": f"`{text}`"})

    def _dict(self, values: Mapping[str, Any]) -> str:
        items = [f"{json.dumps(k)}: {_attribute(v)}" for k, v in values.items()]
        return self._list(items, "{", "}")

    def _call(self, call: Call) -> dict[str, str]:
        fields = {"op": self.visit_expr(call.op), "args": self._exprs(call.args)}
        if call.sinfo_args:
            infos = map(self.visit_struct_info_, call.sinfo_args)
            fields["sinfo_args"] = self._list(infos)
        if call.attrs and self.include_call_attrs:
            fields["attrs"] = self._dict(call.attrs)
        return fields

    def _function(self, function: Function) -> dict[str, str]:
        fields = {
            "params": self._exprs(function.params),
            "body": self.visit_expr(function.body),
            "ret_struct_info": self.visit_struct_info_(function.ret_struct_info),
            "is_pure": str(function.is_pure),
        }
        attrs = function.attrs
        return fields | ({"attrs": self._dict(attrs)} if attrs else {})

    def _match_cast(self, binding: MatchCast) -> dict[str, str]:
        return {
            "var": self.visit_expr(binding.var),
            "value": self.visit_expr(binding.value),
            "struct_info": self.visit_struct_info_(binding.struct_info),
        }


def _attribute(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return json.dumps(value) if isinstance(value, str) else str(value)


def _string_field(field: str) -> Callable[[ASTPrinter, Any], dict[str, str]]:
    """Printer of a node whose only field is a string."""
    return lambda printer, node: {field: json.dumps(getattr(node, field))}


def _if_fields(printer: ASTPrinter, node: If) -> dict[str, str]:
    names = ("cond", "true_branch", "false_branch")
    return {name: printer.visit_expr(getattr(node, name)) for name in names}


# Nodes that are printed without struct info and type.
_UNTYPED = (ExternFunc, Op)
_FIELDS: Mapping[type, Callable[[ASTPrinter, Any], dict[str, str]]] = {
    BindingBlock: lambda p, block: {"bindings": p._exprs(block.bindings)},
    MatchCast: ASTPrinter._match_cast,
    Binding: lambda p, b: {
        "var": p.visit_expr(b.var),
        "value": p.visit_expr(b.value),
    },
    Function: ASTPrinter._function,
    SeqExpr: lambda p, e: {"blocks": p._exprs(e.blocks), "body": p.visit_expr(e.body)},
    If: _if_fields,
    Call: ASTPrinter._call,
    Tuple: lambda p, e: {"fields": p._exprs(e.fields)},
    TupleGetItem: lambda p, e: {
        "tuple_value": p.visit_expr(e.tuple_value),
        "index": str(e.index),
    },
    Constant: lambda p, e: {"data": str(e.array)},
    ShapeExpr: lambda p, e: {"values": p._list(map(p._prim_expr, e.values))},
    PrimValue: lambda p, e: {"value": p._prim_expr(e.value)},
    StringImm: _string_field("value"),
    DataTypeImm: lambda p, e: {"value": str(e.value)},
    ExternFunc: _string_field("global_symbol"),
    GlobalVar: _string_field("name_hint"),
    Op: _string_field("name"),
    Var: _string_field("name_hint"),
}


def dump_ast(
    exp: Expr | Binding | BindingBlock,
    indent_str: str = "    ",
    include_struct_info_annotations: bool = True,
    include_type_annotations: bool = False,
    include_call_attrs: bool = True,
) -> str:
    """Print an expression, a binding or a block as a tree.

    Args:
        exp: the node.
        indent_str: indentation per level.
        include_struct_info_annotations: print the struct info of expressions.
        include_type_annotations: print the static types of expressions.
        include_call_attrs: print the attributes of calls.

    Raises:
        TypeError: ``exp`` is not a Relax AST node.
    """
    printer = ASTPrinter(
        indent_str,
        include_struct_info_annotations,
        include_type_annotations,
        include_call_attrs,
    )
    return printer.visit_expr(exp)
