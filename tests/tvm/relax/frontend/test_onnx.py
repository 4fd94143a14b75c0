"""`relax.frontend.onnx.from_onnx` with TVM's calling convention."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import relax_mlir
from models import fashion_mlp
from relax_mlir.errors import ModelError
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.frontend.onnx import from_onnx

X = np.linspace(-1, 1, 2 * 784, dtype=np.float32).reshape(2, 784)


def test_it_is_the_import_by_another_name() -> None:
    path = fashion_mlp.path()

    named = from_onnx(onnx.load(path), shape_dict={"x": [4, 784]})

    expected = relax_mlir.import_onnx(path, shapes={"x": [4, 784]})
    assert str(named) == str(expected)


def test_parameters_keep_the_names_of_the_model() -> None:
    (x,) = from_onnx(fashion_mlp.path())["main"].params

    assert x.name_hint == "x"


@pytest.mark.slow
def test_weights_may_be_parameters() -> None:
    model = onnx.load(fashion_mlp.path())
    before = model.SerializeToString(deterministic=True)

    module = from_onnx(model, keep_params_in_input=True)
    module, params = relax.frontend.detach_params(module)

    assert model.SerializeToString(deterministic=True) == before
    names = [p.name_hint for p in module["main"].params]
    assert names == ["x", "w0", "b0", "w1", "b1"]
    vm = relax.VirtualMachine(relax_mlir.compile(module), relax_mlir.tvm.cpu())
    y = vm["main"](X, *params["main"])
    (expected,) = relax_mlir.compile(model)(X)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_constants_that_say_what_is_computed_stay() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[n, 4] x) => (float[a, b] y) <int64[2] shape = {-1, 2}, float[2] w = {1, 2}> {
            r = Reshape (x, shape)
            y = Mul (r, w)
        }""")
    (w,) = [t for t in model.graph.initializer if t.name == "w"]
    weight = numpy_helper.to_array(w)

    module, params = relax.frontend.detach_params(
        from_onnx(model, keep_params_in_input=True)
    )

    assert [p.name_hint for p in module["main"].params] == ["x", "w"]
    np.testing.assert_array_equal(params["main"][0], weight)


def test_types_and_the_opset_can_be_others() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 4] x) => (float[n, 1] y) { y = ReduceSum <axes = [1]> (x) }""")

    with pytest.raises(ModelError, match="opset 17 has no attribute `axes`"):
        from_onnx(model)
    module = from_onnx(model, dtype_dict={"x": "float64"}, opset=11)
    (x,) = module["main"].params
    assert x.struct_info.dtype == "float64"


@pytest.mark.slow
def test_what_is_compiled_when_it_runs_is_called_by_name() -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[n, 4] x, int64[1] axes) => (float[a, b] y) { y = ReduceSum (x, axes) }""")
    x = np.ones((2, 4), np.float32)

    vm = relax.VirtualMachine(
        relax_mlir.compile(from_onnx(model)), relax_mlir.tvm.cpu()
    )

    np.testing.assert_array_equal(vm["main"](x, np.array([1])).numpy(), [[4], [4]])
