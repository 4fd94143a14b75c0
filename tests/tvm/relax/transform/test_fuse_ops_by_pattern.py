"""Pattern matches outlined into functions, and merged per external compiler."""

import numpy as np
import pytest

from relax_mlir import IRModule
from relax_mlir.errors import PassError
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.dpl import (
    is_op,
    is_tuple_get_item,
    make_fused_bias_activation_pattern,
    wildcard,
)
from relax_mlir.tvm.relax.transform import (
    FuseOpsByPattern,
    MergeCompositeFunctions,
    PatternCheckContext,
)
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import relax as R  # noqa: N812

# ruff: noqa: N805  scripts are not plain Python
# pyright: reportInvalidTypeForm=false, reportUnusedVariable=false
# pyright: reportUndefinedVariable=false, reportUnusedExpression=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportIndexIssue=false

MATMUL = make_fused_bias_activation_pattern("relax.matmul")
MATMUL_RELU = make_fused_bias_activation_pattern(
    "relax.matmul", activation="relax.nn.relu"
)


@I.ir_module
class Two:
    @R.function
    def main(
        x: R.Tensor((4, 4), "float32"),
        v: R.Tensor((4, 4), "float32"),
        w: R.Tensor((4, 8), "float32"),
    ):
        with R.dataflow():
            a = R.nn.relu(R.matmul(x, v))
            b = R.nn.relu(R.matmul(a, w))
            R.output(b)
        return b


@I.ir_module
class TwoFused:
    @R.function
    def main(
        x: R.Tensor((4, 4), "float32"),
        v: R.Tensor((4, 4), "float32"),
        w: R.Tensor((4, 8), "float32"),
    ):
        cls = TwoFused
        with R.dataflow():
            lv = cls.fused_relax_matmul_relax_nn_relu(x, v)
            gv = cls.fused_relax_matmul_relax_nn_relu1(lv, w)
            R.output(gv)
        return gv

    @R.function(private=True)
    def fused_relax_matmul_relax_nn_relu(
        x: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")
    ) -> R.Tensor((4, 4), "float32"):
        R.func_attr({"Primitive": 1, "Composite": "dnnl.matmul_relu"})
        with R.dataflow():
            lv = R.matmul(x, v)
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv

    @R.function(private=True)
    def fused_relax_matmul_relax_nn_relu1(
        a: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 8), "float32")
    ) -> R.Tensor((4, 8), "float32"):
        R.func_attr({"Primitive": 1, "Composite": "dnnl.matmul_relu"})
        with R.dataflow():
            lv = R.matmul(a, w)
            gv = R.nn.relu(lv)
            R.output(gv)
        return gv


def names(module: IRModule) -> set[str]:
    return {var.name_hint for var in module.get_global_vars()}


def callees(module: IRModule) -> list[str]:
    values = [b.value for b in module["main"].body.blocks[0].bindings]
    return [
        v.op.name_hint if isinstance(v.op, relax.GlobalVar) else v.op.name
        for v in values
    ]


def test_each_match_becomes_a_function() -> None:
    fused = FuseOpsByPattern([("dnnl.matmul_relu", MATMUL_RELU)])(Two)

    assert_structural_equal(fused, TwoFused)


def test_the_first_pattern_is_tried_first() -> None:
    both = [("dnnl.matmul", MATMUL), ("dnnl.matmul_relu", MATMUL_RELU)]

    first = FuseOpsByPattern(both)(Two)
    second = FuseOpsByPattern(both[::-1])(Two)

    assert callees(first) == [
        *("fused_relax_matmul", "relax.nn.relu"),
        *("fused_relax_matmul1", "relax.nn.relu"),
    ]
    assert_structural_equal(second, TwoFused)


def test_without_patterns_nothing_changes() -> None:
    assert_structural_equal(FuseOpsByPattern([])(Two), Two)
    with pytest.raises(ValueError, match="FusionPattern"):
        FuseOpsByPattern(["dnnl.matmul"])


