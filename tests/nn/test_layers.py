"""Layers and operators: emitted bindings and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relax_mlir import nn, opt
from relax_mlir.compiler import reference
from relax_mlir.ir.module import IRModule
from relax_mlir.nn import op, spec
from relax_mlir.objects import prim

RNG = np.random.default_rng(0)


def exported(module: nn.Module, **arguments: Any) -> Any:
    """``forward`` of a module as a function."""
    return module.export_tvm({"forward": arguments})[0]["forward"]


def method(function: Any, **arguments: Any) -> Any:
    """What ``function`` builds of tensors."""
    module = type("Model", (nn.Module,), {"forward": function})()
    return exported(module, **arguments)


def built(function: Any) -> list[str]:
    """The bindings of a function: name, operator and shape of each."""
    bindings = [b for block in function.body.blocks for b in block.bindings][:-1]
    return [
        f"{b.var.name_hint}: {b.value.op.name.removeprefix('relax.')} "
        f"{[str(s) for s in b.var.struct_info.shape]}"
        for b in bindings
    ]


def f32(*shape: Any) -> spec.Tensor:
    return spec.Tensor(shape, "float32")


def random(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def run(function: Any, *arrays: np.ndarray) -> Any:
    """The results of a function by the reference of its operators."""
    module = opt(IRModule({"main": function}), "relax-normalize")
    return reference.run(module, *arrays)[0]


def test_linear_layer_is_a_matmul_and_an_add() -> None:
    function = exported(nn.Linear(4, 8), x=f32("n", 4))
    x, weight, bias = random(3, 4), random(8, 4), random(8)

    assert built(function) == [
        "permute_dims: permute_dims ['4', '8']",
        "matmul: matmul ['n', '8']",
        "add: add ['n', '8']",
    ]
    # rtol: sums of four products in another order
    np.testing.assert_allclose(
        run(function, x, weight, bias), x @ weight.T + bias, rtol=1e-5, atol=1e-6
    )


def test_out_dtype_applies_to_matmul_and_bias() -> None:
    layer = nn.Linear(4, 8, dtype="float16", out_dtype="float32")
    function = exported(layer, x=spec.Tensor((1, 4), "float16"))

    assert [p.struct_info.dtype for p in function.params] == [
        *("float16", "float16", "float32")
    ]
    assert function.ret_struct_info.dtype == "float32"


@pytest.mark.parametrize(
    ("layer", "x", "shapes", "result"),
    [
        (nn.Conv1D(4, 6, 3, groups=2), (1, 4, 9), [[6, 2, 3], [6]], (1, 6, 7)),
        (nn.Conv2D(3, 6, 3, stride=2), (1, 3, 9, 7), [[6, 3, 3, 3], [6]], (1, 6, 4, 3)),
        (
            nn.Conv2D(4, 6, [3, 5], padding=1, groups=2, bias=False),
            *((1, 4, 9, 7), [[6, 2, 3, 5]], (1, 6, 9, 5)),
        ),
        (
            nn.Conv3D(4, 6, 3, groups=2),
            *((1, 4, 5, 5, 5), [[6, 2, 3, 3, 3], [6]], (1, 6, 3, 3, 3)),
        ),
        (
            nn.ConvTranspose1D(4, 6, 3, stride=2, output_padding=1, groups=2),
            *((1, 4, 5), [[4, 3, 3], [6]], (1, 6, 12)),
        ),
    ],
)
def test_convolution_shapes(
    layer: nn.Module,
    x: tuple[int, ...],
    shapes: list[list[int]],
    result: tuple[int, ...],
) -> None:
    function = exported(layer, x=f32(*x))

    assert [p.shape for p in layer.parameters()] == shapes
    assert tuple(function.ret_struct_info.shape) == result


def test_convolution_adds_its_bias_per_channel() -> None:
    function = exported(nn.Conv2D(3, 2, 1), x=f32(1, 3, 4, 5))
    x, weight, bias = random(1, 3, 4, 5), random(2, 3, 1, 1), random(2)

    assert [line.split()[1] for line in built(function)] == [
        *("nn.conv2d", "reshape", "add")
    ]
    expected = np.einsum("ncij,oc->noij", x, weight[:, :, 0, 0])
    np.testing.assert_allclose(
        run(function, x, weight, bias),
        expected + bias[:, None, None],
        rtol=1e-5,
        atol=1e-6,
    )


def test_convolution_channels_can_be_symbolic() -> None:
    layer = nn.Conv2D(prim.Var("c", "int64"), 8, 3)
    function = exported(layer, x=f32("n", "c", "h", "w"))

    shape = function.ret_struct_info.shape
    assert [str(size) for size in shape] == ["n", "8", "h - 2", "w - 2"]


def test_unsupported_data_layouts_are_rejected() -> None:
    with pytest.raises(NotImplementedError, match="`HWC`: expected NCHW or NHWC"):
        exported(nn.Conv2D(1, 1, 1, data_layout="HWC"), x=f32(1, 1, 1, 1))


def test_normalization_layers() -> None:
    x = random(2, 4, 6)
    ones, zeros = np.ones(6, np.float32), np.zeros(6, np.float32)
    layer = run(exported(nn.LayerNorm(6), x=f32(2, 4, 6)), x, ones, zeros)
    plain = run(exported(nn.LayerNorm(6, elementwise_affine=False), x=f32(2, 4, 6)), x)
    group = run(exported(nn.GroupNorm(2, 4, affine=False), x=f32(2, 4, 6)), x)
    mean_square = run(exported(nn.RMSNorm(6, -1, bias=False), x=f32(2, 4, 6)), x, ones)

    # atol: epsilon, and rounding of float32
    np.testing.assert_allclose(layer.mean(-1), np.zeros((2, 4)), atol=1e-5)
    np.testing.assert_allclose(layer.var(-1), np.ones((2, 4)), atol=1e-3)
    np.testing.assert_allclose(plain, layer, atol=1e-6)
    grouped = group.reshape(2, 2, 12)
    np.testing.assert_allclose(grouped.mean(-1), np.zeros((2, 2)), atol=1e-5)
    np.testing.assert_allclose(
        np.square(mean_square).mean(-1), np.ones((2, 4)), atol=1e-3
    )


def test_embedding_of_indices_of_any_rank() -> None:
    table = random(5, 3)
    one = exported(nn.Embedding(5, 3), x=spec.Tensor((4,), "int32"))
    two = exported(nn.Embedding(5, 3), x=spec.Tensor((2, "m"), "int32"))
    rows = np.array([[4, 0, 2], [1, 1, 3]], np.int32)

    assert built(one) == ["take: take ['4', '3']"]
    np.testing.assert_array_equal(run(two, rows, table), table[rows])


def test_attention_layer() -> None:
    layer = nn.Attention(query_dim=8, cross_attention_dim=6, heads=2, dim_head=4)
    function = exported(
        layer, hidden_states=f32(1, 3, 8), encoder_hidden_states=f32(1, 5, 6)
    )
    x, other = random(1, 3, 8), random(1, 5, 6)
    to_q, to_k, to_v = random(8, 8), random(8, 6), random(8, 6)
    to_out, bias = random(8, 8), random(8)

    q, k, v = (
        (a @ w.T).reshape(1, -1, 2, 4)
        for a, w in ((x, to_q), (other, to_k), (other, to_v))
    )
    scores = np.exp(np.einsum("bihd,bjhd->bhij", q, k) / 2)
    weights = scores / scores.sum(-1, keepdims=True)
    mixed = np.einsum("bhij,bjhd->bihd", weights, v).reshape(1, 3, 8)

    names = [name for name, _ in layer.named_parameters()]
    assert names[-2:] == ["to_out.0.weight", "to_out.0.bias"]
    np.testing.assert_allclose(
        run(function, x, other, to_q, to_k, to_v, to_out, bias),
        mixed @ to_out.T + bias,
        rtol=1e-4,  # sums in another order
        atol=1e-5,
    )


def test_timestep_embedding_is_sinusoidal() -> None:
    function = exported(nn.Timesteps(5, downscale_freq_shift=0), x=f32(3))
    angles = np.array([[0.0], [1.0], [2.5]]) * np.array([1.0, 0.01])

    value = run(function, np.array([0, 1, 2.5], np.float32))

    expected = [np.sin(angles), np.cos(angles), np.zeros((3, 1))]
    np.testing.assert_allclose(value, np.concatenate(expected, 1), atol=1e-6)


def test_condition_is_added_to_timestep_embedding() -> None:
    layer = nn.TimestepEmbedding(4, 6, cond_proj_dim=2)
    function = exported(layer, sample=f32(1, 4), condition=f32(1, 2))

    assert built(function)[2] == "add: add ['1', '4']"
    assert tuple(function.ret_struct_info.shape) == (1, 6)
    with pytest.raises(NotImplementedError, match="activation `relu`"):
        nn.TimestepEmbedding(4, 6, act_fn="relu")


def test_python_numbers_get_the_tensors_element_type() -> None:
    function = method(
        lambda self, x: (x + 1, 1 - x, x * 2.5, x / 2, x.maximum(3), x > 0, 2 * x),
        x=spec.Tensor((2,), "float16"),
    )

    names = [line.split(":")[0] for line in built(function)]
    assert names == [
        *("add", "subtract", "mul", "divide", "maximum", "greater", "mul1")
    ]
    bindings = function.body.blocks[0].bindings[:-1]
    dtypes = {
        arg.struct_info.dtype for binding in bindings for arg in binding.value.args
    }
    assert dtypes == {"float16"}


def test_methods_of_tensors_are_operators() -> None:
    function = method(
        lambda self, x: (
            x.reshape(3, -1),
            x.permute_dims(1, 0),
            x.repeat(2, axis=0),
            x.astype("int32"),
            x.astype("float32"),
        ),
        x=f32(2, 6),
    )

    assert built(function) == [
        "reshape: reshape ['3', '4']",
        "permute_dims: permute_dims ['6', '2']",
        "repeat: repeat ['4', '6']",
        "astype: astype ['2', '6']",
    ]


def test_tuple_results_are_bound_separately() -> None:
    function = method(
        lambda self, x: op.split(x, [2, 3], axis=1) + op.chunk(x, 2), x=f32(4, 5)
    )

    bindings = function.body.blocks[0].bindings[:-1]
    assert [b.var.name_hint for b in bindings] == [
        *("split", "split_0", "split_1", "split_2", "chunk", "chunk_0", "chunk_1")
    ]


def test_interpolate_by_scale_or_size() -> None:
    function = method(
        lambda self, x: (
            op.interpolate(x, size=[8, 9]),
            op.interpolate(x, scale_factor=2, mode="bilinear"),
            op.interpolate(x, scale_factor=(3, 1), mode="bicubic", align_corners=True),
        ),
        x=f32(1, 2, 4, 5),
    )

    calls = [b.value for b in function.body.blocks[0].bindings[:-1]]
    said = [
        (c.attrs["method"], c.attrs["coordinate_transformation_mode"], list(c.args[1]))
        for c in calls
    ]
    assert said == [
        ("nearest_neighbor", "asymmetric", [8, 9]),
        ("linear", "half_pixel", [8, 10]),
        ("cubic", "align_corners", [12, 5]),
    ]


def test_operators_outside_of_a_function_are_rejected() -> None:
    x = nn.Tensor.placeholder((2,), "float32")

    with pytest.raises(ValueError, match="expected a call inside of `export_tvm`"):
        op.relu(x)


def test_tensors_know_their_shape_and_type() -> None:
    constant = nn.Tensor.from_const(np.zeros((1, 10)))
    scalar = nn.Tensor.from_scalar(123.5, dtype="float16")
    symbolic = nn.Tensor.placeholder(("n", 2), "int8")

    assert repr(constant) == 'Tensor([1, 10], "float32")'
    assert (scalar.shape, scalar.ndim, scalar.dtype) == ([], 0, "float16")
    assert str(symbolic.shape[0]) == "n"
    assert symbolic.shape[1] == 2


@pytest.mark.parametrize(
    ("size", "error"),
    [(-1, ValueError), (2.5, TypeError), (prim.Var("n", "int32"), ValueError)],
)
def test_sizes_are_numbers_names_or_expressions(
    size: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="size "):
        nn.Tensor.placeholder((size,), "float32")
