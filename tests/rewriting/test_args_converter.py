"""Arguments of Python functions as expressions."""

from typing import Any

import pytest

from relax_mlir import relax
from relax_mlir.relax.expr_functor import PyExprVisitor, visitor
from relax_mlir.relax.utils import args_converter, convert_to_expr, copy_with_new_vars
from relax_mlir.script import relax as R  # noqa: N812

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


def test_what_is_no_list_is_refused() -> None:
    called = args_converter.to_list_expr("arg")(given)
    with pytest.raises(
        TypeError, match=r"`given`: `arg`: expected a list of exp.* got 1"
    ):
        called(1)


def test_optional_parameters_take_none() -> None:
    called = args_converter.auto(of_optional)
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


def test_a_parameter_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`given`: expected names.*got \['argh'\]"):
        args_converter.to_expr("argh")(given)


def test_what_can_be_no_expression_is_refused() -> None:
    with pytest.raises(TypeError, match="expected an expression, got <object"):
        convert_to_expr(object())


def test_a_copy_has_variables_of_its_own() -> None:
    @R.function
    def double(x: R.Tensor(("n",), "float32")):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y

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

    copied = copy_with_new_vars(double)
    assert [v.name_hint for v in defined(copied)] == [
        v.name_hint for v in defined(double)
    ]
    assert not {v.vid for v in defined(copied)} & {v.vid for v in defined(double)}
    assert (
        copied.params[0].struct_info.shape[0]
        is not double.params[0].struct_info.shape[0]
    )
    assert copied.script() == double.script()


def test_a_call_of_what_is_no_function_is_refused() -> None:
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
def test_an_element_that_is_not_there_is_refused(several: Any, message: str) -> None:
    for index in (2, -3):
        with pytest.raises(
            IndexError, match=f"{message}: expected one of 2, got {index}"
        ):
            several[index]
