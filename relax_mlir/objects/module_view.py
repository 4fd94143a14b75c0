"""A module as a mapping from global variables to functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from mlir import ir
from mlir.dialects import func
from mlir.dialects.builtin import ModuleOp

from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.errors import near_misses
from relax_mlir.ir import function_attributes
from relax_mlir.objects.expr import Attrs, ExternFunc, GlobalVar
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.objects.extern import read_extern, write_extern
from relax_mlir.objects.function import BaseFunc, Function, copy_function
from relax_mlir.objects.global_info import read_global_infos, write_global_infos
from relax_mlir.objects.mlir_attributes import (
    ArrayName,
    from_attribute,
    named_arrays,
    to_attribute,
)
from relax_mlir.objects.printing import Printed
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.objects.variable_identity import scope_after_pass

if TYPE_CHECKING:
    from relax_mlir.ir.module import IRModule
    from relax_mlir.objects.compare.structural_equal import StructuralEncoder

__all__ = ["FunctionTable", "ModuleView"]

_MOST_LISTED = 10  # function names in an error message


class FunctionTable(Mapping[GlobalVar, BaseFunc]):
    """The functions of a module in order, by global variable."""

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
        """All pairs as a list."""
        return list(self.items())


class ModuleView(Printed):
    """Base class of :class:`~relax_mlir.IRModule`: the view of its functions as objects."""

    mlir: ModuleOp
    constants: dict[str, np.ndarray]
    _scopes: dict[str, FunctionScope]

    def func_ops(self) -> list[func.FuncOp]:
        """All functions in MLIR, in order."""
        raise NotImplementedError

    def func_op(self, name: str) -> func.FuncOp:
        """The function of this name, in MLIR."""
        raise NotImplementedError

    @property
    def functions(self) -> FunctionTable:
        """The functions by global variable, in order."""
        return FunctionTable(self)

    @property
    def functions_(self) -> FunctionTable:
        """Alias of ``functions`` in TVM."""
        return FunctionTable(self)

    def __getitem__(self, name: str | GlobalVar) -> Any:  # Any: Relax or TIR function
        """The function of this name.

        Raises:
            ValueError: it does not exist.
        """
        symbol = self._existing_name(name)
        extern = read_extern(self.func_op(symbol))
        if extern is not None:
            return extern
        is_program = function_attributes.is_prim_func(self.func_op(symbol))
        return (PrimFunc if is_program else Function)._view(self, symbol)  # pyright: ignore[reportArgumentType]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, (str, GlobalVar)) and _symbol(name) in (
            self.function_names()
        )

    def __setitem__(self, name: str | GlobalVar, function: BaseFunc) -> None:
        self.update_func(name, function)

    def __delitem__(self, name: str | GlobalVar) -> None:
        symbol = self._existing_name(name)
        self.func_op(symbol).operation.erase()
        self._scopes.pop(symbol, None)

    def _existing_name(self, name: str | GlobalVar) -> str:
        """The name of an existing function.

        Raises:
            ValueError: it does not exist.
        """
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
        """The global variables of all functions, in order."""
        return [GlobalVar(n, self.signature_or_none(n)) for n in self.function_names()]

    def get_global_var(self, name: str) -> GlobalVar:
        """The global variable of a function.

        Raises:
            ValueError: the function does not exist.
        """
        return GlobalVar(name, self[name].struct_info_or_none())

    def update_func(
        self, name: str | GlobalVar, function: BaseFunc | ExternFunc
    ) -> None:
        """Adds a function, or replaces the one of this name."""
        symbol = _symbol(name)
        module: Any = self
        if isinstance(function, ExternFunc):
            if symbol in self.function_names():
                del self[symbol]
            write_extern(module.mlir, symbol, function)
            return
        is_detached = getattr(function, "detached", None) is not None
        if not is_detached and self is function.module and symbol == function.name:
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
        """Adds or replaces the functions of another module."""
        table = other.functions if isinstance(other, ModuleView) else other
        for name, function in table.items():
            self.update_func(name, function)

    def replace_global_vars(self, replacements: Mapping[Any, Any]) -> IRModule:
        """A copy of the module with functions renamed; itself if nothing changes.

        Args:
            replacements: the new name or global variable, by the old one.

        Raises:
            ValueError: a function does not exist, or two would have the same name.
        """
        module: Any = self
        renamed = {_symbol(old): _symbol(new) for old, new in replacements.items()}
        known = self.function_names()
        for old in renamed:
            if old not in known:
                raise ValueError(
                    f"module has no function `{old}`.{near_misses(old, known)}"
                )
        new_names = [renamed.get(name, name) for name in known]
        for name in new_names:
            if new_names.count(name) > 1:
                raise ValueError(f"two functions would be called `{name}`")
        if new_names == known:
            return module
        copy = module.clone()
        with copy.context:
            function_attributes.rename_functions(copy.mlir.operation, renamed)
        return copy

    def scope(self, name: str) -> FunctionScope:
        """The mapping between a function's variables and SSA values."""
        return self._scopes.setdefault(name, FunctionScope())

    def set_scope(self, name: str, scope: FunctionScope) -> None:
        """Sets the mapping between a function's variables and SSA values."""
        self._scopes[name] = scope

    def keep_variable_identity(self, before: ModuleView) -> None:
        """Keeps the identity of functions' variables across a pass, from ``before`` to now."""
        self._scopes.clear()
        for op in self.func_ops():
            name = op.name.value
            if (
                name in before._scopes
                and not op.is_external
                and not function_attributes.is_prim_func(op)
            ):
                self._scopes[name] = scope_after_pass(before._scopes[name], op)

    def forget_scopes(self) -> None:
        """Discards the variables of all functions after a change of the SSA values."""
        self._scopes.clear()

    def signature_or_none(self, name: str) -> StructInfo | None:
        """The struct info of a function, or None if it does not exist."""
        if name not in self.function_names():
            return None
        function = self[name]
        return function.struct_info_or_none()

    def signature_of(self, name: GlobalVar) -> StructInfo | None:
        """The struct info of a function, or None if it does not exist."""
        return self.signature_or_none(name.name_hint)

    def keys_of(self, root: ir.Operation) -> Sequence[str]:
        """The keys of the constants that operations below ``root`` use."""
        found: dict[str, None] = {}

        def visit_name(name: ArrayName) -> ArrayName:
            if name in self.constants:
                found[str(name)] = None
            return name

        def visit(op: ir.Operation) -> ir.WalkResult:
            view = op.opview
            if isinstance(view, ConstantOp) and view.key in self.constants:
                found[view.key] = None
            if function_attributes.ATTRS in op.attributes:
                known = from_attribute(op.attributes[function_attributes.ATTRS])
                named_arrays(dict(known), visit_name)
            return ir.WalkResult.ADVANCE

        root.walk(visit, ir.WalkOrder.PRE_ORDER)
        return list(found)

    def functions_items(self) -> list[tuple[GlobalVar, BaseFunc]]:
        """The functions by global variable, sorted by name."""
        return sorted(self.functions.items(), key=lambda pair: pair[0].name_hint)

    def get_attr(self, attr_key: str) -> Any:  # Any: the type depends on the attribute
        """An attribute of the module, or None."""
        return self.attrs.get(attr_key)

    @property
    def attrs(self) -> Attrs:
        """The attributes of the module."""
        attributes = self.mlir.operation.attributes
        if function_attributes.ATTRS not in attributes:
            return Attrs()
        return Attrs(from_attribute(attributes[function_attributes.ATTRS]))

    @property
    def pyfuncs(self) -> dict[str, Any]:
        """The Python functions attached to the module; they are not compiled."""
        return self.__dict__.setdefault("_pyfuncs", {})

    @property
    def global_infos(self) -> dict[str, list[Any]]:
        """The global infos, by name: lists of virtual devices that functions refer to."""
        return read_global_infos(self.mlir.operation)

    def update_global_info(self, name: str, global_info: Sequence[Any]) -> None:
        """Sets a list of global infos."""
        with self.mlir.context:
            lists = {**self.global_infos, name: list(global_info)}
            write_global_infos(self.mlir.operation, lists)

    def with_attr(self, name: str, value: Any) -> IRModule:
        """A copy of the module with an attribute added."""
        copy: Any = self.clone()
        with copy.context:
            copy.mlir.operation.attributes[function_attributes.ATTRS] = to_attribute(
                {**self.attrs, name: value}
            )
        return copy

    def with_attrs(self, attrs: Mapping[str, Any]) -> IRModule:
        """A copy of the module with attributes added."""
        copy: Any = self.clone()
        for name, value in attrs.items():
            copy = copy.with_attr(name, value)
        return copy

    def without_attr(self, name: str) -> IRModule:
        """A copy of the module without an attribute."""
        copy: Any = self.clone()
        kept = {k: v for k, v in self.attrs.items() if k != name}
        with copy.context:
            copy.mlir.operation.attributes[function_attributes.ATTRS] = to_attribute(
                kept
            )
        return copy

    def encode_structure(self, encoder: StructuralEncoder) -> None:
        """Encodes its structure; see :mod:`relax_mlir.objects.compare.structural_equal`."""
        encoder.module(self)

    def clone(self) -> IRModule:
        """A copy in the same context, sharing the constants."""
        raise NotImplementedError


def _symbol(name: object) -> str:
    return name.name_hint if isinstance(name, GlobalVar) else str(name)
