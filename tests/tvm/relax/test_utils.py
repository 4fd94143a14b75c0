"""Conversion of Python arguments to expressions."""

from typing import Any

import pytest

from relax_mlir.objects.expr_functor import PyExprVisitor, visitor
from relax_mlir.objects.prim import Var
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.utils import (
    args_converter,
    convert_to_expr,
    copy_with_new_vars,
)
from relax_mlir.tvm.script import relax as R  # noqa: N812

VALUES = [1, 2.5, "text", (1, 1), (), (relax.const(1), (2, 3)), relax.const(0)]


def given(arg: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    """What arrives."""
    return arg, args, kwargs


def of_expr(arg: relax.Expr, *args: relax.Expr, **kwargs: relax.Expr) -> Any:
    """What arrives."""
    return arg, args, kwargs


def of_optional(arg: relax.Expr | None, other: list[relax.Expr] | None = None) -> Any:
    """What arrives."""
    return arg, other


def of_others(
    arg: int, *args: str | relax.Expr, **kwargs: list[relax.Expr | None]
) -> Any:
    """What arrives."""
    return arg, args, kwargs


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize(
    "called",
    [
        args_converter.to_expr("arg", "args", "kwargs")(given),
        args_converter.auto(of_expr),
    ],
    ids=["named", "annotated"],
)
def test_each_argument_becomes_an_expression(called: Any, value: Any) -> None:
    arg, args, kwargs = called(value, value, value, more=value)
    assert len(args) == 2
    expected = type(convert_to_expr(value))
    assert issubclass(expected, relax.Expr)
    assert [type(v) for v in (arg, *args, kwargs["more"])] == [expected] * 4


def test_an_expression_stays_the_same_object() -> None:
    x = relax.Var("x", R.Tensor([2], "float32"))
    assert args_converter.to_expr("arg")(given)(x)[0] is x


def test_lists_become_lists_of_expressions() -> None:
    called = args_converter.to_list_expr("arg", "args", "kwargs")(given)
    arg, args, kwargs = called([1], (2, 3), None, more=[(1, 2), "a"])
    assert [type(v) for v in arg] == [relax.PrimValue]
    assert [v.value.value for v in args[0]] == [2, 3]
    assert args[1] is None
    assert [type(v) for v in kwargs["more"]] == [relax.Tuple, relax.StringImm]


def test_other_values_than_lists_are_refused() -> None:
    called = args_converter.to_list_expr("arg")(given)
    with pytest.raises(
        TypeError, match=r"`given`: `arg`: expected a list of exp.* got 1"
    ):
        called(1)


def test_optional_parameters_take_none() -> None:
    called: Any = args_converter.auto(of_optional)
    assert called(None) == (None, None)
    arg, other = called(1, [2])
    assert isinstance(arg, relax.PrimValue)
    assert isinstance(other[0], relax.PrimValue)


def test_other_annotations_are_left_alone() -> None:
    assert args_converter.auto(of_others)(1, "s", more=[None]) == (
        1,
        ("s",),
        {"more": [None]},
    )


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`given`: expected names.*got \['argh'\]"):
        args_converter.to_expr("argh")(given)


def test_unconvertible_values_are_refused() -> None:
    with pytest.raises(TypeError, match="expected an expression, got <object"):
        convert_to_expr(object())


def test_a_copy_has_variables_of_its_own() -> None:
    x = relax.Var("x", R.Tensor([Var("n", "int64")], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("double", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, x)))
    double = builder.finalize()["double"]

    @visitor
    class Definitions(PyExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[relax.Var] = []

        def visit_var_def_(self, var: relax.Var) -> None:
            self.found.append(var)

    def defined(function: Any) -> list[relax.Var]:
        walk: Any = Definitions()
        walk.visit_expr(function)
        return walk.found

    def sizes(function: Any) -> Any:
        return function.params[0].struct_info.shape

    copied = copy_with_new_vars(double)
    assert [v.name_hint for v in defined(copied)] == [
        v.name_hint for v in defined(double)
    ]
    assert not {v.vid for v in defined(copied)} & {v.vid for v in defined(double)}
    assert sizes(copied)[0] is not sizes(double)[0]
    assert copied.script() == double.script()


def test_calls_of_other_values_than_functions_are_refused() -> None:
    number = relax.Var("number", relax.PrimStructInfo("int32"))
    with pytest.raises(ValueError, match=r"`number`: expected a function, got .*int32"):
        relax.Call(number, [number])


@pytest.mark.parametrize(
    ("several", "message"),
    [
        (relax.Tuple((relax.const(1), relax.const(2))), "Tuple index out of range"),
        (relax.ShapeExpr([1, 2]), "ShapeExpr index out of range"),
    ],
    ids=["tuple", "shape"],
)
def test_missing_elements_are_refused(several: Any, message: str) -> None:
    for index in (2, -3):
        with pytest.raises(
            IndexError, match=f"{message}: expected one of 2, got {index}"
        ):
            several[index]


def test_the_shape_of_a_tensor_is_static_or_a_shape_of_call() -> None:
    known = relax.get_shape_of(
        relax.Var("x", R.Tensor((2, Var("n", "int64")), "float32"))
    )
    assert isinstance(known, relax.ShapeExpr)
    assert str(known) == "R.shape([2, n])"
    x = relax.Var("x", R.Tensor(ndim=2))
    asked = relax.get_shape_of(x)
    assert isinstance(asked, relax.Call)
    assert asked.op is relax.Op.get("relax.shape_of")
    assert asked.args == (x,)


@pytest.mark.parametrize(
    ("info", "got"),
    [(R.Shape([2]), r"R.Shape\(\[2\]\)"), (None, "one without struct info")],
)
def test_only_a_tensor_has_a_shape(info: Any, got: str) -> None:
    with pytest.raises(RuntimeError, match=f"`x`: expected a tensor, got {got}"):
        relax.get_shape_of(relax.Var("x", info))


def test_a_shape_is_converted_from_a_list_or_a_tuple() -> None:
    assert relax.expr.make_shape([1, 2]) == relax.expr.make_shape((1, 2))
    with pytest.raises(TypeError, match="expected a list or a tuple of sizes, got 12"):
        relax.expr.make_shape(12)


def test_sizes_are_int64() -> None:
    n = Var("n", "int32")
    with pytest.raises(
        RuntimeError, match=r"`n`: .* only have dtype of int64, got int32"
    ):
        relax.ShapeExpr([n, 3])
