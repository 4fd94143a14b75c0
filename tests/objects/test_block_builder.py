"""Errors, nesting and normalization of `BlockBuilder`."""

import pytest

from relax_mlir.errors import BuilderError
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.tvm import relax, te

X = relax.Var("x", TensorStructInfo((5,)))


def _finish_twice(builder: relax.BlockBuilder) -> None:
    with builder.function("main", [X]):
        builder.emit_func_output(X)
        builder.emit_func_output(X)


def _never_finish(builder: relax.BlockBuilder) -> None:
    with builder.function("main", [X]):
        builder.emit(relax.op.exp(X))


def _give_parameters_twice(builder: relax.BlockBuilder) -> None:
    with builder.function("main", [X]):
        builder.emit_func_output(X, [X])


@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
@pytest.mark.parametrize(
    "build", [_finish_twice, _never_finish, _give_parameters_twice]
)
def test_a_function_is_finished_once(build: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="function `main`"):
        build(relax.BlockBuilder())  # pyright: ignore[reportCallIssue]
    assert relax.BlockBuilder.current() is None


def test_a_result_belongs_to_a_function() -> None:
    with pytest.raises(BuilderError, match=r"inside `function\(\)`"):
        relax.BlockBuilder().emit_func_output(X)


def test_a_call_in_normal_form_learns_its_own_result() -> None:
    call = relax.op.exp(X)

    assert relax.BlockBuilder().normalize(call) is call
    assert call.struct_info == X.struct_info


def test_a_field_of_a_tuple_expression_is_a_binding() -> None:
    builder = relax.BlockBuilder()
    pair = relax.Tuple([X, relax.op.exp(X)])

    made = builder.normalize(relax.TupleGetItem(pair, 0))

    assert isinstance(made, relax.TupleGetItem)
    assert made.tuple_value[0] is X
    assert isinstance(made.tuple_value[1], relax.Var)


def test_bindings_outside_dataflow_split_the_current_block() -> None:
    inner = relax.BlockBuilder()
    with inner.function("inner", [X]):
        inner.emit_func_output(inner.emit(relax.op.exp(X)))
    builder = relax.BlockBuilder()

    with builder.function("main", [X]):
        with builder.dataflow():
            builder.emit(relax.op.sin(X))
            out = builder.emit_output(builder.emit(inner.get()["inner"].body))
        builder.emit_func_output(out)

    blocks = builder.get()["main"].body.blocks
    is_dataflow = [isinstance(block, relax.DataflowBlock) for block in blocks]
    assert is_dataflow == [True, False, True]


def test_shape_variables_are_resolved_for_tensor_expressions() -> None:
    shape = relax.Var("s", relax.ShapeStructInfo((5,)))

    with pytest.raises(AssertionError, match="literal shape"):
        relax.BlockBuilder().call_te(
            lambda x, s: te.compute(s, lambda i: x[i]), X, shape
        )


def test_a_scope_ends_once() -> None:
    builder = relax.BlockBuilder()
    builder.begin_scope()
    builder.end_scope()
    builder.end_scope()

    with pytest.raises(BuilderError, match="`end_scope`: expected a `begin_scope`"):
        builder.end_scope()
    with pytest.raises(BuilderError, match="no block is open"):
        builder.emit(relax.const(1.0))


def test_modules_have_attributes_of_every_plain_type() -> None:
    module = relax.BlockBuilder().get()

    for value in (1, 1.5, True, "text", (1, 2.5), None):
        assert module.with_attr("a", value).attrs["a"] == value


def test_a_failed_function_leaves_no_trace() -> None:
    builder = relax.BlockBuilder()

    with pytest.raises(ValueError, match="UTF-8"):
        builder.update_func("f", relax.ExternFunc("\ud800"))
    assert not builder.get().function_names()


def test_a_detached_call_has_struct_info() -> None:
    call = relax.Call(relax.Op.get("relax.add"), [X, X])

    function = relax.Function([X], call)

    assert function.ret_struct_info == TensorStructInfo((5,))
