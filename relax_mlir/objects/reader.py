"""MLIR read as Relax expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.dims import Expr as DimExpr
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import (
    CallDpsPackedOp,
    CallTirOp,
    ConstantOp,
    RelaxOperation,
    TupleGetItemOp,
)
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute
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
from relax_mlir.objects.operators import argument_expr
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.struct_info_types import from_mlir
from relax_mlir.traversal import own_operations

__all__ = ["Reader"]

_PACK = "builtin.unrealized_conversion_cast"
_TERMINATORS = frozenset({"func.return", "gpu.yield"})


class Reader:
    """Reads the body of one function.

    Args:
        scope: the function's variables; what is read is remembered there.
        constants: the module's arrays.
        signature: what is known of the functions of the module.
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

    def params(self, block: ir.Block, called: Sequence[str | None]) -> list[Var]:
        """The parameters that a block's arguments are."""
        return self._named(list(block.arguments), called)

    def _named(
        self, arguments: Sequence[ir.Value], called: Sequence[str | None]
    ) -> list[Var]:
        found = []
        for number, (argument, name) in enumerate(zip(arguments, called, strict=True)):
            known = self.scope.expr(argument)
            if not isinstance(known, Var):
                known = Var(name or f"arg{number}", self.info(argument))
                self.scope.remember(argument, known)
            found.append(known)
        return found

    def body(self, block: ir.Block) -> SeqExpr:
        """All blocks of bindings, and the value that is returned."""
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
        """What the type of a value says."""
        return from_mlir(value.type, self.scope.symbols)

    def expr(self, value: ir.Value) -> Expr:
        """A value as an argument: its variable, or the constant that it is."""
        known = self.scope.expr(value)
        if known is not None:
            return known
        made = self._renamed(value) or self._inline(value)
        self.scope.remember(value, made)
        return made

    def _block_of(self, op: ir.OpView) -> int:
        """The number of the dataflow block that an operation stands in, or -1.

        Where nothing says so, runs of pure operations are dataflow blocks.
        """
        attributes = op.operation.attributes
        if names.BLOCK in attributes:
            return ir.IntegerAttr(attributes[names.BLOCK]).value
        if isinstance(op, graph.IfOp):  # a dataflow block branches nowhere
            return -1
        return 0 if isinstance(op, func.CallOp) or _EFFECTS.of(op).is_pure else -1

    def _bindings(self, op: ir.OpView) -> Iterator[Binding]:
        results = list(op.operation.results)
        if not results or (_is_inline(op) and names.NAME not in op.attributes):
            return
        if len(results) == 1:
            yield self._binding(op, results[0])
        elif not _packed(op):
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
        if names.NAME in attributes:
            name = ir.StringAttr(attributes[names.NAME]).value
        inner = self._block_of(op) >= 0 and not self._is_output(op, value)
        made = (DataflowVar if inner else Var)(name, self.info(value))
        self.scope.remember(value, made)
        return made

    def _is_output(self, op: ir.OpView, value: ir.Value) -> bool:
        if names.BLOCK in op.operation.attributes:
            return names.OUTPUT in op.operation.attributes
        return any(self._leaves(use.owner) for use in value.uses)

    def _leaves(self, user: ir.OpView) -> bool:
        """Whether a user sees the value outside of its dataflow block."""
        if user.operation.name == _PACK and names.NAME not in user.operation.attributes:
            uses = (use.owner for r in user.operation.results for use in r.uses)
            return any(map(self._leaves, uses))
        return user.operation.name in _TERMINATORS or self._block_of(user) < 0

    def _many_results(
        self, op: ir.OpView, results: Sequence[ir.Value]
    ) -> Iterator[Binding]:
        """An operation with several results: a tuple, and a variable per element."""
        call = self.value_of(op)
        whole = DataflowVar("lv", call.struct_info)
        yield VarBinding(whole, call)
        for index, result in enumerate(results):
            yield VarBinding(self._var(op, result), TupleGetItem(whole, index))

    def value_of(self, op: ir.OpView) -> Expr:
        """What an operation computes, as an expression with its struct info."""
        read = _READERS.get(type(op))
        if read is not None:
            made = read(self, op)
        elif isinstance(op, _INLINE):
            made = self._inline(op.operation.results[0])
        elif isinstance(op, RelaxOperation):
            made = self._operator(op)
        elif op.operation.name == _PACK and (packed := _unpacked(op)) is not None:
            return self.value_of(packed)
        elif isinstance(op, func.CallOp):
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            made = Call(self._global(callee), [self.expr(v) for v in op.operands])
        else:
            made = self._inline(op.operation.results[0])
        results = list(op.operation.results)
        if isinstance(made, Call):
            infos = [self.info(r) for r in results]
            return made.with_struct_info(
                infos[0] if len(infos) == 1 else TupleStructInfo(infos)
            )
        return made

    def _operator(self, op: RelaxOperation) -> Call:
        """A call of the operator that an operation is."""
        attrs = _written_out(op)
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

    def _as_attribute(self, value: Any) -> Any:  # Any: as many types as attributes
        if isinstance(value, dtypes.DType):
            return value.name
        if isinstance(value, DimExpr):
            return self.scope.symbols.term(value)
        if isinstance(value, tuple):
            return tuple(map(self._as_attribute, value))
        return value

    def _elements(self, value: ir.Value) -> Expr:
        """The arguments that a call takes as a tuple."""
        return self.expr(value)

    def _list(self, value: ir.Value) -> list[Expr]:
        return [self.expr(v) for v in tensors.elements(value)]

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
        if names.TIR_VARS in op.attributes:
            args.append(ShapeExpr(self._dims(op.attributes[names.TIR_VARS])))
        return Call(Op.of(name), args, None, [self.info(op.results[0])])

    def _dims(self, attr: ir.Attribute) -> Sequence[Any]:
        dims: tuple[Dim, ...] = tensors.python_value(attr)
        return self.scope.symbols.terms(dims)

    def _call(self, op: graph.CallOp) -> Call:
        callee = self._global(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
        args = self._list(op.args)
        if callee.struct_info_or_none() is None:
            known = [a.struct_info_or_none() or ObjectStructInfo() for a in args]
            is_pure = names.IMPURE not in op.attributes
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
        made = If(self.expr(op.condition), then, other)
        made._struct_info = self.info(op.result)
        return made

    def _function(self, op: graph.FunctionOp) -> Expr:
        from relax_mlir.objects.function import Function

        known = from_attribute(op.attributes["attrs"])
        block = op.operation.regions[0].blocks[0]
        me, *arguments = block.arguments
        var = self.scope.expr(op.operation.results[0])
        if isinstance(var, Var):
            self.scope.remember(me, var)
            self.scope.define(var, op.operation.results[0])
        params = self._named(arguments, known["params"])
        info = self.info(op.operation.results[0])
        ret = info.ret if isinstance(info, FuncStructInfo) else None
        return Function(params, self.body(block), ret, known["is_pure"], known["attrs"])

    def _renamed(self, value: ir.Value) -> Expr | None:
        """What a value is that only says less of another; None for other values."""
        op = value.owner
        if isinstance(op, ir.Block) or names.NAME in op.attributes:
            return None
        view = op.opview if isinstance(op, ir.Operation) else op
        return self.expr(view.value) if isinstance(view, graph.BindOp) else None

    def _inline(self, value: ir.Value) -> Expr:
        """The constant expression that a value without a name is."""
        op = value.owner
        assert not isinstance(op, ir.Block), "arguments are read with the parameters"
        view = op.opview if isinstance(op, ir.Operation) else op
        if isinstance(view, ConstantOp):
            return Constant(view.array(self.constants))
        if view.operation.name == _PACK:
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
        """Read a binding that is asked for before its block is."""
        for _ in self._bindings(op):
            pass


def _block(number: int, bindings: Sequence[Binding]) -> BindingBlock:
    return DataflowBlock(bindings) if number >= 0 else BindingBlock(bindings)


def _is_inline(op: ir.OpView) -> bool:
    return isinstance(op, (*_INLINE, graph.BindOp)) or op.operation.name == _PACK


def _packed(op: ir.OpView) -> bool:
    """Whether all results go into one named tuple, which is then the binding."""
    results = list(op.operation.results)
    for use in results[0].uses:
        owner = use.owner.operation
        if owner.name == _PACK and names.NAME in owner.attributes:
            return list(owner.operands) == results
    return False


def _unpacked(pack: ir.OpView) -> ir.OpView | None:
    """The operation of which a tuple holds all of several results."""
    operands = list(pack.operation.operands)
    owner = operands[0].owner if len(operands) > 1 else None
    if not isinstance(owner, (ir.OpView, ir.Operation)):
        return None
    view = owner.opview if isinstance(owner, ir.Operation) else owner
    return view if list(view.operation.results) == operands else None


def _written_out(op: RelaxOperation) -> dict[str, Any]:  # Any: of every kind
    """The attributes of an operation, of which no argument in front of others is left out."""
    attrs = op.python_attrs()
    attrs.pop("operandSegmentSizes", None)
    given = [attrs[name] is not None for name in op.argument_attributes]
    if given == sorted(given, reverse=True):
        return attrs
    return op.normalize_arguments(**attrs)


_EFFECTS = EffectAnalysis()  # of operations alone; calls of functions may do anything
_INLINE = (
    *(ConstantOp, graph.ShapeExprOp, graph.PrimValueOp, graph.StringOp),
    *(graph.DataTypeOp, graph.GlobalVarOp, graph.ExternFuncOp, graph.FreeVarOp),
)
_READERS: Mapping[type, Callable[[Reader, Any], Expr]] = {
    CallTirOp: Reader._call_tir,
    CallDpsPackedOp: Reader._call_dps_packed,
    TupleGetItemOp: Reader._tuple_get_item,
    graph.CallOp: Reader._call,
    graph.CallValueOp: Reader._call_value,
    graph.CallExternOp: Reader._call_extern,
    graph.CallOperatorOp: Reader._call_operator,
    graph.BindOp: Reader._bind,
    graph.IfOp: Reader._if,
    graph.FunctionOp: Reader._function,
}
