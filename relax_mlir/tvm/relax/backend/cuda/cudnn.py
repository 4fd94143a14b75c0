"""BYOC backend for cuDNN convolutions: fusion patterns and code generator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.objects.expr import Call, Constant
from relax_mlir.objects.function import Function
from relax_mlir.runtime.cuda.library_function import LibraryConvolutionFunction
from relax_mlir.runtime.registry import register_func
from relax_mlir.support.argument_types import check_exports
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape, packed_strides
from relax_mlir.tvm.relax.backend.cuda.matches import (
    CompositeMatch,
    shape_text,
    tensors_of_match,
)
from relax_mlir.tvm.relax.backend.pattern_registry import register_patterns
from relax_mlir.tvm.relax.dpl.shorthand import is_op, wildcard
from relax_mlir.tvm.relax.dpl.structure import DFPattern

if TYPE_CHECKING:
    from relax_mlir.tvm.relax.transform.fusion_pattern import PatternCheckContext

__all__ = ["cudnn_compiler"]

_LAYOUTS = (("NHWC", "OHWI"), ("NCHW", "OIHW"))
_CONVOLUTION = "relax.nn.conv2d"


def _patterns() -> Iterator[tuple[Any, ...]]:  # Any: fields of `FusionPattern`
    """Yields TVM's pattern names for conv2d with bias and relu, the largest last."""
    for suffix in ("", "_bias", "_bias_relu"):
        data, weight, bias = wildcard(), wildcard(), wildcard()
        pattern = is_op(_CONVOLUTION)(data, weight)
        named: dict[str, DFPattern] = {"input": data, "weight": weight, "root": pattern}
        if suffix:
            named["bias"] = bias
            pattern = is_op("relax.add")(pattern, bias)
        if suffix == "_bias_relu":
            pattern = is_op("relax.nn.relu")(pattern)
        yield f"cudnn.conv2d.nhwc_ohwi{suffix}", pattern, named, _is_supported


def _is_supported(context: PatternCheckContext) -> bool:
    """Returns whether cuDNN supports the element types, layouts and sizes of a match."""
    tensors = tensors_of_match(context)
    if tensors is None or any(info.shape is None for info in tensors.values()):
        return False
    call = context.annotated_expr["root"]
    assert isinstance(call, Call)
    shape = _convolution_shape(call)
    if shape is None or "bias" not in tensors:
        return shape is not None
    spatial = [] if call.attrs["data_layout"] == "NHWC" else ["1", "1"]
    bias = shape_text(tensors["bias"])
    while len(bias) > 1 + len(spatial) and bias[0] == "1":
        bias = bias[1:]
    return bias == [str(shape.filters), *spatial]


def _convolution_shape(call: Call) -> ConvolutionShape | None:
    """Returns the shape of a convolution without its batch; None if cuDNN lacks it."""
    attrs = call.attrs
    layout = attrs["data_layout"]
    padding = tuple(attrs["padding"])
    is_supported = (layout, attrs["kernel_layout"]) in _LAYOUTS
    if not is_supported or attrs["out_layout"] != layout or padding[:2] != padding[2:]:
        return None
    data, weight, result = (shape_text(expr.struct_info) for expr in (*call.args, call))
    if not all(size.isdigit() for size in (*data[1:], *weight, *result[1:])):
        return None
    channels_last = layout == "NHWC"
    (in_channels, *image), (_, *kernel), (out_channels, *output) = (
        _channels_first(list(map(int, sizes[1:])), channels_last)
        for sizes in (data, weight, result)
    )
    convolution = ConvolutionShape(
        channels=in_channels,
        filters=out_channels,
        groups=int(attrs["groups"]),
        image=tuple(image),
        window=tuple(kernel),
        result=tuple(output),
        steps=tuple(attrs["strides"]),
        dilations=tuple(attrs["dilation"]),
        pads=padding[:2],
        image_strides=packed_strides(in_channels, image, channels_last),
        result_strides=packed_strides(out_channels, output, channels_last),
        channels_last=channels_last,
    )
    try:
        convolution.check()
    except ValueError:
        return None
    return convolution


def _channels_first(sizes: list[int], channels_last: bool) -> list[int]:
    return [sizes[-1], *sizes[:-1]] if channels_last else sizes


register_patterns(list(_patterns()))


@register_func("relax.ext.cudnn", override=True)
def cudnn_compiler(
    functions: Sequence[Function],
    options: Mapping[str, Any],
    constant_names: Mapping[Constant, str],
) -> list[LibraryConvolutionFunction]:
    """Returns a cuDNN call for each function that a pattern of cuDNN has matched.

    Raises:
        PassError: a function contains a constant.
    """
    return [_library_call(CompositeMatch.of(function)) for function in functions]


def _library_call(match: CompositeMatch) -> LibraryConvolutionFunction:
    call = match.calls[_CONVOLUTION]
    data, weight = call.args
    shape = _convolution_shape(call)
    assert shape is not None  # the check of the pattern computed it
    return LibraryConvolutionFunction(
        match.name,
        match.param_index(data),
        match.param_index(weight),
        shape,
        bias=match.bias,
        activation=match.activation,
    )


check_exports(globals())
