"""Dataflow patterns of expressions, alone and as graphs in a dataflow block."""

import pytest

from relax_mlir import IRModule
from relax_mlir.objects import prim
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import analysis
from relax_mlir.tvm.relax.dpl import (
    CallPattern,
    ExternFuncPattern,
    FunctionPattern,
    OrPattern,
    PatternContext,
    TupleGetItemPattern,
    has_attr,
    has_dtype,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    wildcard,
)
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812

# ruff: noqa: N805  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportUnusedExpression=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false

TENSOR = relax.TensorStructInfo((2, 3, 5), "float32")


def tensor(
    name: str, shape: tuple[int, ...] = (2, 3), dtype: str = "float32"
) -> relax.Var:
    return relax.Var(name, relax.TensorStructInfo(shape, dtype))


def test_variables_match_by_kind_and_name() -> None:
    inner, outer, function = (
        relax.DataflowVar("x"),
        relax.Var("x"),
        relax.GlobalVar("x"),
    )

    assert is_var("x").match(outer)
    assert is_var().match(inner)
    assert not is_var("y").match(outer)
    assert not is_var("x").match(function)
    assert is_dfv("x").match(inner)
    assert not is_dfv("x").match(outer)
    assert is_gv("x").match(function)
    assert not is_gv("y").match(function)


def test_a_function_of_the_module_matches_by_a_part_of_its_name() -> None:
    assert is_gv("matmul").match(relax.GlobalVar("tir_matmul_1"))


def test_leaves_match() -> None:
    assert is_const().match(relax.const([[1.0, 2.0]]))
    assert not is_const().match(tensor("x"))
    assert wildcard().match(tensor("x"))
    assert is_expr(relax.const(3)).match(relax.const(3))
    assert not is_expr(relax.const(3)).match(relax.const(4))
    assert ExternFuncPattern("f").match(relax.ExternFunc("f"))
    assert not ExternFuncPattern("f").match(relax.ExternFunc("g"))


def test_an_operator_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"relax\.ad"):
        is_op("relax.ad")


def test_a_call_matches_its_arguments() -> None:
    x, y = tensor("x"), tensor("y")

    assert is_op("relax.subtract")(is_var("x"), is_var("y")).match(
        relax.op.subtract(x, y)
    )
    assert not is_op("relax.subtract")(is_var("y"), is_var("x")).match(
        relax.op.subtract(x, y)
    )
    assert not is_op("relax.subtract")(wildcard()).match(relax.op.subtract(x, y))
    assert is_op("relax.subtract")(wildcard(), varg_default_wildcard=True).match(
        relax.op.subtract(x, y)
    )


def test_sums_and_products_match_in_either_order() -> None:
    x, y = tensor("x"), tensor("y")

    for name in ("add", "multiply"):
        pattern = is_op(f"relax.{name}")(is_var("y"), is_var("x"))
        assert pattern.match(getattr(relax.op, name)(x, y))


def test_one_pattern_matches_one_expression() -> None:
    x, y = tensor("x"), tensor("y")
    operand = wildcard()
    double = is_op("relax.add")(operand, operand)

    assert double.match(relax.op.add(x, x))
    assert not double.match(relax.op.add(x, y))


def test_matched_expressions() -> None:
    x, y = tensor("x"), tensor("y")
    left, right = wildcard(), wildcard()
    pattern = is_op("relax.subtract")(left, right)
    call = relax.op.subtract(x, y)

    matched = pattern.extract_matched_expr(call)

    assert matched is not None
    assert matched[left] is x
    assert matched[right] is y
    assert matched[pattern] is call
    assert is_const().extract_matched_expr(call) is None


def test_alternatives_conjunction_and_negation() -> None:
    f32 = wildcard().has_shape((2, 3)) & has_dtype("float32")
    either = is_dfv("x") | is_gv("x")

    assert f32.match(tensor("x"))
    assert not f32.match(tensor("x", dtype="int32"))
    assert not f32.match(tensor("x", (3, 2)))
    assert isinstance(either, OrPattern)
    assert either.match(relax.GlobalVar("x"))
    assert not either.match(relax.Var("x"))
    assert (~has_dtype("int32")).match(tensor("x"))
    assert not (~has_dtype("float32")).match(tensor("x"))


