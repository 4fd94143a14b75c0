"""Bindings of one dataflow block added, replaced and removed."""

import pytest

from relax_mlir.errors import PassError
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.analysis import name_to_binding
from relax_mlir.tvm.relax.binding_rewrite import DataflowBlockRewrite
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812

# ruff: noqa: F841, N805  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportUnusedExpression=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false


@I.ir_module
class Identity:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv0 = x
            R.output(lv0)
        return lv0


def rewrite_of(function: relax.Function) -> DataflowBlockRewrite:
    return DataflowBlockRewrite(function.body.blocks[0], function)


def test_a_binding_is_added_to_a_copy() -> None:
    @R.function
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv0 = x
            tmp = x
            R.output(lv0)
        return lv0

    function = Identity["main"]
    rewrite = rewrite_of(function)

    rewrite.add(name="tmp", expr=function.params[0], is_dfvar=True)

    assert "tmp" in name_to_binding(rewrite.mutated_root_fn())
    assert "tmp" not in name_to_binding(function)
    assert rewrite.mutated_root_fn().body.blocks[0] == rewrite.mutated_dfb()
    assert_structural_equal(rewrite.mutated_root_fn(), main)


def test_a_variable_is_an_output_by_default() -> None:
    function = Identity["main"]
    rewrite = rewrite_of(function)

    rewrite.add(function.params[0])
    outer = rewrite.mutated_dfb().bindings[-1].var
    rewrite.add(function.params[0], is_dfvar=True)
    inner = rewrite.mutated_dfb().bindings[-1].var

    assert not isinstance(outer, relax.DataflowVar)
    assert isinstance(inner, relax.DataflowVar)
    assert outer.name_hint != inner.name_hint


def test_a_binding_that_nothing_uses_is_removed() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv0 = x
            unused = lv0
            R.output(lv0)
        return lv0

    rewrite = rewrite_of(before)
    bindings = name_to_binding(before)

    rewrite.remove_unused(bindings["unused"][0].var)

    assert list(name_to_binding(rewrite.mutated_root_fn())) == ["lv0"]
    with pytest.raises(PassError, match="`lv0` is used"):
        rewrite.remove_unused(bindings["lv0"][0].var)


def test_a_used_variable_is_removed_only_on_request() -> None:
    function = Identity["main"]
    rewrite = rewrite_of(function)

    with pytest.raises(PassError, match=r"`other`.*bound in the block"):
        rewrite.remove_unused(relax.Var("other"))
    rewrite.remove_unused(relax.Var("other"), allow_undef=True)

    assert rewrite.mutated_root_fn() is function


def test_an_empty_block_is_removed() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv0 = x
            R.output(lv0)
        return x

    one = rewrite_of(before)
    one.remove_unused(before.body.blocks[0].bindings[0].var)
    every = rewrite_of(before)
    every.remove_all_unused()

    for rewrite in (one, every):
        assert rewrite.mutated_root_fn().body.blocks == ()
        assert rewrite.mutated_dfb().bindings == ()


def test_all_dead_bindings_are_removed() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            lv0 = R.add(x, x)
            first = R.multiply(x, x)
            second = R.multiply(first, x)
            R.output(lv0)
        return lv0

    rewrite = rewrite_of(before)

    rewrite.remove_all_unused()

    assert [b.var.name_hint for b in rewrite.mutated_dfb().bindings] == ["lv0"]


def test_uses_of_a_variable_are_replaced() -> None:
    @R.function(private=True)
    def before(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.add(x, x)
            b = R.multiply(x, x)
            c = R.subtract(a, x)
            d = R.divide(c, a)
            R.output(d)
        return d

    @R.function(private=True)
    def expected(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            b = R.multiply(x, x)
            c = R.subtract(b, x)
            d = R.divide(c, b)
            R.output(d)
        return d

    bindings = name_to_binding(before)
    rewrite = rewrite_of(before)

    rewrite.replace_all_uses(bindings["a"][0].var, bindings["b"][0].var)
    rewrite.remove_unused(bindings["a"][0].var)

    assert_structural_equal(rewrite.mutated_root_fn(), expected)


def test_a_module_gets_the_new_function() -> None:
    function = Identity["main"]
    rewrite = rewrite_of(function)
    rewrite.add(function.params[0], is_dfvar=True)

    after = rewrite.mutate_irmodule(Identity)

    assert len(after["main"].body.blocks[0].bindings) == 2
    assert len(Identity["main"].body.blocks[0].bindings) == 1


def test_the_block_must_be_in_the_function() -> None:
    with pytest.raises(ValueError, match="is not in the function"):
        DataflowBlockRewrite(relax.DataflowBlock([]), Identity["main"])
