"""Checks of ``schedule-apply`` on schedule rules."""

import numpy as np
import pytest
from mlir import ir

from relax_mlir import IRModule, compile, opt
from relax_mlir.errors import PassError
from relax_mlir.passes.schedule import apply
from relax_mlir.schedules.builder import for_loop, parallel_loop
from relax_mlir.schedules.cpu.fallback import Fallback
from relax_mlir.schedules.kernel_view import Kernel
from relax_mlir.schedules.rule import CpuRule, NotApplicable

_KERNEL = """
func.func @kernel(%x: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}
"""


class OneLoop(CpuRule[Kernel]):
    """Matches any kernel and emits one parallel loop."""

    def plan(self, kernel: Kernel) -> Kernel:
        return kernel

    def write(self, plan: Kernel) -> None:
        parallel_loop(7, lambda tile: None)


class NoLoop(OneLoop):
    def write(self, plan: Kernel) -> None:
        pass


class TwoLoops(OneLoop):
    def write(self, plan: Kernel) -> None:
        super().write(plan)
        super().write(plan)


class NoKernel(OneLoop):
    """Matches no kernel."""

    def plan(self, kernel: Kernel) -> Kernel:
        raise NotApplicable("it is a kernel")


class InsideALoop(OneLoop):
    def write(self, plan: Kernel) -> None:
        def body(i: ir.Value) -> tuple[()]:
            parallel_loop(7, lambda tile: None)
            return ()

        for_loop(0, 5, 1, body)


def scheduled(monkeypatch: pytest.MonkeyPatch, *rules: type) -> str:
    monkeypatch.setattr(apply, "_RULES", rules)
    return str(opt(IRModule.parse(_KERNEL), "schedule-apply"))


def test_a_rule_emits_one_parallel_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    text = scheduled(monkeypatch, OneLoop)

    assert 'tir.rule = "OneLoop"' in text
    assert text.count('tir.kind = "parallel"') == 1


@pytest.mark.parametrize(
    ("rule", "found"), [(NoLoop, 0), (TwoLoops, 2), (InsideALoop, 0)]
)
def test_other_numbers_of_parallel_loops_are_refused(
    monkeypatch: pytest.MonkeyPatch, rule: type, found: int
) -> None:
    expected = f"kernel `kernel`: expected one loop .* `{rule.__name__}`, got {found}"

    with pytest.raises(PassError, match=expected):
        scheduled(monkeypatch, rule)


def test_the_first_matching_rule_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert 'tir.rule = "OneLoop"' in scheduled(monkeypatch, OneLoop, Fallback)
    assert 'tir.rule = "OneLoop"' in scheduled(monkeypatch, NoKernel, OneLoop)
    assert 'tir.rule = "Fallback"' in scheduled(monkeypatch, Fallback, OneLoop)


def test_a_selected_rule_reports_why_it_does_not_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(apply, "_RULES", (NoKernel, Fallback))
    expected = "kernel `kernel`: `NoKernel` does not take it: it is a kernel"

    with pytest.raises(PassError, match=expected):
        opt(IRModule.parse(_KERNEL), "schedule-apply{only=NoKernel}")


@pytest.mark.slow
def test_dynamic_m() -> None:
    """Full register tiles, and tail tiles of half the height each."""
    model = compile(
        IRModule.parse("""
        func.func @main(%x: tensor<?x5xf32, #relax.shape<["n", "5"]>>, %w: tensor<5x33xf32>)
            -> tensor<?x33xf32, #relax.shape<["n", "33"]>> {
          %y = "relax.matmul"(%x, %w) {out_dtype} : (tensor<?x5xf32, #relax.shape<["n", "5"]>>,
            tensor<5x33xf32>) -> tensor<?x33xf32, #relax.shape<["n", "33"]>>
          return %y : tensor<?x33xf32, #relax.shape<["n", "33"]>>
        }""")
    )
    rng = np.random.default_rng(0)
    w = rng.standard_normal((5, 33)).astype(np.float32)

    for rows in range(20):
        x = rng.standard_normal((rows, 5)).astype(np.float32)
        np.testing.assert_allclose(model(x, w)[0], x @ w, rtol=0, atol=1e-5)


def test_dynamic_k_is_packed() -> None:
    """A transposed RHS of dynamic sizes is packed into panels."""
    model = compile(
        IRModule.parse("""
        func.func @main(%x: tensor<?x?xf32, #relax.shape<["n", "k"]>>, %w: tensor<?x?xf32, #relax.shape<["m", "k"]>>)
            -> tensor<?x?xf32, #relax.shape<["n", "m"]>> {
          %t = "relax.permute_dims"(%w) {axes = array<i64: 1, 0>} : (tensor<?x?xf32, #relax.shape<["m", "k"]>>)
            -> tensor<?x?xf32, #relax.shape<["k", "m"]>>
          %y = "relax.matmul"(%x, %t) {out_dtype} : (tensor<?x?xf32, #relax.shape<["n", "k"]>>,
            tensor<?x?xf32, #relax.shape<["k", "m"]>>) -> tensor<?x?xf32, #relax.shape<["n", "m"]>>
          return %y : tensor<?x?xf32, #relax.shape<["n", "m"]>>
        }""")
    )
    rng = np.random.default_rng(0)
    for n, k, m in ((1, 1, 1), (40, 7, 50), (3, 33, 16), (9, 64, 17)):
        x = rng.standard_normal((n, k)).astype(np.float32)
        w = rng.standard_normal((m, k)).astype(np.float32)
        np.testing.assert_allclose(model(x, w)[0], x @ w.T, rtol=0, atol=1e-4)
