"""Tensor programs of legalized operators, in script syntax."""

import numpy as np
import pytest

from relax_mlir import compile
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.expr import Call, Constant, Expr, Tuple, Var, const
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.tvm import script
from relax_mlir.tvm.relax import transform
from tests.tvm.relax.transform.graphs import op, program, tensor


def _names(module: IRModule) -> list[str]:
    return sorted(var.name_hint for var in module.get_global_vars())


def _bindings(module: IRModule) -> list[Expr]:
    blocks = module["main"].body.blocks
    return [binding.value for block in blocks for binding in block.bindings]


def test_a_scalar_is_inlined_into_the_program() -> None:
    x = Var("x", tensor(2, 3))

    legal = transform.LegalizeOps()(program([x], op("subtract", const(2.0), x)))

    expected = script.from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def subtract(x: T.Buffer((T.int64(2), T.int64(3)), "float32"),
                 out: T.Buffer((T.int64(2), T.int64(3)), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(T.int64(2), T.int64(3)):
            with T.block("T_subtract"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = T.float32(2) - x[vi, vj]

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        cls = Module
        with R.dataflow():
            gv = R.call_tir(cls.subtract, (x,), out_sinfo=R.Tensor((2, 3), "float32"))
            R.output(gv)
        return gv
""")
    assert_structural_equal(legal, expected)


def test_a_mean_is_a_reduction_and_a_division() -> None:
    x = Var("x", tensor(2, prim.Var("n", "int64")))
    mean = op("mean", x, axis=[1], keepdims=False)

    legal = transform.LegalizeOps()(program([x], mean))

    expected = script.from_source("""
@T.prim_func(private=True)
def mean(x_handle: T.handle, out: T.Buffer((T.int64(2),), "float32")):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    x = T.match_buffer(x_handle, (T.int64(2), n))
    x_red = T.alloc_buffer((T.int64(2),))
    for i, k in T.grid(T.int64(2), n):
        with T.block("x_red"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                x_red[vi] = T.float32(0)
            x_red[vi] = x_red[vi] + x[vi, vk]
    for i in range(T.int64(2)):
        with T.block("T_divide"):
            vi = T.axis.spatial(T.int64(2), i)
            out[vi] = x_red[vi] / T.Cast("float32", n)
""")
    assert_structural_equal(legal["mean"], expected)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (op("exp", Var("x", tensor(2, 3))), "tir_exp"),
        (op("permute_dims", Var("x", tensor(2, 3)), axes=None), "transpose"),
        (op("astype", Var("x", tensor(2, 3)), dtype="int32"), "cast"),
        (op("squeeze", Var("x", tensor(1, 3)), axis=None), "squeeze"),
        (op("ones_like", Var("x", tensor(2, 3)), dtype=None), "ones"),
        (op("nn.leakyrelu", Var("x", tensor(2)), alpha=0.1), "leaky_relu"),
        (op("flatten", Var("x", tensor(2, 3))), "reshape"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_programs_are_named_after_their_operators(value: Call, name: str) -> None:
    (x,) = value.args

    legal = transform.LegalizeOps()(program([x], value))  # pyright: ignore[reportArgumentType]

    assert set(_names(legal)) == {"main", name}
    (call,) = _bindings(legal)
    assert isinstance(call, Call)
    assert call.op.name == "relax.call_tir"  # pyright: ignore[reportAttributeAccessIssue]


def test_equal_programs_are_shared_and_others_are_numbered() -> None:
    x, y = Var("x", tensor(2, 3)), Var("y", tensor(3))
    twice = op("add", op("add", op("add", x, x), x), y)

    legal = transform.LegalizeOps()(program([x, y], twice))

    assert _names(legal) == ["add", "add1", "main"]


def test_a_size_that_no_tensor_determines_is_passed() -> None:
    n = prim.Var("n", "int64")
    x = Var("x", tensor(n))
    made = op("arange", 0, n * 2, 1, dtype="int64")

    legal = transform.LegalizeOps()(program([x], made))

    (call,) = _bindings(legal)
    assert isinstance(call, Call)
    (sizes,) = call.args[2:]
    assert repr(sizes) == "R.shape([n])"


def test_known_numbers_in_a_row_are_a_constant() -> None:
    made = op("arange", 1, 8, 3, dtype="int64")

    legal = transform.LegalizeOps()(program([Var("x", tensor(2))], made))

    (row,) = _bindings(legal)
    assert isinstance(row, Constant)
    assert row.array.tolist() == [1, 4, 7]
    assert _names(legal) == ["main"]


def test_a_tuple_parameter_is_flattened() -> None:
    pair = Tuple([Var("a", tensor(2, 1)), Var("b", tensor(2, 3))])
    x = Var("x", pair.struct_info)

    legal = transform.LegalizeOps()(program([x], op("concat", x, axis=1)))

    first, second, call = _bindings(legal)
    assert repr(first) == "x[0]"
    assert repr(second) == "x[1]"
    assert isinstance(call, Call)
    assert legal["main"].ret_struct_info == tensor(2, 4)


def test_results_of_rules_are_legalized() -> None:
    def doubled(builder: BlockBuilder, call: Call) -> Expr:
        half = builder.emit(op("exp", call.args[0]))
        return op("add", half, half)

    x = Var("x", tensor(2))
    module = program([x], op("nn.relu", x))

    legal = transform.LegalizeOps({"relax.nn.relu": doubled})(module)

    assert _names(legal) == ["add", "main", "tir_exp"]


def test_an_operator_without_topi_has_the_program_of_the_compiler() -> None:
    x = Var("x", tensor(2))

    legal = transform.LegalizeOps()(program([x], op("reciprocal", x)))

    assert _names(legal) == ["main", "tir_reciprocal"]


def test_operators_of_unknown_shape_stay() -> None:
    x = Var("x", TensorStructInfo(dtype="float32", ndim=2))

    legal = transform.LegalizeOps()(program([x], op("exp", x)))

    assert _names(legal) == ["main"]


def test_a_matmul_reads_broadcast_batches_at_0() -> None:
    x, y = Var("x", tensor(2, 1, 4, 5)), Var("y", tensor(3, 5, 7))
    module = program([x, y], op("matmul", x, y, out_dtype=None))

    legal = transform.LegalizeOps()(module)

    assert "x[v_i0, 0, v_i2, v_k] * y[v_i1, v_k, v_i3]" in legal.script()


def test_attention_needs_a_known_mask() -> None:
    q = Var("q", tensor(1, 2, 1, 4))
    attended = op(
        *("nn.attention", q, q, q),
        scale=None,
        causal_mask="Left",
        window_size=None,
    ).with_struct_info(tensor(1, 2, 1, 4))

    with pytest.raises(PassError, match=r"`main`.*expected `TopLeft` or `BottomRight`"):
        transform.LegalizeOps()(program([q], attended))


def test_a_result_of_two_tensors_stays_a_tuple() -> None:
    x = Var("x", tensor(5, 2))
    parts = op("split", x, indices_or_sections=(2,), axis=0)

    legal = transform.LegalizeOps()(program([x], parts))

    assert (
        legal["main"].ret_struct_info
        == Tuple([Var("a", tensor(2, 2)), Var("b", tensor(3, 2))]).struct_info
    )
    assert len(legal["split"].params) == 3


def test_the_last_split_may_be_smaller() -> None:
    x = Var("x", tensor(5))
    parts = op("split", x, indices_or_sections=2, axis=0)

    legal = transform.LegalizeOps()(program([x], parts))

    pair = Tuple([Var("a", tensor(3)), Var("b", tensor(2))])
    assert legal["main"].ret_struct_info == pair.struct_info


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 5, 12])
def test_splits_of_a_symbolic_size_end_with_it(count: int) -> None:
    x = Var("x", TensorStructInfo((prim.Var("n", "int64"),), "float32"))
    split = program([x], op("split", x, indices_or_sections=(4, 9), axis=0))
    array = np.arange(count, dtype=np.float32)

    pieces = compile(transform.LegalizeOps()(split), cache=False)(array)

    for actual, expected in zip(pieces, np.split(array, (4, 9)), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_a_program_gets_the_size_of_a_split() -> None:
    module = IRModule.parse("""
func.func @main(%x: tensor<2x?xf32, #relax.shape<["2", "min(n, 1)"]>>,
                %y: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<2xf32> {
  %0 = "relax.squeeze"(%x) {axis = array<i64: 0, 1>}
    : (tensor<2x?xf32, #relax.shape<["2", "min(n, 1)"]>>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}""")

    legal = transform.LegalizeOps()(module)

    array, whole = np.array([[3], [4]], np.float32), np.zeros(7, np.float32)
    (actual,) = compile(legal, cache=False)(array, whole)
    assert actual.tolist() == [3, 4]


def test_constants_that_are_no_scalars_stay_arguments() -> None:
    x = Var("x", tensor(2))
    row = const(np.array([1.0, 2.0], np.float32))

    legal = transform.LegalizeOps()(program([x], op("add", row, x)))

    (call,) = _bindings(legal)
    assert isinstance(call, Call)
    assert isinstance(call.args[1].fields[0], Constant)  # pyright: ignore[reportAttributeAccessIssue]


def test_scattering_is_loops_in_one_block() -> None:
    x, places, new = (Var(n, tensor(5, 3)) for n in "xiu")
    places = Var("i", tensor(2, 3, dtype="int64"))
    new = Var("u", tensor(2, 3))
    call = op("scatter_elements", x, places, new, axis=0, reduction="add")

    text = transform.LegalizeOps()(program([x, places, new], call))[
        "scatter_elements"
    ].script()

    assert 'T.attr(0, "pragma_scope", "seq")' in text
    assert "for fused in T.parallel(T.int64(3)):" in text


def test_elements_of_a_packed_tuple_are_arguments() -> None:
    x, places = Var("x", tensor(5, 3)), Var("i", tensor(2, dtype="int64"))
    call = op("index_tensor", x, Tuple([places, places]))

    legal = transform.LegalizeOps()(program([x, places], call))

    assert "R.call_tir(cls.index_tensor, (x, i, i)" in legal.script()
