"""Reads arithmetic of tensor programs as scalar expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlir import ir

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import element_of
from relax_mlir.dialects.tir import VectorLoadOp, attribute_names
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects import prim
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.mlir_attributes import from_attribute
from relax_mlir.objects.overwritten_loads import is_expression
from relax_mlir.objects.prim import PrimExpr, intrinsics
from relax_mlir.objects.prim.index_facts import IndexFacts
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.objects.read.guard_patterns import (
    defining_op,
    guarded_division,
    is_saturation_guard,
    without_clamp,
)
from relax_mlir.objects.read.operations import (
    BINARY,
    CMPF,
    FUNCTIONS,
    INDEX_DIVISIONS,
    INDEX_OPERATIONS,
    ROUNDINGS,
    SIGNED,
    UNSIGNED,
    UNSIGNED_INDEX_OPERATIONS,
    folding,
    operation_expr,
    remainder_or_difference,
    round_half_away,
)
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.objects.write.index import INDEX_TYPES, has_all_values
from relax_mlir.objects.write.signedness import (
    as_signed,
    as_unsigned,
    low_bit,
    with_equal_sign,
)

__all__ = ["PrimExprReader", "value_dtype"]


_CASTS = frozenset(
    f"arith.{name}"
    for name in ("extsi", "extui", "trunci", "extf", "truncf", "sitofp", "uitofp")
)
_FIRST_UNSIGNED = 6  # first unsigned predicate of arith.cmpi
_CMPI = (prim.EQ, prim.NE, *(prim.LT, prim.LE, prim.GT, prim.GE) * 2)
_FIRST_ORDER = 2  # first predicate of arith.cmpi that depends on signedness
_REVERSED = {prim.LT: prim.GT, prim.LE: prim.GE, prim.GT: prim.LT, prim.GE: prim.LE}


class PrimExprReader:
    """Reads the values of one PrimFunc as expressions.

    Attributes:
        leaves: the expressions of values that are not arithmetic results: variables.
        buffers: the buffers of memrefs.
        indices: sign and purity of indices.
    """

    def __init__(self) -> None:
        self.leaves: dict[ir.Value, PrimExpr] = {}
        self.buffers: dict[ir.Value, Buffer] = {}
        self.indices = IndexFacts()
        self._known: dict[ir.Value, PrimExpr] = {}
        self._widened_exprs: dict[ir.Value, PrimExpr] = {}
        # By the id of an expression, which is kept alive so that the id stays valid.
        self._sizes: dict[int, tuple[PrimExpr, int]] = {}

    def read(self, value: ir.Value) -> PrimExpr:
        """A value as an expression; an index has the form that TVMScript uses in buffer accesses.

        Raises:
            ValueError: TVMScript cannot express the defining operation.
        """
        known = self.leaves.get(value)
        if known is None:
            known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._read(value)
        return known

    def number(self, value: ir.Value) -> PrimExpr:
        """A value as an expression that computes it in any context.

        Index arithmetic has 64 bits; int32 expressions have 64 bits only as an index, or if
        they depend on nothing but loop variables, axes and sizes.
        """
        if not isinstance(value.type, ir.IndexType):
            return self.read(value)
        if value in self.leaves or self.indices.is_pure(value):
            return self.read(value)
        if defining_op(value, *BINARY, *SIGNED, *UNSIGNED) is None:
            return _as_index_type(self.read(value))
        return self._in_64_bits(value)

    def size(self, expr: PrimExpr) -> int:
        """The number of operations in an expression; shared subexpressions count at each use."""
        known = self._sizes.get(id(expr))
        if known is None:
            size = 1 + sum(map(self.size, expr.children()))
            known = self._sizes[id(expr)] = (expr, size)
        return known[1]

    def _read(self, value: ir.Value) -> PrimExpr:
        op = _defining(value)
        name = op.operation.name
        try:
            value_dtype(value)
        except ValueError as error:
            raise ValueError(f"{op.location}: `{name}`: {error}") from error
        if name == "scf.if":
            return self._choice(op, ir.OpResult(value).result_number)
        read = _READERS.get(name)
        if read is not None:
            return read(self, op)
        if name in BINARY or name in SIGNED or name in UNSIGNED:
            return self._binary(op)
        if name in _CASTS:
            return self._cast(op)
        if name in FUNCTIONS:
            return self._function(op)
        raise _not_expressible(op, "as a scalar")

    def _operand(self, op: ir.OpView, number: int) -> PrimExpr:
        return self.read(op.operands[number])

    def _constant(self, op: ir.OpView) -> PrimExpr:
        attr: Any = op.attributes["value"]  # Any: the stubs lack numeric attributes
        type_ = op.results[0].type
        if isinstance(type_, ir.VectorType):
            return self._splat(op, attr)
        if isinstance(type_, ir.IndexType):
            return prim.convert(attr.value)
        name = value_dtype(op.results[0])
        if isinstance(type_, ir.IntegerType) and name.startswith("uint"):
            return prim.const(attr.value % (1 << type_.width), name)
        value = bool(attr.value) if name == "bool" else attr.value
        return prim.const(value, name)

    def _splat(self, op: ir.OpView, attr: Any) -> PrimExpr:
        """A splat constant."""
        if not attr.is_splat:
            raise _not_expressible(op, "of lanes that differ")
        name = value_dtype(op.results[0])
        value: Any = attr.get_splat_value().value
        if element_type(name).startswith("uint"):
            value %= 1 << dtypes.dtype(name).bits
        return prim.const(value, name)

    def _binary(self, op: ir.OpView) -> PrimExpr:
        name = op.operation.name
        if isinstance(element_of(op.results[0].type), ir.IndexType):
            return self._index_operation(op)
        lhs, rhs = (self._byte_or_number(v) for v in op.operands)
        if name == "arith.subi" and constant_of(_second_factor(op.operands[1])) not in (
            None,
            0,
        ):
            return remainder_or_difference(*with_equal_sign(lhs, rhs))
        return operation_expr(op, name, lhs, rhs)

    def _index_operation(self, op: ir.OpView) -> PrimExpr:
        """An operation on indices, in the form that TVMScript uses in buffer accesses."""
        name, (lhs, rhs) = op.operation.name, op.operands
        if isinstance(op.results[0].type, ir.VectorType):
            raise _not_expressible(op, "on vectors of indices")
        combine = INDEX_OPERATIONS.get(name)
        if combine is None and all(map(self.indices.is_never_negative, (lhs, rhs))):
            combine = UNSIGNED_INDEX_OPERATIONS.get(name)
        if combine is None:
            return self._in_64_bits(op.results[0])
        if name in INDEX_DIVISIONS:
            rhs = self.indices.divisor(rhs)
        a, b = (_as_index_type(self.read(v)) for v in (lhs, rhs))
        if name == "arith.subi" and self._is_remainder(lhs, rhs):
            combine = remainder_or_difference
        if isinstance(a, prim.IntImm) and isinstance(b, prim.IntImm):
            # Index arithmetic has 64 bits, regardless of the type of the script's expressions.
            wide = combine(*(prim.IntImm("int64", side.value) for side in (a, b)))
            return prim.convert(wide.value) if isinstance(wide, prim.IntImm) else wide
        return combine(*with_equal_sign(a, b))

    def _is_remainder(self, lhs: ir.Value, multiplication: ir.Value) -> bool:
        """Whether ``a - a // c * c`` may be read as ``a % c``.

        ``a % 0`` is ``a`` in the former, but 0 where the writer emits an unsigned remainder
        because both operands are provably non-negative.
        """
        divisor = _second_factor(multiplication)
        is_size = all(map(self.indices.is_never_negative, (lhs, divisor)))
        return constant_of(divisor) not in (None, 0) or not is_size

    def _in_64_bits(self, value: ir.Value) -> PrimExpr:
        """An index as an int64 expression."""
        if value not in self._widened_exprs:
            self._widened_exprs[value] = self._widened(value)
        return self._widened_exprs[value]

    def _widened(self, value: ir.Value) -> PrimExpr:
        op = None
        if value not in self.leaves:
            op = defining_op(value, *BINARY, *SIGNED, *UNSIGNED)
        is_written_as_index = self.indices.is_pure(value) and (
            op is None or op.operation.name in INDEX_OPERATIONS
        )
        if op is None or is_written_as_index:
            return prim.cast("int64", _as_index_type(self.read(value)))
        return operation_expr(
            op, op.operation.name, *map(self._in_64_bits, op.operands)
        )

    def _byte_or_number(self, value: ir.Value) -> PrimExpr:
        """A value as an expression; for an element padded to a byte, the byte."""
        expr = self.number(value)
        if not _is_byte(value, expr):
            return expr
        return prim.Cast(
            prim.with_lanes("int8", expr.dtype), as_unsigned(self.integer(value))
        )

    def _cast(self, op: ir.OpView) -> PrimExpr:
        value, result = op.operands[0], op.results[0]
        name = op.operation.name
        expr = self.integer(value)
        if _is_byte(value, self.read(value)):
            is_all = element_of(result.type).width == dtypes.dtype(expr.dtype).bits
            if name == "arith.trunci" and is_all:
                return expr
            expr = as_unsigned(expr)
        elif name in ("arith.extui", "arith.uitofp"):
            expr = as_unsigned(expr)
        elif name in ("arith.extsi", "arith.sitofp"):
            expr = as_signed(expr)
        if name == "arith.trunci" and element_of(result.type).width == 1:
            return low_bit(expr)
        return prim.Cast(value_dtype(result), expr)

    def integer(self, value: ir.Value) -> PrimExpr:
        """A value as an expression; for a float padded to a byte, its bits as an integer.

        Raises:
            ValueError: no integer type has its width.
        """
        expr = self.read(value)
        if not _is_byte(value, expr) or not dtypes.dtype(expr.dtype).is_float:
            return expr
        return prim.Call(dtypes.dtype(expr.dtype).unsigned.name, "reinterpret", [expr])

    def reinterpret(self, value: ir.Value, name: str) -> PrimExpr:
        """The number of type ``name`` with the bits of a value."""
        for operation in ("arith.trunci", "arith.bitcast"):
            owner = None if value in self.leaves else defining_op(value, operation)
            if owner is not None:
                inner = self._operand(owner, 0)
                if inner.dtype == name:
                    return inner
        expr = self.read(value)
        if expr.dtype == name:
            return expr
        if any(dtypes.dtype(n).is_float for n in (expr.dtype, name)):
            return prim.Call(name, "reinterpret", [expr])
        return prim.Cast(name, expr)

    def _function(self, op: ir.OpView) -> PrimExpr:
        operation = op.operation.name
        name = FUNCTIONS[operation]
        if attribute_names.NAME in op.operation.attributes:
            name = ir.StringAttr(op.operation.attributes[attribute_names.NAME]).value
        args = [self._byte_or_number(v) for v in op.operands]
        if operation == "math.round":
            return round_half_away(args[0])
        if operation == "math.absi":
            args = list(map(as_signed, args))
        if name in ROUNDINGS:
            return ROUNDINGS[name](args[0])
        dtype = args[0].dtype
        dtype = prim.with_lanes("bool", dtype) if name.startswith("is") else dtype
        return prim.Call(dtype, name, args)

    def _float_to_integer(self, op: ir.OpView) -> PrimExpr:
        result = op.results[0]
        value, name = self.read(without_clamp(op)), value_dtype(result)
        is_unsigned = op.operation.name == "arith.fptoui"
        if element_of(result.type).width == 1:  # a cast to bool compares with 0
            whole = prim.with_lanes("uint8" if is_unsigned else "int8", name)
            return prim.Cast(name, prim.Cast(whole, value))
        if is_unsigned and name.startswith("int"):
            name = f"u{name}"
        return prim.Cast(name, value)

    def _index_cast(self, op: ir.OpView) -> PrimExpr:
        value, result = op.operands[0], op.results[0]
        is_unsigned = op.operation.name == "arith.index_castui"
        if isinstance(element_of(result.type), ir.IndexType):
            expr = self._byte_or_number(value)
            is_truth = element_type(expr.dtype) == "bool"
            if is_unsigned and is_truth:
                return prim.Cast(prim.with_lanes("int32", expr.dtype), expr)
            expr = as_unsigned(expr) if is_unsigned else as_signed(expr)
            return self._without_casts(expr)
        if isinstance(value.type, ir.VectorType):
            expr = self.read(value)
            expr = as_unsigned(expr) if is_unsigned else as_signed(expr)
        else:
            expr = self.number(value)
        if element_of(result.type).width == 1:
            return low_bit(expr)
        return prim.cast(value_dtype(result), expr)

    def _without_casts(self, expr: PrimExpr) -> PrimExpr:
        """An integer expression without lossless casts."""
        while isinstance(expr, prim.Cast) and expr.value.is_integer:
            if not has_all_values(expr.dtype, expr.value.dtype):
                break
            expr = expr.value
        return expr

    def _bitcast(self, op: ir.OpView) -> PrimExpr:
        name = value_dtype(op.results[0])
        if op.operands[0].type == op.results[0].type:
            return prim.Cast(name, self._operand(op, 0))
        return self.reinterpret(op.operands[0], name)

    def _compare_integers(self, op: ir.OpView) -> PrimExpr:
        lhs, rhs = self._operand(op, 0), self._operand(op, 1)
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        kind: type[prim.BinaryExpr] = _CMPI[predicate]
        is_truth = element_type(lhs.dtype) == "bool" and _is_byte(op.operands[0], lhs)
        other = rhs.value if isinstance(rhs, prim.Broadcast) else rhs
        is_zero = isinstance(other, prim.IntImm) and not other.value
        if is_truth and is_zero and kind in (prim.EQ, prim.NE):
            return lhs if kind is prim.NE else prim.Not(lhs)
        is_unsigned = predicate >= _FIRST_UNSIGNED
        if isinstance(element_of(op.operands[0].type), ir.IndexType):
            return self._compare_indices(op, kind, is_unsigned)
        lhs, rhs = map(self._byte_or_number, op.operands)
        if element_type(lhs.dtype) == "bool":
            # As a signed integer, true is -1 and less than false.
            kind = kind if is_unsigned else _REVERSED.get(kind, kind)
        elif predicate >= _FIRST_ORDER:
            sign = as_unsigned if is_unsigned else as_signed
            lhs, rhs = sign(lhs), sign(rhs)
        return folding(kind)(*with_equal_sign(lhs, rhs))

    def _compare_indices(
        self, op: ir.OpView, kind: type[prim.BinaryExpr], is_unsigned: bool
    ) -> PrimExpr:
        if isinstance(op.operands[0].type, ir.VectorType):
            raise _not_expressible(op, "on vectors of indices")
        if is_unsigned and not all(map(self.indices.is_never_negative, op.operands)):
            lhs, rhs = (as_unsigned(self._in_64_bits(v)) for v in op.operands)
        else:
            lhs, rhs = map(self.number, op.operands)
        return folding(kind)(*with_equal_sign(lhs, rhs))

    def _compare_floats(self, op: ir.OpView) -> PrimExpr:
        lhs, rhs = self._operand(op, 0), self._operand(op, 1)
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        return CMPF[predicate](lhs, rhs)

    def _select(self, op: ir.OpView) -> PrimExpr:
        division = guarded_division(op)
        if division is not None:
            sides = map(self._byte_or_number, (division.dividend, division.divisor))
            return operation_expr(op, division.name, *sides)
        if is_saturation_guard(op):
            return self._operand(op, 2)
        then, other = with_equal_sign(*map(self.number, list(op.operands)[1:]))
        return prim.Select(self._operand(op, 0), then, other)

    def _negate(self, op: ir.OpView) -> PrimExpr:
        return -self._operand(op, 0)

    def _load(self, op: ir.OpView) -> PrimExpr:
        buffer, *indices = op.operands
        return BufferLoad(self.buffer(buffer), [self.read(i) for i in indices])

    def _vector_load(self, op: VectorLoadOp) -> PrimExpr:
        places = [*op.indices, op.places]
        masks = [self.read(v) for v in op.mask]
        buffer = self.buffer(op.buffer)
        return BufferLoad(buffer, [self.read(i) for i in places], *masks)

    def _ramp(self, op: ir.OpView) -> PrimExpr:
        lanes = prim.lanes_of(value_dtype(op.results[0]))
        return prim.Ramp(self._operand(op, 0), self._operand(op, 1), lanes)

    def _broadcast(self, op: ir.OpView) -> PrimExpr:
        lanes = prim.lanes_of(value_dtype(op.results[0]))
        return prim.Broadcast(self._operand(op, 0), lanes)

    def buffer(self, value: ir.Value) -> Buffer:
        """The buffer of a memref.

        Raises:
            ValueError: it has no buffer.
        """
        if value not in self.buffers:
            raise ValueError(f"`{value}`: a script has no name for it as a buffer")
        return self.buffers[value]

    def _choice(self, op: ir.OpView, number: int) -> PrimExpr:
        """A result of an ``scf.if``."""
        condition = self._operand(op, 0)
        sides = []
        for region in op.operation.regions:
            *operations, end = own_operations(region.blocks[0])
            impure = [o for o in operations if not is_expression(o.operation)]
            if impure:
                raise _not_expressible(
                    impure[0].operation.opview, "in a choice of values"
                )
            sides.append(self.number(end.operands[number]))
        then, other = with_equal_sign(*sides)
        return intrinsics.if_then_else(condition, then, other)

    def call(self, op: ir.OpView) -> PrimExpr:
        """A ``tir.call`` as an expression."""
        args = self.arguments(op)
        dtype = ir.StringAttr(op.attributes[attribute_names.DTYPE]).value
        callee = ir.StringAttr(op.attributes["callee"]).value
        if callee == "shuffle":
            count, *rest = args
            return prim.Shuffle(rest[: count.value], rest[count.value :])
        is_subroutine = attribute_names.SUBROUTINE in op.attributes
        return prim.Call(dtype, GlobalVar(callee) if is_subroutine else callee, args)

    def arguments(self, op: ir.OpView) -> list[Any]:
        """The arguments of a call: expressions and buffers."""
        operands = iter(tensors.tuple_elements(op.operands[0]))
        args: list[Any] = []
        for literal in ir.ArrayAttr(op.attributes["literals"]):
            value = from_attribute(literal)
            if isinstance(literal, ir.UnitAttr):
                args.append(self.number(next(operands)))
            elif isinstance(value, str):
                args.append(prim.StringImm(value))
            elif "buffer" in value:
                args.append(self.buffer(next(operands).owner.operands[0]))
            else:
                kind = value["type_annotation"]
                args.append(prim.Call(kind, "type_annotation", []))
        return args

    def _address(self, op: ir.OpView) -> PrimExpr:
        source, *indices = op.operands
        buffer = self.buffer(source)
        if not indices and buffer.ndim:
            return buffer.data
        load = BufferLoad(buffer, [self.read(i) for i in indices])
        return prim.Call("handle", "address_of", [load])


def _is_byte(value: ir.Value, expr: PrimExpr) -> bool:
    """Whether a value is an element padded to a byte."""
    if expr.dtype == "handle" or isinstance(value.type, ir.IndexType):
        return False
    type_ = dtypes.dtype(expr.dtype).element
    return type_.is_padded and element_of(value.type) == type_.buffer_type


def value_dtype(value: ir.Value) -> str:
    """The name of the element type of a scalar value."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and attribute_names.DTYPE in owner.attributes:
        return ir.StringAttr(owner.attributes[attribute_names.DTYPE]).value
    if isinstance(value.type, ir.IndexType):
        return "int32"
    if isinstance(value.type, ir.VectorType):
        is_index = isinstance(value.type.element_type, ir.IndexType)
        return dtypes.from_mlir(value.type).name if not is_index else "int32"
    if not isinstance(value.type, (ir.IntegerType, ir.FloatType)):
        return "handle"
    return dtypes.from_mlir(value.type).name


