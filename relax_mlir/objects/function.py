"""The functions of a module as Python objects."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.context import shared_context
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.objects import names
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.attributes import (
    ArrayName,
    from_attribute,
    named_arrays,
    to_attribute,
)
from relax_mlir.objects.expr import (
    Attrs,
    Call,
    Expr,
    SeqExpr,
    Tuple,
    Var,
    as_sequence,
)
from relax_mlir.objects.infer import (
    FunctionLookup,
    erase_unknown,
    infer,
    variables_in,
)
from relax_mlir.objects.reader import Reader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import FuncStructInfo, StructInfo, TupleStructInfo
from relax_mlir.objects.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.writer import Writer
from relax_mlir.traversal import own_operations

if TYPE_CHECKING:
    from relax_mlir.module import IRModule
    from relax_mlir.objects.structure import Spelling

__all__ = [
    "BaseFunc",
    "Function",
    "FunctionTerm",
    "copy_function",
    "store_attrs",
    "write_function",
]


class BaseFunc(Expr):
    """A function of a module, at either level.

    Attributes:
        module: the module that it stands in; one of its own if it was made alone.
        name: what it is called there.
    """

    module: IRModule
    name: str
    _is_view: bool = False

    def __init__(self) -> None:
        raise TypeError("BaseFunc: expected a `Function` or a `PrimFunc`")

    @property
    def op(self) -> func.FuncOp:
        """The function in MLIR."""
        return self.module.func_op(self.name)

    @property
    def attrs(self) -> Attrs:
        """Its attributes, ``global_symbol`` among them if other modules see it."""
        raise NotImplementedError

    def with_attr(self, name: Any, value: Any = None) -> Any:
        """The same function with an attribute, or with those of a dictionary.

        Raises:
            TypeError: ``name`` is neither a string nor a dictionary.
        """
        instance_of(name, (str, Mapping), "with_attr: `name`", "a string")
        return self.with_attrs(name if isinstance(name, Mapping) else {name: value})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> Any:
        """The same function with more attributes, or other values of them."""
        return self.with_only_attrs({**self.attrs, **attr_map})

    def with_only_attrs(self, attrs: Mapping[str, Any]) -> Any:
        """The same function with these attributes and no others."""
        made = self.copy(str(attrs.get("global_symbol", self.name)))
        made._set_attrs(attrs)
        return made

    def without_attr(self, name: str) -> Any:
        """The same function without an attribute."""
        return self.with_only_attrs({k: v for k, v in self.attrs.items() if k != name})

    def copy(self, name: str | None = None) -> Any:
        """The same function, alone in a module of its own.

        Raises:
            ValueError: ``name`` has no form in UTF-8.
        """
        alone = self.module.alone()
        copied = copy_function(self, alone, name or self.name)
        return type(self)._view(alone, copied)

    @classmethod
    def _view(cls, module: IRModule, name: str) -> Any:
        made = cls.__new__(cls)
        made.module, made.name, made._is_view = module, name, True
        return made

    def _set_attrs(self, attrs: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def __call__(self, *args: Any, attrs: Any = None) -> Call:
        return Call(self, args)

    def _place(self) -> tuple[object, str]:
        """What it is a view of; what is no view is itself alone."""
        return (id(self.module), self.name) if self._is_view else (id(self), "")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, BaseFunc) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def __str__(self) -> str:
        return repr(self)


@dataclass(frozen=True)
class FunctionTerm:
    """A function that stands in no module yet: what it is made of."""

    params: tuple[Var, ...]
    body: SeqExpr
    ret: StructInfo | None
    is_pure: bool
    attrs: Attrs

    def with_only_attrs(self, attrs: Mapping[str, Any]) -> FunctionTerm:
        """The same with other attributes."""
        kept = Attrs({k: v for k, v in attrs.items() if v is not None})
        return FunctionTerm(self.params, self.body, self.ret, self.is_pure, kept)


class Function(BaseFunc):
    """A function of Relax: a view of one in a module, or a term that stands nowhere yet.

    A function inside of a function is a term; it may use the variables around it.

    Args:
        params: its parameters.
        body: what it computes.
        ret_struct_info: what is known of the result. What the body tells counts where
            that is more, without sizes that no parameter tells.
        is_pure: whether it does nothing else.
        attrs: its attributes.
    """

    term: FunctionTerm | None = None
    _module: IRModule | None = None
    _name: str = "main"

    def __init__(
        self,
        params: Sequence[Var],
        body: Expr,
        ret_struct_info: StructInfo | None = None,
        is_pure: bool | None = True,
        attrs: Mapping[str, Any] | None = None,
        span: object = None,
    ) -> None:
        is_pure = is_pure is not False
        values = Attrs(attrs)
        ret = getattr(ret_struct_info, "as_struct_info", lambda: ret_struct_info)()
        self.term = FunctionTerm(tuple(params), as_sequence(body), ret, is_pure, values)
        self._name = str(values.get("global_symbol", "main"))

    @staticmethod
    def of_term(term: FunctionTerm) -> Function:
        """The function that a term is."""
        return Function(term.params, term.body, term.ret, term.is_pure, term.attrs)

    @property
    def module(self) -> IRModule:
        """The module that it stands in; a term is written to one of its own.

        Raises:
            ValueError: the body uses a variable that nothing defines.
        """
        if self._module is None:
            from relax_mlir.module import IRModule

            assert self.term is not None
            module = IRModule.shared()
            write_function(module, self._name, self.term)
            self._module, self.term = module, None
        return self._module

    @module.setter
    def module(self, module: IRModule) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._module = module

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._name = name

    def with_only_attrs(self, attrs: Mapping[str, Any]) -> Any:
        if self.term is None:
            return super().with_only_attrs(attrs)
        return Function.of_term(self.term.with_only_attrs(attrs))

    def bind_params(self, binding_map: Mapping[Any, Any]) -> Function:
        """The same function with arrays or constants in place of parameters."""
        return _binding().bind_params(self, binding_map)

    def bind_symbolic_vars(self, binding_map: Mapping[Any, Any]) -> Function:
        """The same function with sizes in place of symbols."""
        return _binding().bind_symbolic_vars(self, binding_map)

    def inline_functions(self, function_map: Mapping[Any, Function]) -> Function:
        """The same function with others in place of calls of them."""
        return _binding().inline_functions(self, function_map)

    @property
    def scope(self) -> FunctionScope:
        """Which variable stands for which of its values."""
        return self.module.scope(self.name)

    def _reader(self) -> Reader:
        return Reader(self.scope, self.module.constants, self.module.signature_or_none)

    @property
    def params(self) -> list[Var]:
        """Its parameters."""
        if self.term is not None:
            return list(self.term.params)
        op = self.op
        return self._reader().params(op.entry_block, names.param_names(op))

    @property
    def body(self) -> SeqExpr:
        """What it computes."""
        if self.term is not None:
            return self.term.body
        op = self.op
        with op.context:
            reader = self._reader()
            reader.params(op.entry_block, names.param_names(op))
            return reader.body(op.entry_block)

    @property
    def ret_struct_info(self) -> StructInfo:
        """What is known of the result."""
        if self.term is not None:
            with shared_context(), ir.Location.unknown():
                return _returned(self.term, Symbols(), lambda name: None)
        infos = [from_mlir(t, self.scope.symbols) for t in self.op.type.results]
        return infos[0] if len(infos) == 1 else TupleStructInfo(infos)

    @property
    def ret_ty(self) -> StructInfo:
        """TVM's newest spelling of ``ret_struct_info``."""
        return self.ret_struct_info

    @property
    def is_pure(self) -> bool:
        """Whether it does nothing but compute its result."""
        if self.term is not None:
            return self.term.is_pure
        return names.IMPURE not in self.op.attributes

    def struct_info_or_none(self) -> StructInfo:
        params = [p.struct_info for p in self.params]
        return FuncStructInfo(params, self.ret_struct_info, self.is_pure)

    def spell(self, spelling: Spelling) -> None:
        """Its structure; see :mod:`.structure`."""
        spelling.function(self)

    def write_as_value(self, writer: Writer, var: Var) -> ir.Value:
        """Write it as a function inside of a function, bound to ``var``."""
        params, body = self.params, self.body
        attrs = {
            "attrs": dict(self.attrs),
            "is_pure": self.is_pure,
            "params": [p.name_hint for p in params],
        }
        return writer.function(var, self.struct_info, params, body, attrs)

    @property
    def attrs(self) -> Attrs:
        """Its attributes, ``global_symbol`` among them if other modules see it."""
        if self.term is not None:
            return self.term.attrs
        op = self.op
        values: dict[str, Any] = {}
        if not names.is_private(op):
            values["global_symbol"] = self.name
        if names.ATTRS in op.attributes:
            known = from_attribute(op.attributes[names.ATTRS])
            values.update(named_arrays(dict(known), self._with_array))
        elif "relax.primitive" in op.attributes:
            values["Primitive"] = True
        return Attrs(values)

    def _with_array(self, name: ArrayName) -> ArrayName:
        return ArrayName(name, self.module.constants.get(name))

    def _set_attrs(self, attrs: Mapping[str, Any]) -> None:
        with self.op.context, ir.Location.unknown():
            store_attrs(self.op, attrs, self.module.constants)


