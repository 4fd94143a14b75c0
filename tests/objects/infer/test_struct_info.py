"""Inference for operands whose shape is a shape variable."""

import pytest

from relax_mlir.errors import OperatorError
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.expr import Call
from relax_mlir.objects.expr.struct_info import StructInfo
from relax_mlir.objects.prim import intrinsics
from relax_mlir.tvm import relax

Tensor, op = relax.TensorStructInfo, relax.op


def _inferred(call: Call) -> StructInfo:
    return relax.BlockBuilder().normalize(call).struct_info


def _shape_var_tensor(*sizes: object, dtype: str = "float32") -> relax.Var:
    shape = relax.Var("s", relax.ShapeStructInfo(sizes))
    return relax.Var("x", Tensor(shape, dtype))


def _known(*sizes: object, dtype: str = "float32") -> relax.Var:
    return relax.Var("y", Tensor(sizes, dtype))


def test_elementwise_operators_keep_the_shape_variable() -> None:
    x = _shape_var_tensor(5, 3)

    assert _inferred(op.exp(x)) == x.struct_info
    assert _inferred(op.nn.layer_norm(x, _known(3), _known(3), [-1])) == x.struct_info


def test_most_operators_ignore_the_sizes_that_a_variable_holds() -> None:
    x = _shape_var_tensor(5, 3)

    assert _inferred(op.permute_dims(x)) == Tensor(ndim=2)
    assert _inferred(op.sum(x, 1)) == Tensor(ndim=1)
    assert _inferred(op.concat([x, _known(5, 4)], 1)) == Tensor(ndim=2)


def test_broadcasting_and_reshaping_use_the_sizes_that_a_variable_holds() -> None:
    x = _shape_var_tensor(5, 3)

    assert _inferred(op.add(x, _known(5, 3))) == Tensor((5, 3))
    assert _inferred(op.reshape(x, (-1, 5))) == Tensor((3, 5))
    with pytest.raises(OperatorError, match="cannot reshape"):
        _inferred(op.reshape(x, (4, 4)))


def test_a_shape_that_is_an_argument_is_that_of_the_result() -> None:
    shape = relax.Var("s", relax.ShapeStructInfo((4, 5, 3)))

    assert _inferred(op.zeros(shape, "int8")) == Tensor(shape, "int8")
    assert _inferred(op.broadcast_to(_known(5, 1), shape)) == Tensor(shape)
    with pytest.raises(OperatorError, match="broadcast"):
        _inferred(op.broadcast_to(_known(5, 2), shape))


def test_a_running_sum_of_everything_has_a_shape_of_its_own() -> None:
    assert _inferred(op.cumsum(_shape_var_tensor(7))) == Tensor(ndim=1)
    assert _inferred(op.cumsum(_shape_var_tensor(7), 0)).shape is not None  # pyright: ignore[reportAttributeAccessIssue]


def test_axes_of_other_sizes_than_one_are_not_squeezed() -> None:
    n = prim.Var("n", "int64")

    assert _inferred(op.squeeze(_known(2, 1), [0, 1])) == Tensor((2,))
    assert _inferred(op.squeeze(_known(n, 1, 3), [0])) == Tensor((1, 3))


def test_sizes_of_weights_that_need_not_fit_leave_the_rank_alone() -> None:
    n, m = prim.Var("n", "int64"), prim.Var("m", "int64")
    data, weight, other = _known(2, n), _known(n), _known(m)

    assert _inferred(op.nn.layer_norm(data, weight, weight, [-1])) == Tensor((2, n))
    assert _inferred(op.nn.layer_norm(data, weight, other, [-1])) == Tensor(ndim=2)


@pytest.mark.parametrize(
    ("beta", "message"),
    [
        (_known(3, dtype="float16"), "one element type"),
        (_known(5, 3), "beta: expected rank 1, got"),
    ],
)
def test_weights_have_the_type_of_the_data_and_the_rank_of_the_axes(
    beta: relax.Var, message: str
) -> None:
    with pytest.raises(OperatorError, match=message):
        _inferred(op.nn.layer_norm(_known(5, 3), _known(3), beta, [-1]))


def test_types_without_a_program_do_not_change_those_of_indices() -> None:
    x = _known(2, 3, dtype="bool")

    assert _inferred(op.argmax(x, 1)) == Tensor((2,), "int64")


def test_the_data_says_what_is_normalized_and_what_is_scattered() -> None:
    n = prim.Var("n", "int64")
    weight, index = _known(4), _known(2, dtype="int64")

    normalized = op.nn.group_norm(_known(2, n, 5), weight, weight, 2, 1, [2])
    put = op.index_put(_known(8), (index,), _known(2, dtype=""))

    assert _inferred(normalized) == Tensor((2, n, 5))
    assert _inferred(put) == Tensor((8,))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (op.power(_known(3), _known(3, dtype="int32")), "one element type"),
        (op.gather_nd(_known(3), _known(1, dtype="int32")), "expected int64"),
        (op.take(_known(3, 4), _known(2, dtype="int64")), "expected a vector"),
    ],
)
def test_relax_refuses_more_than_the_operations(call: Call, message: str) -> None:
    with pytest.raises(OperatorError, match=message):
        _inferred(call)


def test_sums_collapse_to_sizes_that_are_known_to_fit() -> None:
    n, m = prim.Var("n", "int64"), prim.Var("m", "int64")

    assert _inferred(op.collapse_sum_to(_known(4, n), (n,))) == Tensor((n,))
    with pytest.raises(OperatorError, match="sizes differ"):
        _inferred(op.collapse_sum_to(_known(4, n), (m,)))


def test_a_select_with_a_decidable_condition_is_a_size() -> None:
    n = prim.Var("n", "int64")
    chosen = intrinsics.if_then_else(n < 0, n + 8, n)
    open_ = intrinsics.if_then_else(n < 4, n + 8, n)

    assert_structural_equal(Tensor((chosen,)), Tensor((n,)))
    with pytest.raises(ValueError, match="n < 4"):
        assert_structural_equal(Tensor((open_,)), Tensor((n,)))


@pytest.mark.parametrize("kind", [TypeError, ValueError, RuntimeError])
def test_a_wrong_call_is_an_error_of_each_kind_that_is_caught(
    kind: type[Exception],
) -> None:
    with pytest.raises(kind, match=r"`relax.reshape`"):
        op.reshape(_known(6), (-1, -1))


def test_nothing_is_resized_to_one_size_that_is_meant_as_a_shape() -> None:
    image = _known(1, 3, 8, 8)

    assert _inferred(op.image.resize2d(image, (4,))) == Tensor((1, 3, 4, 4))
    with pytest.raises(OperatorError, match="expected one size per axis"):
        op.image.resize2d(image, relax.ShapeExpr((4,)))


@pytest.mark.parametrize(
    "shape", [(3, 4), relax.Var("s", relax.ShapeStructInfo(ndim=2))]
)
def test_a_tensor_has_a_shape_or_a_rank(shape: object) -> None:
    with pytest.raises(ValueError, match=r"expected a shape or a rank.*ndim=2"):
        relax.TensorStructInfo(shape, "int8", ndim=2)


def test_fields_are_replaced_and_the_rank_stays() -> None:
    info = relax.TensorStructInfo((3, 4), "int8")

    without = info.replace(shape=None, dtype="int16")

    assert without == relax.TensorStructInfo(dtype="int16", ndim=2)
    assert without.replace(shape=(5,)) == relax.TensorStructInfo((5,), "int16")
