"""What operators say of results when their operands are known in part."""

import pytest

from relax_mlir import relax
from relax_mlir.dialects import shapes
from relax_mlir.errors import RelaxError
from relax_mlir.objects import prim
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import StructInfo, VDevice

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
    info = Tensor(sizes, "float32", VDevice("llvm", 1, "local"), 2)
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
    term = names.term(size)
    assert str(term) == "p2o_Dim_0 * 2 + T.min(k, p2o_Dim_0)"
    assert names.dim(term) == size
