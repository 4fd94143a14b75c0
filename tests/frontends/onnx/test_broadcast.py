"""Broadcasts of symbolic sizes: equal by default, or 1 as a call decides."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import relax_mlir
from relax_mlir.errors import ModelError, RelaxError
from relax_mlir.frontends.onnx import import_onnx
from tests.frontends.onnx.differential import expected, model_with, random

Shapes = Sequence[tuple[int, ...]]


def _model(body: str, shapes: Mapping[str, Sequence[int | str]]) -> onnx.ModelProto:
    """A model of the nodes of ``body`` on f32 inputs; strings are symbolic sizes."""
    feeds = {n: random(*(1 for _ in s)) for n, s in shapes.items()}
    model = model_with(body, feeds)
    for value, shape in zip(model.graph.input, shapes.values(), strict=True):
        for dim, size in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            dim.Clear()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = size
    return model


_PAIR = {"x": ("n", 4), "w": ("m", 4)}
_PAIR_CALLS = (((3, 4), (3, 4)), ((1, 4), (3, 4)), ((5, 4), (1, 4)), ((1, 4), (1, 4)))


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    ("body", "shapes", "calls"),
    [
        ("y = Add(x, w)", _PAIR, _PAIR_CALLS),
        ("c = Less(x, w) y = Where(c, x, w)", _PAIR, _PAIR_CALLS),
        ("a = Sub(x, w) s = Shape(a) b = Neg(x) y = Expand(b, s)", _PAIR, _PAIR_CALLS),
        (
            "y = Mul(x, w)",
            {"x": ("n", 4), "w": (5, 4)},
            [((1, 4), (5, 4)), ((5, 4), (5, 4))],
        ),
        *(
            (
                f"y = {operator}(x, w, v)",
                _PAIR | {"v": ("k", 1)},
                [
                    ((3, 4), (3, 4), (3, 1)),
                    ((1, 4), (3, 4), (1, 1)),
                    ((1, 4), (1, 4), (2, 1)),
                ],
            )
            for operator in ("Max", "Min", "Sum", "Mean")
        ),
        (
            "y = MatMul(x, w)",
            {"x": ("n", 2, 4), "w": ("m", 4, 3)},
            [((3, 2, 4), (3, 4, 3)), ((1, 2, 4), (3, 4, 3)), ((3, 2, 4), (1, 4, 3))],
        ),
        (
            "y = Gemm(x, w, c)",
            {"x": ("n", 4), "w": (4, "m"), "c": ("k",)},
            [((2, 4), (4, 3), (3,)), ((2, 4), (4, 3), (1,)), ((2, 4), (4, 1), (1,))],
        ),
        (
            "y = PRelu(x, w)",
            {"x": ("n", "c"), "w": ("k",)},
            [((2, 4), (4,)), ((2, 4), (1,)), ((1, 1), (1,))],
        ),
    ],
)
def test_call_decides_which_operand_is_broadcast(
    body: str, shapes: Mapping[str, Sequence[int | str]], calls: Sequence[Shapes]
) -> None:
    model = _model(body, shapes)
    compiled = relax_mlir.compile(import_onnx(model))

    assert isinstance(compiled, relax_mlir.Executable)
    for call in calls:
        feeds = {n: random(*s) for n, s in zip(shapes, call, strict=True)}
        (actual,), (wanted,) = compiled(*feeds.values()), expected(model, feeds)
        assert actual.shape == wanted.shape
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


_CHAIN = {"x": ("n", 1), "w": ("m", 1), "u": (3, 1), "v": (5, 1)}
_CHAIN_BODY = """
    a = Add(x, w) b = Add(x, u) c = Add(w, v)
    d = ReduceSum(a) e = ReduceSum(b) f = ReduceSum(c) y = Sum(d, e, f)"""


@pytest.mark.slow  # compiles
@pytest.mark.parametrize(
    ("body", "shapes", "calls", "refused"),
    [
        (
            "y = Add(x, w)",
            {"x": ("n", 2, "n"), "w": (3, 2, 5)},
            [((1, 2, 1), (3, 2, 5))],
            ((3, 2, 3), (3, 2, 5)),
        ),
        (
            _CHAIN_BODY,
            _CHAIN,
            [((n, 1), (m, 1), (3, 1), (5, 1)) for n, m in [(3, 1), (1, 1), (1, 5)]],
            ((3, 1), (5, 1), (3, 1), (5, 1)),
        ),
        (
            "a = Add(x, w) s = Constant<value_ints = [1]>() b = Reshape(x, s) y = Add(a, b)",
            {"x": ("n",), "w": (3,)},
            [((1,), (3,))],
            ((3,), (3,)),
        ),
    ],
    ids=["one size", "two sizes", "a size that something else fixes"],
)
def test_sizes_that_match_no_operand_are_broadcast(
    body: str,
    shapes: Mapping[str, Sequence[int | str]],
    calls: Sequence[Shapes],
    refused: Shapes,
) -> None:
    model = _model(body, shapes)
    compiled = relax_mlir.compile(import_onnx(model))

    for call in calls:
        feeds = {n: random(*s) for n, s in zip(shapes, call, strict=True)}
        (actual,), (wanted,) = compiled(*feeds.values()), expected(model, feeds)
        assert actual.shape == wanted.shape
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="`main`: argument"):
        compiled(*(random(*shape) for shape in refused))


def test_incompatible_sizes_are_rejected_with_their_operands() -> None:
    body = """
        a = Add(x, w) s = Constant<value_ints = [5]>() b = Reshape(x, s)
        c = ReduceSum(a) d = ReduceSum(b) y = Add(c, d)"""

    with pytest.raises(ModelError, match="expected `n == 5`, got `3 == 5`"):
        import_onnx(_model(body, {"x": ("n",), "w": (3,)}))


@pytest.mark.slow  # compiles
def test_non_broadcastable_sizes_raise_the_error_of_compiled_code() -> None:
    compiled = relax_mlir.compile(import_onnx(_model("y = Add(x, w)", _PAIR)))

    for shapes in (((2, 4), (3, 4)), ((1, 3), (3, 3)), ((1, 4), (3, 4, 1))):
        with pytest.raises(ValueError, match="`main`: argument"):
            compiled(*(random(*shape) for shape in shapes))
    with pytest.raises(TypeError, match="expected element type float32"):
        compiled(random(1, 4).astype(np.float64), random(3, 4))


@pytest.mark.slow  # compiles
def test_unidirectional_broadcasts_stay_unidirectional() -> None:
    shapes = {"x": ("n", 4), "w": (4, "m"), "c": ("k",)}
    compiled = relax_mlir.compile(import_onnx(_model("y = Gemm(x, w, c)", shapes)))

    with pytest.raises(ValueError, match="`main`: argument 2 `c`"):
        compiled(random(2, 4), random(4, 1), random(3))


@pytest.mark.slow  # compiles
def test_saved_models_keep_broadcast_recompilation(tmp_path: Path) -> None:
    model = _model("y = Add(x, w)", _PAIR)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    feeds = {"x": random(1, 4), "w": random(3, 4)}
    wanted = expected(model, feeds)[0]

    compiled = relax_mlir.compile(path, cache=tmp_path)
    from_cache = relax_mlir.compile(path, cache=tmp_path)
    for each in (compiled, from_cache):
        np.testing.assert_array_equal(each(*feeds.values())[0], wanted)
    compiled.save(tmp_path / "model.rxm")
    np.testing.assert_array_equal(
        relax_mlir.load(tmp_path / "model.rxm")(*feeds.values())[0], wanted
    )


@pytest.mark.slow  # compiles
def test_external_weights_are_part_of_the_source(tmp_path: Path) -> None:
    model = _model("a = Add(x, w) y = Mul(a, v)", _PAIR | {"v": (4,)})
    v = random(4)
    del model.graph.input[2]
    model.graph.initializer.append(onnx.numpy_helper.from_array(v, "v"))
    path = tmp_path / "model.onnx"
    onnx.save(
        model, path, save_as_external_data=True, location="v.bin", size_threshold=0
    )
    compiled = relax_mlir.compile(path)
    x, w = random(1, 4), random(3, 4)

    np.testing.assert_allclose(compiled(x, w)[0], (x + w) * v, rtol=1e-6)


@pytest.mark.slow  # compiles
def test_outputs_are_written_to_given_arrays() -> None:
    compiled = relax_mlir.compile(import_onnx(_model("y = Add(x, w)", _PAIR)))
    x, w, y = random(1, 4), random(3, 4), np.zeros((3, 4), np.float32)

    compiled(x, w, out=[y])

    np.testing.assert_array_equal(y, x + w)
    with pytest.raises(ValueError, match=r"expected shape \(3, 4\), got \(1, 4\)"):
        compiled(x, w, out=[y[:1]])


def test_models_with_one_symbol_need_no_source() -> None:
    """Halves of halves of an image are meant to be as large as its quarters."""
    body = "a = MaxPool<kernel_shape = [2], strides = [2]>(x) y = Add(a, w)"
    open_halves = _model(body, {"x": (1, 1, "2*h"), "w": (1, 1, "h")})
    other_name = _model("y = Add(x, w)", {"x": ("n", 4), "w": ("n", 4)})

    for model in (open_halves, other_name):
        assert import_onnx(model).source is None
    with pytest.raises(RelaxError):
        import_onnx(_model("y = Add(x, w)", {"x": (2, 4), "w": (3, 4)}))