def test_shapes_match_as_expressions() -> None:
    n, m = prim.Var("n", "int64"), prim.Var("m", "int64")
    x = relax.Var("x", relax.TensorStructInfo((n, m, n + m), "float32"))

    assert wildcard().has_shape([n, m, m + n]).match(x)
    assert not wildcard().has_shape([m, n, n + m]).match(x)
    assert not wildcard().has_shape([1, 2, 3]).match(x)
    assert is_shape([n, n * m]).match(relax.ShapeExpr([n, m * n]))
    assert not is_shape([n, m]).match(relax.ShapeExpr([n, n * m]))
    assert is_shape([32, 16])[1] == 16
    with pytest.raises(IndexError):
        is_shape([32])[1]
    with pytest.raises(TypeError, match="`shape`: expected a sequence, got int"):
        wildcard().has_shape(3)


def test_symbols_of_struct_info_match_one_size() -> None:
    n = prim.Var("n", "int64")
    square = wildcard().has_struct_info(relax.TensorStructInfo((n, n)))

    assert square.match(tensor("x", (4, 4)))
    assert not square.match(tensor("x", (4, 5)))
    assert not square.match(tensor("x", (4, 4, 4)))


def test_sizes_that_depend_on_symbols_are_checked() -> None:
    n = prim.Var("n", "int64")
    pattern = wildcard().has_struct_info(relax.TensorStructInfo((n * 2, n)))

    assert pattern.match(tensor("x", (6, 3)))
    assert not pattern.match(tensor("x", (5, 3)))


def test_tuples_and_their_elements() -> None:
    x, y = tensor("x"), relax.const(1.0)
    pair = is_tuple([is_var("x"), is_const()])
    whole = relax.Tuple([x, y])

    assert pair.match(whole)
    assert not pair.match(relax.Tuple([y, x]))
    assert not pair.match(relax.Tuple([x]))
    assert is_tuple([is_const(), is_var("x")], unordered=True).match(whole)
    assert not is_tuple([is_const(), is_const()], unordered=True).match(whole)
    assert pair[1].match(relax.TupleGetItem(whole, 1))
    assert pair[-1].match(relax.TupleGetItem(whole, 1))
    assert not pair[0].match(relax.TupleGetItem(whole, 1))
    assert pair[None].match(relax.TupleGetItem(whole, 0))
    assert is_tuple_get_item(wildcard()).match(relax.TupleGetItem(whole, 0))
    with pytest.raises(IndexError, match="2"):
        pair[2]


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_fields_in_any_order_bind_sizes_anew(order: str) -> None:
    n = prim.Var("n", "int64")
    vector = wildcard().has_struct_info(relax.TensorStructInfo((n,), "float32"))
    matrix = wildcard().has_struct_info(relax.TensorStructInfo((n, n + 1), "float32"))
    fields = {"a": tensor("a", (3,)), "b": tensor("b", (4,)), "c": tensor("c", (4, 5))}
    pattern = is_tuple([vector, matrix, is_var("a")], unordered=True)

    assert pattern.match(relax.Tuple([fields[name] for name in order]))


def test_attributes_of_calls_and_functions() -> None:
    x = tensor("x", (1, 3, 8, 8))
    conv = relax.op.nn.conv2d(x, tensor("w", (4, 3, 3, 3)), padding=(1, 1))
    function = relax.Function([x], relax.op.nn.relu(x)).with_attr({"Codegen": "dnnl"})

    assert has_attr({"padding": [1, 1, 1, 1], "groups": 1}).match(conv)
    assert not has_attr({"padding": [0, 0, 0, 0]}).match(conv)
    assert not has_attr({"pad": [1, 1, 1, 1]}).match(conv)
    assert has_attr({"Codegen": "dnnl"}).match(function)
    assert has_attr({}).match(function)
    assert not has_attr({"Codegen": "blas"}).match(function)


def test_a_function_matches_parameters_and_body() -> None:
    x, y = tensor("x"), tensor("y")
    first, second = wildcard(), wildcard()
    pattern = FunctionPattern([first, second], is_op("relax.add")(first, second))

    assert pattern.match(relax.Function([x, y], relax.op.add(x, y)))
    assert not pattern.match(relax.Function([x, y], relax.op.multiply(x, y)))
    assert not pattern.match(relax.Function([x], relax.op.add(x, x)))


