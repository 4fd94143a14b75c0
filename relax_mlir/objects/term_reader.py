"""Arithmetic of tensor programs read as scalar terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.tir import VectorLoadOp, marks
from relax_mlir.dialects.tir.scalars import limits_of
from relax_mlir.indexing import constant_of
from relax_mlir.objects import functions, prim
from relax_mlir.objects.attributes import from_attribute
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.call_writer import MATH_OPERATIONS
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.index_writer import INDEX_TYPES, has_all_values
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.lanes import element_type
from relax_mlir.traversal import own_operations

__all__ = ["TermReader", "dtype_of", "is_guard", "lane_type", "spelled_uses"]


def _operation(kind: type[prim.BinaryExpr]) -> Callable[[Any, Any], PrimExpr]:
    """An operation of two terms, folded where that is exact."""

    def combine(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        try:
            return prim.exact(kind, a, b)
        except ZeroDivisionError:
            return kind(a, b)

    return combine


_BINARY: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    **dict.fromkeys(("arith.addi", "arith.addf"), _operation(prim.Add)),
    **dict.fromkeys(("arith.subi", "arith.subf"), _operation(prim.Sub)),
    **dict.fromkeys(("arith.muli", "arith.mulf"), _operation(prim.Mul)),
    **dict.fromkeys(
        ("arith.divf", "arith.divsi", "arith.divui"),
        _operation(prim.Div),
    ),
    **dict.fromkeys(
        ("arith.remf", "arith.remsi", "arith.remui"),
        _operation(prim.Mod),
    ),
    "arith.floordivsi": _operation(prim.FloorDiv),
    "arith.ceildivsi": lambda a, b: (a + (b - 1)) // b,
    "arith.ceildivui": lambda a, b: (a + (b - 1)) // b,
    **dict.fromkeys(
        ("arith.minsi", "arith.minui", "arith.minimumf"),
        _operation(prim.Min),
    ),
    "arith.minnumf": lambda a, b: _extreme_number(prim.Min, a, b),
    **dict.fromkeys(
        ("arith.maxsi", "arith.maxui", "arith.maximumf"),
        _operation(prim.Max),
    ),
    "arith.maxnumf": lambda a, b: _extreme_number(prim.Max, a, b),
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: _exclusive(a, b),
    "arith.shli": lambda a, b: a << b,
    "arith.shrsi": lambda a, b: a >> b,
    "arith.shrui": lambda a, b: a >> b,
}
_INDEX_ONLY: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    "arith.divui": _operation(prim.FloorDiv),
    "arith.remui": _operation(prim.FloorMod),
}
# What takes the bits of a signless integer as those of an unsigned one.
_UNSIGNED = frozenset(
    f"arith.{name}"
    for name in ("divui", "remui", "minui", "maxui", "shrui", "extui", "uitofp")
)
_DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "floordivsi")
)
_CASTS = frozenset(
    f"arith.{name}"
    for name in ("extsi", "extui", "trunci", "extf", "truncf", "sitofp", "uitofp")
)
_INTEGER_CASTS = frozenset(
    f"arith.{name}" for name in ("extsi", "extui", "index_cast", "index_castui")
)
_FIRST_UNSIGNED = 6  # of the predicates of arith.cmpi
_CMPI = (prim.EQ, prim.NE, *(prim.LT, prim.LE, prim.GT, prim.GE) * 2)


def _is_unordered(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Whether one of two floats is NaN."""
    is_same = prim.structurally_equal(a, b)
    checks = [functions.isnan(side) for side in ((a,) if is_same else (a, b))]
    return functions.any(*checks)