def test_values_used_outside_are_outputs() -> None:
    @I.ir_module
    class Branch:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.relu(a)
                c = R.nn.gelu(b)
                d = R.nn.gelu(a)
                e = R.add(c, d)
                R.output(e)
            return e

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            cls = Expected
            with R.dataflow():
                lv = cls.fused_relax_matmul_relax_nn_relu(x, w)
                a = lv[1]
                b = lv[0]
                c = R.nn.gelu(b)
                d = R.nn.gelu(a)
                e = R.add(c, d)
                R.output(e)
            return e

        @R.function(private=True)
        def fused_relax_matmul_relax_nn_relu(
            x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")
        ) -> R.Tuple(R.Tensor((4, 4), "float32"), R.Tensor((4, 4), "float32")):
            R.func_attr({"Primitive": 1, "Composite": "dnnl.matmul_relu"})
            with R.dataflow():
                gv = R.matmul(x, w)
                gv1 = R.nn.relu(gv)
                R.output(gv, gv1)
            return (gv1, gv)

    fused = FuseOpsByPattern([("dnnl.matmul_relu", MATMUL_RELU)])(Branch)

    assert_structural_equal(fused, Expected)


def test_members_of_a_match_are_made_adjacent() -> None:
    one = np.ones((4, 4), "float32")

    @I.ir_module
    class Apart:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                before = R.add(x, R.const(one))
                a = R.matmul(before, w)
                g = R.nn.gelu(x)
                both = R.concat((a, g))
                b = R.nn.relu(a)
                R.output(both, b)
            return (both, b)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            cls = Expected
            with R.dataflow():
                before = R.add(x, R.const(one))
                lv = cls.fused_relax_matmul_relax_nn_relu(before, w)
                a = lv[1]
                b = lv[0]
                g = R.nn.gelu(x)
                both = R.concat((a, g))
                R.output(lv, both, b)
            return (both, b)

        @R.function(private=True)
        def fused_relax_matmul_relax_nn_relu(
            before: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")
        ) -> R.Tuple(R.Tensor((4, 4), "float32"), R.Tensor((4, 4), "float32")):
            R.func_attr({"Primitive": 1, "Composite": "dnnl.matmul_relu"})
            with R.dataflow():
                gv = R.matmul(before, w)
                gv1 = R.nn.relu(gv)
                R.output(gv, gv1)
            return (gv1, gv)

    fuse = FuseOpsByPattern([("dnnl.matmul_relu", MATMUL_RELU)])
    fused = fuse(Apart)

    assert_structural_equal(fused, Expected)
    assert_structural_equal(fuse(fused), Expected)


def test_a_match_that_nothing_reads_goes() -> None:
    @I.ir_module
    class Unread:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                _a = R.nn.relu(R.matmul(x, w))
                b = R.nn.gelu(x)
                R.output(b)
            return b

    fused = FuseOpsByPattern([("dnnl.matmul_relu", MATMUL_RELU)])(Unread)

    assert names(fused) == {"main"}
    assert callees(fused) == ["relax.nn.gelu"]


def test_equal_matches_of_two_passes_share_a_function() -> None:
    @I.ir_module
    class Both:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                R.output(a)
            return a

        @R.function
        def other(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                R.output(a)
            return a

    fused = Both
    for name in ("main", "other"):
        fuse = FuseOpsByPattern([("b.matmul", MATMUL)], entry_functions=[name])
        fused = fuse(fused)

    assert names(fused) == {"main", "other", "fused_relax_matmul"}


def test_cyclic_groups_are_an_error() -> None:
    @I.ir_module
    class Circle:
        @R.function
        def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                b = R.nn.relu(a)
                c = R.nn.gelu(a)
                d = R.add(b, c)
                R.output(d)
            return d

    pattern = is_op("relax.add")(MATMUL_RELU, wildcard())

    with pytest.raises(PassError, match="A cyclic dependency detected"):
        FuseOpsByPattern([("a.b", pattern)])(Circle)


@pytest.mark.parametrize("bind_constants", [True, False])
def test_constants_stay_inside_or_become_parameters(bind_constants: bool) -> None:
    weight = np.arange(64, dtype="float32").reshape(8, 8)

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 8), "float32")):
            with R.dataflow():
                a = R.matmul(x, R.const(weight))
                R.output(a)
            return a

    fused = FuseOpsByPattern([("b.matmul", MATMUL)], bind_constants=bind_constants)(
        Module
    )
    inner = fused["fused_relax_matmul"]

    inside = inner.body.blocks[0].bindings[0].value.args[1]
    outside = fused["main"].body.blocks[0].bindings[0].value.args
    assert isinstance(inside, relax.Constant) == bind_constants
    kept = inside if bind_constants else outside[1]
    assert np.array_equal(kept.data.numpy(), weight)
    assert len(inner.params) == len(outside) == (1 if bind_constants else 2)


