"""Reads MLIR as Relax expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import (
    CallDpsPackedOp,
    CallTirOp,
    ConstantOp,
    RelaxOperation,
    TupleGetItemOp,
)
from relax_mlir.ir import function_attributes
from relax_mlir.ir.traversal import own_operations
from relax_mlir.ir.use_def import named_tuple_of, packed_operation, users_of
from relax_mlir.objects.effects import EffectAnalysis
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
)
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr.struct_info_types import from_mlir
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.objects.operators import argument_expr
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.dims import Expr as DimExpr

__all__ = ["RelaxReader"]

_TERMINATORS = frozenset({"func.return", "gpu.yield"})


class RelaxReader:
    """Reads the body of one Relax function.

    Args:
        scope: the function's variables, completed with those that are read first.
        constants: the module's constant pool.
        signature: gives the struct info of a function of the module.
    """

    def __init__(
        self,
        scope: FunctionScope,
        constants: Mapping[str, np.ndarray],
        signature: Callable[[str], StructInfo | None] = lambda name: None,
    ) -> None:
        self.scope = scope
        self.constants = constants
        self.signature = signature

    def params(self, block: ir.Block, names: Sequence[str | None]) -> list[Var]:
        """The parameters of a block's arguments."""
        return self._variables_of(list(block.arguments), names)

    def _variables_of(
        self, arguments: Sequence[ir.Value], names: Sequence[str | None]
    ) -> list[Var]:
        found = []
        for number, (argument, name) in enumerate(zip(arguments, names, strict=True)):
            known = self.scope.expr(argument)
            if not isinstance(known, Var):
                known = Var(name or f"arg{number}", self.info(argument))
                self.scope.remember(argument, known)
            found.append(known)
        return found

    def body(self, block: ir.Block) -> SeqExpr:
        """The binding blocks and the returned value."""
        operations = list(own_operations(block))
        terminator = operations[-1]
        entries = [
            (self._block_of(op), binding)
            for op in operations
            if op.operation.name not in _TERMINATORS
            for binding in self._bindings(op)
        ]
        blocks = [
            _block(number, [binding for _, binding in members])
            for number, members in groupby(entries, key=lambda entry: entry[0])
        ]
        returned = [self.expr(v) for v in terminator.operands]
        is_yield = terminator.operation.name == "gpu.yield"
        single = len(returned) == 1 or is_yield
        return SeqExpr(blocks, returned[0] if single else Tuple(returned))

    def info(self, value: ir.Value) -> StructInfo:
        """The struct info of a value's type."""
        return from_mlir(value.type, self.scope.symbols)

    def expr(self, value: ir.Value) -> Expr:
        """A value as an argument: its variable, or a constant expression."""
        known = self.scope.expr(value)
        if known is not None:
            return known
        result = self._generalized_operand(value) or self._inline(value)
        self.scope.remember(value, result)
        return result

    def _block_of(self, op: ir.OpView) -> int:
        """The number of an operation's dataflow block, or -1.

        By default, runs of pure operations form a dataflow block.
        """
        attributes = op.operation.attributes
        if function_attributes.BLOCK in attributes:
            return ir.IntegerAttr(attributes[function_attributes.BLOCK]).value
        if isinstance(op, graph.IfOp):  # dataflow blocks have no control flow
            return -1
        return 0 if isinstance(op, func.CallOp) or _EFFECTS.of(op).is_pure else -1

    def _bindings(self, op: ir.OpView) -> Iterator[Binding]:
        results = list(op.operation.results)
        if not results or (
            _is_inline(op) and function_attributes.NAME not in op.attributes
        ):
            return
        if len(results) == 1:
            yield self._binding(op, results[0])
        elif named_tuple_of(op) is None:
            yield from self._many_results(op, results)

    def _binding(self, op: ir.OpView, value: ir.Value) -> Binding:
        var = self._var(op, value)
        if isinstance(op, graph.MatchCastOp):
            return MatchCast(var, self.expr(op.value), var.struct_info)
        return VarBinding(var, self.value_of(op))

    def _var(self, op: ir.OpView, value: ir.Value) -> Var:
        known = self.scope.expr(value)
        if isinstance(known, Var):
            return known
        attributes = op.operation.attributes
        name = "lv"
        if function_attributes.NAME in attributes:
            name = ir.StringAttr(attributes[function_attributes.NAME]).value
        inner = self._block_of(op) >= 0 and not self._is_output(op, value)
        result = (DataflowVar if inner else Var)(name, self.info(value))
        self.scope.remember(value, result)
        return result

    def _is_output(self, op: ir.OpView, value: ir.Value) -> bool:
        if function_attributes.BLOCK in op.operation.attributes:
            return function_attributes.OUTPUT in op.operation.attributes
        return any(map(self._escapes, users_of(value)))

    def _escapes(self, user: ir.OpView) -> bool:
        """Whether a user is outside of the value's dataflow block."""
        return user.operation.name in _TERMINATORS or self._block_of(user) < 0

    def _many_results(
        self, op: ir.OpView, results: Sequence[ir.Value]
    ) -> Iterator[Binding]:
        """An operation with several results: a tuple binding and one per field."""
        call = self.value_of(op)
        whole = DataflowVar("lv", call.struct_info)
        yield VarBinding(whole, call)
        for index, result in enumerate(results):
            yield VarBinding(self._var(op, result), TupleGetItem(whole, index))

    def value_of(self, op: ir.OpView) -> Expr:
        """The expression of an operation, with struct info."""
        read = _READERS.get(type(op))
        if read is not None:
            result = read(self, op)
        elif isinstance(op, _INLINE):
            result = self._inline(op.operation.results[0])
        elif isinstance(op, RelaxOperation):
            result = self._operator(op)
        elif (
            op.operation.name == tensors.TUPLE_PACK
            and (packed := packed_operation(op)) is not None
        ):
            return self.value_of(packed)
        elif isinstance(op, func.CallOp):
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            result = Call(self._global(callee), [self.expr(v) for v in op.operands])
        else:
            result = self._inline(op.operation.results[0])
        results = list(op.operation.results)
        if isinstance(result, Call):
            infos = [self.info(r) for r in results]
            return result.with_struct_info(
                infos[0] if len(infos) == 1 else TupleStructInfo(infos)
            )
        return result

    def _operator(self, op: RelaxOperation) -> Call:
        """The operator call of an operation."""
        attrs = _positional_attributes(op)
        args: list[Expr] = []
        for name in op.argument_order():
            if name in op.operand_fields:
                operand = getattr(op, name)
                several = [operand] if isinstance(operand, ir.Value) else operand
                args += map(self.expr, several)
            else:
                value = self._as_attribute(attrs.pop(name))
                if value is not None:
                    args.append(argument_expr(type(op), name, value))
        shown = {n: self._as_attribute(v) for n, v in attrs.items()}
        return Call(Op.of(f"relax.{op.script_name()}"), args, Attrs(shown))

    def _as_attribute(
        self, value: Any
    ) -> Any:  # Any: the type depends on the attribute
        if isinstance(value, dtypes.DType):
            return value.name
        if isinstance(value, DimExpr):
            return self.scope.symbols.expr(value)
        if isinstance(value, tuple):
            return tuple(map(self._as_attribute, value))
        return value

    def _elements(self, value: ir.Value) -> Expr:
        """The arguments of a destination-passing call, as a tuple expression."""
        return self.expr(value)

    def _list(self, value: ir.Value) -> list[Expr]:
        return [self.expr(v) for v in tensors.tuple_elements(value)]

    def _global(self, name: str) -> GlobalVar:
        return GlobalVar(name, self.signature(name))

    def _call_tir(self, op: CallTirOp) -> Call:
        callee = self._global(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
        return self._destination_passing("relax.call_tir", callee, op)

    def _call_dps_packed(self, op: CallDpsPackedOp) -> Call:
        callee = ExternFunc(ir.StringAttr(op.attributes["callee"]).value)
        return self._destination_passing("relax.call_dps_packed", callee, op)

    def _destination_passing(self, name: str, callee: Expr, op: RelaxOperation) -> Call:
        args: list[Expr] = [callee, self._elements(op.operands[0])]
        if function_attributes.TIR_VARS in op.attributes:
            args.append(
                ShapeExpr(self._dims(op.attributes[function_attributes.TIR_VARS]))
            )
        return Call(Op.of(name), args, None, [self.info(op.results[0])])

    def _dims(self, attr: ir.Attribute) -> Sequence[Any]:
        dims: tuple[Dim, ...] = tensors.python_value(attr)
        return self.scope.symbols.exprs(dims)

    def _call(self, op: graph.CallOp) -> Call:
        callee = self._global(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
        args = self._list(op.args)
        if callee.struct_info_or_none() is None:
            known = [a.struct_info_or_none() or ObjectStructInfo() for a in args]
            is_pure = function_attributes.IMPURE not in op.attributes
            info = FuncStructInfo(known, self.info(op.result), is_pure)
            callee = GlobalVar(callee.name_hint, info)
        return Call(callee, args)

    def _call_value(self, op: graph.CallValueOp) -> Call:
        return Call(self.expr(op.function), self._list(op.args))

    def _call_extern(self, op: graph.CallExternOp) -> Call:
        callee = ExternFunc(ir.StringAttr(op.attributes["callee"]).value)
        attrs = from_attribute(op.attributes["attrs"])
        types = self._types(op, "relax.types")
        return Call(callee, self._list(op.args), attrs, types)

    def _call_operator(self, op: graph.CallOperatorOp) -> Call:
        name = ir.StringAttr(op.attributes["operator"]).value
        attrs = from_attribute(op.attributes["attrs"])
        return Call(Op.of(name), self._list(op.args), attrs, self._types(op, "types"))

    def _types(self, op: ir.OpView, attribute: str) -> list[StructInfo]:
        if attribute not in op.attributes:
            return []
        types = [ir.TypeAttr(t).value for t in ir.ArrayAttr(op.attributes[attribute])]
        return [from_mlir(t, self.scope.symbols) for t in types]

    def _bind(self, op: graph.BindOp) -> Expr:
        return self.expr(op.value)

    def _tuple_get_item(self, op: TupleGetItemOp) -> Expr:
        return TupleGetItem(self.expr(op.tuple_value), op.python_attrs()["index"])

    def _if(self, op: graph.IfOp) -> Expr:
        then, other = (self.body(r.blocks[0]) for r in op.operation.regions)
        result = If(self.expr(op.condition), then, other)
        result._struct_info = self.info(op.result)
        return result

    def _function(self, op: graph.FunctionOp) -> Expr:
        from relax_mlir.objects.function import Function

        known = from_attribute(op.attributes["attrs"])
        block = op.operation.regions[0].blocks[0]
        me, *arguments = block.arguments
        var = self.scope.expr(op.operation.results[0])
        if isinstance(var, Var):
            self.scope.remember(me, var)
            self.scope.define(var, op.operation.results[0])
        params = self._variables_of(arguments, known["params"])
        info = self.info(op.operation.results[0])
        ret = info.ret if isinstance(info, FuncStructInfo) else None
        return Function(params, self.body(block), ret, known["is_pure"], known["attrs"])

    def _generalized_operand(self, value: ir.Value) -> Expr | None:
        """The operand of an unnamed ``relax.bind``, which only generalizes a type; or None."""
        op = value.owner
        if isinstance(op, ir.Block) or function_attributes.NAME in op.attributes:
            return None
        view = op.opview if isinstance(op, ir.Operation) else op
        return self.expr(view.value) if isinstance(view, graph.BindOp) else None

    def _inline(self, value: ir.Value) -> Expr:
        """The constant expression of an unnamed value."""
        op = value.owner
        assert not isinstance(op, ir.Block), "arguments are read with the parameters"
        view = op.opview if isinstance(op, ir.Operation) else op
        if isinstance(view, ConstantOp):
            return Constant(view.array(self.constants))
        if view.operation.name == tensors.TUPLE_PACK:
            return Tuple([self.expr(v) for v in view.operands])
        info = self.info(value)
        attributes = view.attributes
        if isinstance(view, graph.ShapeExprOp):
            assert isinstance(info, ShapeStructInfo)
            return ShapeExpr(info.values or ())
        if isinstance(view, graph.PrimValueOp):
            assert isinstance(info, PrimStructInfo)
            return PrimValue(info.value)
        if isinstance(view, graph.StringOp):
            return StringImm(ir.StringAttr(attributes["value"]).value)
        if isinstance(view, graph.DataTypeOp):
            return DataTypeImm(ir.StringAttr(attributes["value"]).value)
        if isinstance(view, graph.GlobalVarOp):
            return self._global(ir.FlatSymbolRefAttr(attributes["callee"]).value)
        if isinstance(view, graph.FreeVarOp):
            return Var(ir.StringAttr(attributes["called"]).value, info)
        if isinstance(view, graph.ExternFuncOp):
            return ExternFunc(ir.StringAttr(attributes["callee"]).value, info)
        self._read_late(view)
        known = self.scope.expr(value)
        assert known is not None
        return known

    def _read_late(self, op: ir.OpView) -> None:
        """Reads a binding that is used before its block is read."""
        for _ in self._bindings(op):
            pass


def _block(number: int, bindings: Sequence[Binding]) -> BindingBlock:
    return DataflowBlock(bindings) if number >= 0 else BindingBlock(bindings)


def _is_inline(op: ir.OpView) -> bool:
    return (
        isinstance(op, (*_INLINE, graph.BindOp))
        or op.operation.name == tensors.TUPLE_PACK
    )


def _positional_attributes(op: RelaxOperation) -> dict[str, Any]:  # Any: by attribute
    """The attributes of an operation, with defaults for omitted arguments before others."""
    attrs = op.python_attrs()
    attrs.pop("operandSegmentSizes", None)
    given = [attrs[name] is not None for name in op.argument_attributes]
    if given == sorted(given, reverse=True):
        return attrs
    return op.normalize_arguments(**attrs)


_EFFECTS = EffectAnalysis()  # without a module: calls of functions are impure
_INLINE = (
    *(ConstantOp, graph.ShapeExprOp, graph.PrimValueOp, graph.StringOp),
    *(graph.DataTypeOp, graph.GlobalVarOp, graph.ExternFuncOp, graph.FreeVarOp),
)
_READERS: Mapping[type, Callable[[RelaxReader, Any], Expr]] = {
    CallTirOp: RelaxReader._call_tir,
    CallDpsPackedOp: RelaxReader._call_dps_packed,
    TupleGetItemOp: RelaxReader._tuple_get_item,
    graph.CallOp: RelaxReader._call,
    graph.CallValueOp: RelaxReader._call_value,
    graph.CallExternOp: RelaxReader._call_extern,
    graph.CallOperatorOp: RelaxReader._call_operator,
    graph.BindOp: RelaxReader._bind,
    graph.IfOp: RelaxReader._if,
    graph.FunctionOp: RelaxReader._function,
}