def _differ(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Whether two floats are numbers that differ."""
    return prim.Or(prim.LT(a, b), prim.GT(a, b))


# The predicates of arith.cmpf in order; those from 8 on are true for NaN.
_CMPF: Sequence[Callable[[PrimExpr, PrimExpr], PrimExpr]] = (
    lambda a, b: prim.const(False),
    *map(_operation, (prim.EQ, prim.GT, prim.GE, prim.LT, prim.LE)),
    _differ,
    lambda a, b: prim.Not(_is_unordered(a, b)),
    lambda a, b: prim.Not(_differ(a, b)),
    lambda a, b: prim.Not(prim.LE(a, b)),
    lambda a, b: prim.Not(prim.LT(a, b)),
    lambda a, b: prim.Not(prim.GE(a, b)),
    lambda a, b: prim.Not(prim.GT(a, b)),
    _operation(prim.NE),
    _is_unordered,
    lambda a, b: prim.const(True),
)
_FUNCTIONS = {operation: name for name, operation in MATH_OPERATIONS.items()}


class TermReader:
    """Reads values of one program.

    Attributes:
        terms: what values are that are no results of arithmetic: variables.
        buffers: what memrefs are.
    """

    def __init__(self) -> None:
        self.terms: dict[ir.Value, PrimExpr] = {}
        self.buffers: dict[ir.Value, Buffer] = {}
        self._known: dict[ir.Value, PrimExpr] = {}
        self._sizes: dict[int, int] = {}

    def read(self, value: ir.Value) -> PrimExpr:
        """A value as a term.

        Raises:
            ValueError: it is the result of something that a script cannot spell.
        """
        known = self.terms.get(value)
        if known is None:
            known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._read(value)
        return known

    def size(self, term: PrimExpr) -> int:
        """How many operations a term spells; what it shares counts each time."""
        if id(term) not in self._sizes:
            self._sizes[id(term)] = 1 + sum(map(self.size, term.children()))
        return self._sizes[id(term)]

    def _read(self, value: ir.Value) -> PrimExpr:
        op = _defining(value)
        name = op.operation.name
        read = _READERS.get(name)
        if read is not None:
            return read(self, op)
        if name in _BINARY:
            return self._binary(op)
        if name in _CASTS:
            return self._cast(op)
        if name.startswith("math."):
            return self._function(op)
        raise ValueError(
            f"{op.location}: `{name}`: a script has no spelling for it as a scalar"
        )

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
        lane: Any = attr.get_splat_value()
        name = dtype_of(op.results[0])
        value = lane.value
        if element_type(name).startswith("uint"):
            value %= 1 << dtypes.dtype(name).bits
        return prim.const(value, name)

    def _binary(self, op: ir.OpView) -> PrimExpr:
        name = op.operation.name
        lhs, rhs = (self._operand(op, i) for i in (0, 1))
        if name in _DIVISIONS:
            rhs = self.read(_divisor(op.operands[1]))
        is_index = isinstance(op.results[0].type, ir.IndexType)
        if name in _UNSIGNED and not is_index and lhs.dtype.startswith("int"):
            made = _BINARY[name](_as_unsigned(lhs), _as_unsigned(rhs))
            return prim.Cast(lhs.dtype, made)
        lhs, rhs = _same_sign(lhs, rhs)
        unsigned = is_index or lhs.dtype.startswith("uint")
        combine = (_INDEX_ONLY.get(name) if unsigned else None) or _BINARY[name]
        if name == "arith.subi" and (is_index or _is_rest(op)):
            combine = _rest
        if is_index and isinstance(lhs, prim.IntImm) and isinstance(rhs, prim.IntImm):
            # Indices have 64 bits, whatever type scripts give them.
            wide = combine(*(prim.IntImm("int64", side.value) for side in (lhs, rhs)))
            return prim.convert(wide.value) if isinstance(wide, prim.IntImm) else wide
        return combine(lhs, rhs)

    def _cast(self, op: ir.OpView) -> PrimExpr:
        value, result = op.operands[0], op.results[0]
        term = self.integer(value)
        if _is_byte(value, self.read(value)):
            is_all = lane_type(result).width == dtypes.dtype(term.dtype).bits
            if op.operation.name == "arith.trunci" and is_all:
                return term
            term = _as_unsigned(term)
        elif op.operation.name in _UNSIGNED:
            term = _as_unsigned(term)
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
            owner = None if value in self.terms else _owner(value, operation)
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
        name = _FUNCTIONS.get(operation, operation.removeprefix("math."))
        if marks.NAME in op.operation.attributes:
            name = ir.StringAttr(op.operation.attributes[marks.NAME]).value
        args = [self.read(v) for v in op.operands]
        called = {"absf": "fabs", "absi": "abs", "ipowi": "pow", "fpowi": "pow"}
        is_check = name.startswith("is")
        dtype = args[0].dtype
        dtype = prim.with_lanes("bool", dtype) if is_check else dtype
        return prim.Call(dtype, called.get(name, name), args)

    def _float_to_integer(self, op: ir.OpView) -> PrimExpr:
        value = self.read(_truncated(op))
        name = dtype_of(op.results[0])
        if op.operation.name == "arith.fptoui" and name.startswith("int"):
            name = f"u{name}"
        return prim.Cast(name, value)

    def _index_cast(self, op: ir.OpView) -> PrimExpr:
        if isinstance(lane_type(op.results[0]), ir.IndexType):
            return self._index(op.operands[0])
        term, name = self._operand(op, 0), dtype_of(op.results[0])
        return term if term.dtype == name else prim.cast(name, term)

    def _index(self, value: ir.Value) -> PrimExpr:
        """An integer that is an index, without casts that leave every index as it is."""
        owner, term = value.owner, self.read(value)
        if isinstance(owner, ir.Block) or owner.name not in _INTEGER_CASTS:
            return term
        inner = self._operand(owner.opview, 0)
        is_index = isinstance(owner.operands[0].type, ir.IndexType)
        if is_index and term.dtype in INDEX_TYPES:
            return inner
        is_same = has_all_values(term.dtype, inner.dtype)
        return self._index(owner.operands[0]) if is_same else term

    def _bitcast(self, op: ir.OpView) -> PrimExpr:
        name = dtype_of(op.results[0])
        if op.operands[0].type == op.results[0].type:
            return prim.Cast(name, self._operand(op, 0))
        return self.of_bits(op.operands[0], name)

    def _compare_integers(self, op: ir.OpView) -> PrimExpr:
        lhs, rhs = self._operand(op, 0), self._operand(op, 1)
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        is_index = isinstance(op.operands[0].type, ir.IndexType)
        if predicate >= _FIRST_UNSIGNED and not is_index:
            lhs, rhs = _as_unsigned(lhs), _as_unsigned(rhs)
        lhs, rhs = _same_sign(lhs, rhs)
        kind = _CMPI[predicate]
        is_truth = element_type(lhs.dtype) == "bool" and _is_byte(op.operands[0], lhs)
        other = rhs.value if isinstance(rhs, prim.Broadcast) else rhs
        is_zero = isinstance(other, prim.IntImm) and not other.value
        if is_truth and kind is prim.NE and is_zero:
            return lhs
        return _operation(kind)(lhs, rhs)

    def _compare_floats(self, op: ir.OpView) -> PrimExpr:
        lhs, rhs = self._operand(op, 0), self._operand(op, 1)
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        return _CMPF[predicate](lhs, rhs)

    def _select(self, op: ir.OpView) -> PrimExpr:
        if _is_guarded_division(op) or _saturates(op):
            return self._operand(op, 2)
        then, other = _same_sign(self._operand(op, 1), self._operand(op, 2))
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

    def _choice(self, op: ir.OpView) -> PrimExpr:
        condition = self._operand(op, 0)
        sides = []
        for region in op.operation.regions:
            *_, end = own_operations(region.blocks[0])
            sides.append(self.read(end.operands[0]))
        then, other = _same_sign(*sides)
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
                args.append(self.read(next(operands)))
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
    return type_.is_padded and lane_type(value) == type_.buffer_type


def lane_type(value: ir.Value) -> Any:  # Any: of integers, with a width
    """The type of a scalar, or of each lane of a vector."""
    type_ = value.type
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


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


def _as_unsigned(term: PrimExpr) -> PrimExpr:
    """The unsigned integer of the same bits, of a signed one."""
    if not term.dtype.startswith("int"):
        return term
    name = f"u{term.dtype}"
    if isinstance(term, prim.IntImm):
        return prim.const(term.value % (1 << dtypes.dtype(name).bits), name)
    if isinstance(term, prim.Cast) and term.value.dtype == name:
        return term.value
    return prim.Cast(name, term)


def _same_sign(a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
    """A number beside a term has its sign: MLIR's integers have none."""
    if a.dtype == b.dtype:
        return a, b
    if isinstance(b, prim.IntImm):
        return a, prim.const(_wrapped(b.value, a.dtype), a.dtype)
    if isinstance(a, prim.IntImm):
        return prim.const(_wrapped(a.value, b.dtype), b.dtype), b
    return a, b


def _wrapped(value: int, dtype: str) -> int:
    if dtype.startswith("uint"):
        return value % (1 << int(dtype.removeprefix("uint")))
    return bool(value) if dtype == "bool" else value


def _rest(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """a - b; what is left of a division is told so."""
    if isinstance(b, prim.Mul) and isinstance(b.a, prim.FloorDiv):
        same = prim.structurally_equal
        if same(b.a.a, a) and same(b.a.b, b.b):
            return a % b.b
    return _operation(prim.Sub)(a, b)


def _is_rest(op: ir.OpView) -> bool:
    """Whether a difference is no more than a remainder of numbers, which by 0 is 0."""
    product = _owner(op.operands[1], "arith.muli")
    if product is not None and constant_of(product.operands[1]) not in (None, 0):
        return True
    users = [use.owner.opview for use in op.results[0].uses]
    return all(u.operation.name == "arith.select" for u in users) and all(
        map(_is_guarded_division, users)
    )


def _extreme_number(kind: type[prim.BinaryExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The smaller or the larger of two floats; of one that is NaN, the other."""
    rest = prim.Select(functions.isnan(b), a, kind(a, b))
    return prim.Select(functions.isnan(a), b, rest)


def _exclusive(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if isinstance(b, prim.IntImm):
        if a.dtype == "bool" and b.value:
            is_known = isinstance(a, prim.IntImm)
            return prim.const(not a.value, "bool") if is_known else prim.Not(a)
        is_all_ones = b.value in (-1, _wrapped(-1, a.dtype))
        if a.dtype != "bool" and is_all_ones:
            return prim.Call(a.dtype, "bitwise_not", [a])
    return a ^ b


def _owner(value: ir.Value, name: str) -> ir.OpView | None:
    """The operation that makes a value, if it has this name."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != name:
        return None
    return owner.opview if isinstance(owner, ir.Operation) else owner


def _tested(condition: ir.Value) -> tuple[ir.Value, int] | None:
    """What a condition compares with 0 or -1, and with which of them."""
    compare = _owner(condition, "arith.cmpi")
    if compare is None or ir.IntegerAttr(compare.attributes["predicate"]).value != 0:
        return None
    number = constant_of(compare.operands[1])
    return None if number not in (0, -1) else (compare.operands[0], int(number))


def _divisor(value: ir.Value) -> ir.Value:
    """What is divided by, without what keeps it from being 0 or -1."""
    select = _owner(value, "arith.select")
    tested = None if select is None else _tested(select.operands[0])
    if select is not None and tested is not None:
        divisor, rest = tested[0], select.operands[2]
        is_kept = rest == divisor or _divisor(rest) == divisor
        return divisor if is_kept and constant_of(select.operands[1]) == 1 else value
    maximum = _owner(value, "arith.maxsi")
    is_index = isinstance(value.type, ir.IndexType)
    if maximum is not None and is_index and constant_of(maximum.operands[1]) == 1:
        return maximum.operands[0]
    return value


def _is_guarded_division(op: ir.OpView) -> bool:
    """Whether a choice only keeps a division from ending the process.

    It tests what is divided by; a quotient by 0 is 0, one by -1 the negated dividend.
    """
    tested = _tested(op.operands[0])
    division = _division(op.operands[2])
    if tested is None or division is None:
        return False
    divisor, number = tested
    if _divisor(division.operands[1]) != divisor:
        return False
    given = constant_of(op.operands[1])
    if number == 0 or division.operation.name == "arith.remsi":
        return given == 0
    negated = _owner(op.operands[1], "arith.subi")
    if negated is None:  # of a constant
        dividend = constant_of(division.operands[0])
        return None not in (given, dividend) and given == -(dividend or 0)
    return negated.operands[1] == division.operands[0]


def _division(value: ir.Value) -> ir.OpView | None:
    """The division under the choices that guard it, and under the rest of one."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    op = owner.opview if isinstance(owner, ir.Operation) else owner
    name = op.operation.name
    if name in _DIVISIONS:
        return op
    if name == "arith.select" and _is_guarded_division(op):
        return _division(op.operands[2])
    if name == "arith.subi":
        product = _owner(op.operands[1], "arith.muli")
        division = None if product is None else _division(product.operands[0])
        is_rest = division is not None and division.operands[0] == op.operands[0]
        return division if is_rest else None
    return None


def _truncated(cast: ir.OpView) -> ir.Value:
    """What a float is cast to an integer of, without what keeps it in its range."""
    value, result = cast.operands[0], lane_type(cast.results[0])
    sign = "u" if cast.operation.name == "arith.fptoui" else ""
    source = lane_type(value)
    if source.width not in (32, 64):  # others are extended before
        return value
    limits = limits_of(
        dtypes.from_mlir(source), dtypes.dtype(f"{sign}int{result.width}")
    )
    found = value
    for limit in reversed(limits):
        select = _owner(found, "arith.select")
        if select is None or not _compares_sides(select):
            return value
        if _float_constant(select.operands[2]) != limit:
            return value
        found = select.operands[1]
    return found


def _compares_sides(select: ir.OpView) -> bool:
    """Whether a choice is one of the two floats that its condition compares."""
    condition = _owner(select.operands[0], "arith.cmpf")
    sides = list(select.operands)[1:]
    return condition is not None and list(condition.operands) == sides


def _float_constant(value: ir.Value) -> float | None:
    """The number that a float, or each lane of a vector, is a constant of."""
    constant = _owner(value, "arith.constant")
    if constant is None:
        return None
    attr: Any = constant.attributes["value"]  # Any: the stubs know no numbers
    is_vector = isinstance(value.type, ir.VectorType)
    return attr.get_splat_value().value if is_vector else attr.value


def _saturates(op: ir.OpView) -> bool:
    """Whether a choice only puts the limit of an integer type in place of a cast to it."""
    is_above, _, truncated = op.operands
    condition = _owner(is_above, "arith.cmpf")
    cast = _owner(truncated, "arith.fptosi") or _owner(truncated, "arith.fptoui")
    if condition is None or cast is None:
        return False
    clamp = _owner(cast.operands[0], "arith.select")
    if clamp is None:
        return False
    return list(condition.operands) == [_truncated(cast), clamp.operands[2]]


def spelled_uses(value: ir.Value) -> int:
    """How often a term spells a value; what only guards an operation does not count."""
    return sum(not _only_guards(use.owner.opview) for use in value.uses)


def _only_guards(op: ir.OpView) -> bool:
    if op.operation.name not in ("arith.cmpf", "arith.cmpi", "arith.subi"):
        return False
    users = [use.owner.opview for use in op.operation.results[0].uses]
    return bool(users) and all(map(is_guard, users))


def is_guard(op: ir.OpView) -> bool:
    """Whether an operation only keeps another one defined, so no term spells it."""
    if op.operation.name != "arith.select":
        return _only_guards(op)
    result = op.operation.results[0]
    if _compares_sides(op) or _divisor(result) != result:
        return True
    return _is_guarded_division(op) or _saturates(op)


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
    "scf.if": TermReader._choice,
    "vector.broadcast": TermReader._broadcast,
    "tir.ramp": TermReader._ramp,
    "tir.vector_load": TermReader._vector_load,
    "tir.call": TermReader.call,
    "tir.address": TermReader._address,
}