def _defining(value: ir.Value) -> ir.OpView:
    owner = value.owner
    if isinstance(owner, ir.Block):
        raise ValueError(f"`{value}`: a script has no name for this argument")
    return owner.opview if isinstance(owner, ir.Operation) else owner


def _not_expressible(op: ir.OpView, where: str) -> ValueError:
    return ValueError(
        f"{op.location}: `{op.operation.name}`: TVMScript cannot express it {where}"
    )


def _second_factor(value: ir.Value) -> ir.Value:
    """The second operand of a multiplication; for any other value, the value itself."""
    multiplication = defining_op(value, "arith.muli")
    return value if multiplication is None else multiplication.operands[1]


def _as_index_type(expr: PrimExpr) -> PrimExpr:
    """An integer in an index type, whose arithmetic has 64 bits as an index."""
    if expr.dtype in INDEX_TYPES or not expr.is_integer:
        return expr
    return prim.cast("int32" if has_all_values("int32", expr.dtype) else "int64", expr)


_READERS: Mapping[str, Callable[[PrimExprReader, Any], PrimExpr]] = {
    "arith.constant": PrimExprReader._constant,
    "arith.fptosi": PrimExprReader._float_to_integer,
    "arith.fptoui": PrimExprReader._float_to_integer,
    "arith.index_cast": PrimExprReader._index_cast,
    "arith.index_castui": PrimExprReader._index_cast,
    "arith.bitcast": PrimExprReader._bitcast,
    "arith.cmpi": PrimExprReader._compare_integers,
    "arith.cmpf": PrimExprReader._compare_floats,
    "arith.select": PrimExprReader._select,
    "arith.negf": PrimExprReader._negate,
    "memref.load": PrimExprReader._load,
    "vector.broadcast": PrimExprReader._broadcast,
    "tir.ramp": PrimExprReader._ramp,
    "tir.vector_load": PrimExprReader._vector_load,
    "tir.call": PrimExprReader.call,
    "tir.address": PrimExprReader._address,
}
