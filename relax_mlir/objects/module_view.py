"""A module as a table of functions, by names and by :class:`GlobalVar`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from mlir import ir
from mlir.dialects import func
from mlir.dialects.builtin import ModuleOp

from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.errors import near_misses
from relax_mlir.objects import names
from relax_mlir.objects.attributes import (
    ArrayName,
    from_attribute,
    named_arrays,
    to_attribute,
)
from relax_mlir.objects.carried_variables import carried_scope
from relax_mlir.objects.expr import Attrs, ExternFunc, GlobalVar
from relax_mlir.objects.extern import read_extern, write_extern
from relax_mlir.objects.function import BaseFunc, Function, copy_function
from relax_mlir.objects.global_info import read_infos, write_infos
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.printing import Printed
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.struct_info import StructInfo

if TYPE_CHECKING:
    from relax_mlir.module import IRModule
    from relax_mlir.objects.structure import Spelling

__all__ = ["FunctionTable", "ModuleView"]

_MOST_LISTED = 10  # names in an error


class FunctionTable(Mapping[GlobalVar, BaseFunc]):
    """The functions of a module, in order."""

    def __init__(self, module: ModuleView) -> None:
        self._module = module

    def __getitem__(self, name: Any) -> BaseFunc:
        return self._module[name]

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self._module.get_global_vars())

    def __len__(self) -> int:
        return len(self._module.func_ops())

    def __repr__(self) -> str:
        pairs = (f"{name!r}: {function!r}" for name, function in self.items())
        return f"{{{', '.join(pairs)}}}"

    def items_(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """All pairs, in a list of their own."""
        return list(self.items())


class ModuleView(Printed):
    """What :class:`~relax_mlir.IRModule` is to who looks at functions as objects."""

    mlir: ModuleOp
    constants: dict[str, np.ndarray]
    _scopes: dict[str, FunctionScope]

    def func_ops(self) -> list[func.FuncOp]:
        """All functions in MLIR, in order."""
        raise NotImplementedError

    def func_op(self, name: str) -> func.FuncOp:
        """The function called ``name``, in MLIR."""
        raise NotImplementedError

    @property
    def functions(self) -> FunctionTable:
        """The functions by :class:`GlobalVar`, in order."""
        return FunctionTable(self)

    @property
    def functions_(self) -> FunctionTable:
        """The functions by :class:`GlobalVar`, in order."""
        return FunctionTable(self)

    def __getitem__(self, name: str | GlobalVar) -> Any:  # Any: of either level
        """The function called ``name``.

        Raises:
            ValueError: there is none.
        """
        symbol = self._known(name)
        extern = read_extern(self.func_op(symbol))
        if extern is not None:
            return extern
        is_program = names.is_prim_func(self.func_op(symbol))
        return (PrimFunc if is_program else Function)._view(self, symbol)  # pyright: ignore[reportArgumentType]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, (str, GlobalVar)) and _symbol(name) in (
            self.function_names()
        )

    def __setitem__(self, name: str | GlobalVar, function: BaseFunc) -> None:
        self.update_func(name, function)

    def __delitem__(self, name: str | GlobalVar) -> None:
        symbol = self._known(name)
        self.func_op(symbol).operation.erase()
        self._scopes.pop(symbol, None)

    def _known(self, name: str | GlobalVar) -> str:
        """The name of a function that is there."""
        symbol, known = _symbol(name), self.function_names()
        if symbol in known:
            return symbol
        listed = ", ".join(f"`{k}`" for k in known[:_MOST_LISTED]) or "none at all"
        more = f", and {len(known) - _MOST_LISTED} more" if known[_MOST_LISTED:] else ""
        raise ValueError(
            f"module has no function `{symbol}`: it has {listed}{more}."
            f"{near_misses(symbol, known)}"
        )

    def function_names(self) -> list[str]:
        """The names of all functions, in order."""
        return [op.name.value for op in self.func_ops()]

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of all functions."""
        return [GlobalVar(n, self.signature_or_none(n)) for n in self.function_names()]

    def get_global_var(self, name: str) -> GlobalVar:
        """The function called ``name``, to call it.

        Raises:
            ValueError: there is none.
        """
        return GlobalVar(name, self[name].struct_info_or_none())

    def update_func(
        self, name: str | GlobalVar, function: BaseFunc | ExternFunc
    ) -> None:
        """Put ``function`` in place of the one with this name, or add it."""
        symbol = _symbol(name)
        module: Any = self
        if isinstance(function, ExternFunc):
            if symbol in self.function_names():
                del self[symbol]
            write_extern(module.mlir, symbol, function)
            return
        is_term = getattr(function, "term", None) is not None
        if not is_term and self is function.module and symbol == function.name:
            return
        if symbol not in self.function_names():
            copy_function(function, module, symbol)
            return
        old = self.func_op(symbol).operation
        copy_function(function, module, symbol)
        new = self.func_ops()[-1].operation
        new.move_before(old)
        old.erase()

    def update(self, other: Mapping[Any, BaseFunc | ExternFunc] | ModuleView) -> None:
        """Add the functions of another module, or replace those of the same names."""
        table = other.functions if isinstance(other, ModuleView) else other
        for name, function in table.items():
            self.update_func(name, function)

    def replace_global_vars(self, replacements: Mapping[Any, Any]) -> IRModule:
        """A copy of the module whose functions have other names; itself if none has.

        Args:
            replacements: the new name, or the variable of it, by the old one.

        Raises:
            ValueError: the module has no such function, or two would have one name.
        """
        module: Any = self
        renamed = {_symbol(old): _symbol(new) for old, new in replacements.items()}
        known = self.function_names()
        for old in renamed:
            if old not in known:
                raise ValueError(
                    f"module has no function `{old}`.{near_misses(old, known)}"
                )
        wanted = [renamed.get(name, name) for name in known]
        for name in wanted:
            if wanted.count(name) > 1:
                raise ValueError(f"two functions would be called `{name}`")
        if wanted == known:
            return module
        made = module.clone()
        with made.context:
            names.rename_functions(made.mlir.operation, renamed)
        return made

    def scope(self, name: str) -> FunctionScope:
        """The variables of a function."""
        return self._scopes.setdefault(name, FunctionScope())

    def set_scope(self, name: str, scope: FunctionScope) -> None:
        """Say which objects the variables of a function are."""
        self._scopes[name] = scope

    def carry_scopes(self, before: ModuleView) -> None:
        """Let functions keep the variables that they had in the module ``before`` a pass."""
        self._scopes.clear()
        for op in self.func_ops():
            name = op.name.value
            if (
                name in before._scopes
                and not op.is_external
                and not names.is_prim_func(op)
            ):
                self._scopes[name] = carried_scope(before._scopes[name], op)

    def forget_scopes(self) -> None:
        """Forget the variables of all functions: something changed what they stand for."""
        self._scopes.clear()

    def signature_or_none(self, name: str) -> StructInfo | None:
        """What is known of a function, or None if there is none with this name."""
        if name not in self.function_names():
            return None
        function = self[name]
        return function.struct_info_or_none()

    def signature_of(self, name: GlobalVar) -> StructInfo | None:
        """What is known of a function, or None if there is none with this name."""
        return self.signature_or_none(name.name_hint)

    def keys_of(self, root: ir.Operation) -> Sequence[str]:
        """The constants that operations below ``root`` name."""
        found: dict[str, None] = {}

        def visit_name(name: ArrayName) -> ArrayName:
            if name in self.constants:
                found[str(name)] = None
            return name

        def visit(op: ir.Operation) -> ir.WalkResult:
            view = op.opview
            if isinstance(view, ConstantOp) and view.key in self.constants:
                found[view.key] = None
            if names.ATTRS in op.attributes:
                known = from_attribute(op.attributes[names.ATTRS])
                named_arrays(dict(known), visit_name)
            return ir.WalkResult.ADVANCE

        root.walk(visit, ir.WalkOrder.PRE_ORDER)
        return list(found)

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """The functions by :class:`GlobalVar`, in the order of their names."""
        return sorted(self.functions.items(), key=lambda pair: pair[0].name_hint)

    def get_attr(self, attr_key: str) -> Any:  # Any: as many types as attributes
        """An attribute of the module, or None if it has none of this name."""
        return self.attrs.get(attr_key)

    @property
    def attrs(self) -> Attrs:
        """The attributes of the module."""
        attributes = self.mlir.operation.attributes
        if names.ATTRS not in attributes:
            return Attrs()
        return Attrs(from_attribute(attributes[names.ATTRS]))

    @property
    def pyfuncs(self) -> dict[str, Any]:
        """The Python functions of the module, which are no part of what it computes."""
        return self.__dict__.setdefault("_pyfuncs", {})

    @property
    def global_infos(self) -> dict[str, list[Any]]:
        """What functions refer to by number: lists of devices, by name."""
        return read_infos(self.mlir.operation)

    def update_global_info(self, name: str, global_info: Sequence[Any]) -> None:
        """Give the module a list of what functions refer to by number."""
        with self.mlir.context:
            lists = {**self.global_infos, name: list(global_info)}
            write_infos(self.mlir.operation, lists)

    def with_attr(self, name: str, value: Any) -> IRModule:
        """A copy of the module with an attribute."""
        made: Any = self.clone()
        with made.context:
            made.mlir.operation.attributes[names.ATTRS] = to_attribute(
                {**self.attrs, name: value}
            )
        return made

    def with_attrs(self, attrs: Mapping[str, Any]) -> IRModule:
        """A copy of the module with more attributes."""
        made: Any = self.clone()
        for name, value in attrs.items():
            made = made.with_attr(name, value)
        return made

    def without_attr(self, name: str) -> IRModule:
        """A copy of the module without an attribute."""
        made: Any = self.clone()
        kept = {k: v for k, v in self.attrs.items() if k != name}
        with made.context:
            made.mlir.operation.attributes[names.ATTRS] = to_attribute(kept)
        return made

    def spell(self, spelling: Spelling) -> None:
        """Its structure; see :mod:`.structure`."""
        spelling.module(self)

    def clone(self) -> IRModule:
        """A copy in the same context; the arrays are shared."""
        raise NotImplementedError


def _symbol(name: object) -> str:
    return name.name_hint if isinstance(name, GlobalVar) else str(name)
