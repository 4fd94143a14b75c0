"""What operations that only compute do to arrays of lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

__all__ = ["PURE", "Pure", "bit_mask", "element_type", "numpy_type"]

# A function of the operation, for what its attributes and types say; then of arrays.
Pure = Callable[..., np.ndarray]

_TYPES: Mapping[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "i1": np.bool_,
    **dict.fromkeys(("i2", "i4", "i6"), np.int8),  # bits above are 0
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
}


def element_type(type_: ir.Type) -> ir.Type:
    """Of a vector; of a scalar, itself."""
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def numpy_type(type_: ir.Type) -> np.dtype:
    """How numbers of a type, or of the elements of a vector, are held.

    Raises:
        KeyError: not at all.
    """
    return np.dtype(_TYPES[str(element_type(type_))])


def _shape(operation: ir.OpView) -> list[int]:
    """Of the vector that an operation makes; nothing of a scalar."""
    (result,) = operation.operation.results
    type_ = result.type
    return list(type_.shape) if isinstance(type_, ir.VectorType) else []


def _unsigned(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.bool_:
        return array.astype(np.uint8)
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _of_unsigned(function: Pure) -> Pure:
    def run(*arrays: np.ndarray) -> np.ndarray:
        made = function(*map(_unsigned, arrays))
        return (
            made.astype(bool)
            if arrays[0].dtype == np.bool_
            else made.view(arrays[0].dtype)
        )

    return run


def _divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Rounded toward zero."""
    safe = np.where(b == 0, 1, b)
    quotient = a // safe
    is_inexact = (quotient * safe != a) & (quotient < 0)
    return (quotient + is_inexact).astype(a.dtype)


