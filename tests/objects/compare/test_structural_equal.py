"""The first reported mismatch of two programs: operators before types."""

import pytest

from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm import relax

X = relax.Var("x", relax.TensorStructInfo((3,), "float32"))


def _function(*values: relax.Expr) -> relax.Function:
    builder = relax.BlockBuilder()
    with builder.function("main", [X]):
        made = [builder.emit(value) for value in values]
        builder.emit_func_output(made[-1])
    return builder.get()["main"]


def test_an_operator_comes_before_types_and_numbers_of_bindings() -> None:
    twice = relax.op.concat([X, X])
    other = (relax.op.exp(X), relax.op.sin(X))

    with pytest.raises(
        ValueError, match=r"<root>\.body\.blocks\[0\].*\[0\]\.value\.op"
    ):
        assert_structural_equal(_function(twice), _function(*other))


def test_a_binding_that_one_lacks_is_named() -> None:
    values = (relax.op.exp(X), relax.op.sin(X))

    with pytest.raises(
        ValueError, match=r"lhs at <root>\.body\.blocks\[0\]\.bindings\[1\]"
    ):
        assert_structural_equal(_function(*values), _function(values[0]))
