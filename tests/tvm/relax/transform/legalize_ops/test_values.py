"""Values of legalized graphs, fused and compiled."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir.compiler import reference
from relax_mlir.objects.expr import Call, TupleGetItem, Var
from relax_mlir.pipeline import Sequential
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.op import operator_function
from tests.tvm.relax.transform.graphs import program, tensor

_X, _Y = Var("x", tensor(3, 4)), Var("y", tensor(4))
_IMAGE, _KERNEL = Var("x", tensor(1, 2, 5, 5)), Var("y", tensor(3, 2, 3, 3))


def _of(name: str, *args: object, **attrs: object) -> Call:
    return operator_function(f"relax.{name}")(*args, **attrs)


_VALUES = {
    "variance": _of("variance", _X, axis=[0]),
    "norm": _of("nn.layer_norm", _X, _Y, _Y, axes=[-1]),
    "gelu": _of("nn.gelu", _of("add", _X, _Y)),
    "softmax": _of("nn.softmax", _of("multiply", _X, _Y)),
    "slice": _of("strided_slice", _X, [1], [3], [0], [-2]),
    "argmax": _of("argmax", _X, axis=1),
    "split": TupleGetItem(_of("split", _X, 2, axis=1), 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _VALUES)
def test_compiled_programs_match_the_operators(name: str) -> None:
    value = _VALUES[name]
    params = [_X, _Y] if name in ("norm", "gelu", "softmax") else [_X]
    _check(params, value)


@pytest.mark.slow
def test_a_convolution_and_a_pooling() -> None:
    conv = _of("nn.conv2d", _IMAGE, _KERNEL, padding=1)
    pool = _of("nn.max_pool2d", _of("nn.relu", conv), pool_size=2, strides=2)
    _check([_IMAGE, _KERNEL], pool)


def test_a_mean_over_all_axes() -> None:
    _check([_Y], _of("mean", _Y))


def _check(params: list[Var], value: object) -> None:
    module = program(params, value)  # pyright: ignore[reportArgumentType]
    rng = np.random.default_rng(0)
    arrays = [
        rng.random([int(s) for s in p.struct_info.shape], np.float32)  # pyright: ignore
        for p in params
    ]
    lower = Sequential(
        [
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FuseOps(),
            transform.FuseTIR(),
        ]
    )

    (actual,) = relax_mlir.compile(lower(module))(*arrays)

    (expected,) = reference.run(module, *arrays)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


def test_narrow_products_are_summed_unrounded() -> None:
    """TOPI rounds each product of a cross entropy to the element type."""
    params = [Var(name, tensor(9, 4, dtype="float16")) for name in ("x", "y")]
    module = program(params, _of("nn.cross_entropy_with_logits", *params))
    rng = np.random.default_rng(0)
    wide = [np.linspace(1, 2, 36).reshape(9, 4), rng.permuted([1.1, -1.1] * 18)]
    arrays = [a.reshape(9, 4).astype(np.float16) for a in wide]

    (actual,) = relax_mlir.compile(transform.LegalizeOps()(module))(*arrays)

    exact = -np.sum(np.prod([a.astype(np.float64) for a in arrays], axis=0)) / 9
    assert actual == np.float16(exact)
