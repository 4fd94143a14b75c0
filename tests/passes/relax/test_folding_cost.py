"""Constant folding stays within its budget of memory and time."""

import time
import tracemalloc

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import numpy_helper, parser

import relax_mlir
from relax_mlir import IRModule, import_onnx, opt
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.ir.traversal import walk
from relax_mlir.passes.relax.fold_constants import constant_value
from relax_mlir.passes.relax.folding_cost import cost_of_reference
from relax_mlir.testing import case_module, flat_inputs

_SLACK_BYTES = 1 << 16  # of interpreter objects, which estimates do not count


def pooled(kind: str, size: int, kernel: int) -> onnx.ModelProto:
    """``x`` plus the maximum of a pooling of a constant."""
    pad = kernel - 1
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1] x) => (float[1] y)
        {{
          p = {kind}<kernel_shape = [{kernel}, {kernel}], pads = [{pad}, {pad}, {pad}, {pad}]>(c)
          m = ReduceMax<keepdims = 0>(p)
          y = Add(x, m)
        }}"""
    )
    c = np.random.default_rng(0).random((1, 1, size, size), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(c, "c"))
    return model


def names(module: IRModule) -> list[str]:
    return [op.operation.name for op in walk(module.mlir.operation)]


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_large_windows_are_not_folded(kind: str) -> None:
    """Its numpy reference would need 57 GiB: a result of 359,000 elements, 160,000 taps."""
    module = import_onnx(pooled(kind, 200, 400).SerializeToString())

    began = time.perf_counter()
    folded = opt(module, "relax-fold-constants")

    assert any("pool" in name for name in names(folded))
    assert time.perf_counter() - began < 5  # it would take minutes


def test_small_windows_are_folded() -> None:
    module = import_onnx(pooled("MaxPool", 8, 3).SerializeToString())

    folded = opt(module, "relax-fold-constants")

    assert not any("pool" in name for name in names(folded))


@pytest.mark.slow
def test_unfolded_operations_run_at_run_time() -> None:
    module = import_onnx(pooled("MaxPool", 6, 5).SerializeToString())
    x = np.ones(1, np.float32)
    (expected,) = relax_mlir.compile(module, cache=False)(x)

    kept = opt(module, "relax-fold-constants{max-bytes=0}")

    assert any("pool" in name for name in names(kept))
    np.testing.assert_array_equal(relax_mlir.compile(kept, cache=False)(x)[0], expected)


def test_time_is_a_budget_of_the_whole_run() -> None:
    """Each of four matmuls takes some milliseconds; their sum counts."""
    products = "\n".join(
        f"""%p{n} = "relax.matmul"(%c, %c) {{out_dtype}} :
        (tensor<192x192xf32>, tensor<192x192xf32>) -> tensor<192x192xf32>
        """
        for n in range(4)
    )
    module = IRModule.parse(
        f"""func.func @main() -> (tensor<192x192xf32>, tensor<192x192xf32>,
            tensor<192x192xf32>, tensor<192x192xf32>) {{
          %c = "relax.constant"() {{value = dense<1.0> : tensor<192x192xf32>}} : ()
            -> tensor<192x192xf32>
          {products}
          return %p0, %p1, %p2, %p3 : tensor<192x192xf32>, tensor<192x192xf32>,
            tensor<192x192xf32>, tensor<192x192xf32>
        }}"""
    )

    left = [
        names(opt(module, f"relax-fold-constants{{max-time-ms={budget}}}")).count(
            "relax.matmul"
        )
        for budget in (0, 20, 40, 1000, -1)
    ]

    assert left[0] == 4
    assert 0 < left[2] <= left[1] < 4
    assert left[3:] == [0, 0]


_FOLDED = [op for op in relax_ops() if hasattr(op, "legalize") and op.cases]


def constant_module(op: type[RelaxOperation], case: Case) -> IRModule | None:
    """A case's module; None if its sizes are symbolic."""
    module = case_module(op, case)
    types = module.func_op("main").type.inputs
    is_static = all(
        isinstance(t, ir.RankedTensorType) and t.has_static_shape for t in types
    )
    return module if is_static else None


_QUICK = ("relax.nn_max_pool2d", "relax.nn_gelu")


@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, marks=() if op.OPERATION_NAME in _QUICK else pytest.mark.slow)
        for op in _FOLDED
    ],
    ids=lambda op: op.OPERATION_NAME,
)
def test_estimates_are_no_less_than_what_references_allocate(
    op: type[RelaxOperation],
) -> None:
    for case in op.cases:
        module = constant_module(op, case)
        if module is None:
            continue
        inputs = case.random_inputs(seed=0)
        arrays = [np.asarray(a) for a in flat_inputs(inputs)]
        found = [o for o in walk(module.func_op("main")) if isinstance(o, op)]
        with module.context, ir.Location.unknown():
            cost = cost_of_reference(module, found[0], arrays)
        if cost is None:
            continue

        tracemalloc.start()
        with np.errstate(all="ignore"):
            op.reference(*inputs, **found[0].python_attrs())  # pyright: ignore[reportAttributeAccessIssue]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert peak <= cost.size_bytes + _SLACK_BYTES, case


def test_linear_work_is_free() -> None:
    """A transpose of weights is folded, whatever the budget."""
    module = IRModule.parse(
        """func.func @main() -> tensor<512x600xf32> {
          %c = "relax.constant"() {value = dense<1.0> : tensor<600x512xf32>} : ()
            -> tensor<600x512xf32>
          %t = "relax.permute_dims"(%c) {axes = array<i64: 1, 0>} : (tensor<600x512xf32>)
            -> tensor<512x600xf32>
          return %t : tensor<512x600xf32>
        }"""
    )

    folded = opt(module, "relax-fold-constants{max-bytes=0 max-time-ms=0}")

    assert "relax.permute_dims" not in names(folded)


def test_known_array_has_a_budget() -> None:
    """`constant_value` has a budget, too."""
    module = import_onnx(pooled("MaxPool", 200, 400).SerializeToString())
    pools = [o for o in walk(module.mlir.operation) if "pool" in o.operation.name]

    with module.context, ir.Location.unknown():
        found = constant_value(module, pools[0].operation.results[0])

    assert found is None
