"""Differential verification: ``verify="each-pass"`` names the faulty pass at every level."""

import ctypes
import dataclasses
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import numpy_helper, parser

import relax_mlir
from relax_mlir.codegen.jit import run_lowered
from relax_mlir.compiler.differential_check import relative_difference
from relax_mlir.errors import RelaxError, VerificationError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.passes.relax.fold_constants import FoldConstants
from relax_mlir.passes.relax.fuse_ops import FuseOps
from relax_mlir.passes.relax.legalize import Legalize
from relax_mlir.passes.schedule.apply import Apply
from relax_mlir.passes.schedule.expand_math import ExpandMath
from relax_mlir.passes.tir.fuse import Fuse
from relax_mlir.passes.tir.to_linalg import ToLinalg
from relax_mlir.rewrite.patterns import Pass, replace
from relax_mlir.runtime.margins import with_nan_margins
from relax_mlir.schedules import kernel_view
from relax_mlir.schedules.builder import add
from relax_mlir.schedules.kernel_view import Statement
from relax_mlir.tvm.relax.transform.passes.split_pads import SplitPads

_MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n, 1, 4, 4] x) => (float[n, 2, 4, 4] y)
{
   c = Conv <pads = [1, 1, 1, 1]> (x, w)
   e = Exp (c)
   y = Add (e, c)
}
"""


def model() -> onnx.ModelProto:
    found = parser.parse_model(_MODEL)
    w = np.linspace(-0.3, 0.3, 18, dtype=np.float32).reshape(2, 1, 3, 3)
    found.graph.initializer.append(numpy_helper.from_array(w, "w"))
    return found


def swapped(name: str, other: str) -> Callable[[IRModule], None]:
    """Put another operation in place of the first of a name."""

    def swap(module: IRModule) -> None:
        for op in walk(module.mlir.operation):
            if op.operation.name == name and _is_fast(op):
                with ir.InsertionPoint(op), op.location:
                    new = ir.Operation.create(
                        other,
                        results=[r.type for r in op.results],
                        operands=list(op.operands),
                    )
                replace(op, new.results[0])
                return

    return swap


def _is_fast(op: ir.OpView) -> bool:
    """Not in a kernel without a schedule: a mistake in schedules is not there."""
    function = op.operation
    while function.name != "func.func" and function.parent is not None:
        function = function.parent
    attributes = function.attributes
    return "tir.rule" not in attributes or "Fallback" not in str(attributes["tir.rule"])


def plant(
    pass_: type[Pass],
    damage: Callable[[IRModule], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let a pass do its work, and then some damage."""
    right = pass_.run

    def wrong(self: Pass, module: IRModule) -> None:
        right(self, module)
        damage(module)

    monkeypatch.setattr(pass_, "run", wrong)


def test_a_right_pipeline_passes() -> None:
    relax_mlir.compile(relax_mlir.import_onnx(model()), verify="each-pass", cache=False)


