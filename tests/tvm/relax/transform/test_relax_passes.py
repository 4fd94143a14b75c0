"""Relax's passes by name, on graphs from a builder."""

import numpy as np
import pytest

from relax_mlir.compiler import driver, reference
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.expr import Call, Constant, Expr, TupleGetItem, Var, const
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.pipeline import Sequential
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.tvm.relax import transform
from tests.tvm.relax.transform.graphs import op, program, tensor


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _names(module: IRModule) -> set[str]:
    return {var.name_hint for var in module.get_global_vars()}


def test_bound_parameters_are_constants_and_define_sizes() -> None:
    n = prim.Var("n", "int64")
    x, w = Var("x", tensor(n, 2)), Var("w", tensor(2, n))
    module = program([x, w], op("matmul", x, w, out_dtype=None))

    bound = transform.BindParams("main", {"w": _random(2, 5)})(module)

    assert [p.name_hint for p in bound["main"].params] == ["x"]
    assert bound["main"].ret_struct_info == tensor(5, 5)
    assert isinstance(bound["main"].body.blocks[0].bindings[0].value.args[1], Constant)


def test_a_parameter_that_is_not_there_cannot_be_bound() -> None:
    x = Var("x", tensor(2))
    with pytest.raises(PassError, match="expected one of the parameters `x`, got `y`"):
        transform.BindParams("main", {"y": _random(2)})(program([x], op("exp", x)))


@pytest.mark.parametrize(
    "array", [_random(3), _random(2).astype(np.float16), _random(2, 1)]
)
def test_a_parameter_accepts_matching_arrays(array: np.ndarray) -> None:
    x = Var("x", tensor(2))
    with pytest.raises(PassError, match="parameter `x`: expected"):
        transform.BindParams("main", {"x": array})(program([x], op("exp", x)))


def test_symbols_get_sizes_by_name_or_as_variables() -> None:
    n, m = prim.Var("n", "int64"), prim.Var("m", "int64")
    x = Var("x", tensor(n, m))
    module = program([x], op("exp", x))

    fixed = transform.BindSymbolicVars({"n": 4, "m": 5})(module)

    assert fixed["main"].ret_struct_info == tensor(4, 5)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"k": 3}, "no function has the symbol `k`"),
        ({"n": prim.Var("k", "int64") * 2}, "undefined symbol `k`"),
        ({"n": 2, prim.Var("n", "int64"): 2}, "expected one size, got two"),
    ],
)
def test_sizes_must_be_of_symbols_and_known(
    sizes: dict[object, object], message: str
) -> None:
    x = Var("x", tensor(prim.Var("n", "int64")))
    with pytest.raises(PassError, match=message):
        transform.BindSymbolicVars(sizes)(program([x], op("exp", x)))


def test_legalization_and_fusion_keep_values() -> None:
    x, w, b = Var("x", tensor(7, 5)), Var("w", tensor(5, 3)), Var("b", tensor(3))
    summed = op("add", op("matmul", x, w, out_dtype=None), b)
    module = program([x, w, b], op("nn.relu", op("add", summed, const(1.0))))
    lower = Sequential(
        [
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FuseOps(),
            transform.FuseTIR(),
        ]
    )

    fused = lower(module)

    assert _names(fused) == {"main", "fused_matmul_add_add1_relu"}
    assert dict(fused["fused_matmul_add_add1_relu"].attrs) == {"tir.noalias": True}
    arrays = [_random(7, 5), _random(5, 3), _random(3)]
    (expected,) = driver.run(module, *arrays)
    (actual,) = driver.run(fused, *arrays)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_nothing_is_fused_at_level_0() -> None:
    x = Var("x", tensor(2))
    module = program([x], op("tanh", op("exp", x)))
    legal = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(module))

    with PassContext(opt_level=0):
        assert len(transform.FuseOps()(legal).functions) == 3
    with PassContext(config={"relax.FuseOps.max_depth": 1}):
        assert len(transform.FuseOps()(legal).functions) == 3
    assert "fused_tir_exp_tir_tanh" in transform.FuseOps()(legal)


def test_functions_of_the_user_legalize() -> None:
    def swapped(builder: BlockBuilder, call: Call) -> Expr:
        return op("subtract", call.args[1], call.args[0])

    x, y = Var("x", tensor(2)), Var("y", tensor(2))
    module = program([x, y], op("exp", op("add", x, y)))

    legal = transform.LegalizeOps({"relax.add": swapped}, skip_ops=["relax.exp"])(
        module
    )

    assert _names(legal) == {"main", "subtract"}


