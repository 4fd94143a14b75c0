"""Arithmetic of tensor programs read as scalar terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import element_of
from relax_mlir.dialects.tir import VectorLoadOp, marks
from relax_mlir.indexing import constant_of
from relax_mlir.objects import functions, prim
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.guards import (
    guarded_division,
    owner_named,
    saturates,
    unclamped,
)
from relax_mlir.objects.index_facts import IndexFacts
from relax_mlir.objects.index_writer import INDEX_TYPES, has_all_values
from relax_mlir.objects.operation_terms import (
    BINARY,
    CMPF,
    FUNCTIONS,
    INDEX_DIVISIONS,
    INDEX_OPERATIONS,
    ROUNDINGS,
    SIGNED,
    UNSIGNED,
    UNSIGNED_INDEX_OPERATIONS,
    folded,
    operation_term,
    remainder_or_difference,
    round_half_away,
)
from relax_mlir.objects.overwritten_loads import is_term
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.objects.signs import (
    as_signed,
    as_unsigned,
    low_bit,
    of_one_sign,
)
from relax_mlir.traversal import own_operations

__all__ = ["TermReader", "dtype_of"]


_CASTS = frozenset(
    f"arith.{name}"
    for name in ("extsi", "extui", "trunci", "extf", "truncf", "sitofp", "uitofp")
)
_FIRST_UNSIGNED = 6  # of the predicates of arith.cmpi
_CMPI = (prim.EQ, prim.NE, *(prim.LT, prim.LE, prim.GT, prim.GE) * 2)
_FIRST_ORDER = 2
_REVERSED = {prim.LT: prim.GT, prim.LE: prim.GE, prim.GT: prim.LT, prim.GE: prim.LE}


class TermReader:
    """Reads values of one program.

    Attributes:
        terms: what values are that are no results of arithmetic: variables.
        buffers: what memrefs are.
        indices: what is known of them.
    """

    def __init__(self) -> None:
        self.terms: dict[ir.Value, PrimExpr] = {}
        self.buffers: dict[ir.Value, Buffer] = {}
        self.indices = IndexFacts()
        self._known: dict[ir.Value, PrimExpr] = {}
        self._wide: dict[ir.Value, PrimExpr] = {}
        # By the id of a term, which is kept so that the id is of use.
        self._sizes: dict[int, tuple[PrimExpr, int]] = {}

    def read(self, value: ir.Value) -> PrimExpr:
        """A value as a term; of an index, as a place in a buffer spells it.

        Raises:
            ValueError: it is the result of something that a script cannot spell.
        """
        known = self.terms.get(value)
        if known is None:
            known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._read(value)
        return known

    def number(self, value: ir.Value) -> PrimExpr:
        """A value as a term that computes it wherever it stands.

        Arithmetic of indices has 64 bits; that of int32 terms has them only as an index, or
        where it depends on nothing but loop variables, axes and sizes.
        """
        if not isinstance(value.type, ir.IndexType):
            return self.read(value)
        if value in self.terms or self.indices.is_pure(value):
            return self.read(value)
        if owner_named(value, *BINARY, *SIGNED, *UNSIGNED) is None:
            return _as_index_type(self.read(value))
        return self._in_64_bits(value)

    def size(self, term: PrimExpr) -> int:
        """How many operations a term spells; what it shares counts each time."""
        known = self._sizes.get(id(term))
        if known is None:
            size = 1 + sum(map(self.size, term.children()))
            known = self._sizes[id(term)] = (term, size)
        return known[1]

    def _read(self, value: ir.Value) -> PrimExpr:
        op = _defining(value)
        name = op.operation.name
        try:
            dtype_of(value)
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
        raise _unspelled(op, "as a scalar")

    def _operand(self, op: ir.OpView, number: int) -> PrimExpr:
        return self.read(op.operands[number])

    def _constant(self, op: ir.OpView) -> PrimExpr:
        attr: Any = op.attributes["value"]  # Any: the stubs know no numbers
        type_ = op.results[0].type
        if isinstance(type_, ir.VectorType):
            return self._splat(op, attr)
        if isinstance(type_, ir.IndexType):
            return prim.convert(attr.value)
        name = dtype_of(op.results[0])
        if isinstance(type_, ir.IntegerType) and name.startswith("uint"):
            return prim.const(attr.value % (1 << type_.width), name)
        value = bool(attr.value) if name == "bool" else attr.value
        return prim.const(value, name)

    def _splat(self, op: ir.OpView, attr: Any) -> PrimExpr:
        """A number in every lane."""
        if not attr.is_splat:
            raise _unspelled(op, "of lanes that differ")
        name = dtype_of(op.results[0])
        value: Any = attr.get_splat_value().value
        if element_type(name).startswith("uint"):
            value %= 1 << dtypes.dtype(name).bits
        return prim.const(value, name)

    def _binary(self, op: ir.OpView) -> PrimExpr:
        name = op.operation.name
        if isinstance(element_of(op.results[0].type), ir.IndexType):
            return self._index_operation(op)
        lhs, rhs = (self._number_of_bytes(v) for v in op.operands)
        if name == "arith.subi" and constant_of(_factor(op.operands[1])) not in (
            None,
            0,
        ):
            return remainder_or_difference(*of_one_sign(lhs, rhs))
        return operation_term(op, name, lhs, rhs)

    def _index_operation(self, op: ir.OpView) -> PrimExpr:
        """An operation on indices, as a place in a buffer spells it."""
        name, (lhs, rhs) = op.operation.name, op.operands
        if isinstance(op.results[0].type, ir.VectorType):
            raise _unspelled(op, "on vectors of indices")
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
            # Indices have 64 bits, whatever type scripts give them.
            wide = combine(*(prim.IntImm("int64", side.value) for side in (a, b)))
            return prim.convert(wide.value) if isinstance(wide, prim.IntImm) else wide
        return combine(*of_one_sign(a, b))

    def _is_remainder(self, lhs: ir.Value, product: ir.Value) -> bool:
        """Whether a difference, if it is a remainder, is written as one that is the same.

        What is left of a number divided by 0 is the number, but 0 where neither of them is
        ever negative.
        """
        divisor = _factor(product)
        is_size = all(map(self.indices.is_never_negative, (lhs, divisor)))
        return constant_of(divisor) not in (None, 0) or not is_size

    def _in_64_bits(self, value: ir.Value) -> PrimExpr:
        """An index as arithmetic of int64 terms."""
        if value not in self._wide:
            self._wide[value] = self._made_of_int64(value)
        return self._wide[value]

    def _made_of_int64(self, value: ir.Value) -> PrimExpr:
        op = None
        if value not in self.terms:
            op = owner_named(value, *BINARY, *SIGNED, *UNSIGNED)
        is_written_as_index = self.indices.is_pure(value) and (
            op is None or op.operation.name in INDEX_OPERATIONS
        )
        if op is None or is_written_as_index:
            return prim.cast("int64", _as_index_type(self.read(value)))
        return operation_term(
            op, op.operation.name, *map(self._in_64_bits, op.operands)
        )

    def _number_of_bytes(self, value: ir.Value) -> PrimExpr:
        """A value as a term; of the byte that holds fewer bits, the byte."""
        term = self.number(value)
        if not _is_byte(value, term):
            return term
        return prim.Cast(
            prim.with_lanes("int8", term.dtype), as_unsigned(self.integer(value))
        )

    def _cast(self, op: ir.OpView) -> PrimExpr:
        value, result = op.operands[0], op.results[0]
        name = op.operation.name
        term = self.integer(value)
        if _is_byte(value, self.read(value)):
            is_all = element_of(result.type).width == dtypes.dtype(term.dtype).bits
            if name == "arith.trunci" and is_all:
                return term
            term = as_unsigned(term)
        elif name in ("arith.extui", "arith.uitofp"):
            term = as_unsigned(term)
        elif name in ("arith.extsi", "arith.sitofp"):
            term = as_signed(term)
        if name == "arith.trunci" and element_of(result.type).width == 1:
            return low_bit(term)
        return prim.Cast(dtype_of(result), term)

    def integer(self, value: ir.Value) -> PrimExpr:
        """A value as a term; of the byte that holds a float of fewer bits, these bits.

        Raises:
            ValueError: no type of integers has as many.
        """
        term = self.read(value)
        if not _is_byte(value, term) or not dtypes.dtype(term.dtype).is_float:
            return term
        return prim.Call(dtypes.dtype(term.dtype).unsigned.name, "reinterpret", [term])

    def of_bits(self, value: ir.Value, name: str) -> PrimExpr:
        """The number of type ``name`` whose bits a value has."""
        for operation in ("arith.trunci", "arith.bitcast"):
            owner = None if value in self.terms else owner_named(value, operation)
            if owner is not None:
                inner = self._operand(owner, 0)
                if inner.dtype == name:
                    return inner
        term = self.read(value)
        if term.dtype == name:
            return term
        if any(dtypes.dtype(n).is_float for n in (term.dtype, name)):
            return prim.Call(name, "reinterpret", [term])
        return prim.Cast(name, term)

    def _function(self, op: ir.OpView) -> PrimExpr:
        operation = op.operation.name
        name = FUNCTIONS[operation]
        if marks.NAME in op.operation.attributes:
            name = ir.StringAttr(op.operation.attributes[marks.NAME]).value
        args = [self._number_of_bytes(v) for v in op.operands]
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
        value, name = self.read(unclamped(op)), dtype_of(result)
        is_unsigned = op.operation.name == "arith.fptoui"
        if element_of(result.type).width == 1:  # a cast to bool tests for 0
            whole = prim.with_lanes("uint8" if is_unsigned else "int8", name)
            return prim.Cast(name, prim.Cast(whole, value))
        if is_unsigned and name.startswith("int"):
            name = f"u{name}"
        return prim.Cast(name, value)

    def _index_cast(self, op: ir.OpView) -> PrimExpr:
        value, result = op.operands[0], op.results[0]
        is_unsigned = op.operation.name == "arith.index_castui"
        if isinstance(element_of(result.type), ir.IndexType):
            term = self._number_of_bytes(value)
            is_truth = element_type(term.dtype) == "bool"
            if is_unsigned and is_truth:
                return prim.Cast(prim.with_lanes("int32", term.dtype), term)
            term = as_unsigned(term) if is_unsigned else as_signed(term)
            return self._without_casts(term)
        if isinstance(value.type, ir.VectorType):
            term = self.read(value)
            term = as_unsigned(term) if is_unsigned else as_signed(term)
        else:
            term = self.number(value)
        if element_of(result.type).width == 1:
            return low_bit(term)
        return prim.cast(dtype_of(result), term)

    def _without_casts(self, term: PrimExpr) -> PrimExpr:
        """An integer that is an index, without casts that leave every integer as it is."""
        while isinstance(term, prim.Cast) and term.value.is_integer:
            if not has_all_values(term.dtype, term.value.dtype):
                break
            term = term.value
        return term

    def _bitcast(self, op: ir.OpView) -> PrimExpr:
        name = dtype_of(op.results[0])
        if op.operands[0].type == op.results[0].type:
            return prim.Cast(name, self._operand(op, 0))
        return self.of_bits(op.operands[0], name)

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
        lhs, rhs = map(self._number_of_bytes, op.operands)
        if element_type(lhs.dtype) == "bool":
            # As signed integers, true is -1 and less than false.
            kind = kind if is_unsigned else _REVERSED.get(kind, kind)
        elif predicate >= _FIRST_ORDER:
            sign = as_unsigned if is_unsigned else as_signed
            lhs, rhs = sign(lhs), sign(rhs)
        return folded(kind)(*of_one_sign(lhs, rhs))

    def _compare_indices(
        self, op: ir.OpView, kind: type[prim.BinaryExpr], is_unsigned: bool
    ) -> PrimExpr:
        if isinstance(op.operands[0].type, ir.VectorType):
            raise _unspelled(op, "on vectors of indices")
        if is_unsigned and not all(map(self.indices.is_never_negative, op.operands)):
            lhs, rhs = (as_unsigned(self._in_64_bits(v)) for v in op.operands)
        else:
            lhs, rhs = map(self.number, op.operands)
        return folded(kind)(*of_one_sign(lhs, rhs))

    def _compare_floats(self, op: ir.OpView) -> PrimExpr:
        lhs, rhs = self._operand(op, 0), self._operand(op, 1)
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        return CMPF[predicate](lhs, rhs)

    def _select(self, op: ir.OpView) -> PrimExpr:
        division = guarded_division(op)
        if division is not None:
            sides = map(self._number_of_bytes, (division.dividend, division.divisor))
            return operation_term(op, division.name, *sides)
        if saturates(op):
            return self._operand(op, 2)
        then, other = of_one_sign(*map(self.number, list(op.operands)[1:]))
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
        lanes = prim.lanes_of(dtype_of(op.results[0]))
        return prim.Ramp(self._operand(op, 0), self._operand(op, 1), lanes)

    def _broadcast(self, op: ir.OpView) -> PrimExpr:
        lanes = prim.lanes_of(dtype_of(op.results[0]))
        return prim.Broadcast(self._operand(op, 0), lanes)

    def buffer(self, value: ir.Value) -> Buffer:
        """The buffer that a memref is.

        Raises:
            ValueError: a script has no name for it.
        """
        if value not in self.buffers:
            raise ValueError(f"`{value}`: a script has no name for it as a buffer")
        return self.buffers[value]

    def _choice(self, op: ir.OpView, number: int) -> PrimExpr:
        """One of the results of an ``scf.if``."""
        condition = self._operand(op, 0)
        sides = []
        for region in op.operation.regions:
            *made, end = own_operations(region.blocks[0])
            acting = [o for o in made if not is_term(o.operation)]
            if acting:
                raise _unspelled(acting[0].operation.opview, "in a choice of values")
            sides.append(self.number(end.operands[number]))
        then, other = of_one_sign(*sides)
        return functions.if_then_else(condition, then, other)

    def call(self, op: ir.OpView) -> PrimExpr:
        """A ``tir.call`` as a term."""
        args = self.arguments(op)
        dtype = ir.StringAttr(op.attributes[marks.DTYPE]).value
        callee = ir.StringAttr(op.attributes["callee"]).value
        if callee == "shuffle":
            count, *rest = args
            return prim.Shuffle(rest[: count.value], rest[count.value :])
        is_subroutine = marks.SUBROUTINE in op.attributes
        return prim.Call(dtype, GlobalVar(callee) if is_subroutine else callee, args)

    def arguments(self, op: ir.OpView) -> list[Any]:
        """What a call gets: terms and buffers."""
        operands = iter(tensors.elements(op.operands[0]))
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


def _is_byte(value: ir.Value, term: PrimExpr) -> bool:
    """Whether a value is the byte in memory of an element that has fewer bits."""
    if term.dtype == "handle" or isinstance(value.type, ir.IndexType):
        return False
    type_ = dtypes.dtype(term.dtype).element
    return type_.is_padded and element_of(value.type) == type_.buffer_type


def dtype_of(value: ir.Value) -> str:
    """The element type of a scalar value, by name."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and marks.DTYPE in owner.attributes:
        return ir.StringAttr(owner.attributes[marks.DTYPE]).value
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


