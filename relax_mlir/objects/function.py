"""Functions of a module as Python objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.context import shared_context
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.argument_checks import instance_of
from relax_mlir.objects.expr import (
    Attrs,
    Call,
    Expr,
    SeqExpr,
    Tuple,
    Var,
    as_sequence,
)
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr.struct_info_types import from_mlir, to_mlir
from relax_mlir.objects.infer.struct_info import (
    FunctionLookup,
    erase_unknown_shapes,
    infer_struct_info,
    size_vars_in,
)
from relax_mlir.objects.mlir_attributes import (
    ArrayName,
    from_attribute,
    named_arrays,
    to_attribute,
)
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.read.relax import RelaxReader
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.write.relax import RelaxWriter
from relax_mlir.support.hooks import Hook

if TYPE_CHECKING:
    from relax_mlir.ir.module import IRModule
    from relax_mlir.objects.compare.structural_equal import StructuralEncoder

__all__ = [
    "FUNCTION_BINDING",
    "BaseFunc",
    "DetachedFunction",
    "Function",
    "FunctionBinding",
    "copy_function",
    "store_attrs",
    "write_function",
]


class BaseFunc(Expr):
    """A function of a module: of Relax or a PrimFunc.

    Attributes:
        module: the module that contains it; one of its own if it was constructed alone.
        name: its symbol name in the module.
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
        """Its attributes; ``global_symbol`` is present if the function is public."""
        raise NotImplementedError

    def with_attr(self, name: Any, value: Any = None) -> Any:
        """A copy with an attribute, or with those of a dictionary, added.

        Raises:
            TypeError: ``name`` is neither a string nor a dictionary.
        """
        instance_of(name, (str, Mapping), "with_attr: `name`", "a string")
        return self.with_attrs(name if isinstance(name, Mapping) else {name: value})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> Any:
        """A copy with attributes added or replaced."""
        return self.with_only_attrs({**self.attrs, **attr_map})

    def with_only_attrs(self, attrs: Mapping[str, Any]) -> Any:
        """A copy with exactly these attributes."""
        mapped = self.copy(str(attrs.get("global_symbol", self.name)))
        mapped._set_attrs(attrs)
        return mapped

    def without_attr(self, name: str) -> Any:
        """A copy without an attribute."""
        return self.with_only_attrs({k: v for k, v in self.attrs.items() if k != name})

    def copy(self, name: str | None = None) -> Any:
        """A copy in a module of its own.

        Raises:
            ValueError: ``name`` is not encodable in UTF-8.
        """
        alone = self.module.alone()
        copied = copy_function(self, alone, name or self.name)
        return type(self)._view(alone, copied)

    @classmethod
    def _view(cls, module: IRModule, name: str) -> Any:
        mapped = cls.__new__(cls)
        mapped.module, mapped.name, mapped._is_view = module, name, True
        return mapped

    def _set_attrs(self, attrs: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def __call__(self, *args: Any, attrs: Any = None) -> Call:
        return Call(self, args)

    def _identity(self) -> tuple[object, str]:
        """Its identity: the module and name of a view; otherwise the object."""
        return (id(self.module), self.name) if self._is_view else (id(self), "")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, BaseFunc) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        return repr(self)


@dataclass(frozen=True)
class DetachedFunction:
    """The parts of a function that does not belong to a module yet."""

    params: tuple[Var, ...]
    body: SeqExpr
    ret: StructInfo | None
    is_pure: bool
    attrs: Attrs

    def with_only_attrs(self, attrs: Mapping[str, Any]) -> DetachedFunction:
        """A copy with other attributes."""
        kept = Attrs({k: v for k, v in attrs.items() if v is not None})
        return DetachedFunction(self.params, self.body, self.ret, self.is_pure, kept)


@dataclass(frozen=True)
class FunctionBinding:
    """The functions of :mod:`relax_mlir.tvm.relax.function_binding`, which run passes.

    Attributes:
        bind_params, bind_symbolic_vars, inline_functions: of a function and a mapping.
    """

    bind_params: Callable[[Function, Mapping[Any, Any]], Function]
    bind_symbolic_vars: Callable[[Function, Mapping[Any, Any]], Function]
    inline_functions: Callable[[Function, Mapping[Any, Function]], Function]


FUNCTION_BINDING: Hook[FunctionBinding] = Hook("objects.function_binding")