def store_attrs(
    op: func.FuncOp,
    attrs: Mapping[str, Any],
    constants: dict[str, np.ndarray] | None = None,
) -> None:
    """Give a function in MLIR the attributes of a script; needs its context.

    Args:
        op: the function.
        attrs: its attributes.
        constants: of its module, which gets the arrays that the attributes hold.
    """
    own = ("global_symbol", op.name.value)
    kept = {k: v for k, v in attrs.items() if k != own[0] or v != own[1]}
    if constants is not None:
        kept = named_arrays(kept, partial(_stored, constants=constants))
    for name in (names.ATTRS, "relax.primitive", "sym_visibility"):
        if name in op.attributes:
            del op.attributes[name]
    if kept:
        op.attributes[names.ATTRS] = to_attribute(kept)
    if kept.get("Primitive"):
        op.attributes["relax.primitive"] = ir.UnitAttr.get()
    if "global_symbol" not in attrs:
        op.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _stored(name: ArrayName, constants: dict[str, np.ndarray]) -> ArrayName:
    """A name under which the constants of a module have an array."""
    if name.array is None:
        return name
    key, count = str(name), 0
    while constants.setdefault(key, name.array) is not name.array:
        count += 1
        key = f"{name}.{count}"
    return ArrayName(key, name.array)


