"""Scalar terms written as arithmetic of tensor programs.

What depends on loop variables, axes and sizes alone is arithmetic of MLIR's ``index``;
everything else has the type that the term has. Where MLIR has several spellings of one
term, :mod:`.term_reader` reads them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mlir import ir

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.tir import (
    AddressOp,
    CallOp,
    LetOp,
    RampOp,
    Scalar,
    UndefinedOp,
    VectorLoadOp,
    cast,
    constant,
    marks,
)
from relax_mlir.dialects.tir.scalars import bitcast, emit, from_memory, function, select
from relax_mlir.objects import prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.buffer import Buffer, BufferLoad, Pointer
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.prim.lanes import element_type

__all__ = ["MATH_OPERATIONS", "TermWriter", "pointee"]

# Functions of scalars that are one operation.
MATH_OPERATIONS: Mapping[str, str] = {
    **{
        name: f"math.{name}"
        for name in (
            *("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "erf"),
            *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan"),
            *("asinh", "acosh", "atanh", "atan2", "floor", "ceil", "round", "trunc"),
            *("copysign", "fma", "expm1", "cbrt", "erfc"),
        )
    },
    "pow": "math.powf",
    "nearbyint": "math.roundeven",
    "popcount": "math.ctpop",
    "clz": "math.ctlz",
}
_CHECKS = {"isnan": "math.isnan", "isinf": "math.isinf", "isfinite": "math.isfinite"}
_BITWISE = {
    "bitwise_and": "arith.andi",
    "bitwise_or": "arith.ori",
    "bitwise_xor": "arith.xori",
    "shift_left": "arith.shli",
}
_INDEX_OPERATIONS: Mapping[type, str] = {
    prim.Add: "arith.addi",
    prim.Sub: "arith.subi",
    prim.Mul: "arith.muli",
    prim.Min: "arith.minsi",
    prim.Max: "arith.maxsi",
    prim.FloorDiv: "arith.floordivsi",
    prim.Div: "arith.divsi",
    prim.Mod: "arith.remsi",
}
_INDEX_TERMS = (*_INDEX_OPERATIONS, prim.FloorMod)
_COMPARISONS: Mapping[type, Callable[[Any, Any], Scalar]] = {
    prim.EQ: lambda a, b: a.equal(b),
    prim.NE: lambda a, b: a.not_equal(b),
    prim.LT: lambda a, b: a < b,
    prim.LE: lambda a, b: a <= b,
    prim.GT: lambda a, b: a > b,
    prim.GE: lambda a, b: a >= b,
}
_ARITHMETIC: Mapping[type, Callable[[Scalar, Scalar], Scalar]] = {
    prim.Add: lambda a, b: a + b,
    prim.Sub: lambda a, b: a - b,
    prim.Mul: lambda a, b: a * b,
    prim.Div: lambda a, b: a / b,
    prim.Mod: lambda a, b: a % b,
    prim.Min: lambda a, b: a.minimum(b),
    prim.Max: lambda a, b: a.maximum(b),
    prim.And: lambda a, b: a & b,
    prim.Or: lambda a, b: a | b,
}


class TermWriter:
    """Writes terms at the current insertion point.

    Attributes:
        vars: the values of variables, ``index`` or scalar, by the variable's id.
        buffers: the memrefs of buffers, by the buffer's id.
        pointers: the buffers by the id of the pointer to their memory.
        free: variables that nothing defines, by their values.
        entry: where variables are put that nothing defines; None where those are errors.
        declare: makes a buffer in memory that is known.
    """

    def __init__(self) -> None:
        self.vars: dict[int, ir.Value] = {}
        self.buffers: dict[int, ir.Value] = {}
        self.pointers: dict[int, Buffer] = {}
        self.free: dict[ir.Value, Var] = {}
        self.entry: ir.Block | None = None
        self.declare: Callable[[Buffer], ir.Value] | None = None
        self._alive: list[object] = []  # an id is of use only while its object lives

    def define(self, var: Var, value: ir.Value) -> None:
        """From here on ``var`` is ``value``."""
        self.vars[id(var)] = value
        self._alive.append(var)

    def define_buffer(self, buffer: Buffer, value: ir.Value) -> None:
        """From here on ``buffer`` is ``value``."""
        self.buffers[id(buffer)] = value
        if getattr(buffer.data, "buffer", None) is buffer:
            self.pointers[id(buffer.data)] = buffer
        self._alive.append(buffer)

    @contextmanager
    def defining(self, var: Var, value: ir.Value) -> Iterator[None]:
        """``var`` is ``value`` inside."""
        old = self.vars.get(id(var))
        self.define(var, value)
        yield
        if old is None:
            del self.vars[id(var)]
        else:
            self.vars[id(var)] = old

    def buffer(self, buffer: Buffer) -> ir.Value:
        """The memref that a buffer is.

        Raises:
            ValueError: nothing defined it.
        """
        if id(buffer) not in self.buffers and self._has_memory(buffer):
            assert self.declare is not None
            return self.declare(buffer)
        if id(buffer) not in self.buffers:
            raise ValueError(
                f"buffer `{buffer.name}` is used where nothing defines it: expected a "
                "parameter, or a buffer that a block around allocates"
            )
        return self.buffers[id(buffer)]

    def _has_memory(self, buffer: Buffer) -> bool:
        """Whether something else tells where a buffer lies."""
        data = id(buffer.data)
        is_known = data in self.vars or self.pointers.get(data, buffer) is not buffer
        return self.declare is not None and (is_known or self.entry is not None)

    def _undefined(self, var: Var, entry: ir.Block) -> None:
        """Let a variable stand for itself."""
        is_size = var.dtype in ("int32", "int64")
        type_ = ir.IndexType.get() if is_size else scalar_type(var.dtype)
        with ir.InsertionPoint.at_block_begin(entry), ir.Location.unknown():
            value = ir.Operation.create(
                UndefinedOp.OPERATION_NAME,
                results=[type_],
                attributes={"name": ir.StringAttr.get(var.name)},
            ).results[0]
        for mark, attr in pointee(var).items():
            value.owner.attributes[mark] = attr
        value.owner.attributes[marks.DTYPE] = ir.StringAttr.get(var.dtype)
        self.free[value] = var
        self.define(var, value)

    def _var(self, var: Var) -> ir.Value:
        if id(var) not in self.vars and self.entry is not None:
            self._undefined(var, self.entry)
        if id(var) not in self.vars:
            raise ValueError(
                f"variable `{var.name}` is used where nothing defines it: expected a "
                "loop variable, an axis of a block, a size or a `let` around"
            )
        return self.vars[id(var)]

    # indices

    def index(self, term: PrimExpr) -> ir.Value:
        """An integer term as a value of type ``index``."""
        if isinstance(term, prim.IntImm):
            return _index_constant(term.value)
        if isinstance(term, Var):
            return _as_index(self._var(term), term.dtype)
        if element_type(term.dtype) != term.dtype:
            return _as_index(self.value(term), term.dtype)
        if isinstance(term, prim.Cast) and term.value.is_integer:
            return self.index(term.value)
        if isinstance(term, prim.FloorMod):
            return self._index_remainder(term)
        name = _INDEX_OPERATIONS.get(type(term))
        if name is None or not term.is_integer:
            return _as_index(self.value(term), term.dtype)
        assert isinstance(term, prim.BinaryExpr)
        lhs, rhs = self.index(term.a), self.index(term.b)
        if isinstance(term, (prim.Div, prim.Mod, prim.FloorDiv)):
            rhs = _safe_divisor(term.b, rhs)
        return emit(name, ir.IndexType.get(), lhs, rhs)

    def _index_remainder(self, term: prim.FloorMod) -> ir.Value:
        """What is left, with the sign of the divisor."""
        lhs, rhs = self.index(term.a), _safe_divisor(term.b, self.index(term.b))
        index = ir.IndexType.get()
        if self._is_size(term.a) and self._is_size(term.b):
            return emit("arith.remui", index, lhs, rhs)
        quotient = emit("arith.floordivsi", index, lhs, rhs)
        whole = emit("arith.muli", index, quotient, rhs)
        return emit("arith.subi", index, lhs, whole)

    def _is_size(self, term: PrimExpr) -> bool:
        """Whether an index is surely not negative."""
        if isinstance(term, prim.IntImm):
            return term.value >= 0
        if isinstance(term, Var):
            return isinstance(self._var(term).type, ir.IndexType)
        if isinstance(term, prim.Cast):
            return self._is_size(term.value)
        keeps = (prim.Add, prim.Mul, prim.FloorDiv, prim.FloorMod, prim.Min, prim.Max)
        return isinstance(term, keeps) and all(map(self._is_size, term.children()))

    def is_index(self, term: PrimExpr) -> bool:
        """Whether an integer depends on indices alone, and on at least one."""
        if isinstance(term, Var):
            is_free = id(term) not in self.vars and id(term) not in self.pointers
            if is_free and self.entry is not None:
                self._undefined(term, self.entry)
            value = self.vars.get(id(term))
            return value is not None and isinstance(value.type, ir.IndexType)
        if isinstance(term, prim.Cast):
            return term.is_integer and self.is_index(term.value)
        if not isinstance(term, _INDEX_TERMS) or not term.is_integer:
            return False
        children = term.children()
        numbers = [isinstance(c, prim.IntImm) for c in children]
        fits = [n or self.is_index(c) for n, c in zip(numbers, children, strict=True)]
        return all(fits) and not all(numbers)

    # scalars

    def value(self, term: PrimExpr) -> ir.Value:
        """A term as a value of the scalar type that it has.

        Raises:
            ValueError: it has a part that no program can compute.
        """
        if self.is_index(term):
            return _from_index(self.index(term), term.dtype)
        kind = Var if isinstance(term, Var) else type(term)
        write = _WRITERS.get(kind)
        if write is None:
            raise ValueError(f"`{term}` cannot stand in a tensor program")
        return _marked(write(self, term), term.dtype)

    def scalar(self, term: PrimExpr) -> Scalar:
        """A term as a scalar of its type."""
        return Scalar(self.value(term), dtype(term.dtype))

    def _number(self, term: prim.IntImm | prim.FloatImm) -> ir.Value:
        return constant(term.value, _dtype(term)).value

    def _variable(self, term: Var) -> ir.Value:
        if id(term) in self.pointers and id(term) not in self.vars:
            buffer = self.buffer(self.pointers[id(term)])
            return emit(AddressOp.OPERATION_NAME, _pointer(), buffer)
        return self._var(term)

    def _arithmetic(self, term: prim.BinaryExpr) -> ir.Value:
        lhs, rhs = self.scalar(term.a), self.scalar(term.b)
        return _ARITHMETIC[type(term)](lhs, rhs).value

    def _comparison(self, term: prim.BinaryExpr) -> ir.Value:
        sides = (term.a, term.b)
        compare = _COMPARISONS[type(term)]
        if any(map(self.is_index, sides)) and all(
            self.is_index(s) or isinstance(s, prim.IntImm) for s in sides
        ):
            lhs, rhs = (_IndexScalar(self.index(s)) for s in sides)
            return compare(lhs, rhs).value
        return compare(self.scalar(term.a), self.scalar(term.b)).value

    def _floor_div(self, term: prim.FloorDiv) -> ir.Value:
        lhs, rhs = self.scalar(term.a), self.scalar(term.b)
        if lhs.dtype.is_float:
            return function("math.floor", lhs / rhs).value
        if lhs.dtype.kind == "u":
            return (lhs / rhs).value
        return _floor_quotient(lhs, rhs).value

    def _floor_mod(self, term: prim.FloorMod) -> ir.Value:
        lhs, rhs = self.scalar(term.a), self.scalar(term.b)
        if lhs.dtype.is_float:
            return (lhs - function("math.floor", lhs / rhs) * rhs).value
        if lhs.dtype.kind == "u":
            return (lhs % rhs).value
        return (lhs - _floor_quotient(lhs, rhs) * rhs).value

    def _not(self, term: prim.Not) -> ir.Value:
        return (~self.scalar(term.a)).value

    def _cast(self, term: prim.Cast) -> ir.Value:
        operand, target = self.scalar(term.value), _dtype(term)
        made = cast(operand, target)
        if made.value == operand.value and operand.dtype != target:
            return emit("arith.bitcast", target.scalar_type, operand.value)
        return made.value

    def _select(self, term: prim.Select) -> ir.Value:
        condition = self.scalar(term.condition)
        sides = self.scalar(term.true_value), self.scalar(term.false_value)
        return select(condition, *sides).value

    def _load(self, term: BufferLoad) -> ir.Value:
        source = self.buffer(term.buffer)
        indices = [self.index(i) for i in term.indices]
        element = _dtype(term).buffer_type
        if indices and isinstance(indices[-1].type, ir.VectorType):
            mask = [] if term.predicate is None else [self.value(term.predicate)]
            loaded = ir.Operation.create(
                VectorLoadOp.OPERATION_NAME,
                results=[element],
                operands=[source, *indices, *mask],
                attributes=vector_segments([1, len(indices) - 1, 1, len(mask)]),
            ).results[0]
        else:
            loaded = emit("memref.load", element, source, *indices)
        return from_memory(loaded, _dtype(term)).value

    def _ramp(self, term: prim.Ramp) -> ir.Value:
        ends = self.value(term.base), self.value(term.stride)
        return emit(RampOp.OPERATION_NAME, _dtype(term).scalar_type, *ends)

    def _broadcast(self, term: prim.Broadcast) -> ir.Value:
        value = self.value(term.value)
        return emit("vector.broadcast", _dtype(term).scalar_type, value)

    def _shuffle(self, term: prim.Shuffle) -> ir.Value:
        args = [prim.const(len(term.vectors)), *term.children()]
        return self.generic_call(prim.Call(term.dtype, "shuffle", args))[0]

    def _let(self, term: prim.Let) -> ir.Value:
        value = self.value(term.value)
        with self.defining(term.var, self.let(term.var, value)):
            return self.value(term.body)

    def let(self, var: Var, value: ir.Value) -> ir.Value:
        """A value with the name of a variable."""
        name = ir.StringAttr.get(var.name)
        op = ir.Operation.create(
            LetOp.OPERATION_NAME,
            results=[value.type],
            operands=[value],
            attributes={"name": name},
        )
        for mark, attr in pointee(var).items():
            op.attributes[mark] = attr
        return _marked(op.results[0], var.dtype)

    # calls

    def _call(self, term: prim.Call) -> ir.Value:
        name = term.op_name
        if name == "round":
            return self._rounded(term)
        if name in MATH_OPERATIONS:
            return self._function(MATH_OPERATIONS[name], term)
        if name in ("fabs", "abs"):
            is_float = _dtype(term).is_float
            return self._function("math.absf" if is_float else "math.absi", term)
        if name in _CHECKS:
            operand = self.value(term.args[0])
            return emit(_CHECKS[name], dtype("bool").scalar_type, operand)
        if name in _BITWISE:
            return self._function(_BITWISE[name], term)
        write = _CALLS.get(name)
        return self.generic_call(term)[0] if write is None else write(self, term)

    def _function(self, name: str, term: prim.Call) -> ir.Value:
        operands = [self.value(a) for a in term.args]
        return emit(name, _dtype(term).scalar_type, *operands)

    def _rounded(self, term: prim.Call) -> ir.Value:
        """`T.round` takes the even one of two, as `T.nearbyint` does; its name is kept."""
        value = self._function("math.roundeven", term)
        value.owner.attributes[marks.NAME] = ir.StringAttr.get("round")
        return value

    def _shift_right(self, term: prim.Call) -> ir.Value:
        is_signed = _dtype(term).kind == "i"
        return self._function("arith.shrsi" if is_signed else "arith.shrui", term)

    def _bitwise_not(self, term: prim.Call) -> ir.Value:
        return (~self.scalar(term.args[0])).value

    def _power(self, term: prim.Call) -> ir.Value:
        return self._function("math.powf", term)

    def _remainder(self, term: prim.Call) -> ir.Value:
        return (self.scalar(term.args[0]) % self.scalar(term.args[1])).value

    def _reinterpret(self, term: prim.Call) -> ir.Value:
        if "handle" in (term.dtype, term.args[0].dtype):
            return self.generic_call(term)[0]
        return bitcast(self.scalar(term.args[0]), _dtype(term)).value

    def _likely(self, term: prim.Call) -> ir.Value:
        return self.value(term.args[0])

    def _if_then_else(self, term: prim.Call) -> ir.Value:
        condition, *sides = term.args
        op = ir.Operation.create(
            "scf.if",
            results=[_dtype(term).scalar_type],
            operands=[self.value(condition)],
            regions=2,
        )
        for region, side in zip(op.regions, sides, strict=True):
            with ir.InsertionPoint(ir.Block.create_at_start(region, [])):
                ir.Operation.create("scf.yield", operands=[self.value(side)])
        return op.results[0]

    def _address_of(self, term: prim.Call) -> ir.Value:
        (load,) = term.args
        if not isinstance(load, BufferLoad):
            raise ValueError(f"`{term}`: expected an element of a buffer, got `{load}`")
        indices = [self.index(i) for i in load.indices]
        buffer = self.buffer(load.buffer)
        return emit(AddressOp.OPERATION_NAME, _pointer(), buffer, *indices)

    def generic_call(self, term: prim.Call) -> list[ir.Value]:
        """A call as a ``tir.call``; its results are none or one."""
        operands, literals = self.arguments(term.args)
        op = ir.Operation.create(
            CallOp.OPERATION_NAME,
            results=_result_types(term.dtype),
            operands=[tensors.pack(operands)],
            attributes={
                "callee": ir.StringAttr.get(term.op_name),
                "literals": ir.ArrayAttr.get(literals),
                marks.DTYPE: ir.StringAttr.get(term.dtype),
            },
        )
        if term.is_subroutine:
            op.attributes[marks.SUBROUTINE] = ir.UnitAttr.get()
        return list(op.results)

    def arguments(
        self, args: Sequence[Any]
    ) -> tuple[list[ir.Value], list[ir.Attribute]]:
        """What a call gets: values, and per argument what it is besides; see ``CallOp``."""
        operands: list[ir.Value] = []
        literals: list[ir.Attribute] = []
        for argument in args:
            is_buffer = isinstance(argument, Buffer)
            literal = (
                to_attribute({"buffer": True}) if is_buffer else _literal(argument)
            )
            literals.append(ir.UnitAttr.get() if literal is None else literal)
            if is_buffer:
                memory = self.buffer(argument)
                operands.append(emit(AddressOp.OPERATION_NAME, _pointer(), memory))
            elif literal is None:
                term = argument.var if isinstance(argument, IterVar) else argument
                operands.append(self.value(prim.convert(term)))
        return operands, literals


class _IndexScalar(Scalar):
    """An index to compare; its sign counts."""

    def __init__(self, value: ir.Value) -> None:
        super().__init__(value, dtype("int64"))


def _dtype(term: PrimExpr) -> dtypes.DType:
    try:
        return dtype(term.dtype)
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"`{term}` is a {term.dtype}, which no tensor program computes"
        ) from error


def vector_segments(counts: Sequence[int]) -> dict[str, ir.Attribute]:
    """The attribute that tells the groups of operands apart."""
    return {"operandSegmentSizes": ir.DenseI32ArrayAttr.get(counts)}


def pointee(var: Var) -> dict[str, ir.Attribute]:
    """What a pointer points to, where a script says it."""
    kind = var.type_annotation if isinstance(var, Pointer) else None
    if kind is None:
        return {}
    return {marks.POINTEE: to_attribute([kind.element_type, kind.storage_scope])}


def _literal(argument: PrimExpr) -> ir.Attribute | None:
    """What an argument is that is no value."""
    if isinstance(argument, prim.StringImm):
        return ir.StringAttr.get(argument.value)
    if isinstance(argument, prim.Call) and argument.op_name == "type_annotation":
        return to_attribute({"type_annotation": argument.dtype})
    return None


def _result_types(name: str) -> list[ir.Type]:
    if name in ("void", ""):
        return []
    return [scalar_type(name)]


def scalar_type(name: str) -> ir.Type:
    """The type of a value in registers, pointers included."""
    return _pointer() if name == "handle" else dtype(name).scalar_type


def _pointer() -> ir.Type:
    return ir.Type.parse("!llvm.ptr")


def _marked(value: ir.Value, name: str) -> ir.Value:
    """Tell the element type where the MLIR type does not."""
    owner = value.owner
    if name.startswith("uint") and not isinstance(owner, ir.Block):
        owner.attributes[marks.DTYPE] = ir.StringAttr.get(name)
    return value


def _index_constant(number: int) -> ir.Value:
    index = ir.IndexType.get()
    return emit("arith.constant", index, value=ir.IntegerAttr.get(index, number))


def _as_index(value: ir.Value, name: str) -> ir.Value:
    if isinstance(value.type, ir.IndexType):
        return value
    is_signed = dtype(name).kind == "i"
    operation = "arith.index_cast" if is_signed else "arith.index_castui"
    target: ir.Type = ir.IndexType.get()
    if isinstance(value.type, ir.VectorType):
        scalable = [value.type.scalable]
        target = ir.VectorType.get(value.type.shape, target, scalable=scalable)
    return emit(operation, target, value)


def _from_index(value: ir.Value, name: str) -> ir.Value:
    return _marked(emit("arith.index_cast", dtype(name).scalar_type, value), name)


def _safe_divisor(term: PrimExpr, value: ir.Value) -> ir.Value:
    """To divide by 0 would end the process: sizes that are 0 divide as 1."""
    if isinstance(term, prim.IntImm):
        return value
    return emit("arith.maxsi", value.type, value, _index_constant(1))


def _floor_quotient(lhs: Scalar, rhs: Scalar) -> Scalar:
    """a // b of signed integers; cannot trap."""
    is_zero, is_minus_one = rhs.equal(0), rhs.equal(-1)
    one = constant(1, lhs.dtype)
    divisor = select(is_minus_one, one, select(is_zero, one, rhs))
    quotient = function("arith.floordivsi", lhs, divisor)
    return select(is_minus_one, 0 - lhs, quotient)


