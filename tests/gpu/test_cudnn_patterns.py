"""Layers that cuDNN patterns match, after `RunCodegen`, on a GPU."""

from typing import Any

import numpy as np
import pytest

from relax_mlir import IRModule, tvm
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.tvm import relax
from tests.gpu.library_calls import calls_of, rules_of
from tests.gpu.stub import Stub
from tests.gpu.test_cublas_patterns import compiled, dispatched
from tests.schedules.low_precision import drawn

_LAYOUTS = [("NHWC", "OHWI"), ("NCHW", "OIHW")]
_TAILS = ["", "_bias", "_bias_relu"]


def placed(layout: str, **sizes: int | str) -> tuple[Any, ...]:  # Any: as sizes are
    """Sizes in the order of a layout's letters."""
    return tuple(sizes[letter] for letter in layout)


def layer(
    data: str,
    kernel: str,
    tail: str = "_bias_relu",
    dtype: str = "float32",
    images: int | str = 2,
    is_bias_first: bool = False,
    **attrs: Any,  # of the operator
) -> IRModule:
    """A convolution with 4 input channels and 6 filters."""
    shapes = {
        "x": placed(data, N=images, H=9, W=8, C=4),
        "w": placed(kernel, O=6, H=3, W=3, I=4 // attrs.get("groups", 1)),
        "b": placed(data, N=1, H=1, W=1, C=6),
    }
    variables = [
        relax.Var(name, relax.TensorStructInfo(shape, dtype))
        for name, shape in list(shapes.items())[: 3 if tail else 2]
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            x, w, *b = variables
            layouts = {"data_layout": data, "kernel_layout": kernel}
            y = builder.emit(relax.op.nn.conv2d(x, w, **layouts, **attrs))
            if b:
                added = (b[0], y) if is_bias_first else (y, b[0])
                y = builder.emit(relax.op.add(*added))
            if tail.endswith("relu"):
                y = builder.emit(relax.op.nn.relu(y))
            y = builder.emit_output(y)
        builder.emit_func_output(y)
    return builder.get()


def arrays(data: str, kernel: str, tail: str, images: int = 2) -> list[np.ndarray]:
    shapes = (
        placed(data, N=images, H=9, W=8, C=4),
        placed(kernel, O=6, H=3, W=3, I=4),
        placed(data, N=1, H=1, W=1, C=6),
    )
    return [drawn(*shape) for shape in shapes[: 3 if tail else 2]]


@pytest.mark.parametrize("layouts", _LAYOUTS)
@pytest.mark.parametrize("tail", _TAILS)
def test_layers_become_convolution_calls(
    layouts: tuple[str, str], tail: str, convolutions: Stub
) -> None:
    attrs = dict[str, Any](padding=(1, 2), strides=(2, 1), dilation=(1, 2))
    module = layer(*layouts, tail, **attrs)
    model = compiled(dispatched(module, "cudnn"))
    given = arrays(*layouts, tail)

    (y,) = model(*given)

    (expected,) = tvm.compile(module, target="cpu", cache=False)(*given)
    np.testing.assert_allclose(y, expected, atol=1e-4, rtol=1e-5)
    (found,) = calls_of(model, Convolution)
    assert (found.bias is not None, found.activation) == (
        bool(tail),
        "relu" if tail.endswith("relu") else "none",
    )
    assert rules_of(model) == ["Cudnn"]
    assert model.kernels[0].name.endswith("_cudnn")
    assert convolutions.count("cudnnBackendExecute") == 1


def test_a_bias_may_stand_in_front(convolutions: Stub) -> None:
    module = layer("NHWC", "OHWI", is_bias_first=True)
    model = compiled(dispatched(module, "cudnn"))
    given = arrays("NHWC", "OHWI", "_bias_relu")

    (y,) = model(*given)

    assert rules_of(model) == ["Cudnn"]
    (expected,) = tvm.compile(module, target="cpu", cache=False)(*given)
    np.testing.assert_allclose(y, expected, atol=1e-4, rtol=1e-5)


def test_dynamic_batch_sizes(convolutions: Stub) -> None:
    module = layer("NHWC", "OHWI", images="n")
    model = compiled(dispatched(module, "cudnn.conv2d.nhwc_ohwi_bias_relu"))

    for images in (1, 3):
        given = arrays("NHWC", "OHWI", "_bias_relu", images)
        (y,) = model(*given)
        (expected,) = tvm.compile(module, target="cpu", cache=False)(*given)
        np.testing.assert_allclose(y, expected, atol=1e-4, rtol=1e-5)


def test_elsewhere_the_call_says_what_is_missing() -> None:
    module = dispatched(layer("NCHW", "OIHW"), "cudnn")
    model = tvm.compile(module, target="cpu", cache=False)

    with pytest.raises(
        RuntimeError,
        match=r"`fused_.*_cudnn`: a convolution by cuDNN: expected a model that is compiled "
        r"for a GPU",
    ):
        model(*arrays("NCHW", "OIHW", "_bias_relu"))


@pytest.mark.parametrize(
    "module",
    [
        layer("NHWC", "HWIO", ""),
        layer("NCHW", "OHWI", ""),
        layer("NHWC", "OHWI", "", padding=(0, 0, 1, 1)),
        layer("NHWC", "OHWI", "", out_layout="NCHW"),
        layer("NHWC", "OHWI", "", dtype="int8", out_dtype="int32"),
        layer("NHWC", "OHWI", "", dtype="float16", out_dtype="float32"),
    ],
)
def test_other_convolutions_are_not_partitioned(module: IRModule) -> None:
    assert "cudnn" not in dispatched(module, "cudnn").script()


def test_other_additions_are_no_bias() -> None:
    """Only the convolution is partitioned then."""
    x, w, r = (
        relax.Var(name, relax.TensorStructInfo(shape, "float32"))
        for name, shape in (
            ("x", (2, 9, 8, 4)),
            ("w", (6, 3, 3, 4)),
            ("r", (2, 7, 6, 6)),
        )
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, r]):
        with builder.dataflow():
            layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
            y = builder.emit(relax.op.nn.conv2d(x, w, **layouts))
            y = builder.emit_output(relax.op.add(y, r))
        builder.emit_func_output(y)

    text = dispatched(builder.get(), "cudnn").script()

    assert "fused_relax_nn_conv2d_cudnn" in text
    assert "fused_relax_nn_conv2d_relax_add" not in text
