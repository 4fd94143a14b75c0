"""Rules for pooling, resizing and grid sampling."""

import math

from relax_mlir.frontends.torch.movement import slice_axis
from relax_mlir.frontends.torch.neural import spatial_ints
from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import Size, element_count
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []

_MAXIMA = {1: op.nn.max_pool1d, 2: op.nn.max_pool2d, 3: op.nn.max_pool3d}
_MEANS = {1: op.nn.avg_pool1d, 2: op.nn.avg_pool2d, 3: op.nn.avg_pool3d}
_ADAPTIVE = {
    1: op.nn.adaptive_avg_pool1d,
    2: op.nn.adaptive_avg_pool2d,
    3: op.nn.adaptive_avg_pool3d,
}


def _rank(node: TorchNode) -> int:
    """The number of spatial axes, from the operator's name."""
    name = node.fx_node.target.__name__.partition(".")[0]
    return int(name[name.index("d", name.index("pool")) - 1])


def _with_batch(node: TorchNode, rank: int) -> tuple[Expr, bool]:
    """The input with a batch axis, and whether that was added."""
    x, is_unbatched = node.tensor("self"), node.rank_of("self") == rank + 1
    return (op.expand_dims(x, 0), True) if is_unbatched else (x, False)


@torch_rule(
    *(f"aten.max_pool{n}d.default" for n in (1, 2, 3)),
    *(f"aten.max_pool{n}d_with_indices.default" for n in (2, 3)),
)
def max_pool(node: TorchNode) -> Expr | list[Expr | None]:
    """Max pooling, with the indices of the maxima if used."""
    rank = _rank(node)
    x, is_unbatched = _with_batch(node, rank)
    kernel = spatial_ints(node, "kernel_size", rank)
    strides = spatial_ints(node, "stride", rank) if node.attr("stride") else kernel
    attrs = {
        "strides": strides,
        "padding": spatial_ints(node, "padding", rank) * 2,
        "dilation": spatial_ints(node, "dilation", rank, 1),
        "ceil_mode": bool(node.attr("ceil_mode")),
    }
    name = node.fx_node.target.__name__
    if "indices" in name and any(u.args[1] == 1 for u in node.fx_node.users):
        pair = op.max_pool_with_indices(x, kernel, **attrs)
        values, indices = node.parts(pair, 2)
        plane = element_count(node.shape_of("self")[-rank:])
        indices = op.floor_mod(indices, node.size_tensor(plane, "int64"))
        found = [values, indices]
    else:
        found = [_MAXIMA[rank](x, kernel, **attrs), None]
    if is_unbatched:
        found = [None if f is None else op.squeeze(f, 0) for f in found]
    return found if "indices" in name else _first(found)


def _first(found: list[Expr | None]) -> Expr:
    assert found[0] is not None
    return found[0]


@torch_rule(*(f"aten.avg_pool{n}d.default" for n in (1, 2, 3)))
def avg_pool(node: TorchNode) -> Expr:
    """Average pooling."""
    rank = _rank(node)
    x, is_unbatched = _with_batch(node, rank)
    kernel = spatial_ints(node, "kernel_size", rank)
    strides = spatial_ints(node, "stride", rank) if node.attr("stride") else kernel
    divisor, ceil_mode = node.attr("divisor_override"), bool(node.attr("ceil_mode"))
    if divisor is not None and ceil_mode:
        raise NotImplementedError(
            "`avg_pool`: `divisor_override` and `ceil_mode` are not supported together"
        )
    found = _MEANS[rank](
        x,
        kernel,
        strides=strides,
        padding=spatial_ints(node, "padding", rank) * 2,
        ceil_mode=ceil_mode,
        count_include_pad=divisor is not None or bool(node.attr("count_include_pad")),
    )
    if divisor is not None:
        found = op.multiply(found, const(math.prod(kernel) / divisor, node.dtype))
    return op.squeeze(found, 0) if is_unbatched else found


@torch_rule(
    "aten._adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool3d.default",
    *(f"aten.adaptive_avg_pool{n}d.default" for n in (1, 2, 3)),
)
def adaptive_avg_pool(node: TorchNode) -> Expr:
    """Adaptive average pooling to a given output size."""
    rank = _rank(node)
    x, is_unbatched = _with_batch(node, rank)
    size = node.attr("output_size")
    if all(s == 1 for s in size):
        last = node.rank_of("self")
        axes = list(range(last - rank, last))
        return op.mean(node.tensor("self"), axes, True)
    found = _ADAPTIVE[rank](x, size)
    return op.squeeze(found, 0) if is_unbatched else found


