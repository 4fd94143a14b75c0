"""Rewrite rules of a module: one function replaced by another where it is computed."""

from typing import Any

import pytest

from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.pipeline import Sequential
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812
from relax_mlir.tvm.script import tir as T  # noqa: N812

# ruff: noqa: N801, N805, RET504  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportUnusedExpression=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false


@R.rewriter
class FastAdd:
    @R.function
    def pattern(a: R.Tensor([16], "float32"), b: R.Tensor([16], "float32")):
        c = R.add(a, b)
        return c

    @R.function
    def replacement(a: R.Tensor([16], "float32"), b: R.Tensor([16], "float32")):
        c = R.call_pure_packed("fast_add", a, b, sinfo_args=R.Tensor([16], "float32"))
        return c


@R.rewriter
class FastMultiply:
    @R.function
    def pattern(a: R.Tensor([16], "float32"), b: R.Tensor([16], "float32")):
        return a * b

    @R.function
    def replacement(a: R.Tensor([16], "float32"), b: R.Tensor([16], "float32")):
        return R.call_pure_packed(
            "fast_mul", a, b, sinfo_args=R.Tensor([16], "float32")
        )


def test_a_rule_applies_wherever_it_matches() -> None:
    @I.ir_module
    class Before:
        @R.function
        def one(x: R.Tensor([32], "float32")):
            halves = R.split(x, 2)
            left = halves[0]
            right = halves[1]
            out = left + right
            return out

        @R.function
        def two(x: R.Tensor([16], "float32")):
            y = x + x
            z = y + y
            return z

    @I.ir_module
    class Expected:
        @R.function
        def one(x: R.Tensor([32], "float32")):
            halves = R.split(x, 2)
            left = halves[0]
            right = halves[1]
            out = R.call_pure_packed(
                "fast_add", left, right, sinfo_args=R.Tensor([16], "float32")
            )
            return out

        @R.function
        def two(x: R.Tensor([16], "float32")):
            y = R.call_pure_packed(
                "fast_add", x, x, sinfo_args=R.Tensor([16], "float32")
            )
            z = R.call_pure_packed(
                "fast_add", y, y, sinfo_args=R.Tensor([16], "float32")
            )
            return z

    assert_structural_equal(FastAdd(Before), Expected)
    assert_structural_equal(Sequential([FastAdd])(Before), Expected)
    assert_structural_equal(FastAdd(Before["one"]), Expected["one"])


def test_rules_are_joined() -> None:
    @R.function(private=True)
    def before(a: R.Tensor([16], "float32"), b: R.Tensor([16], "float32")):
        c = a + b
        d = a * c
        return d

    @R.function(private=True)
    def expected(a: R.Tensor([16], "float32"), b: R.Tensor([16], "float32")):
        c = R.call_pure_packed("fast_add", a, b, sinfo_args=R.Tensor([16], "float32"))
        d = R.call_pure_packed("fast_mul", a, c, sinfo_args=R.Tensor([16], "float32"))
        return d

    assert_structural_equal((FastAdd | FastMultiply)(before), expected)


def test_sizes_of_a_rule_are_those_of_what_it_matches() -> None:
    @R.rewriter
    class Square:
        @R.function
        def pattern(
            a: R.Tensor(["m", "n"], "float32"), b: R.Tensor(["n", "n"], "float32")
        ):
            return R.matmul(a, b)

        @R.function
        def replacement(
            a: R.Tensor(["m", "n"], "float32"), b: R.Tensor(["n", "n"], "float32")
        ):
            m = T.int64()
            n = T.int64()
            return R.call_pure_packed(
                "square", a, b, sinfo_args=R.Tensor([m, n], "float32")
            )

    @R.function(private=True)
    def before(
        a: R.Tensor(["n", "n * 2"], "float32"),
        b: R.Tensor(["n * 2", "n * 2"], "float32"),
        c: R.Tensor(["n * 2", "n"], "float32"),
    ):
        d = R.matmul(a, b)
        e = R.matmul(d, c)
        return e

    @R.function(private=True)
    def expected(
        a: R.Tensor(["n", "n * 2"], "float32"),
        b: R.Tensor(["n * 2", "n * 2"], "float32"),
        c: R.Tensor(["n * 2", "n"], "float32"),
    ):
        n = T.int64()
        d = R.call_pure_packed(
            "square", a, b, sinfo_args=R.Tensor([n, n * 2], "float32")
        )
        e = R.matmul(d, c)
        return e

    assert_structural_equal(Square(before), expected)


