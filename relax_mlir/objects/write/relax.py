"""Writes Relax expressions to MLIR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import (
    CallDpsPackedOp,
    CallTirOp,
    ConstantOp,
    RelaxOperation,
    TupleGetItemOp,
)
from relax_mlir.ir import function_attributes
from relax_mlir.objects.expr import (
    Binding,
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
    is_leaf,
)
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr.struct_info_types import to_mlir
from relax_mlir.objects.infer.struct_info import FunctionLookup, infer_struct_info
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.operators import (
    operation_class,
    optional_operands,
    static_arguments,
)
from relax_mlir.objects.scope import FunctionScope

__all__ = ["RelaxWriter"]

# Calls that are operations of their own, with the callee among the arguments.
_DESTINATION_PASSING = {"relax.call_tir", "relax.call_dps_packed"}


class RelaxWriter:
    """Writes the bindings of one function at the current insertion point.

    Nested expressions become bindings of their own before the current one.

    Args:
        scope: the function's variables.
        constants: the module's constant pool.
        functions: gives the struct info of a function of the module.
    """

    def __init__(
        self,
        scope: FunctionScope,
        constants: MutableMapping[str, np.ndarray],
        functions: FunctionLookup = lambda name: None,
    ) -> None:
        self.scope = scope
        self.constants = constants
        self.functions = functions
        self.nested = ""  # the first nested expression, for a diagnostic
        self._block = -1
        self._dataflow_blocks = 0

    def bind(self, var: Var, expr: Expr) -> ir.Value:
        """Writes ``var = expr``."""
        expr = self.normal(expr)
        if var.struct_info_or_none() is None:
            var._struct_info = infer_struct_info(
                expr, self.scope.symbols, self.functions
            )
        write = getattr(expr, "write_as_value", None)
        value = (
            self._bound(expr, var.struct_info) if write is None else write(self, var)
        )
        self._name(value, var)
        return value

    def normal(self, expr: Expr) -> Expr:
        """An expression with leaves as arguments; nested expressions are bound first."""
        if isinstance(expr, SeqExpr):
            self.sequence(expr)
            return self.normal(expr.body)
        if isinstance(expr, Call):
            args = [self.argument(a) for a in expr.args]
            if not _same(args, expr.args):
                known = expr.struct_info_or_none()
                expr = Call(expr.op, args, expr.attrs, expr.sinfo_args, expr.span)
                expr._struct_info = known
            if expr.struct_info_or_none() is None:
                info = infer_struct_info(expr, self.scope.symbols, self.functions)
                return expr.with_struct_info(info)
        elif isinstance(expr, Tuple):
            fields = [self.argument(f) for f in expr.fields]
            return expr if _same(fields, expr.fields) else Tuple(fields)
        elif isinstance(expr, TupleGetItem):
            whole = self.argument(expr.tuple_value)
            same = whole is expr.tuple_value
            return expr if same else TupleGetItem(whole, expr.index)
        return expr

    def argument(self, expr: Expr) -> Expr:
        """An expression as an argument: bound to a variable unless it is a leaf."""
        value = self.normal(expr)
        if is_leaf(value) or type(value) not in _NESTED:
            return value
        name, kind = ("lv", DataflowVar) if self.in_dataflow else ("gv", Var)
        var = kind(name, infer_struct_info(value, self.scope.symbols, self.functions))
        self.bind(var, value)
        self.nested = self.nested or repr(expr)
        return var

    def _name(self, value: ir.Value, var: Var) -> None:
        attributes = value.owner.attributes
        attributes[function_attributes.NAME] = ir.StringAttr.get(var.name_hint)
        attributes[function_attributes.BLOCK] = to_attribute(self._block)
        if self.in_dataflow and not isinstance(var, DataflowVar):
            attributes[function_attributes.OUTPUT] = ir.UnitAttr.get()
        self.scope.define(var, value)

    def _bound(self, expr: Expr, info: StructInfo) -> ir.Value:
        """The value of an expression, as the result of an operation of its own."""
        if isinstance(expr, Var):
            value = self._variable(expr)
            return graph.BindOp(value, results=[self.type(info)]).result
        if isinstance(expr, Call):
            return self._call(expr, info)
        if isinstance(expr, If):
            return self._if(expr, info)
        if isinstance(expr, TupleGetItem):
            whole = self.leaf(expr.tuple_value)
            return TupleGetItemOp(
                whole, index=expr.index, results=[self.type(info)]
            ).result
        return self.leaf(expr, info)

    def match_cast(self, var: Var, value: Expr, info: StructInfo) -> ir.Value:
        """Writes ``var = R.match_cast(value, info)``."""
        source = self.leaf(self.argument(value))
        result = graph.MatchCastOp(source, results=[self.type(info)]).result
        self._name(result, var)
        return result

    def type(self, info: StructInfo) -> ir.Type:
        """The MLIR type of struct info."""
        return to_mlir(info, self.scope.symbols)

    def leaf(self, expr: Expr, info: StructInfo | None = None) -> ir.Value:
        """The value of a leaf expression.

        Raises:
            ValueError: the expression is not a leaf.
        """
        if isinstance(expr, Var):
            return self._variable(expr)
        write = _LEAVES.get(type(expr))
        if write is None:
            raise ValueError(
                f"`{expr!r}` is not an argument: bind it to a variable first"
            )
        return write(self, expr, info)

    def _variable(self, var: Var) -> ir.Value:
        """The value of a variable; an undefined one becomes a free variable."""
        if not self.scope.defines(var):
            type_ = self.type(var.struct_info)
            with ir.InsertionPoint.at_block_begin(_entry_block()):
                free = graph.FreeVarOp(called=var.name_hint, results=[type_])
            self.scope.define(var, free.result)
        return self.scope.value(var)

    def _constant(self, expr: Constant, info: StructInfo | None) -> ir.Value:
        array = expr.array
        for key, known in self.constants.items():
            if known is array:
                return self._pooled(key, array)
        return ConstantOp.of(array, self.constants, f"constant_{len(self.constants)}")

    def _pooled(self, key: str, array: np.ndarray) -> ir.Value:
        """A constant that the pool has already."""
        pool: dict[str, np.ndarray] = {}
        value = ConstantOp.of(array, pool, key)
        assert list(pool) in ([key], [])
        return value

    def _tuple(self, expr: Tuple, info: StructInfo | None) -> ir.Value:
        return tensors.pack_tuple([self.leaf(f) for f in expr.fields])

    def _shape(self, expr: ShapeExpr, info: StructInfo | None) -> ir.Value:
        return graph.ShapeExprOp(results=[self.type(expr.struct_info)]).result

    def _prim(self, expr: PrimValue, info: StructInfo | None) -> ir.Value:
        type_ = self.type(expr.struct_info)
        return graph.PrimValueOp(value=ir.UnitAttr.get(), results=[type_]).result

    def _string(self, expr: StringImm, info: StructInfo | None) -> ir.Value:
        return graph.StringOp(value=expr.value, results=[self._object()]).result

    def _data_type(self, expr: DataTypeImm, info: StructInfo | None) -> ir.Value:
        return graph.DataTypeOp(value=expr.value, results=[self._object()]).result

    def _global_var(self, expr: GlobalVar, info: StructInfo | None) -> ir.Value:
        known = expr.struct_info_or_none() or ObjectStructInfo()
        type_ = self.type(known)
        return graph.GlobalVarOp(callee=expr.name_hint, results=[type_]).result

    def _extern(self, expr: ExternFunc, info: StructInfo | None) -> ir.Value:
        type_ = self.type(expr.struct_info)
        return graph.ExternFuncOp(callee=expr.global_symbol, results=[type_]).result

    def _object(self) -> ir.Type:
        return self.type(ObjectStructInfo())

    def _call(self, call: Call, info: StructInfo) -> ir.Value:
        result = [self.type(info)]
        if isinstance(call.op, Op):
            return self._operator(call, info)
        if isinstance(call.op, GlobalVar):
            args = [self.leaf(a) for a in call.args]
            op = graph.CallOp(args, callee=call.op.name_hint, results=result)
            signature = call.op.struct_info_or_none()
            if isinstance(signature, FuncStructInfo) and not signature.purity:
                op.attributes[function_attributes.IMPURE] = ir.UnitAttr.get()
            return op.result
        args = [self.leaf(a) for a in call.args]
        if isinstance(call.op, ExternFunc):
            attrs = to_attribute(dict(call.attrs))
            op = graph.CallExternOp(
                args, callee=call.op.global_symbol, attrs=attrs, results=result
            )
            self._keep_types(op, call)
            return op.result
        function = self.leaf(call.op)
        return graph.CallValueOp(function, args, results=result).result

    def _operator(self, call: Call, info: StructInfo) -> ir.Value:
        assert isinstance(call.op, Op)
        if call.op.name in _DESTINATION_PASSING and self._is_plain(call):
            return self._destination_passing(call)
        result = self.operation(call, info)
        if result is not None:
            return result
        op = graph.CallOperatorOp(
            [self.leaf(a) for a in call.args],
            operator=call.op.name,
            attrs=to_attribute(dict(call.attrs)),
            types=self._types(call),
            results=[self.type(info)],
        )
        return op.result

    def _types(self, call: Call) -> ir.Attribute:
        types = [ir.TypeAttr.get(self.type(t)) for t in call.sinfo_args]
        return ir.ArrayAttr.get(types)

    def _keep_types(self, op: ir.OpView, call: Call) -> None:
        if call.sinfo_args:
            op.attributes["relax.types"] = self._types(call)

    @staticmethod
    def _is_plain(call: Call) -> bool:
        """Whether callee and arguments have the form of a destination-passing operation."""
        callee, arguments, *_ = call.args
        if len(call.sinfo_args) != 1:
            return False
        known = GlobalVar if call.op == Op.of("relax.call_tir") else ExternFunc
        return isinstance(callee, known) and isinstance(arguments, Tuple)

    def _destination_passing(self, call: Call) -> ir.Value:
        callee, arguments, *tir_vars = call.args
        args = [self.leaf(f) for f in cast("Tuple", arguments).fields]
        (out,) = call.sinfo_args
        if isinstance(callee, GlobalVar):
            op: RelaxOperation = CallTirOp(
                args,
                callee=callee.name_hint,
                sizes=tensors.shape_attr([]),
                results=[self.type(out)],
            )
        else:
            name = cast("ExternFunc", callee).global_symbol
            op = CallDpsPackedOp(args, callee=name, results=[self.type(out)])
        if tir_vars:
            dims = self.scope.symbols.dims(cast("ShapeExpr", tir_vars[0]).values)
            op.attributes[function_attributes.TIR_VARS] = tensors.shape_attr(dims)
        return op.results[0]

    def operation(self, call: Call, info: StructInfo) -> ir.Value | None:
        """The dialect's operation for an operator call, or None if the call does not fit it."""
        kind = operation_class(cast("Op", call.op).name)
        if kind is None or not _is_known(info) or call.sinfo_args:
            return None
        try:
            operands, attrs = static_arguments(kind, call, self.scope.symbols)
        except ValueError:
            return None
        infos = [o.struct_info_or_none() for o in operands]
        if any(i is None or not _is_known(i) for i in infos):
            return None
        given = {*attrs, *kind.attribute_defaults()}
        lacks_some = any(name not in given for name in kind.attribute_fields)
        left_out = len(kind.operand_fields) - len(operands)
        if not 0 <= left_out <= len(optional_operands(kind)) or lacks_some:
            return None
        values: list[Any] = [
            [self.leaf(f) for f in o.fields] if isinstance(o, Tuple) else self.leaf(o)
            for o in operands
        ]
        inferred = [self.type(i) for i in _flat(info)]
        return self._created(kind, values, attrs, info, inferred)

    def _created(
        self,
        kind: type[RelaxOperation],
        values: list[Any],
        attrs: dict[str, Any],
        info: StructInfo,
        results: list[ir.Type],
    ) -> ir.Value:
        if isinstance(info, TupleStructInfo) and not _has_many_results(kind):
            results = [self.type(info)]
        op = kind(*values, **attrs, results=results)
        result = list(op.results)
        return result[0] if not _has_many_results(kind) else tensors.pack_tuple(result)

    def _if(self, expr: If, info: StructInfo) -> ir.Value:
        condition = self.leaf(self.argument(expr.cond))
        op = ir.Operation.create(
            graph.IfOp.OPERATION_NAME,
            results=[self.type(info)],
            operands=[condition],
            regions=2,
        )
        branches = (expr.true_branch, expr.false_branch)
        for region, branch in zip(op.regions, branches, strict=True):
            block = ir.Block.create_at_start(region, [])
            with ir.InsertionPoint(block):
                self.finish_region(branch)
        return op.results[0]

    def function(
        self,
        var: Var,
        info: StructInfo,
        params: Sequence[Var],
        body: SeqExpr,
        attrs: Mapping[str, Any],
    ) -> ir.Value:
        """Writes a local function; the first argument of its region is the function itself."""
        op = ir.Operation.create(
            graph.FunctionOp.OPERATION_NAME,
            results=[self.type(info)],
            attributes={"attrs": to_attribute(attrs)},
            regions=1,
        )
        types = [self.type(info), *(self.type(p.struct_info) for p in params)]
        block = ir.Block.create_at_start(op.regions[0], types)
        for inner, argument in zip((var, *params), block.arguments, strict=True):
            self.scope.define(inner, argument)
        outer, self._block = self._block, -1
        with ir.InsertionPoint(block):
            self.finish_region(body)
        self._block = outer
        return op.results[0]

    def finish_region(self, body: SeqExpr) -> None:
        """Writes the blocks of a sequence, and a terminator with its value."""
        self.sequence(body)
        result = self.leaf(self.argument(body.body))
        ir.Operation.create("gpu.yield", operands=[result])

    def sequence(self, body: SeqExpr) -> None:
        """Writes the blocks of a sequence."""
        for block in body.blocks:
            with self.block(is_dataflow=isinstance(block, DataflowBlock)):
                for binding in block.bindings:
                    self.binding(binding)

    @contextmanager
    def block(self, *, is_dataflow: bool) -> Iterator[None]:
        """Writes the bindings of the scope as a binding block."""
        outer = self._block
        if is_dataflow:
            self._dataflow_blocks += 1
        self._block = self._dataflow_blocks - 1 if is_dataflow else -1
        yield
        self._block = outer

    @property
    def in_dataflow(self) -> bool:
        """Whether a dataflow block is being written."""
        return self._block >= 0

    def binding(self, binding: Binding) -> ir.Value:
        """Writes one binding."""
        if isinstance(binding, MatchCast):
            return self.match_cast(binding.var, binding.value, binding.struct_info)
        return self.bind(binding.var, binding.value)


