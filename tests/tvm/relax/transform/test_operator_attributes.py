"""User-registered operator attributes: struct info inference and legalization."""

from collections.abc import Iterator

import numpy as np
import pytest

from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Constant, Op, Var
from relax_mlir.objects.expr.struct_info import TupleStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.operators import register_op_attr
from relax_mlir.runtime.ndarray import cpu
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.analysis import contains_impure_call, well_formed
from relax_mlir.tvm.relax.transform.legalize_ops.common import register_legalize
from relax_mlir.tvm.relax.vm import VirtualMachine, build
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts write it
from tests.tvm.relax.transform.graphs import op, program, tensor

# ruff: noqa: RET504  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportAttributeAccessIssue=false
# pyright: reportOptionalMemberAccess=false

_NAME = "test.twice_plus"


@pytest.fixture
def twice_plus() -> Iterator[Op]:
    """A user-defined operator: 2 * x + y."""

    def infer(call: Call, context: object) -> object:
        return relax.Op.get("relax.add").get_attr("FInferStructInfo")(call, context)

    @register_op_attr(_NAME, "FLegalize")
    def legalize(builder: BlockBuilder, call: Call) -> object:
        x, y = call.args
        return op("add", builder.emit(op("add", x, x)), y)

    register_op_attr(_NAME, "FInferStructInfo", infer)
    yield Op.get(_NAME)
    for name in ("FInferStructInfo", "FLegalize", "FPurity"):
        Op.of(_NAME).reset_attr(name)


def test_a_user_operator_is_inferred_and_legalized(twice_plus: Op) -> None:
    x, y = Var("x", tensor(3, 1)), Var("y", tensor(2))
    module = program([x, y], Call(twice_plus, [x, y]))

    legal = transform.LegalizeOps()(module)
    z = VirtualMachine(build(legal), cpu())["main"](
        np.ones((3, 1), np.float32), np.zeros(2, np.float32)
    )

    assert module["main"].ret_struct_info == tensor(3, 2)
    np.testing.assert_array_equal(z.numpy(), np.full((3, 2), 2, np.float32))


def test_an_operator_registers_its_purity(twice_plus: Op) -> None:
    x = Var("x", tensor(2))
    assert not contains_impure_call(Call(twice_plus, [x, x]))

    twice_plus.set_attr("FPurity", False)

    assert contains_impure_call(Call(twice_plus, [x, x]))


def test_an_operator_without_a_legalization_stays() -> None:
    negative = Op.get("relax.negative")
    legalize = negative.get_attr("FLegalize")
    x = Var("x", tensor(2))
    module = program([x], op("negative", x))

    negative.reset_attr("FLegalize")
    try:
        assert len(transform.LegalizeOps()(module).functions) == 1
    finally:
        register_legalize("relax.negative", legalize)

    assert len(transform.LegalizeOps()(module).functions) == 2


def test_an_unregistered_operator_is_unknown() -> None:
    with pytest.raises(AttributeError, match=f"operator `{_NAME}` is not registered"):
        Op.get(_NAME)


def test_a_script_stays_as_written_until_something_rewrites_it(twice_plus: Op) -> None:
    def in_order(builder: BlockBuilder, call: Call) -> Call:
        x, y = call.args
        is_written = isinstance(x, Var) or isinstance(y, Constant)
        return call if is_written else Call(call.op, [y, x])

    @R.function(check_well_formed=False)
    def main(x: R.Tensor((2,), "float32")):
        y = Call(twice_plus, [R.const(1, "float32"), x])
        return y

    twice_plus.set_attr("FNormalize", in_order)
    try:
        rewritten = PyExprMutator().visit_expr(main)
        is_kept = [well_formed(function) for function in (main, rewritten)]
    finally:
        twice_plus.reset_attr("FNormalize")

    (before,), (after,) = (f.body.blocks[0].bindings for f in (main, rewritten))
    assert isinstance(before.value.args[0], Constant)
    assert isinstance(after.value.args[0], Var)
    assert is_kept == [False, True]


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_program_is_called_on_tuple_elements(is_bound: bool) -> None:
    x = Var("x", tensor(2))
    pair = Var("pair", TupleStructInfo([tensor(2), tensor(2)]))
    called = relax.GlobalVar("f", relax.FuncStructInfo.opaque_func())
    call = Call("relax.call_tir", [called, pair], sinfo_args=[tensor(2)])
    builder = BlockBuilder()

    with builder.testing_scope():
        if is_bound:
            pair = builder.emit(relax.Tuple([x, x]))
            call = Call(call.op, [called, pair], sinfo_args=call.sinfo_args)
        listed = builder.normalize(call).args[1]
        found = [builder.lookup_binding(field) for field in listed]

    if is_bound:
        assert list(listed) == [x, x]
    else:
        assert [item.index for item in found] == [0, 1]
        assert all(item.tuple_value is pair for item in found)
