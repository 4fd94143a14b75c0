"""Values, types and arrays that passes preserve."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from relax_mlir import tvm
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import PrimValue, Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import op, transform
from relax_mlir.tvm.relax.frontend import detach_params
from relax_mlir.tvm.relax.frontend.onnx import from_onnx
from relax_mlir.tvm.script import from_source
from tests.tvm.relax.transform.graphs import program

_X = Var("x", TensorStructInfo((4, 6), "float32"))


def _run(module: IRModule, *args: object) -> np.ndarray:
    machine = relax.VirtualMachine(relax.build(module, "llvm"), tvm.cpu())
    return machine["main"](*args).numpy()


def _weighted() -> tuple[onnx.ModelProto, np.ndarray]:
    weight = np.arange(20, dtype=np.float32).reshape(4, 5)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
        initializer=[numpy_helper.from_array(weight, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset), weight


@pytest.mark.parametrize(
    "passes",
    [
        (),
        (transform.LegalizeOps(),),
        (transform.DecomposeOpsForInference(), transform.LegalizeOps()),
        (transform.ToMixedPrecision(),),
    ],
)
def test_weights_in_attributes_survive_passes(passes: tuple[object, ...]) -> None:
    model, weight = _weighted()
    module = from_onnx(model, keep_params_in_input=True)
    for each in passes:
        module = each(module)  # pyright: ignore[reportCallIssue]

    module, params = detach_params(module)

    (found,) = params["main"]
    np.testing.assert_array_equal(found.numpy(), weight)
    assert "params" not in module["main"].attrs
    assert not module.constants


def test_a_function_may_hold_arrays_in_attributes() -> None:
    array = np.arange(3, dtype=np.float32)
    function = program([_X], op.add(_X, _X))["main"].with_attr("params", [array])

    _, params = detach_params(IRModule({"f": function}))

    np.testing.assert_array_equal(params["f"][0].numpy(), array)


def test_names_of_arrays_alone_are_refused() -> None:
    function = program([_X], op.add(_X, _X))["main"].with_attr("params", ["w"])

    with pytest.raises(ValueError, match=r"`params`: expected arrays, got 'w'"):
        detach_params(IRModule({"f": function}))


_UNKNOWN_RESULT = from_source(
    """
@I.ir_module
class Module:
    @R.function
    def main():
        args = Module.func()
        return args[0]

    @R.function(private=True)
    def func() -> R.Tuple([R.Tensor, R.Tensor]):
        A = R.zeros([2, 3], "int32")
        B = R.ones([2, 3], "int32")
        return (A, B)
"""
)


def test_unused_outputs_of_a_function_whose_result_type_is_unknown() -> None:
    left = transform.RemoveUnusedOutputs()(_UNKNOWN_RESULT)

    assert "R.ones" not in left.script()
    assert str(left["main"].ret_struct_info) == 'R.Tensor((2, 3), dtype="int32")'
    np.testing.assert_array_equal(_run(left), np.zeros((2, 3), np.int32))


_PADDED_LAYOUT = from_source(
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("a", "b", "c"), "float32")):
        gv = R.layout_transform(
            x, index_map=lambda a, b, c: (a, c, b // 3, b % 3), pad_value=2
        )
        return gv
"""
)


@pytest.mark.parametrize("size", [3, 4])
def test_a_layout_of_symbolic_sizes_is_padded(size: int) -> None:
    x = np.arange(4.0 * size, dtype=np.float32).reshape(2, size, 2)
    padded = np.pad(x, ((0, 0), (0, -size % 3), (0, 0)), constant_values=2)
    expected = padded.transpose(0, 2, 1).reshape(2, 2, -1, 3)

    legalized = transform.LegalizeOps()(_PADDED_LAYOUT)

    np.testing.assert_array_equal(_run(legalized, x), expected)
    np.testing.assert_array_equal(_run(_PADDED_LAYOUT, x), expected)


_TAKEN = from_source(
    """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4, "n"), "float32")):
        n = T.int64()
        last = R.take(x, R.prim_value(n - 1), axis=1)
        below = R.take(last, R.prim_value(-2), axis=0)
        return below
"""
)


@pytest.mark.parametrize("legalizes", [False, True])
def test_take_at_a_scalar(legalizes: bool) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    module = transform.LegalizeOps()(_TAKEN) if legalizes else _TAKEN

    np.testing.assert_array_equal(_run(module, x), x[-2, -1])


def _i(number: int) -> np.int64:
    return np.int64(number)


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (op.split(_X, _i(2), axis=_i(1)), op.split(_X, 2, axis=1)),
        (op.split(_X, [_i(1), _i(3)], axis=1), op.split(_X, [1, 3], axis=1)),
        (op.repeat(_X, _i(2), _i(0)), op.repeat(_X, 2, 0)),
        (op.tile(_X, (_i(2), _i(1))), op.tile(_X, (2, 1))),
        (op.nn.pad(_X, np.array([1, 1, 0, 0])), op.nn.pad(_X, [1, 1, 0, 0])),
        (op.sum(_X, _i(1), np.bool_(True)), op.sum(_X, 1, True)),
        (op.topk(_X, k=_i(2)), op.topk(_X, k=2)),
        (op.nn.leakyrelu(_X, np.float64(0.5)), op.nn.leakyrelu(_X, 0.5)),
        (op.split(_X, 2)[_i(1)], op.split(_X, 2)[1]),
    ],
)
def test_operators_take_numbers_of_numpy(given: object, plain: object) -> None:
    given, plain = (program([_X], call) for call in (given, plain))  # pyright: ignore[reportArgumentType]

    assert given.script() == plain.script()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_one_hot_has_the_type_of_its_numbers(dtype: str) -> None:
    indices = Var("x", TensorStructInfo((3,), "int64"))
    on, off = (PrimValue(tvm.tir.const(value, dtype)) for value in (2, 0))

    module = program([indices], op.one_hot(indices, on, off, 4))

    assert module["main"].ret_struct_info.dtype == dtype
    legalized = transform.LegalizeOps()(module)
    assert legalized["main"].ret_struct_info.dtype == dtype
