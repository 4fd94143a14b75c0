"""Rules of operators that turn numbers into small integers, and back."""

from collections.abc import Callable, Mapping
from typing import Any

from relax_mlir import te
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.relax.transform.legalize_ops.calls import LegalizeFunc, literal

__all__ = ["RULES"]

_Element = Callable[[Any, Any, Any, str], Any]


def _at(values: Any, indices: tuple[Any, ...], axis: int) -> Any:
    """The scale, or the zero point, of one element."""
    if not isinstance(values, te.Tensor):
        return values
    is_one = all(isinstance(s, prim.IntImm) and s.value == 1 for s in values.shape)
    return values(*[0] * values.ndim) if is_one else values(indices[axis])


def _limited(value: Any, dtype: str) -> Any:
    """A number in another type, between its limits."""
    below = te.min(value, te.max_value(dtype))
    return te.max(below, te.min_value(dtype)).astype(dtype)


def _quantized(element: Any, scale: Any, zero_point: Any, dtype: str) -> Any:
    steps = element / scale
    steps = te.round(steps) if "int" in dtype else steps
    return _limited(steps + zero_point, dtype)


def _dequantized(element: Any, scale: Any, zero_point: Any, dtype: str) -> Any:
    wide = "float32" if "float" in element.dtype else "int32"
    steps = element.astype(wide) - prim.cast(wide, zero_point)
    out = steps * scale.astype("float32")
    return out if dtype == "float32" else _limited(out, dtype)


def _mapped(name: str, element: _Element) -> LegalizeFunc:
    """``element`` of every element, its scale and its zero point."""

    def rule(builder: BlockBuilder, call: Call) -> Expr:
        axis, dtype = int(call.attrs["axis"]), str(call.attrs["out_dtype"])

        def program(data: te.Tensor, scale: Any, zero_point: Any) -> te.Tensor:
            def body(*indices: Any) -> Any:
                step = _at(scale, indices, axis)
                return element(
                    data(*indices), step, _at(zero_point, indices, axis), dtype
                )

            return te.compute(data.shape, body, f"{name}d")

        data, *params = call.args
        return builder.call_te(
            program, data, *map(literal, params), primfunc_name_hint=name
        )

    return rule


RULES: Mapping[str, LegalizeFunc] = {
    "quantize": _mapped("quantize", _quantized),
    "dequantize": _mapped("dequantize", _dequantized),
}