@torch_rule("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max_pool(node: TorchNode) -> list[Expr | None]:
    """Adaptive max pooling to a given output size, axis by axis."""
    if any(user.args[1] == 1 for user in node.fx_node.users):
        raise NotImplementedError("`adaptive_max_pool`: expected no use of its indices")
    found, sizes = node.tensor("self"), node.attr("output_size")
    first = node.rank_of("self") - len(sizes)
    for axis, count in enumerate(sizes, first):
        size = node.shape_of("self")[axis]
        if not isinstance(size, int):
            raise NotImplementedError(
                f"`adaptive_max_pool` of `{size}`: expected a number"
            )
        found = node.emit(_maxima(found, axis, size, count))
    return [found, None]


def _maxima(x: Expr, axis: int, size: int, count: int) -> Expr:
    """Maxima of ``count`` windows along an axis, which may overlap."""
    parts = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    found = [op.max(slice_axis(x, axis, *part), axis, True) for part in parts]
    return found[0] if count == 1 else op.concat(found, axis)


@torch_rule(
    *("aten.upsample_linear1d.vec", "aten.upsample_trilinear3d.vec"),
    *("aten.upsample_bilinear2d.vec", "aten._upsample_bilinear2d_aa.vec"),
    *("aten.upsample_bicubic2d.vec", "aten._upsample_bicubic2d_aa.vec"),
)
def upsample(node: TorchNode) -> Expr:
    """Resizing by linear or cubic interpolation."""
    name = node.fx_node.target.__name__
    aligned, antialias = bool(node.attr("align_corners")), "_aa" in name
    scales = node.attr("scale_factors") or [None] * (len(node.shape) - 2)
    found = node.tensor("input")
    for axis, scale in enumerate(scales, 2):
        old, new = node.shape_of("input")[axis], node.shape[axis]
        if (
            antialias
            and scale is None
            and isinstance(old, int)
            and isinstance(new, int)
        ):
            scale = new / old
        table = op.resize_table(
            found,
            axis,
            (node.shape[axis],),
            0.0 if scale is None or aligned else float(scale),
            "cubic" if "cubic" in name else "linear",
            "align_corners" if aligned else "half_pixel",
            cubic_a=-0.5 if antialias else -0.75,
            exclude_outside=antialias,
            antialias=antialias,
        )
        indices, weights = node.parts(table, 2)
        found = node.emit(op.resample(found, indices, weights, axis))
    return found


@torch_rule(*(f"aten.upsample_nearest{n}d.vec" for n in (1, 2, 3)))
def upsample_nearest(node: TorchNode) -> Expr:
    """Nearest-neighbor resizing, with source indices rounded down."""
    old, new = node.shape_of("input")[2:], node.shape[2:]
    scales = node.attr("scale_factors") or [None] * len(new)
    found = node.tensor("input")
    for axis, (before, after, scale) in enumerate(
        zip(old, new, scales, strict=True), 2
    ):
        if scale is not None and float(scale).is_integer():
            found = op.repeat(found, int(scale), axis)
        elif isinstance(before, int) and isinstance(after, int) and after % before == 0:
            found = op.repeat(found, after // before, axis)
        else:
            found = op.take(found, _nearest(node, before, after, scale), axis)
    return found


def _nearest(node: TorchNode, old: Size, new: Size, scale: float | None) -> Expr:
    """Source index of each output element along an axis."""
    indices = op.astype(op.arange(0, new, 1, "int64"), "float32")
    if scale is not None:
        step: Expr = const(1 / scale, "float32")
    else:
        step = op.divide(*(node.size_tensor(s, "float32") for s in (old, new)))
    found = op.astype(op.floor(op.multiply(indices, step)), "int64")
    return op.minimum(found, node.size_tensor(old - 1, "int64"))


_METHODS = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


@torch_rule("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(node: TorchNode) -> Expr:
    """Samples of images or volumes at the coordinates of a grid."""
    rank = node.rank_of("input") - 2
    order = [0, rank + 1, *range(1, rank + 1)]
    return op.image.grid_sample(
        node.tensor("input"),
        op.permute_dims(node.tensor("grid"), order),
        _METHODS[node.attr("interpolation_mode")],
        "NCHW" if rank == 2 else "NCDHW",
        _PADDINGS[node.attr("padding_mode")],
        bool(node.attr("align_corners")),
    )
