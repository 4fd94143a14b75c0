"""Expressions replaced where a pattern matches."""

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest

from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import (
    assert_structural_equal,
    structural_equal,
)
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.dpl import (
    PatternContext,
    is_const,
    is_op,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts call it

# ruff: noqa: RET504  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportUnusedExpression=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false

Matched = dict[Any, relax.Expr]


def test_the_sum_of_a_value_with_itself() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((16, 16), "float32")):
        with R.dataflow():
            x2 = R.add(x, x)
            x4 = R.add(x2, x2)
            R.output(x4)
        return x4

    @R.function(private=True)
    def each(x: R.Tensor((16, 16), "float32")):
        with R.dataflow():
            lv = R.multiply(x, R.const(2, "float32"))
            x4 = R.multiply(lv, R.const(2, "float32"))
            R.output(x4)
        return x4

    @R.function(private=True)
    def both(x: R.Tensor((16, 16), "float32")):
        with R.dataflow():
            x4 = R.multiply(x, R.const(4, "float32"))
            R.output(x4)
        return x4

    operand = wildcard()
    double = is_op("relax.add")(operand, operand)
    four_times = is_op("relax.add")(double, double)

    def times(factor: int) -> Callable[[relax.Expr, Matched], relax.Expr]:
        return lambda _, found: R.multiply(found[operand], R.const(factor, "float32"))

    assert_structural_equal(rewrite_call(double, times(2), before), each)
    assert_structural_equal(rewrite_call(four_times, times(4), before), both)
    assert rewrite_call(double, lambda expr, _: expr, before) is before


def test_a_subgraph_becomes_one_operator() -> None:
    @R.function(private=True)
    def before(
        q: R.Tensor((2, 8, 4, 5)), k: R.Tensor((2, 8, 4, 5)), v: R.Tensor((2, 8, 4, 5))
    ):
        with R.dataflow():
            k_t = R.permute_dims(k, axes=[0, 1, 3, 2])
            scores = R.matmul(q, k_t)
            scaled = R.multiply(scores, R.const(0.5, "float32"))
            weights = R.nn.softmax(scaled, axis=-1)
            out = R.matmul(weights, v)
            R.output(out)
        return out

    @R.function(private=True)
    def expected(
        q: R.Tensor((2, 8, 4, 5)), k: R.Tensor((2, 8, 4, 5)), v: R.Tensor((2, 8, 4, 5))
    ):
        with R.dataflow():
            out = R.nn.attention(q, k, v)
            R.output(out)
        return out

    q, k, v = wildcard(), wildcard(), wildcard()
    scores = is_op("relax.matmul")(q, is_op("relax.permute_dims")(k))
    weights = is_op("relax.nn.softmax")(is_op("relax.multiply")(scores, is_const()))
    pattern = is_op("relax.matmul")(weights, v)

    after = rewrite_call(
        pattern, lambda _, found: R.nn.attention(found[q], found[k], found[v]), before
    )

    assert_structural_equal(after, expected)


def test_a_rewrite_goes_on_until_nothing_matches() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((8,)), y: R.Tensor((8,)), z: R.Tensor((8,))):
        with R.dataflow():
            a = R.add(x, y)
            b = R.add(a, z)
            out = R.multiply(b, R.const(5.0))
            R.output(out)
        return out

    @R.function(private=True)
    def expected(x: R.Tensor((8,)), y: R.Tensor((8,)), z: R.Tensor((8,))):
        with R.dataflow():
            x5 = R.multiply(x, R.const(5.0))
            y5 = R.multiply(y, R.const(5.0))
            a = R.add(x5, y5)
            z5 = R.multiply(z, R.const(5.0))
            b = R.add(a, z5)
            R.output(b)
        return b

    left, right, factor = wildcard(), wildcard(), is_const()
    pattern = is_op("relax.multiply")(is_op("relax.add")(left, right), factor)

    after = rewrite_call(
        pattern,
        lambda _, found: found[left] * found[factor] + found[right] * found[factor],
        before,
    )

    assert_structural_equal(after, expected)