def test_programs_on_constants_are_folded() -> None:
    c = _random(2, 3)
    x = Var("x", tensor(2, 3))
    module = program([x], op("add", x, op("exp", const(c))))

    folded = transform.FoldConstant()(transform.LegalizeOps()(module))

    (binding,) = folded["main"].body.blocks[0].bindings
    np.testing.assert_allclose(
        binding.value.args[1].fields[1].array, np.exp(c), rtol=1e-5
    )


def test_a_normalization_folds_into_the_weights() -> None:
    x = Var("x", tensor(1, 3, 6, 6))
    conv = {
        "strides": (1, 1),
        "padding": (1, 1, 1, 1),
        "dilation": (1, 1),
        "groups": 1,
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
        "out_layout": "NCHW",
        "out_dtype": None,
    }
    numbers = [const(np.abs(_random(4))) for _ in range(4)]
    norm = op(
        *("nn.batch_norm", op("nn.conv2d", x, const(_random(4, 3, 3, 3)), **conv)),
        *numbers,
        axis=1,
        epsilon=1e-5,
        center=True,
        scale=True,
        momentum=0.1,
        training=False,
    )
    module = program([x], TupleGetItem(norm, 0))

    folded = transform.FoldConstant()(transform.FoldBatchnormToConv2D()(module))
    plain = transform.DecomposeOpsForInference()(module)

    image = _random(1, 3, 6, 6)
    (expected,) = reference.run(module, image)
    for changed in (folded, plain):
        (actual,) = reference.run(changed, image)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    assert len(folded["main"].body.blocks[0].bindings) == 2


def test_weights_come_as_a_tuple() -> None:
    x, w, v = (Var(name, tensor(2)) for name in "xwv")
    module = program([x, w, v], op("add", op("add", x, w), v), num_input=1)

    bundled = transform.BundleModelParams("weights")(module)

    assert [p.name_hint for p in bundled["main"].params] == ["x", "weights"]


def test_functions_of_weights_are_lifted() -> None:
    x, w = Var("x", tensor(2)), Var("w", tensor(2))
    module = program([x, w], op("add", x, op("exp", w)), num_input=1)

    lifted = transform.LiftTransformParams()(module)

    assert _names(lifted) == {"main", "main_transform_params"}
    assert lifted["main_transform_params"].attrs["num_input"] == 0
    assert len(lifted["main"].body.blocks[0].bindings) == 1


def test_the_type_of_a_parameter_changes_its_users() -> None:
    x = Var("x", tensor(2, 3))
    module = program([x], op("exp", x))

    changed = transform.UpdateParamType(lambda var: tensor(7, 3))(module)

    assert changed["main"].ret_struct_info == tensor(7, 3)


def test_parallel_matmuls_are_combined_if_the_check_allows() -> None:
    x, w, v = Var("x", tensor(2, 5)), Var("w", tensor(5, 3)), Var("v", tensor(5, 4))
    products = [op("matmul", x, m, out_dtype=None) for m in (w, v)]
    module = program([x, w, v], *products)

    same = transform.CombineParallelMatmul(lambda *_: False)(module)
    combined = transform.CombineParallelMatmul()(module)

    assert_structural_equal(same, module)
    arrays = [_random(2, 5), _random(5, 3), _random(5, 4)]
    pairs = zip(
        reference.run(combined, *arrays), reference.run(module, *arrays), strict=True
    )
    for actual, expected in pairs:
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_inlined_functions_keep_their_values() -> None:
    n = prim.Var("n", "int64")
    x, y = Var("x", TensorStructInfo((n,), "float32")), Var("y", tensor(4))
    builder = BlockBuilder()
    with builder.function("double", [x], private=True):
        builder.emit_func_output(builder.emit(op("add", x, x)))
    with builder.function("main", [y]):
        called = Call(builder.get().get_global_var("double"), [y])
        builder.emit_func_output(builder.emit(called))
    module = builder.get()

    inlined = transform.InlinePrivateFunctions()(module)

    assert _names(inlined) == {"main"}
    (actual,) = driver.run(inlined, _random(4))
    np.testing.assert_allclose(actual, 2 * _random(4))


def test_aliases_of_equal_values_can_be_removed() -> None:
    x = Var("x", tensor(2))
    module = program([x], op("multiply", op("exp", x), op("exp", x)))

    merged = transform.EliminateCommonSubexpr()(module)
    clean = transform.DeadCodeElimination()(transform.CanonicalizeBindings()(merged))

    assert len(merged["main"].body.blocks[0].bindings) == 3
    assert len(clean["main"].body.blocks[0].bindings) == 2


def test_bindings_leave_dataflow_blocks_and_come_back() -> None:
    x = Var("x", tensor(2))
    module = program([x], op("tanh", op("exp", x)))

    plain = transform.ToNonDataflow()(module)

    assert type(plain["main"].body.blocks[0]).__name__ == "BindingBlock"
    assert_structural_equal(transform.ConvertToDataflow()(plain), module)