@R.rewriter
class OneProduct:
    @R.function
    def pattern(
        a: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16, 16], "float32"),
        x: R.Tensor([16], "float32"),
    ):
        left = R.matmul(a, x)
        right = R.matmul(b, x)
        both = (left, right)
        return both

    @R.function
    def replacement(
        a: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16, 16], "float32"),
        x: R.Tensor([16], "float32"),
    ):
        joined = R.concat([a, b])
        product = R.matmul(joined, x)
        both = R.split(product, 2)
        return both


def test_the_fields_of_a_tuple_are_replaced_together() -> None:
    @R.function(private=True)
    def explicit(
        x: R.Tensor([16], "float32"),
        a: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16, 16], "float32"),
    ):
        left = R.matmul(a, x)
        right = R.matmul(b, x)
        both = (left, right)
        out = both[0] + both[1]
        return out

    @R.function(private=True)
    def implicit(
        x: R.Tensor([16], "float32"),
        a: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16, 16], "float32"),
    ):
        left = R.matmul(a, x)
        right = R.matmul(b, x)
        out = left + right
        return out

    @R.function(private=True)
    def expected(
        x: R.Tensor([16], "float32"),
        a: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16, 16], "float32"),
    ):
        joined = R.concat([a, b])
        product = R.matmul(joined, x)
        both = R.split(product, 2)
        out = both[0] + both[1]
        return out

    assert_structural_equal(OneProduct(explicit), expected)
    assert_structural_equal(OneProduct(implicit), expected)


def test_a_tuple_that_is_returned_is_replaced() -> None:
    @R.function(private=True)
    def before(
        x: R.Tensor([16], "float32"),
        a: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16, 16], "float32"),
    ):
        left = R.matmul(a, x)
        right = R.matmul(b, x)
        return (left, right)

    @R.function(private=True)
    def expected(
        x: R.Tensor([16], "float32"),
        a: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16, 16], "float32"),
    ):
        joined = R.concat([a, b])
        product = R.matmul(joined, x)
        both = R.split(product, 2)
        return both

    assert_structural_equal(OneProduct(before), expected)


def test_no_field_is_computed_a_second_time() -> None:
    @R.rewriter
    class Square:
        @R.function
        def pattern(
            a: R.Tensor([4, 4], "float32"),
            b: R.Tensor([4, 4], "float32"),
            x: R.Tensor([4, 4], "float32"),
        ):
            return (R.matmul(a, x), R.matmul(b, x))

        @R.function
        def replacement(
            a: R.Tensor([4, 4], "float32"),
            b: R.Tensor([4, 4], "float32"),
            x: R.Tensor([4, 4], "float32"),
        ):
            return R.split(R.matmul(R.concat([a, b]), x), 2)

    @R.function(private=True)
    def chained(
        x: R.Tensor([4, 4], "float32"),
        a: R.Tensor([4, 4], "float32"),
        b: R.Tensor([4, 4], "float32"),
    ):
        left = R.matmul(a, x)
        between = R.matmul(left, b)
        right = R.matmul(between, x)
        out = left + right
        return out

    assert Square(chained) is chained


def test_nothing_moves_across_what_is_impure() -> None:
    @R.rewriter
    class Fma:
        @R.function
        def pattern(
            x: R.Tensor([16], "float32"),
            w: R.Tensor([16, 16], "float32"),
            b: R.Tensor([16], "float32"),
        ):
            y = R.matmul(w, x)
            z = R.add(b, y)
            return z

        @R.function
        def replacement(
            x: R.Tensor([16], "float32"),
            w: R.Tensor([16, 16], "float32"),
            b: R.Tensor([16], "float32"),
        ):
            return R.call_pure_packed(
                "fma", x, w, b, sinfo_args=R.Tensor([16], "float32")
            )

    @R.function(private=True, pure=False)
    def apart(
        x: R.Tensor([16], "float32"),
        w: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16], "float32"),
    ):
        y = R.matmul(w, x)
        R.print(format="between")
        z = R.add(b, y)
        return z

    @R.function(private=True, pure=False)
    def together(
        x: R.Tensor([16], "float32"),
        w: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16], "float32"),
    ):
        R.print(format="before")
        y = R.matmul(w, x)
        z = R.add(b, y)
        R.print(format="after")
        return z

    @R.function(private=True, pure=False)
    def expected(
        x: R.Tensor([16], "float32"),
        w: R.Tensor([16, 16], "float32"),
        b: R.Tensor([16], "float32"),
    ):
        R.print(format="before")
        z = R.call_pure_packed("fma", x, w, b, sinfo_args=R.Tensor([16], "float32"))
        R.print(format="after")
        return z

    assert Fma(apart) is apart
    assert_structural_equal(Fma(together), expected)


