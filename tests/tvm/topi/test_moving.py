"""Data movement, indexing and combining operators, against numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from relax_mlir.dialects import shapes
from relax_mlir.errors import ArgumentValueError
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.tvm import te, topi
from tests.tvm.te.programs import evaluate

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 6)).astype(np.float32)
B = RNG.standard_normal(6).astype(np.float32)
C = RNG.standard_normal((2, 3, 4)).astype(np.float32)


def same(actual: Any, expected: Any) -> None:
    actual = actual if isinstance(actual, list) else [actual]
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    for mine, wanted in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(mine, wanted)


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    # Sums of a dozen float32 numbers, in another order than numpy's.
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


MOVED = {
    "transpose": (topi.transpose, np.transpose),
    "transpose axes": (
        lambda x: topi.transpose(x, [1, -1, 0]),
        lambda x: x.transpose(1, 2, 0),
    ),
    "reshape": (lambda x: topi.reshape(x, (4, 6)), lambda x: x.reshape(4, 6)),
    "expand_dims": (
        lambda x: topi.expand_dims(x, -2, 2),
        lambda x: x[:, :, None, None],
    ),
    "squeeze": (lambda x: topi.squeeze(topi.expand_dims(x, 1)), lambda x: x),
    "flip": (lambda x: topi.flip(x, 1), lambda x: np.flip(x, 1)),
    "concatenate": (
        lambda x: topi.concatenate([x, x * 2.0], 1),
        lambda x: np.concatenate([x, x * 2], 1),
    ),
    "stack": (
        lambda x: topi.stack([x, x * 2.0], -1),
        lambda x: np.stack([x, x * 2], -1),
    ),
    "split sections": (lambda x: topi.split(x, 2, 2), lambda x: np.split(x, 2, 2)),
    "split places": (
        lambda x: topi.split(x, [1, 3], -1),
        lambda x: np.split(x, [1, 3], -1),
    ),
    "tile": (lambda x: topi.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
    "tile more": (
        lambda x: topi.tile(x, (2, 1, 1, 2)),
        lambda x: np.tile(x, (2, 1, 1, 2)),
    ),
    "repeat": (lambda x: topi.repeat(x, 2, 1), lambda x: np.repeat(x, 2, 1)),
    "broadcast_to": (
        lambda x: topi.broadcast_to(x, (2, 2, 3, 4)),
        lambda x: np.broadcast_to(x, (2, 2, 3, 4)),
    ),
    "strided_slice": (
        lambda x: topi.strided_slice(x, [0, 2, -1], [2, 0, 0], [1, -1, -2]),
        lambda x: x[0:2, 2:0:-1, -1:0:-2],
    ),
    "slice of axes": (
        lambda x: topi.strided_slice(x, [1], [4], [2], axes=[2]),
        lambda x: x[:, :, 1:4:2],
    ),
    "slice of sizes": (
        lambda x: topi.strided_slice(x, [0, 1], [1, -1], slice_mode="size"),
        lambda x: x[0:1, 1:],
    ),
    "sliding_window": (
        lambda x: topi.sliding_window(x, 1, [2, 2], [1, 2]),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), (1, 2))[
            :, :, ::2
        ],
    ),
    "trilu": (lambda x: topi.trilu(x, te.const(1), True), lambda x: np.triu(x, 1)),
    "lower": (lambda x: topi.trilu(x, te.const(-1), False), lambda x: np.tril(x, -1)),
    "layout": (
        lambda x: topi.layout_transform(x, "NCW", "NWC"),
        lambda x: x.transpose(0, 2, 1),
    ),
}


@pytest.mark.parametrize("case", MOVED)
def test_data_movement_operators(case: str) -> None:
    operator, expected = MOVED[case]

    same(evaluate(operator, C), expected(C))


def test_layouts_with_channels_in_blocks() -> None:
    x = RNG.standard_normal((1, 8, 2, 3)).astype(np.float32)
    packed = x.reshape(1, 2, 4, 2, 3).transpose(0, 1, 3, 4, 2)

    same(evaluate(lambda t: topi.layout_transform(t, "NCHW", "NCHW4c"), x), packed)
    same(evaluate(lambda t: topi.layout_transform(t, "NCHW4c", "NCHW"), packed), x)


def test_channels_that_do_not_fill_a_block_are_padded() -> None:
    x = np.ones((1, 3, 1, 1), np.float32)

    packed = evaluate(lambda t: topi.layout_transform(t, "NCHW", "NCHW4c"), x)

    same(packed.ravel(), np.array([1, 1, 1, 0], np.float32))


def test_take_brings_indices_into_range() -> None:
    places = np.array([0, 9, -3], np.int32)

    clipped = evaluate(lambda a, i: topi.take(a, i, axis=1, mode="clip"), A, places)
    wrapped = evaluate(lambda a, i: topi.take(a, i, axis=1, mode="wrap"), A, places)
    flat = evaluate(lambda a, i: topi.take(a, i, mode="clip"), A, places)

    same(clipped, A.take([0, 5, 0], 1))
    same(wrapped, A.take([0, 3, 3], 1))
    same(flat, A.ravel()[[0, 9, 0]])


def test_take_in_batches() -> None:
    places = np.array([[0, 2, 1], [3, 3, 0]], np.int64)

    taken = evaluate(
        lambda a, i: topi.take(a, i, axis=2, batch_dims=1, mode="clip"), C, places
    )

    same(taken, np.stack([C[i][:, places[i]] for i in range(2)]))


def test_gather_and_gather_nd() -> None:
    along = RNG.integers(0, 6, (3, 2))
    points = np.array([[0, 2], [1, 5]])

    same(
        evaluate(lambda a, i: topi.gather(a, 1, i), A, along),
        np.take_along_axis(A, along, 1),
    )
    same(evaluate(topi.gather_nd, A, points), A[[0, 2], [1, 5]])
    same(evaluate(topi.gather_nd, A, points[:1]), A[[0, 2]])


@pytest.mark.parametrize("count", [0, 3])
def test_adv_index_rejects_more_index_tensors_than_axes(count: int) -> None:
    data, index = te.placeholder((3, 4)), te.placeholder((2,), "int64")

    with pytest.raises(ArgumentValueError, match=r"expected 1 to 2 tensors, got"):
        topi.adv_index(data, [index] * count)


def test_adv_index_broadcasts_its_indices() -> None:
    rows, columns = np.array([[0], [2]]), np.array([1, 5, 3])

    same(
        evaluate(lambda a, i, j: topi.adv_index(a, [i, j]), A, rows, columns),
        A[rows, columns],
    )


def test_where_broadcasts() -> None:
    same(evaluate(topi.where, A > 0, A, B), np.where(A > 0, A, B))
    chosen = (A > 0).astype(np.int32)
    same(evaluate(topi.where, chosen, A, B), np.where(chosen, A, B))


def test_one_hot_and_masks() -> None:
    places = np.array([1, 3], np.int32)
    on, off = te.const(2, "float32"), te.const(-1, "float32")
    hot = evaluate(lambda i: topi.one_hot(i, on, off, 4, -1, "float32"), places)
    same(hot, np.where(np.eye(4)[places] > 0, 2, -1))

    lengths = np.array([2, 6, 0], np.int32)
    masked = evaluate(lambda a, n: topi.sequence_mask(a, n, 0.5, 1), A, lengths)
    same(masked, np.where(np.arange(6) < lengths[:, None], A, np.float32(0.5)))


def test_reverse_sequence_reverses_the_valid_prefix() -> None:
    lengths = np.array([2, 6, 1], np.int32)

    turned = evaluate(lambda a, n: topi.reverse_sequence(a, n, 1, 0), A, lengths)

    same(
        turned,
        np.stack(
            [np.r_[row[:n][::-1], row[n:]] for row, n in zip(A, lengths, strict=True)]
        ),
    )


def test_matrix_set_diag() -> None:
    diagonals = np.array([[9, 8, 7], [3, 2, 1]], np.float32)

    made = evaluate(lambda a, d: topi.matrix_set_diag(a, d, (0, 1)), A, diagonals)

    expected = A.copy()
    for i in range(3):
        expected[i, i], expected[i, i + 1] = diagonals[1, i], diagonals[0, i]
    same(made, expected)


def test_arange_and_meshgrid() -> None:
    same(evaluate(lambda x: topi.arange(1, 10, 3, "int32"), A), np.arange(1, 10, 3))
    same(evaluate(lambda x: topi.arange(1.0, 2.0, 0.25), A), np.arange(1, 2, 0.25))
    same(
        evaluate(lambda a, b: topi.meshgrid([a, b], "xy"), B, B[:2]),
        np.meshgrid(B, B[:2]),
    )


def test_shape_size_and_unravel_index() -> None:
    numbers = np.array([0, 7, 17], np.int32)
    shape = np.array([3, 6], np.int32)

    same(evaluate(topi.shape, A), np.array([3, 6]))
    same(evaluate(topi.tensor_size, A), np.array(18))
    same(
        evaluate(topi.unravel_index, numbers, shape),
        np.stack(np.unravel_index(numbers, (3, 6))),
    )


def test_sparse_to_dense() -> None:
    places, values = np.array([1, 4], np.int32), np.array([5, 6], np.float32)

    dense = evaluate(lambda i, v: topi.sparse_to_dense(i, [6], v), places, values)

    same(dense, np.array([0, 5, 0, 0, 6, 0], np.float32))


REDUCED = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize(
    ("axis", "keepdims"), [(None, False), (0, True), ((-1, 0), False)]
)
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    made = evaluate(lambda x: getattr(topi, name)(x, axis, keepdims), C)

    close(made, np.asarray(REDUCED[name](C, axis, keepdims=keepdims)))


def test_boolean_reductions() -> None:
    same(evaluate(lambda x: topi.any(x, 1), A > 0.9), (A > 0.9).any(1))
    same(evaluate(lambda x: topi.all(x, 1), A > -1), (A > -1).all(1))


def test_argmax_takes_the_first_of_equal_elements_or_the_last() -> None:
    x = np.array([[1, 3, 3], [2, 2, 0]], np.float32)

    same(evaluate(lambda t: topi.argmax(t, 1), x), np.array([1, 0]))
    same(evaluate(lambda t: topi.argmax(t, 1, False, True), x), np.array([2, 1]))
    same(evaluate(lambda t: topi.argmin(t, None, True), x), np.array([[5]]))


def test_collapse_sum_reduces_broadcast_axes() -> None:
    close(evaluate(lambda x: topi.collapse_sum(x, (3, 1)), C), C.sum((0, 2))[:, None])


def test_matmul_and_tensordot() -> None:
    d = RNG.standard_normal((3, 4, 5)).astype(np.float32)

    close(evaluate(lambda a, b: topi.matmul(a, b, False, True), A, A), A @ A.T)
    close(evaluate(lambda a, b: topi.tensordot(a, b, 2), C, d), np.tensordot(C, d, 2))
    close(
        evaluate(lambda a, b: topi.tensordot(a, b, [[2, 1], [1, 0]]), C, d),
        np.tensordot(C, d, ((2, 1), (1, 0))),
    )


@pytest.mark.parametrize(
    ("letters", "count"),
    [("ij->ji", 1), ("ij->", 1), ("ij,ij->i", 2), ("ij,kj", 2), ("...j->...", 1)],
)
def test_einsum(letters: str, count: int) -> None:
    arrays = [A, A[::-1]][:count]

    close(
        evaluate(lambda *t: topi.einsum(letters, list(t)), *arrays),
        np.asarray(np.einsum(letters, *arrays)),
    )


def test_cumsum_and_cumprod() -> None:
    close(evaluate(lambda x: topi.cumsum(x, 1), C), C.cumsum(1))
    close(evaluate(topi.cumsum, C), C.cumsum())
    exclusive = evaluate(lambda x: topi.cumprod(x, 1, exclusive=True), A)
    close(exclusive, np.c_[np.ones(3, np.float32), A.cumprod(1)[:, :-1]])


def test_sort_argsort_and_topk() -> None:
    close(evaluate(lambda x: topi.sort(x, 1), A), np.sort(A, 1))
    same(evaluate(lambda x: topi.argsort(x, axis=0, dtype="int64"), A), A.argsort(0))
    values, places = evaluate(lambda x: topi.topk(x, 2), A)
    close(values, -np.sort(-A, 1)[:, :2])
    same(places, (-A).argsort(1)[:, :2])


@pytest.mark.parametrize(
    ("reduction", "expected"), [("update", 1), ("add", 2), ("mul", 1), ("max", 1)]
)
def test_scatter_elements_wraps_negative_indices(
    reduction: str, expected: float
) -> None:
    places = np.array([[1], [-1], [0]])
    ones, data = np.ones((3, 1), np.float32), np.ones((3, 6), np.float32)

    made = evaluate(
        lambda a, i, u: topi.scatter_elements(a, i, u, 1, reduction), data, places, ones
    )

    wanted = data.copy()
    wanted[[0, 1, 2], [1, 5, 0]] = expected
    same(made, wanted)


def test_scatter_nd_writes_whole_rows() -> None:
    rows = np.array([[2, 0]])
    new = np.arange(12, dtype=np.float32).reshape(2, 6)

    made = evaluate(lambda a, i, u: topi.scatter_nd(a, i, u, "update"), A, rows, new)

    wanted = A.copy()
    wanted[[2, 0]] = new
    same(made, wanted)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_broadcasts_indices_and_wraps_negative_ones(
    accumulate: bool,
) -> None:
    rows, columns = np.array([[0], [-1]]), np.array([1, -2])
    new = np.arange(1, 5, dtype=np.float32).reshape(2, 2)

    made = evaluate(
        lambda a, i, j, v: topi.index_put(a, [i, j], v, accumulate),
        *(A, rows, columns, new),
    )

    wanted = A.copy()
    wanted[rows, columns] = new + accumulate * A[rows, columns]
    same(made, wanted)


def test_index_put_accumulates_duplicates() -> None:
    zeros, ones = np.zeros(5, np.int64), np.ones(5, np.float32)

    actual = evaluate(lambda a, i, v: topi.index_put(a, i, v, True), B, zeros, ones)

    close(actual, B + np.array([5, 0, 0, 0, 0, 0], np.float32))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a: topi.index_put(a, a, a), "expected 2 index tensors, got 1"),
        (lambda a: topi.split(a, 5, 1), "cannot split 6 elements into 5 sections"),
        (lambda a: topi.squeeze(a, 0), "axis 0 has size 3, expected 1"),
        (lambda a: topi.transpose(a, [0, 0]), "expected each of 2 axes once"),
        (lambda a: topi.sum(a, 2), "axis 2: expected one of 2 dimensions"),
        (lambda a: topi.layout_transform(a, "NC", "NW"), "have different axes"),
        (lambda a: topi.einsum("ij->k", a), "expected output subscripts once each"),
        (
            lambda a: topi.take(a, a, mode="far"),
            "expected mode `fast`, `clip` or `wrap`",
        ),
    ],
)
def test_invalid_arguments_are_rejected(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(te.placeholder((3, 6)))


@pytest.mark.parametrize("back", [1, 2])
def test_a_slice_of_the_last_elements_has_a_size(back: int) -> None:
    n = te.var("n", "int64")

    made = topi.strided_slice(
        te.placeholder((n,)), [n - back], [n], axes=[0], assume_inbound=False
    )

    symbols = Symbols()
    assert symbols.dim(made.shape[0]) == shapes.minimum(symbols.dim(n), back)
