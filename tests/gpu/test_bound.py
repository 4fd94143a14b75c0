"""Loops bound to thread axes: results of their launches, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import relax_mlir
from relax_mlir import lower
from relax_mlir.errors import PassError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.tvm.tir import PrimFunc
from tests.gpu.emulated import emulated
from tests.gpu.stub import TARGET, Emulation
from tests.helpers.programs import called
from tests.tvm.tir.schedule import bound_programs as programs

_RANDOM = np.random.default_rng(0)


def _drawn(*shape: int) -> np.ndarray:
    return _RANDOM.random(shape, np.float32) - np.float32(0.5)


def _launched(
    program: PrimFunc, *arrays: np.ndarray, outputs: int = 1
) -> list[np.ndarray]:
    """Runs the launches in the emulator."""
    module = lower(called(program, outputs), target="cuda:sm_90", to="loops")
    assert 'tir.rule = "ThreadBound"' in str(module)
    return list(emulated(module, *arrays, target=TARGET))


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _reversed_in_place(x: np.ndarray) -> np.ndarray:
    made = x.copy()
    for k in range(x.shape[1]):
        made[:, k] = made[:, x.shape[1] - 1 - k] + 1
    return made


_BLOCKS_OF_SIX = np.arange(12).reshape(2, 6)[:, ::-1].reshape(-1)

# The program, shapes of what it is given, and what it computes.
_CASES = {
    "tiled": (programs.tiled, [(37, 21), (21, 19)], lambda a, b: [a @ b]),
    "row_sums": (programs.row_sums, [(5, 77)], lambda a: [a.sum(1)]),
    "softmax": (programs.softmax, [(5, 50)], lambda a: [_softmax(a)]),
    "argmax": (programs.argmax, [(4, 30)], lambda a: [a.max(1), a.argmax(1)]),
    "grid3": (programs.grid3, [(3, 4, 5, 6)], lambda a: [2 * a.T]),
    "two_launches": (programs.two_launches, [(40,)], lambda a: [(a + 1)[::-1]]),
    "vthreads": (
        programs.vthreads,
        [(32,)],
        lambda a: [a.reshape(4, 8)[:, ::-1].reshape(-1)],
    ),
    "outside_of_threads": (
        programs.outside_of_threads,
        [(4, 8)],
        lambda a: [2 * a[:, 0], a + 2 * a[:, :1]],
    ),
    "symbolic": (programs.symbolic, [(9, 6)], lambda a: [a + 1]),
    "synchronized": (programs.synchronized, [(8,)], lambda a: [a[::-1]]),
    "in_a_condition": (
        programs.in_a_condition,
        [(12,)],
        lambda a: [a[_BLOCKS_OF_SIX] + 1],
    ),
    "uneven_axes": (programs.uneven_axes, [(4, 6)], lambda a: [a.sum(1)]),
    "rows_twice": (programs.rows_twice, [(3, 4, 20)], lambda a: [a.sum(2)]),
    "register_tiles": (programs.register_tiles, [(6, 8)], lambda a: [3 * a]),
    "through_memory": (
        programs.through_memory,
        [(4, 8)],
        lambda a: [a + 1, a[:, ::-1] + 1],
    ),
    "kept_in_memory": (
        programs.kept_in_memory,
        [(4, 32)],
        lambda a: [_reversed_in_place(a.reshape(-1, 4)).reshape(-1)],
    ),
    "beside_blocks": (
        programs.beside_blocks,
        [(8,)],
        lambda a: [2 * a[:1], 2 * a[0] + a],
    ),
    "kept_between_turns": (
        programs.kept_between_turns,
        [(8, 4)],
        lambda a: [a.cumsum(0)],
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_launches_compute_the_program(name: str) -> None:
    program, shapes, compute = _CASES[name]
    arrays = [_drawn(*shape) for shape in shapes]
    expected = compute(*arrays)

    found = _launched(program, *arrays, outputs=len(expected))

    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", _CASES)
def test_launches_become_ptx(name: str) -> None:
    program, shapes, _ = _CASES[name]
    outputs = len(program.params) - len(shapes)

    text = str(lower(called(program, outputs), target="cuda:sm_90", to="ptx"))

    assert ".visible .entry kernel_0" in text


@pytest.mark.parametrize("name", ["grid3", "two_launches", "symbolic"])
def test_the_runtime_launches_them(name: str, emulation: Emulation) -> None:
    program, shapes, compute = _CASES[name]
    module = called(program)
    model = relax_mlir.compile(module, target=TARGET, cache=False)
    assert isinstance(model, CudaExecutable)
    arrays = [_drawn(*shape) for shape in shapes]

    (found,) = model(*arrays)

    np.testing.assert_allclose(np.asarray(found), compute(*arrays)[0], rtol=1e-6)


def test_buffers_are_compacted_to_accessed_regions() -> None:
    module = lower(called(programs.tiled), target="cuda:sm_90", to="loops")

    text = str(module)

    assert text.count("memref<8x8xf32, #gpu.address_space<workgroup>>") > 2
    assert "memref.alloca() : memref<1x1xf32>" in text


def test_barriers_are_inserted_at_dependences() -> None:
    """No barrier is inserted for values that a thread reads back itself."""
    for program, outputs, count in (
        (programs.through_memory, 2, 1),
        (programs.kept_in_memory, 1, 0),
    ):
        module = lower(called(program, outputs), target="cuda:sm_90", to="loops")
        assert str(module).count("gpu.barrier") == count


def test_cross_thread_boolean_reductions() -> None:
    rows = np.array(
        [[True] * 8, [False] + [True] * 7, [True] * 7 + [False], [False] * 8]
    )

    (found,) = _launched(programs.all_rows, rows)

    np.testing.assert_array_equal(found, rows.all(1))


def test_loop_carried_buffers_are_not_compacted() -> None:
    """`L[k + 1]` is read as `L[k]` by the next iteration, so `k` must not index out."""
    module = lower(called(programs.kept_between_turns), target="cuda:sm_90", to="loops")

    assert "memref.alloca() : memref<9x1xf32>" in str(module)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (programs.too_many, "2048 threads in a block: expected at most 1024"),
        (programs.unknown_threads, "a dynamic extent: expected a constant"),
        (
            programs.sum_over_blocks,
            "a reduce axis depends on a loop bound to `blockIdx`",
        ),
        (programs.grid_in_turns, "nested in a sequential loop"),
        (programs.between_blocks, "blocks of a launch pass values to each other"),
        (programs.synchronized_globally, "all threads of a launch cannot synchronize"),
        (programs.no_start, "it has no start value"),
        (programs.differences, "expected an associative and commutative combiner"),
        (programs.early_start, "its identity as the start value"),
        (programs.doubled_maximum, "expected an associative and commutative combiner"),
        (programs.two_values, "expected a combiner of each result and one new value"),
        (programs.uneven_turns, "trip count differs between them"),
        (programs.until_found, "trip count differs between them"),
        (programs.foreign_memory, "unknown memory scope `wmma.accumulator`"),
    ],
)
def test_unsupported_bindings_are_refused(program: PrimFunc, message: str) -> None:
    with pytest.raises(PassError, match=message):
        lower(called(program), target="cuda:sm_90", to="loops")
