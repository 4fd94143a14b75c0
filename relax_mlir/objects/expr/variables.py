"""Relax variables, global variables and external functions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import tvm_ffi
from tvm_ffi.dataclasses import py_class

from relax_mlir.errors import short_repr
from relax_mlir.objects.argument_checks import instance_of, mapping_of
from relax_mlir.objects.expr.node import Expr
from relax_mlir.objects.expr.struct_info import (
    DynTensorType,
    FuncStructInfo,
    ObjectStructInfo,
    StructInfo,
    TensorStructInfo,
)

__all__ = ["DataflowVar", "ExternFunc", "GlobalVar", "Id", "Var", "to_struct_info"]

_NUMBERS = itertools.count()


class Id:
    """The identity of a variable, independent of its name."""

    def __init__(self, name_hint: str) -> None:
        self.name_hint = name_hint
        self.number = next(_NUMBERS)

    def __repr__(self) -> str:
        return f'Id("{self.name_hint}")'


class Var(Expr):
    """A variable of a function.

    Attributes:
        name_hint: its name, which the printer makes unique.
    """

    def __init__(
        self,
        name_hint: Any,
        struct_info: Any = None,
        type_annotation: Any = None,
        span: object = None,
    ) -> None:
        self.vid = (
            name_hint
            if isinstance(name_hint, Id)
            else Id(instance_of(name_hint, str, "relax.Var: `name_hint`", "a string"))
        )
        self._struct_info = _annotation(struct_info, type_annotation)
        self.span = span

    @property
    def name_hint(self) -> str:
        """Its name, before the printer makes it unique."""
        return self.vid.name_hint

    @property
    def name(self) -> str:
        """Alias of ``name_hint`` in TVM's newest releases."""
        return self.vid.name_hint

    def __repr__(self) -> str:
        return self.name_hint


class DataflowVar(Var):
    """A variable that is local to its dataflow block."""


@py_class("relax_mlir.FunctionName")
class _FunctionName(tvm_ffi.Object):
    """A function name as a tvm-ffi object."""

    name_hint: str

    def __ffi_repr__(self, spell: object = None) -> str:
        return f'I.GlobalVar("{self.name_hint}")'


class GlobalVar(Expr):
    """A reference to a function of the module, by name."""

    def __init__(self, name_hint: str, struct_info: StructInfo | None = None) -> None:
        self.name_hint = instance_of(
            name_hint, str, "GlobalVar: `name_hint`", "a string"
        )
        self._struct_info = struct_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalVar) and self.name_hint == other.name_hint

    def __hash__(self) -> int:
        return hash(self.name_hint)

    def __tvm_ffi_object__(self) -> object:
        """Its representation in tvm-ffi objects such as access paths.

        tvm-ffi would convert a callable object to a function.
        """
        return _FunctionName(self.name_hint)

    def __repr__(self) -> str:
        return f'I.GlobalVar("{self.name_hint}")'


class ExternFunc(Expr):
    """A reference to a registered packed function, by name.

    Attributes:
        attrs: its attributes in a module, such as its source.
    """

    def __init__(
        self,
        global_symbol: str,
        struct_info: Any = None,
        span: object = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        where = "ExternFunc: `global_symbol`"
        self.global_symbol = instance_of(global_symbol, str, where, "a string")
        self.attrs: Mapping[str, Any] = mapping_of(attrs, "ExternFunc: `attrs`")
        info = struct_info
        self._struct_info = (
            FuncStructInfo.opaque_func() if info is None else to_struct_info(info)
        )

    def __eq__(self, other: object) -> bool:
        is_same_kind = isinstance(other, ExternFunc)
        return is_same_kind and self.global_symbol == other.global_symbol

    def __hash__(self) -> int:
        return hash(self.global_symbol)

    def __repr__(self) -> str:
        return f'R.ExternFunc("{self.global_symbol}")'


def to_struct_info(given: Any) -> StructInfo:
    """Struct info from any of the notations of scripts; None is an unknown object."""
    info = _annotation(given, None)
    return ObjectStructInfo() if info is None else info


def _annotation(info: Any, old: Any) -> StructInfo | None:
    """Struct info from a constructor's arguments.

    In TVM before struct info, variables took a shape and a type with rank and element type.
    """
    if old is not None:
        instance_of(
            old, (DynTensorType, StructInfo), "relax.Var: `type_annotation`", "a type"
        )
        ndim = getattr(old, "ndim", -1) if info is None else -1
        return TensorStructInfo(info, getattr(old, "dtype", ""), ndim=ndim)
    if info is None or isinstance(info, StructInfo):
        return info
    if isinstance(info, (list, tuple)):
        return TensorStructInfo(info, "")
    as_struct_info = getattr(info, "as_struct_info", None)
    if as_struct_info is None:
        raise TypeError(f"expected struct info, got {short_repr(info)}")
    return as_struct_info()