_WRITERS: Mapping[type, Callable[[TermWriter, Any], ir.Value]] = {
    prim.IntImm: TermWriter._number,
    prim.FloatImm: TermWriter._number,
    Var: TermWriter._variable,
    **dict.fromkeys(_ARITHMETIC, TermWriter._arithmetic),
    **dict.fromkeys(_COMPARISONS, TermWriter._comparison),
    prim.FloorDiv: TermWriter._floor_div,
    prim.FloorMod: TermWriter._floor_mod,
    prim.Not: TermWriter._not,
    prim.Cast: TermWriter._cast,
    prim.Select: TermWriter._select,
    prim.Let: TermWriter._let,
    prim.Call: TermWriter._call,
    prim.Ramp: TermWriter._ramp,
    prim.Broadcast: TermWriter._broadcast,
    prim.Shuffle: TermWriter._shuffle,
    BufferLoad: TermWriter._load,
}
_CALLS: Mapping[str, Callable[[TermWriter, prim.Call], ir.Value]] = {
    "shift_right": TermWriter._shift_right,
    "bitwise_not": TermWriter._bitwise_not,
    "power": TermWriter._power,
    "fmod": TermWriter._remainder,
    "reinterpret": TermWriter._reinterpret,
    "likely": TermWriter._likely,
    "if_then_else": TermWriter._if_then_else,
    "address_of": TermWriter._address_of,
}