@pytest.mark.parametrize(
    ("pass_", "name", "damage"),
    [
        (FoldConstants, "relax-fold-constants", ("relax.add", "relax.subtract")),
        (SplitPads, "relax-split-pads", ("relax.exp", "relax.tanh")),
        (Legalize, "relax-legalize", ("math.exp", "math.tanh")),
        (FuseOps, "relax-fuse-ops", ("math.exp", "math.tanh")),
        (Apply, "schedule-apply", ("math.exp", "math.tanh")),
    ],
)
def test_the_wrong_pass_is_named(
    pass_: type[Pass],
    name: str,
    damage: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(pass_, swapped(*damage), monkeypatch)

    with pytest.raises(VerificationError, match=rf"`{name}.*: changes output 0"):
        relax_mlir.compile(
            relax_mlir.import_onnx(model()), verify="each-pass", cache=False
        )


@pytest.mark.parametrize(
    ("pass_", "shown", "name", "damage"),
    [
        (ToLinalg, "relax-legalize", "tir-to-linalg", ("math.exp", "math.tanh")),
        (Fuse, "relax-fuse-ops", "tir-fuse", ("math.exp", "math.tanh")),
        (
            ExpandMath,
            "schedule-apply{vector-bits=[^}]+}",
            "schedule-expand-math",
            ("arith.addf", "arith.subf"),
        ),
    ],
)
def test_passes_that_any_run_needs_are_named_too(
    pass_: type[Pass],
    shown: str,
    name: str,
    damage: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No run tells them apart: what is lowered first shows it."""
    plant(pass_, swapped(*damage), monkeypatch)

    with pytest.raises(
        VerificationError, match=f"`{shown}`: changes .* a lowering pass .* `{name}`, "
    ):
        relax_mlir.compile(
            relax_mlir.import_onnx(model()), verify="each-pass", cache=False
        )


def test_inputs_have_sizes_that_the_operations_accept() -> None:
    pool = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 1, n] x) => (float[1, 1, m] y)
        { y = MaxPool <kernel_shape = [9]> (x) }"""
    )
    relax_mlir.compile(relax_mlir.import_onnx(pool), verify="each-pass", cache=False)


def test_without_fitting_sizes_inputs_are_asked_for() -> None:
    pool = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 1, n] x) => (float[1, 1, m] y)
        { y = MaxPool <kernel_shape = [2000]> (x) }"""
    )
    message = re.escape("no sizes below 1000 were found that satisfy `n >= 2000`")
    with pytest.raises(RelaxError, match=message):
        relax_mlir.compile(relax_mlir.import_onnx(pool), verify="each-pass")


def test_results_that_are_no_numbers_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """A logarithm in place of the exponential: NaN wherever the sum is negative."""
    plant(SplitPads, swapped("relax.exp", "relax.log"), monkeypatch)

    with pytest.raises(
        VerificationError, match=r"relax-split-pads.*: changes .*got inf"
    ):
        relax_mlir.compile(
            relax_mlir.import_onnx(model()), verify="each-pass", cache=False
        )


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_one_wrong_element_is_a_difference(wrong: float) -> None:
    expected = np.array([1.0, 2.0, 3.0], np.float32)
    actual = expected.copy()
    actual[1] = wrong

    assert relative_difference(actual, expected) == np.inf
    assert relative_difference(expected, actual) == np.inf
    assert relative_difference(actual, actual.copy()) == 0


def test_a_rule_that_reads_past_a_sum_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more term than there are: the last row of the weights is followed by a margin."""
    graph = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 5] x) => (float[3, 16] y) { y = MatMul (x, w) }"""
    )
    w = np.linspace(-1, 1, 80, dtype=np.float32).reshape(5, 16)
    graph.graph.initializer.append(numpy_helper.from_array(w, "w"))
    right = kernel_view.read_statement

    def longer(*args: Any) -> Statement:  # Any: those of statement_of
        statement = right(*args)
        pairs = zip(statement.kinds, statement.extents, strict=True)
        extents = tuple(add(size, 1) if kind == "R" else size for kind, size in pairs)
        return dataclasses.replace(statement, extents=extents)

    monkeypatch.setattr(kernel_view, "read_statement", longer)

    with pytest.raises(VerificationError, match=r"schedule-apply.*: changes output 0"):
        relax_mlir.compile(
            relax_mlir.import_onnx(graph), verify="each-pass", cache=False
        )


def test_modules_of_the_same_text_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def noted(module: IRModule, *arguments: Any) -> Any:
        texts.append(str(module))
        return run_lowered(module, *arguments)

    monkeypatch.setattr("relax_mlir.compiler.driver.run_lowered", noted)

    relax_mlir.compile(model(), verify="each-pass", cache=False)

    assert len(texts) > 1
    assert len(texts) == len(set(texts))


def test_margins_are_no_numbers() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    copy = with_nan_margins(array)

    np.testing.assert_array_equal(copy, array)
    assert copy.ctypes.data % 64 == 0
    behind = ctypes.c_float.from_address(copy.ctypes.data + copy.nbytes)
    before = ctypes.c_float.from_address(copy.ctypes.data - 4)
    assert np.isnan([before.value, behind.value]).all()


@pytest.mark.parametrize("dtype", ["float8_e5m2", "float8_e4m3fn", "bfloat16"])
def test_inputs_of_types_that_dlpack_may_not_know(dtype: str) -> None:
    array = np.ones(3, dtype=getattr(ml_dtypes, dtype))
    program = IRModule.parse(
        f"""
        func.func @main(%x: tensor<3x{_NAMES[dtype]}>) -> tensor<3xf32> {{
          %0 = "relax.astype"(%x) {{dtype = f32}} : (tensor<3x{_NAMES[dtype]}>) -> tensor<3xf32>
          return %0 : tensor<3xf32>
        }}"""
    )

    relax_mlir.compile(program, verify="each-pass", inputs=[array], cache=False)


_NAMES = {"float8_e5m2": "f8E5M2", "float8_e4m3fn": "f8E4M3FN", "bfloat16": "bf16"}