class Function(BaseFunc):
    """A Relax function: a view of one in a module, or detached from any module.

    A local function is detached; it may capture variables of the enclosing function.

    Args:
        params: its parameters.
        body: its body.
        ret_struct_info: struct info of the result. That of the body is used where it is more
            precise, without size variables that no parameter defines.
        is_pure: whether it is free of side effects.
        attrs: its attributes.
    """

    detached: DetachedFunction | None = None
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
        self.detached = DetachedFunction(
            tuple(params), as_sequence(body), ret, is_pure, values
        )
        self._name = str(values.get("global_symbol", "main"))

    @staticmethod
    def from_detached(detached: DetachedFunction) -> Function:
        """The function of a detached definition."""
        return Function(
            detached.params,
            detached.body,
            detached.ret,
            detached.is_pure,
            detached.attrs,
        )

    @property
    def module(self) -> IRModule:
        """The module that contains it; a detached function is written to one of its own.

        Raises:
            ValueError: the body uses an undefined variable.
        """
        if self._module is None:
            from relax_mlir.ir.module import IRModule

            assert self.detached is not None
            module = IRModule.shared()
            write_function(module, self._name, self.detached)
            self._module, self.detached = module, None
        return self._module

    @module.setter
    def module(self, module: IRModule) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._module = module

    @property
    def name(self) -> str:
        """Its symbol name."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._name = name

    def with_only_attrs(self, attrs: Mapping[str, Any]) -> Any:
        if self.detached is None:
            return super().with_only_attrs(attrs)
        return Function.from_detached(self.detached.with_only_attrs(attrs))

    def bind_params(self, binding_map: Mapping[Any, Any]) -> Function:
        """A copy with parameters bound to arrays or constants."""
        return FUNCTION_BINDING.get().bind_params(self, binding_map)

    def bind_symbolic_vars(self, binding_map: Mapping[Any, Any]) -> Function:
        """A copy with size variables bound to sizes."""
        return FUNCTION_BINDING.get().bind_symbolic_vars(self, binding_map)

    def inline_functions(self, function_map: Mapping[Any, Function]) -> Function:
        """A copy with calls of functions inlined."""
        return FUNCTION_BINDING.get().inline_functions(self, function_map)

    @property
    def scope(self) -> FunctionScope:
        """The mapping between its variables and SSA values."""
        return self.module.scope(self.name)

    def _reader(self) -> RelaxReader:
        return RelaxReader(
            self.scope, self.module.constants, self.module.signature_or_none
        )

    @property
    def params(self) -> list[Var]:
        """Its parameters."""
        if self.detached is not None:
            return list(self.detached.params)
        op = self.op
        return self._reader().params(
            op.entry_block, function_attributes.param_names(op)
        )

    @property
    def body(self) -> SeqExpr:
        """Its body."""
        if self.detached is not None:
            return self.detached.body
        op = self.op
        with op.context:
            reader = self._reader()
            reader.params(op.entry_block, function_attributes.param_names(op))
            return reader.body(op.entry_block)

    @property
    def ret_struct_info(self) -> StructInfo:
        """Struct info of the result."""
        if self.detached is not None:
            with shared_context(), ir.Location.unknown():
                return _result_info(self.detached, Symbols(), lambda name: None)
        infos = [from_mlir(t, self.scope.symbols) for t in self.op.type.results]
        return infos[0] if len(infos) == 1 else TupleStructInfo(infos)

    @property
    def ret_ty(self) -> StructInfo:
        """Alias of ``ret_struct_info`` in TVM's newest releases."""
        return self.ret_struct_info

    @property
    def is_pure(self) -> bool:
        """Whether it is free of side effects."""
        if self.detached is not None:
            return self.detached.is_pure
        return function_attributes.IMPURE not in self.op.attributes

    def struct_info_or_none(self) -> StructInfo:
        params = [p.struct_info for p in self.params]
        return FuncStructInfo(params, self.ret_struct_info, self.is_pure)

    def encode_structure(self, encoder: StructuralEncoder) -> None:
        """Encodes its structure; see :mod:`relax_mlir.objects.compare.structural_equal`."""
        encoder.function(self)

    def write_as_value(self, writer: RelaxWriter, var: Var) -> ir.Value:
        """Writes it as a local function bound to ``var``."""
        params, body = self.params, self.body
        attrs = {
            "attrs": dict(self.attrs),
            "is_pure": self.is_pure,
            "params": [p.name_hint for p in params],
        }
        return writer.function(var, self.struct_info, params, body, attrs)

    @property
    def attrs(self) -> Attrs:
        """Its attributes; ``global_symbol`` is present if the function is public."""
        if self.detached is not None:
            return self.detached.attrs
        op = self.op
        values: dict[str, Any] = {}
        if not function_attributes.is_private(op):
            values["global_symbol"] = self.name
        if function_attributes.ATTRS in op.attributes:
            known = from_attribute(op.attributes[function_attributes.ATTRS])
            values.update(named_arrays(dict(known), self._with_array))
        elif function_attributes.is_primitive(op):
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
    """Sets the attributes of a function in MLIR; needs its context.

    Args:
        op: the function.
        attrs: its attributes.
        constants: the constant pool of its module, to which arrays in attributes are added.
    """
    own = ("global_symbol", op.name.value)
    kept = {k: v for k, v in attrs.items() if k != own[0] or v != own[1]}
    if constants is not None:
        kept = named_arrays(kept, partial(_pool_key, constants=constants))
    for name in (
        function_attributes.ATTRS,
        function_attributes.PRIMITIVE,
        "sym_visibility",
    ):
        if name in op.attributes:
            del op.attributes[name]
    if kept:
        op.attributes[function_attributes.ATTRS] = to_attribute(kept)
    if kept.get("Primitive"):
        op.attributes[function_attributes.PRIMITIVE] = ir.UnitAttr.get()
    if "global_symbol" not in attrs:
        op.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _pool_key(name: ArrayName, constants: dict[str, np.ndarray]) -> ArrayName:
    """The key under which the constant pool has an array, added if it is new."""
    if name.array is None:
        return name
    key, count = str(name), 0
    while constants.setdefault(key, name.array) is not name.array:
        count += 1
        key = f"{name}.{count}"
    return ArrayName(key, name.array)


