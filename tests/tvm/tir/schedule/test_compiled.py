"""Scheduled PrimFuncs lower to machine code and compute the same."""

# ruff: noqa: N803  scripts name buffers in capitals

import numpy as np
import pytest

import relax_mlir
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir import Schedule, TensorIntrin
from tests.tvm.tir.schedule.programs import matmul_relu


@T.prim_func
def _sum_products(
    x: T.Buffer((5,), "float32"), y: T.Buffer((5,), "float32"), z: T.Buffer((1,))
):
    for k in range(5):
        with T.block("product"):
            vk = T.axis.reduce(5, k)
            z[0] = z[0] + x[vk] * y[vk]


@T.prim_func
def _sum_backwards(
    x: T.Buffer((5,), "float32"), y: T.Buffer((5,), "float32"), z: T.Buffer((1,))
):
    for k in range(5):
        z[0] = z[0] + x[4 - k] * y[4 - k]


TensorIntrin.register("test.products", _sum_products, _sum_backwards, override=True)


def _tensorized(schedule):
    schedule.reindex("C", ("read", 1))
    k = schedule.get_loops("C")[2]
    schedule.decompose_reduction("C", k)
    schedule.tensorize(k, "test.products")


def _tiled(schedule):
    schedule.transform_layout("C", "C", lambda i, j: (i // 4, j, i % 4), pad_value=0.0)
    schedule.reindex_cache_read("C", 1, "shared", lambda i, i1, j, k: (k, i1))
    schedule.blockize(schedule.get_loops("C")[1])


@pytest.mark.slow
@pytest.mark.parametrize("apply", [_tensorized, _tiled])
def test_scheduled_programs_run(apply):
    schedule = Schedule(matmul_relu)
    apply(schedule)
    random = np.random.default_rng(0)
    x, y = (random.random(s, np.float32) for s in ((6, 5), (5, 4)))
    out = np.empty((6, 4), np.float32)

    built = relax_mlir.compile(schedule.mod)
    built["main"](x, y, out)

    np.testing.assert_allclose(out, np.maximum(x @ y, 0), rtol=1e-6)


@T.prim_func
def _triangle(A: T.Buffer((6, 2, 6), "float32"), B: T.Buffer((6, 2, 6), "float32")):
    for i in range(6):
        for j, k in T.grid(2, 6 - i):
            with T.block("B"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.spatial(2, j)
                vk = T.axis.spatial(6, k)
                B[vi, vj, vk] = A[vi, vj, vk] * 2.0


@pytest.mark.slow
def test_fused_loops_are_divided_by_what_falls_with_a_loop_around(monkeypatch):
    monkeypatch.setenv("RELAX_MLIR_GUARD", "1")
    schedule = Schedule(_triangle)
    schedule.fuse(*schedule.get_loops("B")[1:])
    x = np.arange(72, dtype=np.float32).reshape(6, 2, 6)
    out = np.zeros_like(x)

    relax_mlir.compile(schedule.mod, cache=False)["main"](x, out)

    columns = np.arange(6)
    is_inside = (columns[:, None] + columns < 6)[:, None]
    np.testing.assert_array_equal(out, np.where(is_inside, 2 * x, 0))