def test_a_function_is_annotated_with_its_compiler() -> None:
    @I.ir_module
    class One:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.matmul(x, w)
                R.output(a)
            return a

    annotate = FuseOpsByPattern([("dnnl.matmul", MATMUL)], annotate_codegen=True)
    fused = annotate(One)
    outer = fused["fused_relax_matmul_dnnl"]
    local, call = outer.body.blocks[0].bindings

    assert names(fused) == {"main", "fused_relax_matmul_dnnl"}
    assert dict(outer.attrs) == {
        "Codegen": "dnnl",
        "global_symbol": "fused_relax_matmul_dnnl",
    }
    assert dict(local.value.attrs) == {"Composite": "dnnl.matmul"}
    assert call.value.op is local.var
    assert_structural_equal(annotate(fused), fused)


def test_a_check_refuses_matches() -> None:
    lhs, rhs = wildcard(), wildcard()
    root = is_op("relax.matmul")(lhs, rhs)
    seen: list[tuple[str, str]] = []

    def check(context: PatternCheckContext) -> bool:
        parts = context.annotated_expr
        seen.append((parts["lhs"].name_hint, parts["rhs"].name_hint))
        assert parts["root"] is context.matched_expr
        (bound,) = context.matched_bindings
        assert context.value_to_bound_var[context.matched_expr] is bound
        return parts["rhs"].name_hint == "w"

    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 4)), v: R.Tensor((4, 4)), w: R.Tensor((4, 4))):
            with R.dataflow():
                a = R.matmul(x, v)
                b = R.matmul(x, w)
                c = R.add(a, b)
                R.output(c)
            return c

    annotations = {"root": root, "lhs": lhs, "rhs": rhs}
    fused = FuseOpsByPattern([("b.matmul", root, annotations, check)])(Module)

    assert seen == [("x", "v"), ("x", "w")]
    assert callees(fused) == ["relax.matmul", "fused_relax_matmul", "relax.add"]


def test_attributes_are_derived_from_the_match() -> None:
    rhs = wildcard()
    root = is_op("relax.matmul")(wildcard(), rhs)

    def attrs(parts: dict[str, relax.Expr]) -> dict[str, str]:
        return {"weight": parts["rhs"].name_hint}

    fused = FuseOpsByPattern([("b.matmul", root, {"rhs": rhs}, None, attrs)])(Two)

    assert fused["fused_relax_matmul"].attrs["weight"] == "v"
    assert fused["fused_relax_matmul1"].attrs["weight"] == "w"


def test_only_used_elements_of_a_tuple_are_passed() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.split(x, 2)
                b = a[0]
                c = R.nn.relu(b)
                d = R.exp(c)
                R.output(d)
            return d

    item = is_tuple_get_item(wildcard(), 0)
    pattern = is_op("relax.exp")(is_op("relax.nn.relu")(item))

    fused = FuseOpsByPattern([("b.exp", pattern)])(Module)

    (param,) = fused["fused_relax_nn_relu_relax_exp"].params
    assert param.name_hint == "a_0"
    assert param.struct_info == relax.TensorStructInfo((2, 4), "float32")


def test_a_longer_match_takes_over_a_shorter_one() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 4)), w: R.Tensor((4, 4)), b: R.Tensor((4,))):
            with R.dataflow():
                p = R.matmul(x, w)
                q = R.add(p, b)
                r = R.nn.relu(q)
                R.output(r)
            return r

    with_bias = is_op("relax.add")(
        is_op("relax.matmul")(wildcard(), wildcard()), wildcard()
    )
    pattern = with_bias | is_op("relax.nn.relu")(with_bias)

    fused = FuseOpsByPattern([("b.any", pattern)])(Module)

    assert "fused_relax_matmul_relax_add_relax_nn_relu" in names(fused)