_NESTED = (Call, If, TupleGetItem, Tuple)


def _same(new: Sequence[Expr], old: Sequence[Expr]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def _entry_block() -> ir.Block:
    """The entry block of the function being written."""
    op: Any = ir.InsertionPoint.current.block.owner
    while op.operation.name != "func.func":
        op = op.operation.parent
    return op.operation.regions[0].blocks[0]


def _has_many_results(kind: type[RelaxOperation]) -> bool:
    return len(kind.result_fields) > 1


def _flat(info: StructInfo) -> Sequence[StructInfo]:
    return info.fields if isinstance(info, TupleStructInfo) else (info,)


def _is_known(info: StructInfo) -> bool:
    """Whether struct info is precise enough for an operation of the dialect."""
    if isinstance(info, TupleStructInfo):
        return all(map(_is_known, info.fields))
    if isinstance(info, ShapeStructInfo):
        return info.values is not None
    if not isinstance(info, TensorStructInfo):
        return False
    return info.dtype != "void" and info.ndim >= 0 and info.vdevice is None


_LEAVES: dict[type, Callable[[RelaxWriter, Any, StructInfo | None], ir.Value]] = {
    Constant: RelaxWriter._constant,
    Tuple: RelaxWriter._tuple,
    ShapeExpr: RelaxWriter._shape,
    PrimValue: RelaxWriter._prim,
    StringImm: RelaxWriter._string,
    DataTypeImm: RelaxWriter._data_type,
    GlobalVar: RelaxWriter._global_var,
    ExternFunc: RelaxWriter._extern,
}
