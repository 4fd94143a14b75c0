"""Conversion to float8_e8m0fnu, the type of block scales."""

import numpy as np
from mlir.ir import BoolAttr, RankedTensorType, StringAttr

from relax_mlir.dialects import dtypes, tensors
from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax.core import Relax
from relax_mlir.dialects.relax.elementwise import require_element_type
from relax_mlir.dialects.tir import Buffer, Builder, Scalar

__all__ = ["CastScaleOp"]

_E8M0, _F32, _I32, _U8 = map(
    dtypes.dtype, ("float8_e8m0fnu", "float32", "int32", "uint8")
)
_DIGITS = 23  # stored significand bits of f32
_HALF = 1 << (_DIGITS - 1)  # bits of 2^-127, the lowest power of two: a subnormal f32
_INFINITY = 0xFF << _DIGITS
_LARGEST, _NAN = 0xFE, 0xFF

# Added to the bits of a normal f32; the least subnormal that rounds up to a normal one.
_ROUNDING = {
    "up": ((1 << _DIGITS) - 1, _HALF + 1),
    "down": (0, 1 << _DIGITS),
    "nearest": (_HALF, 3 * _HALF // 2),
}


class CastScaleOp(Relax.Operation, name="cast_scale"):
    """Rounds to powers of two in float8_e8m0fnu: eight exponent bits, no significand.

    NaN stays NaN, and the sign is dropped.

    Attributes:
        round_mode: ``up``, ``down`` or ``nearest`` (ties up).
        saturate: whether values out of range become the largest or smallest power of two;
            otherwise they become NaN.
    Shapes:
        x, y: any shape; x of f32, f16 or bf16.
    Source: ONNX Cast-24, float8e8m0.
    """

    x: Operand[RankedTensorType]
    y: Result[RankedTensorType]
    round_mode: StringAttr
    saturate: BoolAttr

    cases = (
        *(
            Case((75,), low=-0.0, high=9.0, round_mode=mode, saturate=saturate)
            for mode in _ROUNDING
            for saturate in (True, False)
        ),
        Case((41,), low=0.0, high=2e-38, round_mode="nearest", saturate=True),
        Case((41,), low=0.0, high=2e-38, round_mode="up", saturate=False),
        Case((41,), low=1e38, high=3.4e38, round_mode="up", saturate=True),
        Case((41,), low=1e38, high=3.4e38, round_mode="nearest", saturate=False),
        Case((3, 4, "float16"), low=0.0, high=9.0, round_mode="down", saturate=True),
    )

    @staticmethod
    def infer(
        x: RankedTensorType, round_mode: str = "up", saturate: bool = True
    ) -> RankedTensorType:
        found = require_element_type("f", x)
        if found.bits > 32:
            raise ValueError(
                f"wrong element type: expected 32 bits or less, got {found}"
            )
        if round_mode not in _ROUNDING:
            listed = ", ".join(_ROUNDING)
            raise ValueError(
                f"round_mode: expected one of {listed}, got {round_mode!r}"
            )
        return tensors.tensor_type(tensors.shape_of(x), _E8M0)

    @staticmethod
    def reference(
        x: np.ndarray, round_mode: str = "up", saturate: bool = True
    ) -> np.ndarray:
        fraction, exponent = np.frexp(np.abs(x.astype(np.float64)))
        least = {"up": 0.5, "down": 1.0, "nearest": 0.75}[round_mode]
        grows = fraction > least if round_mode == "up" else fraction >= least
        with np.errstate(all="ignore"):
            power = np.where(np.isfinite(x), exponent + 126 + grows, 999)
        power = np.where(x == 0, -999, power)
        code = np.clip(power, 0, _LARGEST)
        code = np.where(np.isnan(x), _NAN, code)
        if not saturate:
            lowest = np.abs(x.astype(np.float64)) < 2.0**-127
            code = np.where((power > _LARGEST) | lowest, _NAN, code)
        return code.astype(np.uint8).view(_E8M0.numpy)

    def legalize(self, b: Builder) -> Buffer:
        added, first = _ROUNDING[self.round_mode.value]
        saturates = self.saturate.value

        def body(x: Scalar) -> Scalar:
            bits = b.bitcast(b.cast(x, _F32), _I32) & 0x7FFFFFFF
            code = (bits + added) >> _DIGITS
            small = b.select(bits < first, b.constant(0, _I32), b.constant(1, _I32))
            code = b.select(bits < 1 << _DIGITS, small, code)
            if saturates:
                code = code.minimum(_LARGEST)
                is_nan = bits > _INFINITY
            else:
                is_nan = (bits < _HALF) | (code > _LARGEST) | (bits > _INFINITY)
            code = b.select(is_nan, b.constant(_NAN, _I32), code)
            return b.bitcast(b.cast(code, _U8), _E8M0)

        return b.map(body, self.x, dtype=_E8M0, name="cast")
