"""Inference for operands of partly unknown struct info."""

import pytest

from relax_mlir.dialects import shapes
from relax_mlir.errors import RelaxError
from relax_mlir.objects import prim
from relax_mlir.objects.expr.struct_info import StructInfo, VDevice
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.tvm import relax

Tensor = relax.TensorStructInfo


def _inferred(call: relax.Call) -> StructInfo:
    return relax.BlockBuilder().normalize(call).struct_info


def _var(name: str, *args: object, **kwargs: object) -> relax.Var:
    return relax.Var(name, Tensor(*args, **kwargs))  # pyright: ignore[reportArgumentType]


def test_struct_info_holds_floats_unless_it_says_otherwise() -> None:
    assert Tensor((2,)).dtype == "float32"
    assert Tensor((2,), dtype="").dtype == "void"


@pytest.mark.parametrize(
    "known", [Tensor(dtype="", ndim=2), Tensor((2, 3), ""), Tensor(dtype="")]
)
def test_what_is_unknown_of_an_operand_is_unknown_of_the_result(
    known: relax.TensorStructInfo,
) -> None:
    x = relax.Var("x", known)

    assert _inferred(relax.op.exp(x)) == known


def test_a_reduction_of_everything_has_no_sizes_whatever_the_rank() -> None:
    x = _var("x", dtype="float32")

    assert _inferred(relax.op.sum(x)) == Tensor((), "float32")


def test_the_rank_that_alone_fits_is_known() -> None:
    x = _var("x", dtype="float32")

    assert _inferred(relax.op.permute_dims(x, [1, 0])) == Tensor(ndim=2)


def test_a_shape_variable_stays_the_shape() -> None:
    shape = relax.Var("s", relax.ShapeStructInfo(ndim=2))
    other = relax.Var("o", relax.ShapeStructInfo(ndim=2))
    x, y = _var("x", shape), _var("y", other)

    assert _inferred(relax.op.add(x, x)) == Tensor(shape)
    assert _inferred(relax.op.add(x, y)) == Tensor(ndim=2)


@pytest.mark.parametrize("ndim", [-1, 3])
def test_a_shape_variable_as_argument_is_the_shape_of_the_result(ndim: int) -> None:
    shape = relax.Var("s", relax.ShapeStructInfo(ndim=ndim))
    x = _var("x", (2, 1), "float16")

    assert _inferred(relax.op.broadcast_to(x, shape)) == Tensor(shape, "float16")
    assert _inferred(relax.op.ones(shape, "int8")) == Tensor(shape, "int8")


def test_indices_of_unknown_type_say_nothing_of_the_data() -> None:
    x, indices = _var("x", (4, 5)), _var("i", (2,), "")

    assert _inferred(relax.op.take(x, indices, axis=1)) == Tensor((4, 2))


def test_types_without_a_program_are_inferred_as_relax_does() -> None:
    x = _var("x", (2, 3), "bool")

    assert _inferred(relax.op.add(x, x)) == Tensor((2, 3), "bool")


def test_operators_on_floats_alone_refuse_integers() -> None:
    with pytest.raises(RelaxError, match=r"`relax.exp`: wrong element type"):
        _inferred(relax.op.exp(_var("x", (2, 3), "int32")))


@pytest.mark.parametrize("kind", [RelaxError, TypeError, ValueError])
def test_errors_name_the_operator(kind: type[Exception]) -> None:
    x, y = _var("x", (2, 3)), _var("y", (2, 4))

    with pytest.raises(kind, match=r"`relax.add`: cannot broadcast \[2, 3\]"):
        _inferred(relax.op.add(x, y))


def test_scalars_add_to_tensors_and_to_each_other() -> None:
    scalar = relax.Var("a", relax.PrimStructInfo("float32"))

    assert _inferred(relax.op.add(_var("x", (2, 3)), scalar)) == Tensor((2, 3))
    assert _inferred(relax.op.add(scalar, scalar)) == relax.PrimStructInfo("float32")


def test_a_squeeze_of_sizes_that_may_be_one_has_no_rank() -> None:
    x = _var("x", (2, prim.Var("n", "int64")))

    assert _inferred(relax.op.squeeze(x)) == Tensor()


def test_results_live_where_operands_do() -> None:
    here, there = VDevice("llvm"), VDevice("llvm", 1)
    x, y = _var("x", (2, 3), vdevice=here), _var("y", (2, 3), vdevice=there)

    assert _inferred(relax.op.add(x, _var("z", (3,)))) == Tensor((2, 3), vdevice=here)
    with pytest.raises(RelaxError, match="one device"):
        _inferred(relax.op.add(x, y))


@pytest.mark.parametrize("sizes", [(2, 3), (prim.Var("n", "int64"), 3), None])
def test_a_module_keeps_where_tensors_live(sizes: tuple[object, ...] | None) -> None:
    ndim = 2 if sizes is None else -1
    info = Tensor(sizes, "float32", VDevice("llvm", 1, "local"), ndim)
    x = relax.Var("x", info)
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))

    main = builder.get()["main"]

    assert [p.struct_info for p in main.params] == [info]
    assert main.ret_struct_info == info


def test_what_is_compared_may_have_two_types() -> None:
    x, y = _var("x", (2, 3), "int64"), _var("y", (3,), "float32")

    assert _inferred(relax.op.less(x, y)) == Tensor((2, 3), "bool")