def _unspelled(op: ir.OpView, where: str) -> ValueError:
    return ValueError(
        f"{op.location}: `{op.operation.name}`: a script has no spelling for it {where}"
    )


def _factor(value: ir.Value) -> ir.Value:
    """The second factor of a product; any other value itself."""
    product = owner_named(value, "arith.muli")
    return value if product is None else product.operands[1]


def _as_index_type(term: PrimExpr) -> PrimExpr:
    """An integer in a type whose arithmetic has 64 bits where it is an index."""
    if term.dtype in INDEX_TYPES or not term.is_integer:
        return term
    return prim.cast("int32" if has_all_values("int32", term.dtype) else "int64", term)


_READERS: Mapping[str, Callable[[TermReader, Any], PrimExpr]] = {
    "arith.constant": TermReader._constant,
    "arith.fptosi": TermReader._float_to_integer,
    "arith.fptoui": TermReader._float_to_integer,
    "arith.index_cast": TermReader._index_cast,
    "arith.index_castui": TermReader._index_cast,
    "arith.bitcast": TermReader._bitcast,
    "arith.cmpi": TermReader._compare_integers,
    "arith.cmpf": TermReader._compare_floats,
    "arith.select": TermReader._select,
    "arith.negf": TermReader._negate,
    "memref.load": TermReader._load,
    "vector.broadcast": TermReader._broadcast,
    "tir.ramp": TermReader._ramp,
    "tir.vector_load": TermReader._vector_load,
    "tir.call": TermReader.call,
    "tir.address": TermReader._address,
}