def test_no_alias_is_left() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((8,))):
        a = R.add(x, x)
        b = R.reshape(a, (8,))
        return b

    @R.function(private=True)
    def expected(x: R.Tensor((8,))):
        a = R.add(x, x)
        return a

    value, shape = wildcard(), wildcard()

    def drop(expr: relax.Expr, found: Matched) -> relax.Expr:
        same = structural_equal(found[value].struct_info.shape, found[shape])
        return found[value] if same else expr

    after = rewrite_call(is_op("relax.reshape")(value, shape), drop, before)

    assert_structural_equal(after, expected)


def test_equal_replacements_are_computed_once() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((8,))):
        with R.dataflow():
            a = R.strided_slice(x, [0], [0], [4], [1])
            b = R.strided_slice(x, [0], [4], [8], [1])
            c = R.add(a, b)
            R.output(c)
        return c

    @R.function(private=True)
    def expected(x: R.Tensor((8,))):
        with R.dataflow():
            halves = R.split(x, 2)
            a = halves[0]
            b = halves[1]
            c = R.add(a, b)
            R.output(c)
        return c

    value, axes, begin, end, strides = (wildcard() for _ in range(5))
    pattern = is_op("relax.strided_slice")(value, axes, begin, end, strides)

    def split(expr: relax.Expr, found: Matched) -> relax.Expr:
        size = found[value].struct_info.shape[0].value
        first, last = found[begin][0].value.value, found[end][0].value.value
        part = functools.reduce(math.gcd, [first, last, size])
        return relax.op.split(found[value], size // part)[first // part]

    assert_structural_equal(rewrite_call(pattern, split, before), expected)


def test_tuple_elements_are_folded_before_the_next_round() -> None:
    @R.function(private=True)
    def before(a: R.Tensor((8,)), b: R.Tensor((8,))):
        with R.dataflow():
            c = R.concat([a, b])
            d = R.split(c, 2)
            e = d[0]
            f = d[1]
            g = R.add(a, e)
            h = R.add(f, g)
            R.output(h)
        return h

    @R.function(private=True)
    def expected(a: R.Tensor((8,)), b: R.Tensor((8,))):
        with R.dataflow():
            g = R.multiply(a, R.const(2))
            h = R.add(b, g)
            R.output(h)
        return h

    parts, operand = wildcard(), wildcard()
    concat = is_op("relax.concat")(parts).has_attr({"axis": 0})
    undone = is_op("relax.split")(concat).has_attr({"indices_or_sections": 2})
    double = is_op("relax.add")(operand, operand)

    def simplify(expr: relax.Expr, found: Matched) -> relax.Expr:
        if undone in found:
            return found[parts]
        return found[operand] * relax.const(2)

    assert_structural_equal(rewrite_call(undone | double, simplify, before), expected)


def test_the_right_side_is_tried_when_the_left_one_changes_nothing() -> None:
    @R.function(private=True)
    def before():
        with R.dataflow():
            a = R.ones([4, 8], "int32")
            b = R.zeros([4, 8], "int32")
            c = R.add(a, b)
            R.output(c)
        return c

    @R.function(private=True)
    def expected():
        with R.dataflow():
            c = R.ones([4, 8], "int32")
            R.output(c)
        return c

    any_sum = is_op("relax.add")(wildcard(), wildcard())
    kept = wildcard()
    with_zeros = is_op("relax.add")(kept, is_op("relax.zeros")(wildcard()))
    pattern = any_sum | with_zeros

    def drop_zeros(expr: relax.Expr, found: Matched) -> relax.Expr:
        assert isinstance(found[pattern], relax.Call)
        return expr if any_sum in found else found[kept]

    assert_structural_equal(rewrite_call(pattern, drop_zeros, before), expected)


@pytest.mark.parametrize(("rows", "is_changed"), [(4, True), (1, False)])
def test_struct_info_restricts_matches(rows: int, is_changed: bool) -> None:
    m, n = prim.Var("m", "int64"), prim.Var("n", "int64")
    left = wildcard().has_struct_info(R.Tensor([m, n]))
    right = wildcard().has_struct_info(R.Tensor([m, n]))

    @R.function(private=True)
    def before(a: R.Tensor((4, 8)), b: R.Tensor((rows, 8))):
        with R.dataflow():
            c = R.add(a, b)
            R.output(c)
        return c

    after = rewrite_call(
        is_op("relax.add")(left, right),
        lambda _, found: relax.op.multiply(found[left], found[right]),
        before,
    )

    name = after.body.blocks[0].bindings[0].value.op.name
    assert name == ("relax.multiply" if is_changed else "relax.add")


def combine_matmuls() -> tuple[
    PatternContext, Callable[..., dict[relax.Var, relax.Expr]]
]:
    """Two matmuls of one LHS become one matmul that is split."""
    with PatternContext() as context:
        shared, first, second = wildcard(), wildcard(), wildcard()
        products = [is_op("relax.matmul")(shared, w) for w in (first, second)]

    def combine(matched: Matched, _: Any) -> dict[Any, relax.Expr]:
        width = matched[first].struct_info.shape[1]
        joined = R.concat([matched[first], matched[second]], axis=1)
        product = R.matmul(matched[shared], joined)
        starts = [(0, width), (width, width * 2)]
        return {
            matched[p]: R.strided_slice(product, axes=[1], begin=[a], end=[b])
            for p, (a, b) in zip(products, starts, strict=True)
        }

    return context, combine


def test_bindings_are_rewritten_as_often_as_they_match() -> None:
    @R.function(private=True)
    def before(
        x1: R.Tensor((2, 4)),
        x2: R.Tensor((2, 4)),
        w0: R.Tensor((4, 6)),
        w1: R.Tensor((4, 6)),
        w2: R.Tensor((4, 6)),
        w3: R.Tensor((4, 6)),
    ):
        with R.dataflow():
            lv0 = R.matmul(x1, w0)
            lv1 = R.matmul(x1, w1)
            lv2 = R.matmul(x2, w2)
            lv3 = R.matmul(x2, w3)
            out = (lv0, lv1, lv2, lv3)
            R.output(out)
        return out

    @R.function(private=True)
    def expected(
        x1: R.Tensor((2, 4)),
        x2: R.Tensor((2, 4)),
        w0: R.Tensor((4, 6)),
        w1: R.Tensor((4, 6)),
        w2: R.Tensor((4, 6)),
        w3: R.Tensor((4, 6)),
    ):
        with R.dataflow():
            c = R.concat((w0, w1), axis=1)
            p = R.matmul(x1, c)
            lv0 = R.strided_slice(p, axes=[1], begin=[0], end=[6])
            lv1 = R.strided_slice(p, axes=[1], begin=[6], end=[12])
            d = R.concat((w2, w3), axis=1)
            q = R.matmul(x2, d)
            lv2 = R.strided_slice(q, axes=[1], begin=[0], end=[6])
            lv3 = R.strided_slice(q, axes=[1], begin=[6], end=[12])
            out = (lv0, lv1, lv2, lv3)
            R.output(out)
        return out

    context, combine = combine_matmuls()

    assert_structural_equal(rewrite_bindings(context, combine, before), expected)


def test_operands_of_a_replacement_are_computed_before_it() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((2, 4)), w0: R.Tensor((6, 4)), w1: R.Tensor((6, 4))):
        with R.dataflow():
            w0_t = R.permute_dims(w0)
            lv0 = R.matmul(x, w0_t)
            w1_t = R.permute_dims(w1)
            lv1 = R.matmul(x, w1_t)
            out = (lv0, lv1)
            R.output(out)
        return out

    @R.function(private=True)
    def expected(x: R.Tensor((2, 4)), w0: R.Tensor((6, 4)), w1: R.Tensor((6, 4))):
        with R.dataflow():
            w0_t = R.permute_dims(w0)
            w1_t = R.permute_dims(w1)
            c = R.concat((w0_t, w1_t), axis=1)
            p = R.matmul(x, c)
            lv0 = R.strided_slice(p, axes=[1], begin=[0], end=[6])
            lv1 = R.strided_slice(p, axes=[1], begin=[6], end=[12])
            out = (lv0, lv1)
            R.output(out)
        return out

    context, combine = combine_matmuls()

    assert_structural_equal(rewrite_bindings(context, combine, before), expected)


def test_a_function_without_matches_stays_the_same_object() -> None:
    @R.function(private=True)
    def plain(x: R.Tensor((2, 4)), w: R.Tensor((4, 6))):
        with R.dataflow():
            out = R.matmul(x, w)
            R.output(out)
        return out

    context, combine = combine_matmuls()

    assert rewrite_bindings(context, combine, plain) is plain
