"""Convolutions that cuDNN computes: their patterns, and what becomes of matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.argument_types import check_exports
from relax_mlir.dialects.convolution_shapes import ConvolutionShape, packed_strides
from relax_mlir.objects.expr import Call, Constant
from relax_mlir.objects.function import Function
from relax_mlir.relax.backend.cuda.matches import Match, sizes_of, tensors_in
from relax_mlir.relax.backend.pattern_registry import register_patterns
from relax_mlir.relax.dpl.shorthand import is_op, wildcard
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.runtime.cuda.library_function import LibraryConvolutionFunction
from relax_mlir.runtime.registry import register_func

if TYPE_CHECKING:
    from relax_mlir.relax.transform.fusion_pattern import PatternCheckContext

__all__ = ["cudnn_compiler"]

_LAYOUTS = (("NHWC", "OHWI"), ("NCHW", "OIHW"))
_CONVOLUTION = "relax.nn.conv2d"


def _patterns() -> Iterator[tuple[Any, ...]]:  # Any: fields of patterns
    """As TVM names them, for either layout; the largest last."""
    for tail in ("", "_bias", "_bias_relu"):
        data, weight, bias = wildcard(), wildcard(), wildcard()
        found = is_op(_CONVOLUTION)(data, weight)
        named: dict[str, DFPattern] = {"input": data, "weight": weight, "root": found}
        if tail:
            named["bias"] = bias
            found = is_op("relax.add")(found, bias)
        if tail == "_bias_relu":
            found = is_op("relax.nn.relu")(found)
        yield f"cudnn.conv2d.nhwc_ohwi{tail}", found, named, _is_taken


def _is_taken(context: PatternCheckContext) -> bool:
    """Whether cuDNN convolves numbers of these types, in this order, of such sizes."""
    found = tensors_in(context)
    if found is None or any(info.shape is None for info in found.values()):
        return False
    call = context.annotated_expr["root"]
    assert isinstance(call, Call)
    shape = _shape(call)
    if shape is None or "bias" not in found:
        return shape is not None
    around = [] if call.attrs["data_layout"] == "NHWC" else ["1", "1"]
    bias = sizes_of(found["bias"])
    while len(bias) > 1 + len(around) and bias[0] == "1":
        bias = bias[1:]
    return bias == [str(shape.filters), *around]


def _shape(call: Call) -> ConvolutionShape | None:
    """What a convolution computes of each picture, if the library does that."""
    attrs = call.attrs
    layout = attrs["data_layout"]
    padding = tuple(attrs["padding"])
    is_known = (layout, attrs["kernel_layout"]) in _LAYOUTS
    if not is_known or attrs["out_layout"] != layout or padding[:2] != padding[2:]:
        return None
    data, weight, result = (sizes_of(expr.struct_info) for expr in (*call.args, call))
    if not all(size.isdigit() for size in (*data[1:], *weight, *result[1:])):
        return None
    is_last = layout == "NHWC"
    (read, *picture), (_, *window), (written, *counts) = (
        _channels_first(list(map(int, sizes[1:])), is_last)
        for sizes in (data, weight, result)
    )
    made = ConvolutionShape(
        channels=read,
        filters=written,
        groups=int(attrs["groups"]),
        picture=tuple(picture),
        window=tuple(window),
        result=tuple(counts),
        steps=tuple(attrs["strides"]),
        dilations=tuple(attrs["dilation"]),
        pads=padding[:2],
        picture_strides=packed_strides(read, picture, is_last),
        result_strides=packed_strides(written, counts, is_last),
        channels_last=is_last,
    )
    try:
        made.check()
    except ValueError:
        return None
    return made


def _channels_first(sizes: list[int], is_last: bool) -> list[int]:
    return [sizes[-1], *sizes[:-1]] if is_last else sizes


register_patterns(list(_patterns()))


@register_func("relax.ext.cudnn", override=True)
def cudnn_compiler(
    functions: Sequence[Function],
    options: Mapping[str, Any],
    constant_names: Mapping[Constant, str],
) -> list[LibraryConvolutionFunction]:
    """What models call in place of functions that patterns of cuDNN have matched.

    Raises:
        PassError: a constant stands in one of them.
    """
    return [_compiled(Match.of(function)) for function in functions]


def _compiled(match: Match) -> LibraryConvolutionFunction:
    call = match.calls[_CONVOLUTION]
    data, weight = call.args
    shape = _shape(call)
    assert shape is not None  # the pattern has looked
    return LibraryConvolutionFunction(
        match.name,
        match.number(data),
        match.number(weight),
        shape,
        bias=match.bias,
        activation=match.activation,
    )


check_exports(globals())