def _floor_divided(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a // np.where(b == 0, 1, b)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.fmod(a, np.where(b == 0, 1, b))


def _shift(function: Pure) -> Pure:
    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        bits = a.dtype.itemsize * 8
        far = (b < 0) | (b >= bits)
        return np.where(far, 0, function(a, np.where(far, 0, b))).astype(a.dtype)

    return run


_BINARY: Mapping[str, Pure] = {
    **dict.fromkeys(("arith.addi", "arith.addf"), np.add),
    **dict.fromkeys(("arith.subi", "arith.subf"), np.subtract),
    **dict.fromkeys(("arith.muli", "arith.mulf"), np.multiply),
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.divsi": _divided,
    "arith.remsi": _remainder,
    "arith.floordivsi": _floor_divided,
    "arith.ceildivsi": lambda a, b: -_floor_divided(-a, b),
    "arith.divui": _of_unsigned(_floor_divided),
    "arith.remui": _of_unsigned(_remainder),
    "arith.ceildivui": _of_unsigned(
        lambda a, b: (a + (b - 1)) // np.where(b == 0, 1, b)
    ),
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": _of_unsigned(np.maximum),
    "arith.minui": _of_unsigned(np.minimum),
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": _shift(np.left_shift),
    "arith.shrsi": _shift(np.right_shift),
    "arith.shrui": _of_unsigned(_shift(np.right_shift)),
    "math.powf": np.power,
    "math.atan2": np.arctan2,
    "math.copysign": np.copysign,
    "math.ipowi": np.power,
}


def _by_element(function: Callable[[float], float]) -> Pure:
    """A function of the standard library on all elements, in f64."""
    ufunc = np.frompyfunc(function, 1, 1)
    return lambda a: np.asarray(ufunc(a.astype(np.float64))).astype(a.dtype)


def _wide(function: Pure) -> Pure:
    """In f64, rounded at the end."""
    return lambda a: function(a.astype(np.float64)).astype(a.dtype)


_UNARY: Mapping[str, Pure] = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.round": lambda a: np.copysign(
        np.floor(np.abs(a) + np.where(np.abs(a) < 2**52, 0.5, 0)), a
    ).astype(a.dtype),
    "math.isnan": np.isnan,
    "math.isinf": np.isinf,
    "math.isfinite": np.isfinite,
    "math.erf": _by_element(math.erf),
    "math.erfc": _by_element(math.erfc),
    "math.cbrt": _wide(np.cbrt),
    "math.rsqrt": _wide(lambda a: 1 / np.sqrt(a)),
    **{
        f"math.{name}": _wide(getattr(np, numpy_name))
        for name, numpy_name in {
            **{n: n for n in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
            **{n: n for n in ("sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
            **{
                f"a{n}": f"arc{n}"
                for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")
            },
        }.items()
    },
}


def _fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    if a.dtype == np.float64:
        return a * b + c
    x, y, z = (v.astype(np.float64) for v in (a, b, c))
    return (x * y + z).astype(a.dtype)


_COMPARISONS = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)


def _compare_integers(operation: ir.OpView) -> Pure:
    predicate = ir.IntegerAttr(operation.attributes["predicate"]).value
    if predicate < len(_COMPARISONS):
        return _COMPARISONS[predicate]
    compare = _COMPARISONS[predicate - 4]
    return lambda a, b: compare(_unsigned(a), _unsigned(b))


def _compare_floats(operation: ir.OpView) -> Pure:
    predicate = ir.IntegerAttr(operation.attributes["predicate"]).value
    # false, then ordered: eq gt ge lt le ne ord; then unordered: eq gt ge lt le ne uno; true
    order = (
        np.equal,
        np.greater,
        np.greater_equal,
        np.less,
        np.less_equal,
        np.not_equal,
    )

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        unordered = np.isnan(a) | np.isnan(b)
        if predicate in (0, 15):
            return np.full(unordered.shape, predicate == 15)
        if predicate in (7, 14):
            return unordered if predicate == 14 else ~unordered
        is_ordered = predicate < 7
        found = order[(predicate - 1) % 7](a, b)
        return found & ~unordered if is_ordered else found | unordered

    return run


def _cast(operation: ir.OpView) -> Pure:
    """A number as one of another type, signed."""
    (result,) = operation.operation.results
    to = numpy_type(result.type)
    sign = _sign_bit(operation.operation.operands[0].type)
    mask = bit_mask(result.type)
    if sign:
        return lambda a: ((a ^ sign) - sign).astype(to)
    return lambda a: a.astype(to) if mask is None else a.astype(to) & mask


def _sign_bit(type_: ir.Type) -> int:
    """Of an integer of fewer bits than a byte; 0 of other types."""
    mask = bit_mask(type_)
    return 0 if mask is None else (mask + 1) >> 1


def bit_mask(type_: ir.Type) -> np.int8 | None:
    """The bits of an integer that fill no byte; None of other types."""
    element = element_type(type_)
    if not isinstance(element, ir.IntegerType) or not 1 < element.width < 8:
        return None
    return np.int8((1 << element.width) - 1)


def _cast_unsigned(operation: ir.OpView) -> Pure:
    to = numpy_type(operation.operation.results[0].type)
    return lambda a: _unsigned(a).astype(to)


def _to_integer(operation: ir.OpView) -> Pure:
    to = numpy_type(operation.operation.results[0].type)
    is_signed = operation.operation.name == "arith.fptosi"
    held = to if is_signed else np.dtype(f"u{to.itemsize}")
    limits = np.iinfo(held)

    def run(a: np.ndarray) -> np.ndarray:
        wide = np.nan_to_num(
            a.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf
        )
        top = wide >= float(limits.max)
        clipped = np.where(top, 0, np.maximum(wide, float(limits.min)))
        return (
            np.where(top, limits.max, np.trunc(clipped).astype(held))
            .astype(held)
            .view(to)
        )

    return run


def _bitcast(operation: ir.OpView) -> Pure:
    to = numpy_type(operation.operation.results[0].type)
    shape = _shape(operation)

    def run(a: np.ndarray) -> np.ndarray:
        found = np.ascontiguousarray(a).reshape(len(a), -1).view(to)
        return found.reshape(len(a), *shape)

    return run


def _shape_cast(operation: ir.OpView) -> Pure:
    shape = _shape(operation)
    return lambda a: a.reshape(len(a), *shape)


def _select(operation: ir.OpView) -> Pure:
    def run(which: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if which.ndim < a.ndim:
            which = which.reshape(-1, *[1] * (a.ndim - 1))
        return np.where(which, a, b)

    return run


def _constant(operation: ir.OpView) -> Pure:
    type_ = operation.operation.results[0].type
    to = numpy_type(type_)
    value = operation.attributes["value"]
    if isinstance(type_, ir.VectorType):
        array = _dense(ir.DenseElementsAttr(value), to).reshape(1, *type_.shape)
    else:
        array = _number(value, to).reshape(1)
    return lambda: array


def _number(value: ir.Attribute, to: np.dtype) -> np.ndarray:
    if isinstance(value, ir.BoolAttr):
        return np.array(bool(value.value))
    number = (
        ir.FloatAttr(value).value
        if isinstance(value, ir.FloatAttr)
        else ir.IntegerAttr(value).value
    )
    return np.array(number).astype(to)


def _dense(value: ir.DenseElementsAttr, to: np.dtype) -> np.ndarray:
    shape = list(ir.ShapedType(value.type).shape)
    if value.is_splat:
        return np.full(shape, _number(value.get_splat_value(), to))
    return np.array(value).astype(to).reshape(shape)


# vectors


def _broadcast(operation: ir.OpView) -> Pure:
    shape = _shape(operation)

    def run(a: np.ndarray) -> np.ndarray:
        missing = 1 + len(shape) - a.ndim
        a = a.reshape(len(a), *[1] * missing, *a.shape[1:])
        return np.broadcast_to(a, (len(a), *shape))

    return run


_REDUCTIONS: Mapping[str, Pure] = {
    "add": np.add,
    "mul": np.multiply,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "maxui": _of_unsigned(np.maximum),
    "minui": _of_unsigned(np.minimum),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _reduction(operation: ir.OpView) -> Pure:
    kind = str(operation.attributes["kind"]).removeprefix("#vector.kind<").rstrip(">")
    combine = _REDUCTIONS[kind]

    def run(a: np.ndarray, *start: np.ndarray) -> np.ndarray:
        total = a[:, 0]
        for lane in range(1, a.shape[1]):
            total = combine(total, a[:, lane])
        return combine(start[0], total) if start else total

    return run


def _positions(operation: ir.OpView) -> tuple[int, ...]:
    return tuple(ir.DenseI64ArrayAttr(operation.attributes["static_position"]))


def _extract(operation: ir.OpView) -> Pure:
    where = _positions(operation)
    if any(n < 0 for n in where):
        raise KeyError("vector.extract at a position that is computed")
    return lambda a: a[(slice(None), *where)]


def _insert(operation: ir.OpView) -> Pure:
    where = _positions(operation)

    def run(a: np.ndarray, into: np.ndarray) -> np.ndarray:
        count = max(len(a), len(into))
        made = np.array(np.broadcast_to(into, (count, *into.shape[1:])))
        made[(slice(None), *where)] = a
        return made

    return run


def _integers(attribute: ir.Attribute) -> list[int]:
    return [ir.IntegerAttr(a).value for a in ir.ArrayAttr(attribute)]


def _strided(operation: ir.OpView) -> tuple[slice, ...]:
    attributes = operation.attributes
    offsets, strides = (_integers(attributes[n]) for n in ("offsets", "strides"))
    if "sizes" in attributes:
        sizes = _integers(attributes["sizes"])
    else:
        sizes = list(ir.VectorType(operation.operands[0].type).shape)
        sizes = [1] * (len(offsets) - len(sizes)) + sizes
    return tuple(
        slice(o, o + n * s, s)
        for o, n, s in zip(
            offsets, sizes, strides + [1] * (len(offsets) - len(strides)), strict=False
        )
    )


def _extract_slice(operation: ir.OpView) -> Pure:
    where = _strided(operation)
    return lambda a: a[(slice(None), *where)]


def _insert_slice(operation: ir.OpView) -> Pure:
    where = _strided(operation)

    def run(a: np.ndarray, into: np.ndarray) -> np.ndarray:
        count = max(len(a), len(into))
        made = np.array(np.broadcast_to(into, (count, *into.shape[1:])))
        target = made[(slice(None), *where)]
        target[...] = a.reshape(len(a), *[1] * (target.ndim - a.ndim), *a.shape[1:])
        return made

    return run


def _from_elements(operation: ir.OpView) -> Pure:
    shape = _shape(operation)

    def run(*elements: np.ndarray) -> np.ndarray:
        together = np.stack(np.broadcast_arrays(*elements), axis=1)
        return together.reshape(len(together), *shape)

    return run


def _shuffle(operation: ir.OpView) -> Pure:
    order = list(ir.DenseI64ArrayAttr(operation.attributes["mask"]))

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        count = max(len(a), len(b))
        both = [np.broadcast_to(x, (count, *x.shape[1:])) for x in (a, b)]
        return np.concatenate(both, axis=1)[:, order]

    return run


def _step(operation: ir.OpView) -> Pure:
    (count,) = _shape(operation)
    return lambda: np.arange(count)[None]


def _constant_mask(operation: ir.OpView) -> Pure:
    (count,) = _shape(operation)
    (size,) = ir.DenseI64ArrayAttr(operation.attributes["mask_dim_sizes"])
    return lambda: np.arange(count)[None] < size


def _create_mask(operation: ir.OpView) -> Pure:
    (count,) = _shape(operation)
    return lambda n: np.arange(count) < n[:, None]


def _plain(function: Pure) -> Callable[[ir.OpView], Pure]:
    """An operation of which only the name matters; vectors meet scalars of no lanes alike."""
    return lambda operation: function


# By name, what makes the function of an operation.
PURE: Mapping[str, Callable[[ir.OpView], Pure]] = {
    **{name: _plain(f) for name, f in {**_BINARY, **_UNARY}.items()},
    **dict.fromkeys(("math.fma", "vector.fma"), _plain(_fma)),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.constant": _constant,
    "arith.select": _select,
    **dict.fromkeys(
        (
            *("arith.extf", "arith.truncf", "arith.extsi", "arith.trunci"),
            *("arith.sitofp", "arith.index_cast"),
        ),
        _cast,
    ),
    **dict.fromkeys(
        ("arith.extui", "arith.uitofp", "arith.index_castui"), _cast_unsigned
    ),
    **dict.fromkeys(("arith.fptosi", "arith.fptoui"), _to_integer),
    **dict.fromkeys(("arith.bitcast", "vector.bitcast"), _bitcast),
    "vector.shape_cast": _shape_cast,
    "vector.broadcast": _broadcast,
    "vector.reduction": _reduction,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "vector.extract_strided_slice": _extract_slice,
    "vector.insert_strided_slice": _insert_slice,
    "vector.from_elements": _from_elements,
    "vector.shuffle": _shuffle,
    "vector.step": _step,
    "vector.constant_mask": _constant_mask,
    "vector.create_mask": _create_mask,
}
