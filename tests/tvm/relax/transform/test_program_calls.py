"""Passes that replace the tensor programs that a graph calls."""

from typing import Any

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Var
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm import relax, te, tir
from relax_mlir.tvm.relax import transform
from relax_mlir.tvm.relax.testing.transform import (
    dataflow_alias_analysis,
    dataflow_inplace_analysis,
)
from relax_mlir.tvm.script import from_source
from tests.tvm.relax.transform.graphs import op, program, tensor


def _sum(*shape: Any) -> PrimFunc:
    a, b = (te.placeholder(shape, name=name) for name in "ab")
    c = te.compute(shape, lambda *i: a[i] + b[i], name="c")
    return te.create_prim_func([a, b, c])


def _calling(function: PrimFunc, *shape: int, **attrs: Any) -> IRModule:
    """A module that calls a program on two tensors of a shape."""
    builder = relax.BlockBuilder()
    named = function.with_attrs({**attrs, "global_symbol": "add"})
    callee = builder.add_func(named, "add")
    x, y = (Var(name, tensor(*shape)) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            out = builder.emit_output(relax.call_tir(callee, [x, y], tensor(*shape)))
        builder.emit_func_output(out)
    return builder.get()


def _run(module: IRModule, *arrays: np.ndarray) -> np.ndarray:
    made = relax_mlir.compile(module)(*arrays)
    return np.asarray(made[0] if isinstance(made, (list, tuple)) else made)


def test_a_symbolic_program_is_compiled_for_the_sizes_of_its_call() -> None:
    n, m = (tir.Var(name, "int64") for name in "nm")
    module = _calling(_sum(n, m), 3, 5)
    x, y = (np.random.default_rng(s).random((3, 5), np.float32) for s in (0, 1))

    kernels = str(relax_mlir.lower(module, to="relax"))

    assert "memref<3x5xf32>" in kernels
    assert "?" not in kernels
    np.testing.assert_array_equal(_run(module, x, y), x + y)


def test_a_program_called_with_unknown_sizes_is_not_specialized() -> None:
    builder = relax.BlockBuilder()
    n = tir.Var("n", "int64")
    callee = builder.add_func(_sum(n), "add")
    x = Var("x", relax.TensorStructInfo(dtype="float32", ndim=1))
    with builder.function("main", [x]):
        builder.emit_func_output(relax.call_tir(callee, [x, x], tensor(4)))

    with pytest.raises(
        PassError, match="`add`, tensor 0: expected a tensor of a known"
    ):
        transform.SpecializePrimFuncBasedOnCallSite()(builder.get())


def test_another_program_works_on_transformed_layouts() -> None:
    module = _calling(_sum(12), 12, operator_name="my.add")
    layout = [lambda i: (i % 3, i // 3)] * 3
    x, y = np.arange(12, dtype=np.float32), np.ones(12, np.float32)

    altered = transform.AlterOpImpl({"my.add": _sum(3, 4)}, {"my.add": layout})(module)

    assert altered["my_add_replacement"].attrs["operator_name"] == "my.add"
    assert altered["main"].script().count("R.layout_transform") == 3
    np.testing.assert_array_equal(_run(altered, x, y), x + y)


def test_a_padded_layout_is_cropped() -> None:
    module = _calling(_sum(10), 10, operator_name="my.add")
    layouts = [lambda i: (i // 4, i % 4)] * 3
    x, y = np.arange(10, dtype=np.float32), np.ones(10, np.float32)

    altered = transform.AlterOpImpl({"my.add": _sum(3, 4)}, {"my.add": layouts})(module)

    assert altered["remove_pad"].attrs["operator_name"] == "remove_pad"
    np.testing.assert_array_equal(_run(altered, x, y), x + y)


@pytest.mark.parametrize(
    ("layouts", "said"),
    [
        ([lambda i: (i // 5, i % 5)] * 3, r"shape \[3, 4\], got \[3, 5\]"),
        ([lambda i: (i // 8, i % 4)] * 3, "expected an injective index map"),
        ([lambda i: (i // 4, i % 4)], "3 parameters and 1 layouts"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(layouts: list[Any], said: str) -> None:
    module = _calling(_sum(12), 12, operator_name="my.add")

    with pytest.raises(PassError, match=said):
        transform.AlterOpImpl({"my.add": _sum(3, 4)}, {"my.add": layouts})(module)


def test_axis_separators_are_refused() -> None:
    altering = transform.AlterOpImpl({}, {}, {"my.add": [[1], [], []]})

    with pytest.raises(PassError, match=r"`my.add`: expected no axis separators"):
        altering(_calling(_sum(4), 4))


_PREPACKED = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(
        a: T.Buffer((6,), "float32"),
        w: T.Buffer((6,), "float32"),
        c: T.Buffer((6,), "float32"),
    ):
        p = T.alloc_buffer((2, 3))
        for i in range(6):
            with T.block("pack"):
                v = T.axis.remap("S", [i])
                T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                p[v % 2, v // 2] = w[v]
        for i in range(6):
            with T.block("sum"):
                v = T.axis.remap("S", [i])
                c[v] = a[v] + p[v % 2, v // 2]

    @R.function
    def main(x: R.Tensor((6,), "float32"), w: R.Tensor((6,), "float32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.add, (x, w), out_sinfo=R.Tensor((6,), "float32"))
            R.output(y)
        return y
"""


def test_prepacked_weights_keep_values() -> None:
    x, w = np.arange(6, dtype=np.float32), np.linspace(0, 1, 6, dtype=np.float32)

    split = transform.SplitLayoutRewritePreproc()(from_source(_PREPACKED))

    assert "preproc" not in split.script()
    np.testing.assert_array_equal(_run(split, x, w), x + w)


def test_a_prepacking_block_of_two_tensors_is_refused() -> None:
    schedule = tir.Schedule(_sum(4))
    schedule.annotate(
        schedule.get_block("c"), "meta_schedule.layout_rewrite_preproc", True
    )

    with pytest.raises(PassError, match="`c` prepacks weights: expected one buffer"):
        transform.SplitLayoutRewritePreproc()(IRModule({"add": schedule.mod["main"]}))


def test_sums_overwrite_dead_values() -> None:
    x, y = Var("x", tensor(2, 3)), Var("y", tensor(1, 3))
    first = op("add", x, y)
    module = program([x, y], op("multiply", first, op("subtract", first, y)))
    arrays = [np.full(shape, 3, np.float32) for shape in ((2, 3), (1, 3))]

    inplace = transform.DataflowUseInplaceCalls()(module)

    assert "multiply_inplace" in inplace
    assert "subtract_inplace" not in inplace  # the multiplication reads the first sum
    host = relax.VirtualMachine(relax.build(inplace, "llvm"), relax_mlir.tvm.cpu())
    result = host["main"](*map(relax_mlir.tvm.nd.array, arrays)).numpy()
    np.testing.assert_array_equal(result, np.full((2, 3), 18, np.float32))


def test_a_tensor_passed_twice_is_read_before_it_is_overwritten() -> None:
    x = Var("x", tensor(2, 3))
    doubled = op("add", x, x)
    module = transform.DataflowUseInplaceCalls()(
        program([x], op("multiply", doubled, doubled))
    )

    host = relax.VirtualMachine(relax.build(module, "llvm"), relax_mlir.tvm.cpu())

    result = host["main"](
        relax_mlir.tvm.nd.array(np.full((2, 3), 3, np.float32))
    ).numpy()
    np.testing.assert_array_equal(result, np.full((2, 3), 36, np.float32))


def test_views_share_memory() -> None:
    x = Var("x", tensor(2, 3))
    made = op("exp", x)
    flat, other = (op("reshape", made, relax.ShapeExpr((6,))) for _ in range(2))
    function = program([x], op("add", flat, other))["main"]
    block = function.body.blocks[0]

    places, tuples = dataflow_alias_analysis(block, function.params)
    found = dataflow_inplace_analysis(block, function.params, function.module)

    assert sorted(map(sorted, places.values())) == [[0], [1], [1], [1], [2]]
    assert tuples == {}
    assert found == ([], [])


def test_layouts_are_kept_between_programs() -> None:
    module = _calling(_sum(10), 10, operator_name="my.add")
    twice = transform.AlterOpImpl(
        {"my.add": _sum(3, 4)}, {"my.add": [lambda i: (i // 4, i % 4)] * 3}
    )(_again(module))
    x, y = np.arange(10, dtype=np.float32), np.ones(10, np.float32)

    kept = transform.OptimizeLayoutTransform()(twice)

    counts = [m["main"].script().count("R.layout_transform") for m in (twice, kept)]
    assert counts == [6, 3]
    np.testing.assert_array_equal(_run(kept, x, y), x + y + y)


def _again(module: IRModule) -> IRModule:
    """A call of a module's program, and another one that takes its result."""
    builder = relax.BlockBuilder()
    callee = builder.add_func(module["add"], "add")
    x, y = (Var(name, tensor(10)) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            once = builder.emit(relax.call_tir(callee, [x, y], tensor(10)))
            call = relax.call_tir(callee, [once, y], tensor(10))
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    return builder.get()