def write_function(module: IRModule, name: str, detached: DetachedFunction) -> None:
    """Appends a Relax function to a module.

    It is public if it has the attribute ``global_symbol``, otherwise private.

    Raises:
        ValueError: the body uses an undefined variable.
    """
    scope = FunctionScope()
    with module.context, ir.Location.unknown():
        types = [to_mlir(p.struct_info, scope.symbols) for p in detached.params]
        with ir.InsertionPoint(module.mlir.body):
            function = func.FuncOp(name, ir.FunctionType.get(types, []))
        try:
            results = _write_body(module, scope, function, detached)
        except Exception:
            function.operation.erase()
            raise
        signature = ir.FunctionType.get(types, results)
        function.attributes["function_type"] = ir.TypeAttr.get(signature)
        function_attributes.set_arg_names(
            function, [p.name_hint for p in detached.params]
        )
        store_attrs(function, detached.attrs, module.constants)
        if not detached.is_pure:
            function.attributes[function_attributes.IMPURE] = ir.UnitAttr.get()
    module.set_scope(name, scope)


def _write_body(
    module: IRModule,
    scope: FunctionScope,
    function: func.FuncOp,
    detached: DetachedFunction,
) -> list[ir.Type]:
    """Writes the body and returns the result types."""
    block = function.add_entry_block()
    for param, argument in zip(detached.params, block.arguments, strict=True):
        scope.define(param, argument)
    writer = RelaxWriter(scope, module.constants, module.signature_of)
    with ir.InsertionPoint(block):
        writer.sequence(detached.body)
        value = writer.argument(detached.body.body)
    info = _result_info(detached, scope.symbols, module.signature_of)
    values, infos = _results(value, info)
    types = [to_mlir(i, scope.symbols) for i in infos]
    with ir.InsertionPoint(block):
        leaves = [writer.leaf(v) for v in values]
        func.ReturnOp([_generalized(v, t) for v, t in zip(leaves, types, strict=True)])
    if writer.nested:
        function.attributes[function_attributes.NESTED] = ir.StringAttr.get(
            writer.nested
        )
    return types


def _results(
    value: Expr, info: StructInfo
) -> tuple[Sequence[Expr], Sequence[StructInfo]]:
    """The results of a function in MLIR: the fields of a returned tuple.

    Other values, also tuples of one field, are a single result.
    """
    if not isinstance(value, Tuple) or not isinstance(info, TupleStructInfo):
        return (value,), (info,)
    if len(value.fields) != len(info.fields) or len(info.fields) == 1:
        return (value,), (info,)
    return value.fields, info.fields


def _generalized(value: ir.Value, type_: ir.Type) -> ir.Value:
    """A value with its type generalized to the declared result type."""
    if value.type == type_:
        return value
    return graph.BindOp(value, results=[type_]).result


def _result_info(
    detached: DetachedFunction, symbols: Symbols, functions: FunctionLookup
) -> StructInfo:
    """Struct info of the result, from the body and the declaration."""
    known = infer_struct_info(detached.body, symbols, functions)
    if detached.ret is not None and not detached.ret.is_base_of(known):
        return detached.ret
    defined = [v for p in detached.params for v in size_vars_in(p.struct_info)]
    return erase_unknown_shapes(known, lambda var: any(var is v for v in defined))


def copy_function(source: BaseFunc, module: IRModule, name: str) -> str:
    """Copies a function to the end of a module, keeping the identity of its variables.

    Returns:
        Its symbol name there.
    """
    detached = getattr(source, "detached", None)
    if detached is not None:
        write_function(module, name, detached)
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
    _share_variables(original.operation, copied, old, scope)
    module.set_scope(name, scope)
    _copy_constants(source.module, copied.operation, module)
    return name


def _copy_constants(source: IRModule, copied: ir.Operation, module: IRModule) -> None:
    """Adds the constants that a copied function uses, under unique keys."""
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
        if function_attributes.ATTRS in op.attributes:
            attrs = from_attribute(op.attributes[function_attributes.ATTRS])
            mapped = named_arrays(dict(attrs), lambda n: ArrayName(renamed.get(n, n)))
            op.attributes[function_attributes.ATTRS] = to_attribute(mapped)
        return ir.WalkResult.ADVANCE

    with module.context:
        copied.walk(rename, ir.WalkOrder.PRE_ORDER)


def _share_variables(
    old_op: ir.Operation,
    new_op: ir.Operation | ir.OpView,
    old: FunctionScope,
    new: FunctionScope,
) -> None:
    """Associates the values of a copy with the expressions of the original's values."""

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
                _share_variables(old_inner.operation, new_inner.operation, old, new)
