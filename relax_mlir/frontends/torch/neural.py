"""Rules for convolutions and normalization layers."""

import torch

from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule
from relax_mlir.frontends.torch.sizes import Size
from relax_mlir.objects.expr import Expr, const
from relax_mlir.tvm.relax import op

__all__: list[str] = []

_CONVOLUTIONS = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_TRANSPOSED = {
    1: op.nn.conv1d_transpose,
    2: op.nn.conv2d_transpose,
    3: op.nn.conv3d_transpose,
}


@torch_rule("aten.convolution.default")
def convolution(node: TorchNode) -> Expr:
    """Convolution or transposed convolution, with an optional bias."""
    rank = node.rank_of("weight") - 2
    attrs = {
        "strides": spatial_ints(node, "stride", rank),
        "padding": spatial_ints(node, "padding", rank) * 2,
        "dilation": spatial_ints(node, "dilation", rank),
        "groups": node.attr("groups"),
    }
    is_unbatched = node.rank_of("input") == rank + 1
    x, build = node.tensor("input"), _CONVOLUTIONS[rank]
    if is_unbatched:
        x = op.expand_dims(x, 0)
    if node.attr("transposed"):
        build = _TRANSPOSED[rank]
        attrs["output_padding"] = spatial_ints(node, "output_padding", rank)
    found = build(x, node.tensor("weight"), **attrs)
    if node.has("bias"):
        size = node.shape_of("bias")[0]
        found = op.add(found, op.reshape(node.tensor("bias"), (1, size, *[1] * rank)))
    return op.squeeze(found, 0) if is_unbatched else found


def spatial_ints(node: TorchNode, name: str, rank: int, missing: int = 0) -> list[int]:
    """An argument with one number per spatial axis; a single number applies to all."""
    given = node.attr(name)
    if isinstance(given, int):
        given = [given]
    if not given:
        return [missing] * rank
    return list(given) * rank if len(given) == 1 else list(given)


def _scale(node: TorchNode, name: str, shape: tuple[Size, ...], value: float) -> Expr:
    """An affine parameter; by default a tensor filled with ``value``."""
    if node.has(name):
        return node.tensor(name)
    return op.full(shape, const(value, node.dtype), node.dtype)


@torch_rule(
    "aten._native_batch_norm_legit_no_training.default",
    "aten._native_batch_norm_legit.no_stats",
    "aten.batch_norm.default",
)
def batch_norm(node: TorchNode) -> Expr | list[Expr | None]:
    """Batch normalization by running statistics, or by those of the batch if absent."""
    name = node.fx_node.target.__name__
    if node.attr("training") and node.has("running_mean"):
        raise NotImplementedError(
            "batch normalization in training: expected a model in `eval()`"
        )
    shape, rank = node.shape, len(node.shape)
    channels = (shape[1],)
    gamma, beta = _scale(node, "weight", channels, 1), _scale(node, "bias", channels, 0)
    x, epsilon = node.tensor("input"), float(node.attr("eps"))
    if "no_stats" in name or not node.has("running_mean"):
        axes = [0, *range(2, rank)]
        mean = node.emit(op.mean(x, axes, False))
        variance = node.emit(op.variance(x, axes, False))
    else:
        mean, variance = (node.tensor(n) for n in ("running_mean", "running_var"))
    whole = op.nn.batch_norm(
        x, gamma, beta, mean, variance, axis=1, epsilon=epsilon, training=False
    )
    found = node.emit(node.emit(whole)[0])
    return found if name == "batch_norm.default" else [found, None, None]


@torch_rule("aten.native_layer_norm.default", "aten.layer_norm.default")
def layer_norm(node: TorchNode) -> Expr | list[Expr | None]:
    """Layer normalization over the last axes."""
    count = len(node.attr("normalized_shape"))
    shape = node.shape[len(node.shape) - count :]
    gamma, beta = _scale(node, "weight", shape, 1), _scale(node, "bias", shape, 0)
    axes = [-count + i for i in range(count)]
    found = op.nn.layer_norm(
        node.tensor("input"),
        gamma,
        beta,
        axes,
        float(node.attr("eps")),
        node.has("bias"),
        node.has("weight"),
    )
    is_native = "native" in node.fx_node.target.__name__
    return [found, *_statistics(node, axes)] if is_native else found


def _statistics(node: TorchNode, axes: list[int]) -> list[Expr | None]:
    """The mean and 1 / sqrt(variance + eps), if used."""
    read = {user.args[1] for user in node.fx_node.users}
    x = node.tensor("input")
    mean = op.mean(x, axes, True) if 1 in read else None
    if 2 not in read:
        return [mean, None]
    shifted = op.add(op.variance(x, axes, True), const(node.attr("eps"), node.dtype))
    return [mean, op.rsqrt(shifted)]


@torch_rule("aten.native_group_norm.default", "aten.group_norm.default")
def group_norm(node: TorchNode) -> Expr | list[Expr | None]:
    """Group normalization."""
    shape = node.shape
    channels = (shape[1],)
    gamma, beta = _scale(node, "weight", channels, 1), _scale(node, "bias", channels, 0)
    is_native = "native" in node.fx_node.target.__name__
    found = op.nn.group_norm(
        node.tensor("input"),
        gamma,
        beta,
        node.attr("group" if is_native else "num_groups"),
        1,
        list(range(2, len(shape))),
        float(node.attr("eps")),
    )
    return [found, None, None] if is_native else found


@torch_rule("aten.rms_norm.default", "aten._fused_rms_norm.default")
def rms_norm(node: TorchNode) -> Expr | list[Expr | None]:
    """RMS normalization over the last axes."""
    count = len(node.attr("normalized_shape"))
    shape = node.shape[len(node.shape) - count :]
    epsilon = node.attr("eps")
    if epsilon is None:
        epsilon = torch.finfo(node.result.dtype).eps
    found = op.nn.rms_norm(
        node.tensor("input"),
        _scale(node, "weight", shape, 1),
        [-count + i for i in range(count)],
        float(epsilon),
    )
    return [found, None] if "fused" in node.fx_node.target.__name__ else found
