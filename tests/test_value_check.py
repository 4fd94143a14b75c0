"""``verify="each-pass"`` names the pass that is wrong, at whatever level it works."""

import re
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import numpy_helper, parser

import relax_mlir
from relax_mlir.errors import RelaxError, VerificationError
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.fold_constants import FoldConstants
from relax_mlir.passes.relax.fuse_ops import FuseOps
from relax_mlir.passes.relax.legalize import Legalize
from relax_mlir.passes.relax.split_pads import SplitPads
from relax_mlir.passes.schedule.apply import Apply
from relax_mlir.passes.schedule.expand_math import ExpandMath
from relax_mlir.passes.tir.fuse import Fuse
from relax_mlir.passes.tir.to_linalg import ToLinalg
from relax_mlir.rewriting import Pass, replace, walk

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
        VerificationError, match=f"`{shown}`: changes .* one of those .* `{name}`, "
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
    message = re.escape("no sizes below 1000 were found that fit `n >= 2000`")
    with pytest.raises(RelaxError, match=message):
        relax_mlir.compile(relax_mlir.import_onnx(pool), verify="each-pass")