def test_dataflow_in_branches_is_fused() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((4, 4)), w: R.Tensor((4, 4)), cond: R.Prim("bool")):
            if cond:
                with R.dataflow():
                    a = R.matmul(x, w)
                    R.output(a)
                out = a
            else:
                out = x
            return out

    fused = FuseOpsByPattern([("b.matmul", MATMUL)])(Module)

    assert names(fused) == {"main", "fused_relax_matmul"}


def test_a_variable_belongs_to_one_function() -> None:
    module = IRModule(Two.functions)
    module["copy"] = module["main"].with_attr("global_symbol", "copy")

    with pytest.raises(ValueError, match="expected a single definition"):
        FuseOpsByPattern([("b.matmul", MATMUL)])(module)


@I.ir_module
class Diamond:
    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        cls = Diamond
        with R.dataflow():
            a = cls.fused_relax_matmul(x, w)
            b = cls.fused_relax_nn_relu(a)
            c = cls.fused_relax_nn_gelu(a)
            d = cls.fused_relax_add(b, c)
            R.output(d)
        return d

    @R.function(private=True)
    def fused_relax_matmul(
        x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")
    ) -> R.Tensor((4, 4), "float32"):
        R.func_attr({"Primitive": 1, "Composite": "one.matmul"})
        with R.dataflow():
            gv = R.matmul(x, w)
            R.output(gv)
        return gv

    @R.function(private=True)
    def fused_relax_nn_relu(x: R.Tensor((4, 4), "float32")) -> R.Tensor(
        (4, 4), "float32"
    ):
        R.func_attr({"Primitive": 1, "Composite": "one.relu"})
        with R.dataflow():
            gv = R.nn.relu(x)
            R.output(gv)
        return gv

    @R.function(private=True)
    def fused_relax_nn_gelu(x: R.Tensor((4, 4), "float32")) -> R.Tensor(
        (4, 4), "float32"
    ):
        R.func_attr({"Primitive": 1, "Composite": "one.gelu"})
        with R.dataflow():
            gv = R.nn.gelu(x)
            R.output(gv)
        return gv

    @R.function(private=True)
    def fused_relax_add(
        x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")
    ) -> R.Tensor((4, 4), "float32"):
        R.func_attr({"Primitive": 1, "Composite": "one.add"})
        with R.dataflow():
            gv = R.add(x, y)
            R.output(gv)
        return gv


def test_composites_of_one_compiler_are_merged() -> None:
    merged = MergeCompositeFunctions()(Diamond)

    name = "fused_relax_matmul_relax_nn_relu_relax_nn_gelu_relax_add_one"
    assert names(merged) == {"main", name}
    function = merged[name]
    assert function.attrs["Codegen"] == "one"
    assert "Primitive" not in function.attrs
    local = [
        b.value.attrs["Composite"]
        for b in function.body.blocks[0].bindings
        if isinstance(b.value, relax.Function)
    ]
    assert local == ["one.matmul", "one.relu", "one.gelu", "one.add"]


def test_composites_of_another_compiler_split_a_function() -> None:
    other = Diamond["fused_relax_nn_gelu"].with_attr("Composite", "two.gelu")
    module = IRModule({**Diamond.functions, "fused_relax_nn_gelu": other})

    merged = MergeCompositeFunctions()(module)

    assert names(merged) == {
        "main",
        "fused_relax_matmul_relax_nn_relu_one",
        "fused_relax_nn_gelu1_two",
        "fused_relax_add1_one",
    }
    bindings = merged["main"].body.blocks[0].bindings
    kinds = [type(b.value).__name__ for b in bindings]
    assert kinds == ["Call", "TupleGetItem", "TupleGetItem", "Call", "Call"]


def test_a_composite_name_has_the_compiler_as_prefix() -> None:
    nameless = Diamond["fused_relax_add"].with_attr("Composite", "add")
    module = IRModule({**Diamond.functions, "fused_relax_add": nameless})

    with pytest.raises(ValueError, match="`add`: expected a name such as"):
        MergeCompositeFunctions()(module)
