"""Legalization rules of quantize and dequantize."""

from collections.abc import Callable, Mapping
from typing import Any

from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.tvm import te
from relax_mlir.tvm.relax.transform.legalize_ops.calls import (
    LegalizeFunc,
    scalar_literal,
)

__all__ = ["RULES"]

_Element = Callable[[Any, Any, Any, str], Any]


def _parameter_of(values: Any, indices: tuple[Any, ...], axis: int) -> Any:
    """Returns the scale, or the zero point, of one element."""
    if not isinstance(values, te.Tensor):
        return values
    is_one = all(isinstance(s, prim.IntImm) and s.value == 1 for s in values.shape)
    return values(*[0] * values.ndim) if is_one else values(indices[axis])


def _saturating_cast(value: Any, dtype: str) -> Any:
    """Casts a number to another type with saturation."""
    below = te.min(value, te.max_value(dtype))
    return te.max(below, te.min_value(dtype)).astype(dtype)


def _quantize(element: Any, scale: Any, zero_point: Any, dtype: str) -> Any:
    scaled = element / scale
    scaled = te.round(scaled) if "int" in dtype else scaled
    return _saturating_cast(scaled + zero_point, dtype)


def _dequantize(element: Any, scale: Any, zero_point: Any, dtype: str) -> Any:
    wide = "float32" if "float" in element.dtype else "int32"
    centred = element.astype(wide) - prim.cast(wide, zero_point)
    out = centred * scale.astype("float32")
    return out if dtype == "float32" else _saturating_cast(out, dtype)


def _elementwise_rule(name: str, element: _Element) -> LegalizeFunc:
    """A rule that applies ``element`` to each element with its scale and zero point."""

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        axis, dtype = int(call.attrs["axis"]), str(call.attrs["out_dtype"])

        def program(data: te.Tensor, scale: Any, zero_point: Any) -> te.Tensor:
            def body(*indices: Any) -> Any:
                element_scale = _parameter_of(scale, indices, axis)
                return element(
                    data(*indices),
                    element_scale,
                    _parameter_of(zero_point, indices, axis),
                    dtype,
                )

            return te.compute(data.shape, body, f"{name}d")

        data, *params = call.args
        return builder.call_te(
            program, data, *map(scalar_literal, params), primfunc_name_hint=name
        )

    return rule


RULES: Mapping[str, LegalizeFunc] = {
    "quantize": _elementwise_rule("quantize", _quantize),
    "dequantize": _elementwise_rule("dequantize", _dequantize),
}
