"""Mixed precision matmuls, on scripts."""

# pyright: reportInvalidTypeForm=false
# ruff: noqa: N805

from typing import Any

import numpy as np
import pytest

from relax_mlir.compiler import driver
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.objects.expr import Expr, Var, const
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.transform import ToMixedPrecision
from relax_mlir.tvm.script import ir as I  # noqa: N812  Relax's name
from relax_mlir.tvm.script import relax as R  # noqa: N812
from tests.tvm.relax.transform.graphs import op, program, tensor


@I.ir_module
class Chain:
    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"),
        w: R.Tensor((3, 5), "float32"),
        v: R.Tensor((5, 5), "float32"),
    ):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.matmul(b, v)
            R.output(c)
        return c


def _dtypes(module: IRModule) -> dict[str, str]:
    """The element type of every variable of `main`."""
    bindings = [b for block in module["main"].body.blocks for b in block.bindings]
    return {b.var.name_hint: b.var.struct_info.dtype for b in bindings}


def test_matmuls_accumulate_in_single_precision_and_return_half() -> None:
    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            w: R.Tensor((3, 5), "float32"),
            v: R.Tensor((5, 5), "float32"),
        ):
            with R.dataflow():
                x1 = R.astype(x, "float16")
                w1 = R.astype(w, "float16")
                v1 = R.astype(v, "float16")
                a1 = R.matmul(x1, w1, out_dtype="float32")
                a = R.astype(a1, "float16")
                b = R.nn.relu(a)
                c = R.matmul(b, v1, out_dtype="float32")
                R.output(c)
            return c

    assert_structural_equal(ToMixedPrecision()(Chain), Expected)


@pytest.mark.slow  # two compilations
def test_matmuls_can_accumulate_in_half_precision() -> None:
    changed = ToMixedPrecision(out_dtype="float16")(Chain)

    assert _dtypes(changed) == {
        **dict.fromkeys(["lv", "lv1", "lv2", "a", "b", "lv3"], "float16"),
        "c": "float32",
    }
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s).astype(np.float32) for s in ((2, 3), (3, 5), (5, 5))]
    (expected,) = driver.run(Chain, *arrays)
    (actual,) = driver.run(changed, *arrays)
    np.testing.assert_allclose(actual, expected, rtol=2e-2, atol=2e-2)  # f16 sums


def test_named_parameters_become_half_precision() -> None:
    changed = ToMixedPrecision("float16", fp16_input_names=["w", "v"])(Chain)

    infos = [param.struct_info.dtype for param in changed["main"].params]
    assert infos == ["float32", "float16", "float16"]
    assert len(changed["main"].body.blocks[0].bindings) == 5


def test_only_tensors_can_be_half_precision() -> None:
    pair = Var("p", relax.TupleStructInfo([tensor(2), tensor(2)]))
    module = program([pair], relax.TupleGetItem(pair, 0))
    with pytest.raises(ValueError, match="parameter `p`: expected a tensor"):
        ToMixedPrecision(fp16_input_names=["p"])(module)


@pytest.mark.parametrize(
    ("number", "dtype"), [(2.5, "float16"), (65504.0, "float16"), (65505.0, "float32")]
)
def test_constants_follow_if_they_fit(number: float, dtype: str) -> None:
    x, w = Var("x", tensor(2, 2)), Var("w", tensor(2, 2))
    product = op("matmul", x, w, out_dtype=None)
    scaled = op("multiply", product, const(np.float32(number)))
    changed = ToMixedPrecision("float16")(program([x, w], op("nn.relu", scaled)))

    # The last one is the output, in its old type.
    types = list(_dtypes(changed).values())
    assert types[-2] == dtype or types[-3] == dtype
    calls: list[Any] = [b.value for b in changed["main"].body.blocks[0].bindings]
    made = next(c for c in calls if c.op.name == "relax.multiply")
    assert made.struct_info.dtype == dtype


@pytest.mark.parametrize("name", ["nn.softmax", "sum"])
def test_sensitive_operators_stay_in_single_precision(name: str) -> None:
    x, w = Var("x", tensor(2, 2)), Var("w", tensor(2, 2))
    product = op("matmul", x, w, out_dtype=None)
    attrs = {"axis": -1} if name == "nn.softmax" else {"axis": None, "keepdims": False}
    changed = ToMixedPrecision("float16")(program([x, w], op(name, product, **attrs)))

    last: Any = changed["main"].body.blocks[0].bindings[-1].value
    assert last.op.name == f"relax.{name}"
    assert last.args[0].struct_info.dtype == "float32"


def test_tuple_elements_keep_half_precision() -> None:
    x, w = Var("x", tensor(2, 2)), Var("w", tensor(2, 2))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            a = builder.emit(op("matmul", x, w, out_dtype=None))
            pair = builder.emit(relax.Tuple([a, a]))
            first = builder.emit(relax.TupleGetItem(pair, 0))
            out = builder.emit_output(op("matmul", first, w, out_dtype=None))
        builder.emit_func_output(out)

    changed = ToMixedPrecision()(builder.get())

    bindings = changed["main"].body.blocks[0].bindings
    item: Any = next(
        b.value for b in bindings if isinstance(b.value, relax.TupleGetItem)
    )
    assert item.struct_info.dtype == "float16"


def test_wrapped_parameters_are_unwrapped() -> None:
    x, w = Var("x", tensor(2, 2)), Var("w", tensor(2, 2, dtype="float16"))
    wrapped: Expr = relax.op.wrap_param(w, "float32")
    changed = ToMixedPrecision()(
        program([x, w], op("matmul", x, wrapped, out_dtype=None))
    )
    calls: list[Any] = [b.value for b in changed["main"].body.blocks[0].bindings]
    names = [str(getattr(c.op, "name", "")) for c in calls if isinstance(c, relax.Call)]
    assert names == ["relax.astype", "relax.matmul"]
