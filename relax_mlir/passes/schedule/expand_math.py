"""``schedule-expand-math``: polynomial approximations of math functions on vectors."""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.passes.schedule.activations import expand_activations
from relax_mlir.rewrite.patterns import Pass, replace
from relax_mlir.schedules import vector_math
from relax_mlir.schedules.builder import op as emit

__all__ = ["ExpandMath"]

# Expansions on f32 vectors.
_EXPANSIONS: dict[str, Callable[..., ir.Value]] = {
    "math.acos": vector_math.acos,
    "math.acosh": vector_math.acosh,
    "math.asin": vector_math.asin,
    "math.asinh": vector_math.asinh,
    "math.atan": vector_math.atan,
    "math.atanh": vector_math.atanh,
    "math.cos": vector_math.cos,
    "math.cosh": vector_math.cosh,
    "math.erf": vector_math.erf,
    "math.exp": vector_math.exp,
    "math.exp2": vector_math.exp2,
    "math.expm1": vector_math.expm1,
    "math.log": vector_math.log,
    "math.log10": vector_math.log10,
    "math.log1p": vector_math.log1p,
    "math.log2": vector_math.log2,
    "math.powf": vector_math.pow,
    "math.rsqrt": vector_math.rsqrt,
    "math.sin": vector_math.sin,
    "math.sinh": vector_math.sinh,
    "math.tan": vector_math.tan,
    "math.tanh": vector_math.tanh,
}


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Expand math functions on f32 vectors to polynomial approximations.

    Without it each lane would be a call of the scalar function in libm. The error
    bounds are documented with the functions in :mod:`relax_mlir.schedules.vector_math`. A
    sigmoid, silu or gelu expression, scalar ones included, becomes one polynomial without
    cancellation.

    Left to libm are other scalars, vectors of other types or of rank other than 1, and
    ``math.atan2``, ``cbrt``, ``erfc`` and ``sincos``. Integer powers are expanded on scalars,
    too: MLIR 22 does not lower ``math.ipowi`` at all, and ``math.fpowi`` only on scalars, to a
    function that libm lacks. So are conversions of 8-bit and narrower floats, which LLVM does
    not support.

    Args:
        polynomials: false leaves the other functions to the target's math library.
    """

    polynomials: bool = True

    def run(self, module: IRModule) -> None:
        if self.polynomials:
            expand_activations(module.mlir.operation, _is_f32)
        for op in list(walk(module.mlir.operation)):
            expand = _expansion_of(op, self.polynomials)
            if expand is not None:
                with ir.InsertionPoint(op), op.location:
                    replacement = expand(*op.operands)
                replace(op, replacement)


def _expansion_of(op: ir.OpView, polynomials: bool) -> Callable[..., ir.Value] | None:
    name = op.operation.name
    if name in ("arith.extf", "arith.truncf"):
        return _conversion_of(op)
    if not name.startswith("math."):
        return None
    type_ = op.results[0].type
    is_vector = _is_plain_vector(type_)
    is_scalar = not isinstance(type_, ir.ShapedType)
    if not (is_vector or is_scalar):
        return None
    if name == "math.ipowi":
        return vector_math.ipowi
    element = type_.element_type if is_vector else type_
    is_f32 = isinstance(element, ir.F32Type)
    if name == "math.fpowi":
        return vector_math.fpowi if is_f32 else _float_power
    if not (is_f32 and is_vector and polynomials):
        return None
    if attribute_names.NOT_POSITIVE in op.operation.attributes:
        return vector_math.exp_not_positive
    return _EXPANSIONS.get(name)


def _conversion_of(op: ir.OpView) -> Callable[..., ir.Value] | None:
    """The expansion of a float conversion, if one of the two types is narrow."""
    source, target = (element_of(v.type) for v in (op.operands[0], op.results[0]))
    if not (vector_math.is_narrow(source) or vector_math.is_narrow(target)):
        return None
    return lambda x: _resized(_resized(x, ir.F32Type.get()), target)


def _resized(x: ir.Value, element: ir.Type) -> ir.Value:
    """A float converted to another type; one of the two is f32."""
    source = element_of(x.type)
    if source == element:
        return x
    if vector_math.is_narrow(source):
        return vector_math.extend_narrow(x)
    if vector_math.is_narrow(element):
        return vector_math.truncate_narrow(x, element)
    is_wider = element.width > source.width
    return emit("arith.extf" if is_wider else "arith.truncf", _like(x, element), x)


def _like(x: ir.Value, element: ir.Type) -> ir.Type:
    """A type of the same shape with another element type."""
    if isinstance(x.type, ir.VectorType):
        return ir.VectorType.get(x.type.shape, element)
    return element


def _is_plain_vector(type_: ir.Type) -> bool:
    return isinstance(type_, ir.VectorType) and type_.rank == 1 and not type_.scalable


def _is_f32(type_: ir.Type) -> bool:
    """Whether it is f32, or a vector of f32 that is expanded."""
    is_vector = _is_plain_vector(type_) and isinstance(element_of(type_), ir.F32Type)
    return is_vector or isinstance(type_, ir.F32Type)


def _float_power(x: ir.Value, exponent: ir.Value) -> ir.Value:
    """x**n with n converted to float, for libm; exact in f64 up to 2**53."""
    return emit("math.powf", x.type, x, emit("arith.sitofp", x.type, exponent))
