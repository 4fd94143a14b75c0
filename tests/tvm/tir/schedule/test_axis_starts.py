"""Iter domains that do not start at 0: preserved, or the primitive is rejected."""

import numpy as np
import pytest

from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from relax_mlir.tvm.tir.schedule import Schedule
from tests.tvm.tir.schedule.evaluate import evaluate


@T.prim_func
def inner_sums(a: T.Buffer((7, 6), "float32"), s: T.Buffer((7,), "float32")):
    b = T.alloc_buffer((7, 6))
    for i, j in T.grid(4, 6):
        with T.block("b"):
            vi = T.axis.spatial((2, 6), i + 2)
            vj = T.axis.spatial(6, j)
            b[vi, vj] = a[vi, vj] * T.float32(2)
    for i, k in T.grid(4, (1, 6)):
        with T.block("s"):
            vi = T.axis.spatial((2, 6), i + 2)
            vk = T.axis.reduce((1, 6), k)
            with T.init():
                s[vi] = T.float32(0)
            s[vi] = s[vi] + b[vi, vk]


@T.prim_func
def around_zero(a: T.Buffer((6,), "float32")):
    for i in range(-3, 3):
        with T.block("a"):
            v = T.axis.spatial((-3, 3), i)
            a[v + 3] = T.float32(v)


_STEPS = {
    "decompose_reduction": lambda s: s.decompose_reduction("s", s.get_loops("s")[0]),
    "rfactor": lambda s: s.rfactor(s.get_loops("s")[1], 0),
    "blockize": lambda s: s.blockize(s.get_loops("s")[1]),
    "reindex": lambda s: s.reindex("s", ("read", 0)),
    "compute_at": lambda s: s.compute_at("b", s.get_loops("s")[0]),
    "reverse_compute_at": lambda s: s.reverse_compute_at("s", s.get_loops("b")[0]),
}


@pytest.mark.parametrize("step", _STEPS)
def test_the_same_elements_are_computed(step):
    schedule = Schedule(inner_sums)
    a = np.random.default_rng(0).integers(-4, 5, (7, 6)).astype("float64")

    _STEPS[step](schedule)

    _, s = evaluate(schedule.mod["main"], a, np.full(7, 9.0))
    np.testing.assert_array_equal(s[2:6], 2 * a[2:6, 1:].sum(1))
    np.testing.assert_array_equal(s[[0, 1, 6]], 9)


def test_blocks_made_of_others_keep_the_starts():
    schedule = Schedule(inner_sums)

    schedule.rfactor(schedule.get_loops("s")[1], 0)

    axes = {
        (name, axis.var.name): (axis.dom.min, axis.dom.extent)
        for name in ("s_rf", "s")
        for axis in schedule.get(schedule.get_block(name)).iter_vars
    }
    assert axes == {
        ("s_rf", "vk"): (1, 5),
        ("s_rf", "vi"): (2, 4),
        ("s", "vk"): (1, 5),
        ("s", "vi"): (2, 4),
    }


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (lambda s: s.reindex("a", ("write", 0)), "reindex: axis `v` .* starts at -3"),
        (
            lambda s: s.transform_block_layout("a", lambda i: (i + 3,)),
            "transform_block_layout: axis `v` .* starts at -3: expected 0",
        ),
        (
            lambda s: s.reindex_cache_write("a", 0, "shared", lambda i: (i,)),
            "reindex_cache_write: axis `v` .* starts at -3: expected 0",
        ),
    ],
)
def test_what_would_leave_a_buffer_is_refused(step, problem):
    with pytest.raises(ScheduleError, match=problem):
        step(Schedule(around_zero))