def write_function(module: IRModule, name: str, term: FunctionTerm) -> None:
    """Write a function of Relax to the end of a module.

    With an attribute ``global_symbol`` it is public, and private without.

    Raises:
        ValueError: the body uses a variable that nothing defines.
    """
    scope = FunctionScope()
    with module.context, ir.Location.unknown():
        types = [to_mlir(p.struct_info, scope.symbols) for p in term.params]
        with ir.InsertionPoint(module.mlir.body):
            function = func.FuncOp(name, ir.FunctionType.get(types, []))
        try:
            results = _fill(module, scope, function, term)
        except Exception:
            function.operation.erase()
            raise
        signature = ir.FunctionType.get(types, results)
        function.attributes["function_type"] = ir.TypeAttr.get(signature)
        names.set_arg_names(function, [p.name_hint for p in term.params])
        store_attrs(function, term.attrs, module.constants)
        if not term.is_pure:
            function.attributes[names.IMPURE] = ir.UnitAttr.get()
    module.set_scope(name, scope)


def _fill(
    module: IRModule, scope: FunctionScope, function: func.FuncOp, term: FunctionTerm
) -> list[ir.Type]:
    """Write the body; returns the types of the results."""
    block = function.add_entry_block()
    for param, argument in zip(term.params, block.arguments, strict=True):
        scope.define(param, argument)
    writer = Writer(scope, module.constants, module.signature_of)
    with ir.InsertionPoint(block):
        writer.sequence(term.body)
        value = writer.argument(term.body.body)
    info = _returned(term, scope.symbols, module.signature_of)
    values, infos = _results(value, info)
    types = [to_mlir(i, scope.symbols) for i in infos]
    with ir.InsertionPoint(block):
        leaves = [writer.leaf(v) for v in values]
        func.ReturnOp([_as(v, t) for v, t in zip(leaves, types, strict=True)])
    if writer.nested:
        function.attributes[names.NESTED] = ir.StringAttr.get(writer.nested)
    return types