def test_one_tensor_of_indices_is_a_tuple_of_one() -> None:
    x, indices, values = _var("x", (8,)), _var("i", (4,), "int64"), _var("v", (4,))

    assert _inferred(relax.op.index_put(x, indices, values)) == Tensor((8,))


def test_sizes_of_model_files_have_any_names() -> None:
    names = Symbols()
    size = shapes.parse("2*p2o.Dim.0 + min(p2o.Dim.0, k)")
    term = names.expr(size)
    assert str(term) == "p2o_Dim_0 * 2 + T.min(k, p2o_Dim_0)"
    assert names.dim(term) == size


def test_a_kernel_may_have_sizes_that_are_not_numbers() -> None:
    n, k = prim.Var("n", "int64"), prim.Var("k", "int64")
    x, weight = _var("x", (1, 4, n)), _var("w", (6, 4, k))

    conv = relax.op.nn.conv1d(x, weight, strides=2, dilation=2)
    transposed = relax.op.nn.conv1d_transpose(x, _var("v", (4, 6, k)), strides=2)

    assert _inferred(conv) == Tensor((1, 6, (n - 1) // 2 + 2 - k))
    assert _inferred(transposed) == Tensor((1, 6, n * 2 - 2 + k))


def test_indices_of_unknown_depth_leave_the_rank_open() -> None:
    x, depth = _var("x", (3, 4, 5)), prim.Var("d", "int64")

    assert _inferred(relax.op.gather_nd(x, _var("i", (2, depth), "int64"))) == Tensor()


def test_a_range_of_sizes_is_taken_to_ascend() -> None:
    n, k = prim.Var("n", "int64"), prim.Var("k", "int64")

    assert _inferred(relax.op.arange(2, n)) == Tensor((n - 2,), "int64")
    assert _inferred(relax.op.arange(0, n, k)) == Tensor(((n + k - 1) // k,), "int64")


def test_windows_say_nothing_of_a_shape_that_a_variable_holds() -> None:
    x = _var("x", relax.Var("s", relax.ShapeStructInfo(ndim=4)))

    assert _inferred(relax.op.nn.max_pool2d(x)) == Tensor(ndim=4)


@pytest.mark.parametrize(
    ("types", "wrong"),
    [
        (("float64", "float32", "int8"), "data"),
        (("float32", "float64", "int8"), "scale"),
        (("float32", "float32", "int64"), "zero_point"),
    ],
)
def test_quantization_has_types_of_its_own_for_every_operand(
    types: tuple[str, str, str], wrong: str
) -> None:
    operands = [_var("x", (2, 3), t) for t in types[:1]]
    operands += [_var("p", (3,), t) for t in types[1:]]

    with pytest.raises(RelaxError, match=rf"`relax.quantize`: {wrong}: expected"):
        _inferred(relax.op.quantize(*operands))


def test_scales_are_one_or_as_many_as_slices() -> None:
    x = _var("x", (2, 3))
    good = relax.op.quantize(x, _var("s", (1, 1)), _var("z", (3,), "int8"))

    assert _inferred(good) == Tensor((2, 3), "int8")
    for shape in ((2,), (2, 3)):
        bad = relax.op.quantize(x, _var("s", shape), _var("z", (3,), "int8"), axis=1)
        with pytest.raises(RelaxError, match=r"scale: expected a scalar, or shape"):
            _inferred(bad)


def test_what_boxes_are_chosen_depends_on_what_is_asked_for() -> None:
    b = prim.Var("b", "int64")
    operands = [_var("data", (b, 5, 6))]
    operands += [_var("count", (b,), "int32"), _var("places", (b, 5), "int32")]
    nms = relax.op.vision.non_max_suppression

    places, count = Tensor((b, 5), "int32"), Tensor((b, 1), "int32")
    soft = nms(*operands, soft_nms_sigma=0.5)
    assert _inferred(nms(*operands)) == relax.TupleStructInfo([places, count])
    assert _inferred(nms(*operands, return_indices=False)) == Tensor((b, 5, 6))
    assert _inferred(soft) == relax.TupleStructInfo([Tensor((b, 5, 6)), places, count])


def test_workers_share_parts_of_equal_size() -> None:
    x = _var("x", (6, 4))

    assert _inferred(relax.op.ccl.allgather(x, 3)) == Tensor((18, 4))
    assert _inferred(relax.op.ccl.scatter_from_worker0(x, 2, axis=1)) == Tensor((6, 2))
    with pytest.raises(RelaxError, match="size of axis 0: expected a multiple of 4"):
        _inferred(relax.op.ccl.scatter_from_worker0(x, 4))


def test_shapes_are_of_tensors_and_tensors_of_vectors() -> None:
    n = prim.Var("n", "int64")
    shape = relax.Var("s", relax.ShapeStructInfo((2, n)))

    unknown = _inferred(relax.op.tensor_to_shape(_var("x", (n,), "int64")))
    assert unknown == relax.ShapeStructInfo()
    with pytest.raises(RelaxError, match="expected a tensor"):
        relax.op.shape_of(shape)
    with pytest.raises(RelaxError, match="expected a vector"):
        relax.op.tensor_to_shape(_var("x", (2, 2), "int64"))
