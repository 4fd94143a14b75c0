"""dlight schedule rules: the schedules they produce, and the results of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from relax_mlir import IRModule, lower, tvm
from relax_mlir.tvm import dlight as dl
from relax_mlir.tvm import relax, te, tir, topi
from relax_mlir.tvm.dlight.base import BlockInfo, normalize_prim_func, try_inline
from relax_mlir.tvm.ir import assert_structural_equal
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.relax.target import Target
from relax_mlir.tvm.tir import PrimFunc, Schedule
from tests.docs.test_customize_pipeline import exported
from tests.gpu.emulated import emulated
from tests.tvm.tir.schedule import bound_programs, default_schedules

_GPU, _CPU = Target("cuda"), Target("llvm")
_gpu = dl.gpu


@dataclass(frozen=True)
class Case:
    """A computation and the rule that must apply to its PrimFuncs.

    Attributes:
        build: the computation on tensors of ``shapes``; expected: its numpy reference.
        shapes: input shapes; a size named ``n`` is symbolic.
    """

    rule: dl.ScheduleRule
    build: Callable[..., Any]
    shapes: Sequence[tuple[int | str, ...]]
    expected: Callable[..., np.ndarray]

    def module(self) -> IRModule:
        """A module whose ``main`` calls the PrimFuncs."""
        n = tir.Var("n", "int64")
        shapes = [[n if size == "n" else size for size in s] for s in self.shapes]
        infos = [relax.TensorStructInfo(shape, "float32") for shape in shapes]
        params = [relax.Var(f"p{n}", info) for n, info in enumerate(infos)]
        builder = relax.BlockBuilder()
        with builder.function("main", params):
            builder.emit_func_output(builder.emit(self.build(*params)))
        return relax.transform.LegalizeOps()(builder.get())

    def arrays(self) -> list[np.ndarray]:
        random = np.random.default_rng(0)
        shapes = [[37 if isinstance(n, str) else n for n in s] for s in self.shapes]
        return [random.random(s, np.float32) - np.float32(0.5) for s in shapes]


def _computed(function: Callable[..., te.Tensor]) -> Callable[..., Any]:
    """A computation given as a tensor expression."""

    def emit(*params: relax.Expr) -> Any:
        builder = relax.BlockBuilder.current()
        assert builder is not None
        return builder.call_te(function, *params)

    return emit


def _sum(count: Any, term: Callable[[Any], Any]) -> Any:
    r = te.reduce_axis((0, count), name="r")
    return te.sum(term(r), axis=r)


def _matmul_transposed_b(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """``a @ b.T``."""
    (m, k), (n, _) = a.shape, b.shape
    return te.compute(
        (m, n), lambda i, j: _sum(k, lambda r: a[i, r] * b[j, r]), name="C"
    )


def _matmul_transposed_b_plus_one(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    c = _matmul_transposed_b(a, b)
    return te.compute(c.shape, lambda i, j: c[i, j] + 1.0, name="D")


def _row_sums_twice(a: te.Tensor) -> te.Tensor:
    m, k = a.shape
    c = te.compute((m,), lambda i: _sum(k, lambda r: a[i, r]), name="C")
    return te.compute((m,), lambda i: c[i] * 2.0, name="D")


def _rows_by_sums(a: te.Tensor) -> te.Tensor:
    m, k = a.shape
    c = te.compute((m,), lambda i: _sum(k, lambda r: a[i, r]), name="C")
    return te.compute((m, k), lambda i, j: c[i] * a[i, j], name="D")


def _column_sums_twice(a: te.Tensor) -> te.Tensor:
    k, n = a.shape
    c = te.compute((n,), lambda j: _sum(k, lambda r: a[r, j]), name="C")
    return te.compute((n,), lambda j: c[j] * 2.0, name="D")


def _columns_by_sums(a: te.Tensor) -> te.Tensor:
    k, n = a.shape
    c = te.compute((n,), lambda j: _sum(k, lambda r: a[r, j]), name="C")
    return te.compute((k, n), lambda i, j: c[j] * a[i, j], name="D")


def _product_and_row(a: te.Tensor, b: te.Tensor, c: te.Tensor) -> te.Tensor:
    (m, k), (_, n) = a.shape, b.shape
    d = te.compute((m, n), lambda i, j: _sum(k, lambda r: a[i, r] * b[r, j]), name="D")
    return te.compute((m, n), lambda i, j: d[i, j] + c[j], name="E")


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _normalized(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + shift
    )


def _rms(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale


def _expected_matmul_transposed_b(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b.T


_CASES = {
    "fallback": Case(_gpu.Fallback(), op.exp, [(3, 70)], np.exp),
    "fallback_sum": Case(_gpu.Fallback(), op.matmul, [(5, 17), (17, 9)], np.matmul),
    "gemv": Case(
        _gpu.GEMV(),
        _computed(_matmul_transposed_b),
        [(1, 256), (10, 256)],
        _expected_matmul_transposed_b,
    ),
    "gemv_odd": Case(
        _gpu.GEMV(),
        _computed(_matmul_transposed_b),
        [(1, 37), (7, 37)],
        _expected_matmul_transposed_b,
    ),
    "gemv_epilogue": Case(
        _gpu.GEMV(),
        _computed(_matmul_transposed_b_plus_one),
        [(1, 100), (33, 100)],
        lambda a, b: a @ b.T + 1,
    ),
    "low_batch": Case(
        _gpu.LowBatchGEMV(4),
        _computed(_matmul_transposed_b),
        [(8, 128), (33, 128)],
        _expected_matmul_transposed_b,
    ),
    "low_batch_odd": Case(
        _gpu.LowBatchGEMV(4),
        _computed(_matmul_transposed_b),
        [(3, 37), (7, 37)],
        _expected_matmul_transposed_b,
    ),
    "low_batch_epilogue": Case(
        _gpu.LowBatchGEMV(4),
        _computed(_matmul_transposed_b_plus_one),
        [(5, 128), (6, 128)],
        lambda a, b: a @ b.T + 1,
    ),
    "rows": Case(
        _gpu.Reduction(), lambda a: op.sum(a, -1), [(6, 128)], lambda a: a.sum(-1)
    ),
    "rows_odd": Case(
        _gpu.Reduction(), lambda a: op.sum(a, -1), [(6, 100)], lambda a: a.sum(-1)
    ),
    "rows_max": Case(
        _gpu.Reduction(),
        _computed(lambda a: topi.max(a, -1)),
        [(6, 100)],
        lambda a: a.max(-1),
    ),
    "rows_prod": Case(
        _gpu.Reduction(), lambda a: op.prod(a, -1), [(6, 100)], lambda a: a.prod(-1)
    ),
    "one_row": Case(
        _gpu.Reduction(), _computed(_row_sums_twice), [(1, 3)], lambda a: a.sum(-1) * 2
    ),
    "all": Case(_gpu.Reduction(), op.sum, [(6, 100)], np.sum),
    "columns": Case(
        _gpu.Reduction(), lambda a: op.sum(a, 0), [(100, 37)], lambda a: a.sum(0)
    ),
    "middle": Case(
        _gpu.Reduction(), lambda a: op.sum(a, 1), [(3, 48, 20)], lambda a: a.sum(1)
    ),
    "rows_epilogue": Case(
        _gpu.Reduction(),
        _computed(_row_sums_twice),
        [(5, 128)],
        lambda a: a.sum(-1) * 2,
    ),
    "rows_broadcast": Case(
        _gpu.Reduction(),
        _computed(_rows_by_sums),
        [(5, 100)],
        lambda a: a * a.sum(-1, keepdims=True),
    ),
    "columns_epilogue": Case(
        _gpu.Reduction(),
        _computed(_column_sums_twice),
        [(128, 37)],
        lambda a: a.sum(0) * 2,
    ),
    "columns_broadcast": Case(
        _gpu.Reduction(),
        _computed(_columns_by_sums),
        [(100, 40)],
        lambda a: a * a.sum(0),
    ),
    "softmax": Case(_gpu.GeneralReduction(), op.nn.softmax, [(5, 300)], _softmax),
    "softmax_of_heads": Case(
        _gpu.GeneralReduction(), op.nn.softmax, [(2, 5, 30)], _softmax
    ),
    "layer_norm": Case(
        _gpu.GeneralReduction(),
        lambda x, scale, shift: op.nn.layer_norm(x, scale, shift, axes=[-1]),
        [(5, 100), (100,), (100,)],
        _normalized,
    ),
    "rms_norm": Case(
        _gpu.RMSNorm(),
        lambda x, scale: op.nn.rms_norm(x, scale, axes=[-1]),
        [(5, 300), (300,)],
        _rms,
    ),
    "transpose": Case(_gpu.Transpose(), op.permute_dims, [(65, 37)], np.transpose),
    "transpose_of_batch": Case(
        _gpu.Transpose(),
        lambda a: op.permute_dims(a, [0, 2, 3, 1]),
        [(2, 5, 7, 33)],
        lambda a: a.transpose(0, 2, 3, 1),
    ),
    "matmul": Case(_gpu.Matmul(), op.matmul, [(64, 16), (16, 64)], np.matmul),
    "matmul_odd": Case(_gpu.Matmul(), op.matmul, [(65, 37), (37, 70)], np.matmul),
    "matmul_transposed": Case(
        _gpu.Matmul(),
        _computed(_matmul_transposed_b),
        [(40, 20), (33, 20)],
        _expected_matmul_transposed_b,
    ),
    "matmul_epilogue": Case(
        _gpu.Matmul(),
        _computed(_product_and_row),
        [(70, 33), (33, 65), (65,)],
        lambda a, b, c: a @ b + c,
    ),
    "matmul_of_batch": Case(
        _gpu.Matmul(), op.matmul, [(2, 3, 33, 20), (2, 3, 20, 50)], np.matmul
    ),
}
_SYMBOLIC = {
    "fallback": Case(_gpu.Fallback(), op.exp, [("n", 7)], np.exp),
    "gemv": Case(
        _gpu.GEMV(),
        _computed(_matmul_transposed_b),
        [(1, "n"), (30, "n")],
        _expected_matmul_transposed_b,
    ),
    "low_batch": Case(
        _gpu.LowBatchGEMV(4),
        _computed(_matmul_transposed_b),
        [("n", 64), (9, 64)],
        _expected_matmul_transposed_b,
    ),
    "rows": Case(
        _gpu.Reduction(), lambda a: op.sum(a, -1), [(7, "n")], lambda a: a.sum(-1)
    ),
    "columns": Case(
        _gpu.Reduction(), lambda a: op.sum(a, 0), [(50, "n")], lambda a: a.sum(0)
    ),
    "softmax": Case(_gpu.GeneralReduction(), op.nn.softmax, [("n", 70)], _softmax),
    "softmax_along": Case(_gpu.GeneralReduction(), op.nn.softmax, [(7, "n")], _softmax),
    "rms_norm": Case(
        _gpu.RMSNorm(),
        lambda x, scale: op.nn.rms_norm(x, scale, axes=[-1]),
        [("n", 70), (70,)],
        _rms,
    ),
    "transpose": Case(_gpu.Transpose(), op.permute_dims, [("n", 70)], np.transpose),
    "matmul_rows": Case(_gpu.Matmul(), op.matmul, [("n", 20), (20, 30)], np.matmul),
    "matmul_columns": Case(_gpu.Matmul(), op.matmul, [(20, 20), (20, "n")], np.matmul),
    "matmul_terms": Case(_gpu.Matmul(), op.matmul, [(20, "n"), ("n", 30)], np.matmul),
}
_CPU_CASES = {
    "reduction": Case(
        dl.cpu.Reduction(), lambda a: op.sum(a, -1), [(6, 100)], lambda a: a.sum(-1)
    ),
    "softmax": Case(dl.cpu.Reduction(), op.nn.softmax, [(5, 30)], _softmax),
    "gemv": Case(
        dl.cpu.GEMV(),
        _computed(_matmul_transposed_b),
        [(1, 50), (10, 50)],
        _expected_matmul_transposed_b,
    ),
}


def _scheduled(case: Case, target: Target) -> IRModule:
    """The module with every PrimFunc scheduled by the rule of the case."""
    with target:
        module = dl.ApplyDefaultSchedule(case.rule)(case.module())
    programs = [f for _, f in module.functions_items() if isinstance(f, PrimFunc)]
    assert all(f.attrs["tir.is_scheduled"] == 1 for f in programs)
    return module


def _check(case: Case, actual: np.ndarray) -> None:
    expected = case.expected(*case.arrays())
    # The order of summation differs.
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def _with_matmuls_slow(cases: Mapping[str, Case], kind: str = "") -> list[Any]:
    slow = [pytest.mark.slow]
    return [
        pytest.param(case, id=kind + name, marks=slow if "matmul_" in name else [])
        for name, case in cases.items()
    ]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "case", [*_with_matmuls_slow(_CASES), *_with_matmuls_slow(_SYMBOLIC, "symbolic_")]
)
def test_gpu_schedules_match_numpy(case: Case) -> None:
    module = lower(_scheduled(case, _GPU), target="cuda:sm_90", to="loops")

    (actual,) = emulated(module, *case.arrays(), target="cuda:sm_90")

    assert str(module).count('tir.rule = "ThreadBound"') == str(module).count(
        "tir.prim_func"
    )
    _check(case, actual)


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", _CASES)
def test_gpu_schedules_match_numpy_when_run_on_a_cpu(name: str) -> None:
    case = _CASES[name]
    built = tvm.compile(_scheduled(case, _GPU), target="llvm")

    actual = relax.VirtualMachine(built, tvm.cpu())["main"](*case.arrays())

    _check(case, actual.numpy())


@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", _CASES)
def test_gpu_schedules_compile_to_ptx(name: str) -> None:
    text = str(lower(_scheduled(_CASES[name], _GPU), target="cuda:sm_90", to="ptx"))

    assert ".visible .entry" in text
    assert ".local" not in text  # thread-local buffers are in registers


@pytest.mark.parametrize("name", _CPU_CASES)
def test_cpu_rules_parallelize_rows(name: str) -> None:
    case = _CPU_CASES[name]
    module = _scheduled(case, _CPU)

    built = tvm.compile(module, target="llvm")

    assert "T.parallel" in module.script()
    actual = relax.VirtualMachine(built, tvm.cpu())["main"](*case.arrays())
    _check(case, actual.numpy())


def test_schedules_of_the_tvm_tutorial_match_its_listings() -> None:
    rules = (_gpu.Matmul(), _gpu.GEMV(), _gpu.Reduction(), _gpu.GeneralReduction())
    legal = relax.transform.LegalizeOps()(exported())

    with _GPU:
        module = dl.ApplyDefaultSchedule(*rules, _gpu.Fallback())(legal)

    for name, printed in (
        ("matmul1", default_schedules.matmul),
        ("transpose1", default_schedules.transpose),
    ):
        scheduled = module[name].without_attr("global_symbol")
        assert_structural_equal(scheduled, printed.without_attr("global_symbol"), True)
    script = module.script()
    assert "matmul_rf_local = T.alloc_buffer((T.int64(16), T.int64(1)" in script
    blocks = ("matmul_rf_init", "matmul_rf_update", "matmul", "T_transpose")
    assert all(f'T.block("{name}")' in script for name in blocks)


def test_thread_block_size_comes_from_the_target() -> None:
    case = _CASES["fallback"]
    with Target("cuda -max_threads_per_block=64"):
        script = dl.ApplyDefaultSchedule(_gpu.Fallback())(case.module()).script()

    assert 'T.thread_binding(T.int64(64), thread="threadIdx.x")' in script


def test_first_matching_rule_schedules_a_prim_func_once() -> None:
    calls: list[str] = []

    @dl.ScheduleRule.from_callable("Nothing")
    def nothing(func: PrimFunc, target: Target, tunable: bool) -> None:
        calls.append(f"{target.kind.name} {tunable}")

    @dl.ScheduleRule.from_callable("Unrolled")
    def unrolled(func: PrimFunc, target: Target, tunable: bool) -> list[Schedule]:
        schedule = Schedule(func)
        (block,) = schedule.get_child_blocks(schedule.get_block("root"))
        schedule.unroll(schedule.get_loops(block)[0])
        return [schedule]

    apply = dl.ApplyDefaultSchedule(nothing, unrolled)
    module = apply(_CASES["fallback"].module())
    again = apply(module)

    assert calls == ["cuda False"]
    assert "T.unroll" in module.script()
    assert again.script() == module.script()


def test_rules_ignore_prim_funcs_that_do_not_match() -> None:
    module = _CASES["fallback"].module()

    with _CPU:
        on_cpu = dl.ApplyDefaultSchedule(_gpu.Fallback())(module)
    with _GPU:
        no_sum = dl.ApplyDefaultSchedule(
            *(_gpu.Matmul(), _gpu.GEMV(), _gpu.LowBatchGEMV(), _gpu.Reduction()),
            *(_gpu.GeneralReduction(), _gpu.RMSNorm(), _gpu.Transpose()),
        )(module)

    assert on_cpu.script() == no_sum.script() == module.script()


def test_blocks_are_normalized_and_inlined() -> None:
    program = te.create_prim_func(_row_of_three_steps())
    schedule = Schedule(program)

    infos = normalize_prim_func(schedule)

    assert infos is not None
    assert [str(i) for i in infos] == [
        'BlockInfo("B", "S", [6])',
        'BlockInfo("C", "SR", [6, 3])',
    ]
    assert isinstance(infos[0], BlockInfo)
    assert [i.is_reduction() for i in infos] == [False, True]
    assert [i.name for i in try_inline(schedule, infos)] == ["C"]


def test_unit_axes_are_removed() -> None:
    a = te.placeholder((1, 1), name="A")
    b = te.compute((1, 1), lambda i, j: a[i, j] + 1.0, name="B")

    infos = normalize_prim_func(Schedule(te.create_prim_func([a, b])))

    assert infos is not None
    assert list(map(str, infos)) == ['BlockInfo("B", "", [])']


def _row_of_three_steps() -> list[te.Tensor]:
    a = te.placeholder((1, 6), name="A")
    b = te.compute((1, 6), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((6,), lambda j: _sum(3, lambda r: b[0, j] * 1.0), name="C")
    return [a, c]


@pytest.mark.parametrize("program", [bound_programs.grid3, bound_programs.synchronized])
def test_thread_bound_prim_funcs_are_not_normalized(program: PrimFunc) -> None:
    assert normalize_prim_func(Schedule(program)) is None