def _results(
    value: Expr, info: StructInfo
) -> tuple[Sequence[Expr], Sequence[StructInfo]]:
    """What a function returns one by one: the parts of a tuple, but of a tuple of one.

    A function with one result gives just that.
    """
    if not isinstance(value, Tuple) or not isinstance(info, TupleStructInfo):
        return (value,), (info,)
    if len(value.fields) != len(info.fields) or len(info.fields) == 1:
        return (value,), (info,)
    return value.fields, info.fields


def _as(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A value of which no more is said than its function says."""
    if value.type == type_:
        return value
    return graph.BindOp(value, results=[type_]).result


def _returned(
    term: FunctionTerm, symbols: Symbols, functions: FunctionLookup
) -> StructInfo:
    """What is known of the result, from the body and from what was said of it."""
    known = infer(term.body, symbols, functions)
    if term.ret is not None and not term.ret.is_base_of(known):
        return term.ret
    told = [v for p in term.params for v in variables_in(p.struct_info)]
    return erase_unknown(known, lambda var: any(var is v for v in told))


def _binding() -> Any:  # Any: a module
    """What binds values; it stands above the objects and is loaded when it is used."""
    return importlib.import_module("relax_mlir.relax.function_binding")


def copy_function(source: BaseFunc, module: IRModule, name: str) -> str:
    """Copy a function to the end of a module; its variables stay the same objects.

    Returns:
        What it is called there.
    """
    term = getattr(source, "term", None)
    if term is not None:
        write_function(module, name, term)
        return name
    original = source.op
    if original.context == module.context:
        copied = original.operation.clone(ip=ir.InsertionPoint(module.mlir.body))
    else:
        text = original.operation.get_asm(print_generic_op_form=True)
        with module.context, ir.Location.unknown():
            copied = ir.Operation.parse(str(text))
            module.mlir.body.append(copied)
    with module.context:
        copied.attributes["sym_name"] = to_attribute(name)
    scope = FunctionScope()
    old = source.module.scope(source.name)
    scope.symbols = old.symbols
    scope.arguments = old.arguments
    _same_variables(original.operation, copied, old, scope)
    module.set_scope(name, scope)
    _copy_constants(source.module, copied.operation, module)
    return name


def _copy_constants(source: IRModule, copied: ir.Operation, module: IRModule) -> None:
    """Add the arrays that a copied function names, under keys that are not taken."""
    renamed: dict[str, str] = {}
    for key in source.keys_of(copied):
        array, name, count = source.constants[key], key, 0
        while module.constants.setdefault(name, array) is not array:
            count += 1
            name = f"{key}.{count}"
        if name != key:
            renamed[key] = name
    if not renamed:
        return

    def rename(op: ir.Operation) -> ir.WalkResult:
        view = op.opview
        if isinstance(view, ConstantOp) and view.key in renamed:
            op.attributes["value"] = ConstantOp.named(renamed[view.key])
        if names.ATTRS in op.attributes:
            attrs = from_attribute(op.attributes[names.ATTRS])
            made = named_arrays(dict(attrs), lambda n: ArrayName(renamed.get(n, n)))
            op.attributes[names.ATTRS] = to_attribute(made)
        return ir.WalkResult.ADVANCE

    with module.context:
        copied.walk(rename, ir.WalkOrder.PRE_ORDER)


def _same_variables(
    old_op: ir.Operation,
    new_op: ir.Operation | ir.OpView,
    old: FunctionScope,
    new: FunctionScope,
) -> None:
    """What the values of a copy are: what those of the original are."""

    def pair(theirs: Sequence[ir.Value], ours: Sequence[ir.Value]) -> None:
        for a, b in zip(theirs, ours, strict=True):
            known = old.expr(a)
            if known is not None:
                new.remember(b, known)

    for old_region, new_region in zip(old_op.regions, new_op.regions, strict=True):
        for old_block, new_block in zip(
            old_region.blocks, new_region.blocks, strict=True
        ):
            pair(list(old_block.arguments), list(new_block.arguments))
            pairs = zip(
                own_operations(old_block), own_operations(new_block), strict=True
            )
            for old_inner, new_inner in pairs:
                pair(
                    list(old_inner.operation.results), list(new_inner.operation.results)
                )
                _same_variables(old_inner.operation, new_inner.operation, old, new)