def test_branches_are_rewritten_too() -> None:
    @R.function(private=True)
    def before(
        a: R.Tensor([16], "float32"), b: R.Tensor([16], "float32"), cond: R.Prim("bool")
    ):
        if cond:
            out = a + b
        else:
            c = a + b
            out = c + b
        return out

    @R.function(private=True)
    def expected(
        a: R.Tensor([16], "float32"), b: R.Tensor([16], "float32"), cond: R.Prim("bool")
    ):
        if cond:
            out = R.call_pure_packed(
                "fast_add", a, b, sinfo_args=R.Tensor([16], "float32")
            )
        else:
            c = R.call_pure_packed(
                "fast_add", a, b, sinfo_args=R.Tensor([16], "float32")
            )
            out = R.call_pure_packed(
                "fast_add", c, b, sinfo_args=R.Tensor([16], "float32")
            )
        return out

    assert_structural_equal(FastAdd(before), expected)


def rules_with_functions() -> tuple[Any, Any]:
    @R.rewriter
    class Double:
        @R.function
        def pattern(a: R.Tensor([16], "float32")):
            return a + a

        @R.function
        def replacement(a: R.Tensor([16], "float32")):
            return Double.inner(a)

        @R.function(private=True)
        def inner(a: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return a * R.const(2.0, "float32")

    @R.rewriter
    class Squared:
        @R.function
        def pattern(a: R.Tensor([16], "float32")):
            return a * a

        @R.function
        def replacement(a: R.Tensor([16], "float32")):
            return Squared.inner(a)

        @R.function(private=True)
        def inner(a: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.power(a, R.const(2.0, "float32"))

    return Double, Squared


def test_functions_of_a_rule_come_along_under_names_of_their_own() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(a: R.Tensor([16], "float32")):
            b = a + a
            c = b * b
            return c

    @I.ir_module
    class Expected:
        @R.function
        def main(a: R.Tensor([16], "float32")):
            b = Expected.inner(a)
            c = Expected.inner_1(b)
            return c

        @R.function(private=True)
        def inner(a: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return a * R.const(2.0, "float32")

        @R.function(private=True)
        def inner_1(a: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
            return R.power(a, R.const(2.0, "float32"))

    double, squared = rules_with_functions()
    assert_structural_equal((double | squared)(Before), Expected)
    with pytest.raises(ValueError, match="inner"):
        double(Before["main"])


def test_a_rule_needs_both_functions() -> None:
    with pytest.raises(KeyError, match="pattern"):

        @R.rewriter
        class _:
            @R.function
            def replacement():
                return R.tuple()

    with pytest.raises(KeyError, match="replacement"):

        @R.rewriter
        class _:
            @R.function
            def pattern():
                return R.tuple()


def test_both_functions_are_of_relax() -> None:
    with pytest.raises(TypeError, match="`pattern`"):

        @R.rewriter
        class _:
            @T.prim_func
            def pattern():
                pass

            @R.function
            def replacement():
                return R.tuple()


def test_both_functions_have_one_signature() -> None:
    with pytest.raises(ValueError, match="must have the same signature"):

        @R.rewriter
        class _:
            @R.function
            def pattern(a: R.Tensor([32])):
                return a

            @R.function
            def replacement(a: R.Tensor([16])):
                return a


def test_other_functions_of_a_rule_are_private() -> None:
    with pytest.raises(ValueError, match="`inner` is publicly exposed"):

        @R.rewriter
        class Rule:
            @R.function
            def pattern(a: R.Tensor([16], "float32")):
                return a + a

            @R.function
            def replacement(a: R.Tensor([16], "float32")):
                return Rule.inner(a)

            @R.function
            def inner(a: R.Tensor([16], "float32")) -> R.Tensor([16], "float32"):
                return a