def test_a_fused_matmul_pattern() -> None:
    x, w, b = tensor("x", (4, 8)), tensor("w", (8, 2)), tensor("b", (2,))
    product = relax.op.matmul(x, w)

    plain = make_fused_bias_activation_pattern("relax.matmul")
    full = make_fused_bias_activation_pattern(
        "relax.matmul", with_bias=True, activation="relax.nn.relu"
    )

    assert isinstance(plain, CallPattern)
    assert plain.match(product)
    assert full.match(relax.op.nn.relu(relax.op.add(product, b)))
    assert not full.match(relax.op.nn.relu(product))


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((8, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            lv0 = R.call_dps_packed("matmul", (x, w), R.Tensor((8, 8), "float32"))
            lv1 = R.call_dps_packed("relu", (lv0,), R.Tensor((8, 8), "float32"))
            R.output(lv1)
        return lv1


@I.ir_module
class Diamond:
    @R.function
    def main(x: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            lv0 = R.call_dps_packed("matmul", (x, x), R.Tensor((8, 8), "float32"))
            lv1 = R.call_dps_packed("relu", (lv0,), R.Tensor((8, 8), "float32"))
            lv2 = R.call_dps_packed("sigmoid", (lv0,), R.Tensor((8, 8), "float32"))
            lv3 = R.call_dps_packed("add", (lv1, lv2), R.Tensor((8, 8), "float32"))
            R.output(lv3)
        return lv3


def block_of(module: IRModule) -> relax.DataflowBlock:
    return module["main"].body.blocks[0]


def test_bindings_are_looked_through() -> None:
    function = Chain["main"]
    relu = function.body.blocks[0].bindings[1].value
    values = analysis.get_var2val(function)
    pattern = is_call_dps_packed("relu", [is_call_dps_packed("matmul")])

    assert pattern.match(relu, values)
    assert not pattern.match(relu)
    assert not is_call_dps_packed("relu", [is_call_dps_packed("relu")]).match(
        relu, values
    )
    assert not is_call_tir("relu").match(relu)


def test_a_packed_call_matches_by_name_and_arguments() -> None:
    call = relax.op.call_pure_packed("f", tensor("x"), sinfo_args=TENSOR)
    plain = relax.Call(relax.ExternFunc("f"), [tensor("x")], sinfo_args=[TENSOR])

    assert is_call_packed("f").match(plain)
    assert is_call_packed("f", [is_var("x")]).match(plain)
    assert not is_call_packed("f", [is_var("y")]).match(plain)
    assert not is_call_packed("f").match(call)


def test_a_chain_is_found_in_a_block() -> None:
    block = block_of(Chain)
    with PatternContext() as context:
        chain = is_call_dps_packed("matmul") >> is_call_dps_packed("relu")

        matched = context.match_dfb(block)

    assert matched is not None
    assert matched[chain[0]] is block.bindings[0].var
    assert matched[chain[1]] is block.bindings[1].var


def test_a_parameter_is_a_producer_too() -> None:
    with PatternContext() as context:
        source, user = is_var("x"), wildcard()
        source ^ user

        matched = context.match_dfb(block_of(Chain))

    assert matched is not None
    assert matched[source] is Chain["main"].params[0]
    assert matched[user] is block_of(Chain).bindings[0].var


def test_only_one_user_is_demanded_by_shifts() -> None:
    def matches(*, only: bool) -> bool:
        with PatternContext() as context:
            matmul, relu = is_call_dps_packed("matmul"), is_call_dps_packed("relu")
            if only:
                matmul >> relu
            else:
                matmul ^ relu
            return context.match_dfb(block_of(Diamond)) is not None

    assert matches(only=False)
    assert not matches(only=True)


def test_a_diamond_joins_again() -> None:
    with PatternContext() as context:
        relu, sigmoid = is_call_dps_packed("relu"), is_call_dps_packed("sigmoid")
        add = is_call_dps_packed("add")
        is_call_dps_packed("matmul").fork_to(relu, sigmoid)
        relu >> add
        sigmoid >> add
        assert context.match_dfb(block_of(Diamond))
        assert context.match_dfb(block_of(Chain)) is None


def test_an_argument_number_is_demanded() -> None:
    def matches(index: int) -> bool:
        with PatternContext() as context:
            is_call_dps_packed("relu").used_by(is_call_dps_packed("add"), index)
            return context.match_dfb(block_of(Diamond)) is not None

    assert matches(0)
    assert not matches(1)


def test_calls_in_a_context_demand_their_arguments() -> None:
    @R.function
    def two(x: R.Tensor((2, 4)), a: R.Tensor((4, 4)), b: R.Tensor((4, 4))):
        with R.dataflow():
            lv0 = R.matmul(x, a)
            lv1 = R.matmul(x, b)
            out = (lv0, lv1)
            R.output(out)
        return out

    with PatternContext() as context:
        shared, first, second = wildcard(), wildcard(), wildcard()
        is_op("relax.matmul")(shared, first)
        is_op("relax.matmul")(shared, second)
        matched = context.match_dfb(two.body.blocks[0])

    assert matched is not None
    names = [matched[p].name_hint for p in (shared, first, second)]
    assert names == ["x", "a", "b"]


def test_a_chain_can_be_copied_and_matched_from_any_binding() -> None:
    @R.function
    def twice(x: R.Tensor((8, 8))):
        with R.dataflow():
            lv0 = R.call_dps_packed("conv", (x,), R.Tensor((8, 8)))
            lv1 = R.call_dps_packed("relu", (lv0,), R.Tensor((8, 8)))
            lv2 = R.call_dps_packed("conv", (x,), R.Tensor((8, 8)))
            lv3 = R.call_dps_packed("relu", (lv2,), R.Tensor((8, 8)))
            lv4 = R.call_dps_packed("cat", (lv1, lv3), R.Tensor((8, 16)))
            R.output(lv4)
        return lv4

    block = twice.body.blocks[0]
    with PatternContext() as context:
        chain = is_call_dps_packed("conv") >> is_call_dps_packed("relu")
        for number in (0, 2):
            matched = context.match_dfb(block, start_hint=block.bindings[number].var)
            assert matched is not None
            assert matched[chain[0]] is block.bindings[number].var
        other = chain.dup()
        assert other.patterns[0] is not chain.patterns[0]
        is_var("x").fork_to(chain, other)
        assert context.match_dfb(block)
        assert not context.match_dfb(
            block, start_hint=block.bindings[4].var, must_include_hint=True
        )


def test_contexts_are_nested_and_may_add_up() -> None:
    matmul, relu = is_call_dps_packed("matmul"), is_call_dps_packed("relu")
    missing = is_call_dps_packed("softmax")
    with PatternContext() as outer:
        missing >> matmul
        with PatternContext() as alone:
            matmul >> relu
            assert PatternContext.current() is alone
            assert alone.match_dfb(block_of(Chain))
        with PatternContext(incremental=True) as both:
            matmul >> relu
            assert not both.match_dfb(block_of(Chain))
        assert PatternContext.current() is outer
    assert PatternContext.current() is None


@pytest.mark.parametrize(("shape", "is_same"), [((4, 8), True), ((1, 8), False)])
def test_shapes_of_several_patterns_are_compared(
    shape: tuple[int, ...], is_same: bool
) -> None:
    a, b = tensor("a", (4, 8)), tensor("b", shape)
    builder = relax.BlockBuilder()
    with builder.function("main", [a, b]):
        with builder.dataflow():
            double = builder.emit(relax.op.multiply(a, a))
            out = builder.emit_output(relax.op.add(b, double))
        builder.emit_func_output(out)
    with PatternContext() as context:
        left, right = wildcard(), wildcard()
        is_op("relax.add")(left, right)
        left.same_shape_as(right)

    assert (context.match_dfb(block_of(builder.get())) is not None) == is_same


def test_an_element_of_an_operator_result() -> None:
    @R.function
    def halves(x: R.Tensor((8,))):
        with R.dataflow():
            both = R.split(x, 2)
            first = both[0]
            second = both[1]
            out = R.add(first, second)
            R.output(out)
        return out

    with PatternContext() as context:
        split = is_op("relax.split")(wildcard())
        parts = [TupleGetItemPattern(split, n).has_shape([4]) for n in (0, 1)]
        split.fork_to(*parts)
        add = is_op("relax.add")(*parts)
        matched = context.match_dfb(halves.body.blocks[0])

    assert matched is not None
    assert matched[add].name_hint == "out"
