"""Scripted PrimFuncs compute what numpy computes, from a script to machine code."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

import numpy as np
import pytest

from relax_mlir import tvm
from relax_mlir.errors import PassError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it
from tests.tvm.tir.running import run


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-2, 2, shape).astype("float32")


def test_a_contraction_with_a_start_value() -> None:
    @T.prim_func
    def program(
        A: T.Buffer((4, 5), "float32"),
        B: T.Buffer((5, 6), "float32"),
        C: T.Buffer((4, 6), "float32"),
    ):
        for i, j, k in T.grid(4, 6, 5):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(1)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    a, b = floats(4, 5), floats(5, 6)

    np.testing.assert_allclose(run(program, a, b), a @ b + 1, rtol=1e-5)


def test_tiles_with_a_predicate_and_threads() -> None:
    """4 and 5 do not divide 15 and 18: the predicate excludes the rest."""

    @T.prim_func
    def program(
        A: T.Buffer((16, 15), "float32"),
        B: T.Buffer((15, 18), "float32"),
        C: T.Buffer((16, 18), "float32"),
    ):
        for i0 in T.parallel(4):
            for i1, j0 in T.grid(4, 4):
                for j1 in T.vectorized(5):
                    for k0, k1 in T.grid(4, 4):
                        with T.block("C"):
                            vi = T.axis.spatial(16, i0 * 4 + i1)
                            vj = T.axis.spatial(18, j0 * 5 + j1)
                            vk = T.axis.reduce(15, k0 * 4 + k1)
                            T.where(j0 * 5 + j1 < 18 and k0 * 4 + k1 < 15)
                            with T.init():
                                C[vi, vj] = T.float32(0)
                            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    a, b = floats(16, 15), floats(15, 18)

    np.testing.assert_allclose(run(program, a, b, threads=2), a @ b, rtol=1e-4)


def test_buffers_of_blocks_in_other_memories() -> None:
    @T.prim_func
    def program(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
        S = T.alloc_buffer((8, 6), scope="shared")
        for bx in T.thread_binding(8, thread="blockIdx.x"):
            for tx in T.thread_binding(6, thread="threadIdx.x"):
                with T.block("S"):
                    vi, vj = T.axis.remap("SS", [bx, tx])
                    S[vi, vj] = A[vi, vj] * T.float32(2)
        for i in range(4):
            with T.block("outer"):
                vi = T.axis.spatial(4, i)
                L = T.alloc_buffer((2, 6), scope="local")
                part = T.match_buffer(
                    S[vi * 2 : vi * 2 + 2, 0:6], (2, 6), scope="shared"
                )
                for a, b in T.grid(2, 6):
                    with T.block("L"):
                        va, vb = T.axis.remap("SS", [a, b])
                        L[va, vb] = part[va, vb] + T.float32(1)
                for a, b in T.grid(2, 6):
                    with T.block("C"):
                        va, vb = T.axis.remap("SS", [a, b])
                        C[vi * 2 + va, vb] = L[va, vb]

    a = floats(8, 6)

    np.testing.assert_allclose(run(program, a), a * 2 + 1)


def test_choices_names_and_repetition() -> None:
    @T.prim_func
    def program(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                x: T.float32 = A[vi]
                if x > T.float32(0):
                    C[vi] = x
                    while C[vi] < T.float32(4):
                        C[vi] = C[vi] * T.float32(2)
                elif vi % 2 == 1:
                    C[vi] = T.float32(7)
                else:
                    C[vi] = -x

    a = np.array([1.5, -1, -2, -3, 0.25, 4, -6, 8], "float32")

    assert run(program, a).tolist() == [6, 7, 2, 7, 4, 4, 6, 8]


def test_functions_of_floats() -> None:
    @T.prim_func
    def program(A: T.Buffer((9,), "float32"), C: T.Buffer((8, 9), "float32")):
        for i in range(9):
            with T.block("C"):
                vi = T.axis.spatial(9, i)
                C[0, vi] = T.exp(A[vi]) + T.sigmoid(A[vi])
                C[1, vi] = T.if_then_else(A[vi] > 0.0, T.sqrt(A[vi]), T.float32(-1))
                C[2, vi] = T.Select(A[vi] < T.float32(0), T.abs(A[vi]), T.tanh(A[vi]))
                C[3, vi] = T.max(T.min(A[vi], 1.0), T.float32(-0.5))
                C[4, vi] = T.floor(A[vi]) - T.ceil(A[vi]) * T.trunc(A[vi])
                C[5, vi] = T.pow(T.abs(A[vi]), T.float32(1.5)) + T.hypot(A[vi], 2.0)
                C[6, vi] = T.Cast("float32", T.Cast("int32", A[vi] * T.float32(10)))
                C[7, vi] = T.erf(A[vi]) / T.float32(3) + T.exp10(A[vi])

    a = np.array([-2.5, -1, -0.75, -0.5, 0, 0.25, 1, 1.5, 2], "float32")
    erf = [-0.99959303, -0.8427008, -0.7111556, -0.5204999, 0]
    erf += [0.2763264, 0.8427008, 0.9661051, 0.9953223]
    expected = np.stack(
        [
            np.exp(a) + 1 / (1 + np.exp(-a)),
            np.where(a > 0, np.sqrt(np.abs(a)), -1),
            np.where(a < 0, np.abs(a), np.tanh(a)),
            np.clip(a, -0.5, 1),
            np.floor(a) - np.ceil(a) * np.trunc(a),
            np.abs(a) ** 1.5 + np.hypot(a, 2),
            np.trunc(a * 10),
            np.array(erf) / 3 + 10.0**a,
        ]
    )

    np.testing.assert_allclose(run(program, a), expected, rtol=2e-6, atol=1e-6)


def test_integers_round_down_and_divide_by_nothing() -> None:
    @T.prim_func
    def program(
        A: T.Buffer((6,), "int32"),
        B: T.Buffer((6,), "int32"),
        C: T.Buffer((7, 6), "int32"),
    ):
        for i in range(6):
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                C[0, vi] = A[vi] // T.max(T.abs(B[vi]), 1)
                C[1, vi] = A[vi] % T.max(T.abs(B[vi]), 1)
                C[2, vi] = T.truncdiv(A[vi], T.max(T.abs(B[vi]), 1))
                C[3, vi] = T.truncmod(A[vi], T.max(T.abs(B[vi]), 1))
                C[4, vi] = (A[vi] & 6) | (B[vi] ^ 3)
                C[5, vi] = (A[vi] << 2) + (B[vi] >> 1) + ~A[vi]
                # Whatever this is, the process goes on.
                C[6, vi] = T.min(A[vi] // B[vi], 0) * 0

    a = np.array([7, -7, 7, -7, -(2**31), 5], "int32")
    b = np.array([2, 2, -3, -3, -1, 0], "int32")
    d = np.maximum(np.abs(b), 1)
    expected = [
        a // d,
        a % d,
        np.trunc(a / d),
        np.fmod(a, d),
        (a & 6) | (b ^ 3),
        (a << 2) + (b >> 1) + ~a,
        np.zeros(6),
    ]

    np.testing.assert_array_equal(run(program, a, b), np.stack(expected))


def test_unsigned_numbers_and_truth_values() -> None:
    @T.prim_func
    def program(
        A: T.Buffer((5,), "uint8"),
        B: T.Buffer((5,), "bool"),
        C: T.Buffer((5,), "float32"),
    ):
        for i in range(5):
            with T.block("C"):
                vi = T.axis.spatial(5, i)
                C[vi] = T.Cast("float32", A[vi] // T.uint8(3)) + T.Cast(
                    "float32", B[vi] and not (A[vi] > T.uint8(200))
                )

    a = np.array([255, 0, 7, 130, 200], "uint8")
    b = np.array([True, False, True, False, True])

    assert run(program, a, b).tolist() == [85, 0, 3, 43, 67]


def test_indices_from_data() -> None:
    @T.prim_func
    def program(
        table: T.Buffer((5, 3), "float32"),
        index: T.Buffer((4,), "int64"),
        out: T.Buffer((4, 3), "float32"),
    ):
        for i, j in T.grid(4, 3):
            with T.block("out"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = table[index[vi], vj]

    table, index = floats(5, 3), np.array([4, 0, 0, 2])

    np.testing.assert_array_equal(run(program, table, index), table[index])


def test_sizes_that_are_known_when_it_runs() -> None:
    @T.prim_func
    def program(a: T.handle, c: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 4), "float32")
        C = T.match_buffer(c, (n // 2, 4), "float32")
        D = T.alloc_buffer((n, 4), "float32")
        for i, j in T.grid(n, 4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj] * T.float32(3)
        for i, j in T.grid(n // 2, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = D[vi * 2, vj] - D[vi * 2 + 1, vj]

    a = floats(7, 4)

    expected = 3 * (a[0:6:2] - a[1:6:2])
    np.testing.assert_allclose(run(program, a), expected, rtol=1e-6)


def test_a_negative_remainder_is_not() -> None:
    @T.prim_func
    def program(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
        for i in range(5):
            with T.block("C"):
                vi = T.axis.spatial(5, i)
                C[vi] = A[(vi - 2) % 5]

    a = floats(5)

    np.testing.assert_array_equal(run(program, a), np.roll(a, 2))


def test_vectors_side_by_side_and_apart() -> None:
    @T.prim_func
    def program(A: T.Buffer((3, 8), "float32"), B: T.Buffer((3, 8), "float32")):
        for i in range(3):
            B[i, 0:8] = A[i, 0:8] * T.float32(2) + T.Cast("float32x8", T.Ramp(i, 3, 8))
            B[i, 1:8:2] = A[i, T.Ramp(6, -2, 4)]

    a = floats(3, 8)
    expected = a * 2 + np.arange(3)[:, None] + 3 * np.arange(8)
    expected[:, 1::2] = a[:, 6::-2]

    np.testing.assert_allclose(run(program, a), expected, rtol=1e-5)


def test_other_shapes_of_the_same_memory() -> None:
    @T.prim_func
    def program(A: T.Buffer((3, 4), "float32"), B: T.Buffer((4, 3), "float32")):
        flat = T.decl_buffer((12,), data=A.data)
        pointer = T.allocate([5], "float32", "local")
        with T.attr(flat, "storage_alignment", 64):
            tile = T.decl_buffer((5,), data=pointer, scope="local")
            square = T.decl_buffer((2, 6), data=B.data)
            for i, j in T.grid(2, 6):
                tile[4] = flat[i * 6 + j]
                square[i, j] = tile[4] + T.float32(1)

    a = floats(3, 4)

    np.testing.assert_array_equal(run(program, a), (a + 1).reshape(4, 3))


def test_points_read_what_those_before_wrote() -> None:
    @T.prim_func
    def started(A: T.Buffer((5, 3), "float32"), B: T.Buffer((5,), "float32")):
        for i, k in T.grid(5, 3):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.if_then_else(vi > 0, B[vi - 1], T.float32(0))
                B[vi] = B[vi] + A[vi, vk]

    @T.prim_func
    def multiplied(A: T.Buffer((5, 3), "float32"), B: T.Buffer((5,), "float32")):
        for i, k in T.grid(5, 3):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk] * T.if_then_else(
                    vi > 0, B[vi - 1], T.float32(1)
                )

    a = floats(5, 3)

    np.testing.assert_allclose(run(started, a), np.cumsum(a.sum(1)), rtol=1e-5)
    np.testing.assert_allclose(run(multiplied, a), np.cumprod(a.sum(1)), rtol=1e-4)


def test_loops_with_steps() -> None:
    @T.prim_func
    def program(A: T.Buffer((11,), "float32"), B: T.Buffer((11,), "float32")):
        for i in range(11):
            B[i] = T.float32(0)
        for i in T.serial(1, 11, step=4):
            B[i] = A[i]

    a = floats(11)
    expected = np.zeros_like(a)
    expected[1::4] = a[1::4]

    np.testing.assert_array_equal(run(program, a), expected)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("T.Broadcast(T.float32(0), 2 * T.vscale())", "fixed length"),
        (
            "A.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(A[0] < 1.0, 4))",
            "all lanes",
        ),
    ],
)
def test_vectors_that_no_cpu_code_is_made_of(value: str, problem: str) -> None:
    lanes = "2 * T.vscale()" if "vscale" in value else "4"
    program = from_source(
        "@T.prim_func\n"
        'def program(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
        f"    B[T.Ramp(0, 1, {lanes})] = {value}\n"
    )

    with pytest.raises(PassError, match=problem):
        run(program, floats(8))


def test_quotients_and_remainders_of_indices_below_zero() -> None:
    """Loop variables, iter vars and bindings may be negative; a remainder has the divisor's sign."""

    @T.prim_func
    def program(A: T.Buffer((4, 7), "int32")):
        for i in T.serial(-3, 4):
            A[0, i + 3] = i % 4
            A[1, i + 3] = i // 4
            with T.block("axis"):
                v = T.axis.spatial((-3, 4), i)
                A[2, v + 3] = v % 4
            k: T.int32 = -i
            A[3, i + 3] = (k + 1) % 4

    i = np.arange(-3, 4)

    np.testing.assert_array_equal(run(program), [i % 4, i // 4, i % 4, (1 - i) % 4])


@pytest.mark.parametrize("k", [-3, 0, 2])
def test_parameters_that_no_shape_mentions_may_be_negative(k: int) -> None:
    @T.prim_func
    def program(k: T.int32, A: T.Buffer((2, 7), "int32")):
        for i in range(7):
            A[0, i] = (i + k) % 5
            A[1, i] = i // k

    executable = tvm.compile(program)
    found = tvm.nd.empty((2, 7), "int32")
    executable(k, found)

    i = np.arange(7)
    expected = [
        (i + k) % 5,
        i // (k or 1),
    ]  # what would be divided by 0 is left as it is
    np.testing.assert_array_equal(found.numpy(), expected)


def test_memory_of_constants() -> None:
    @T.prim_func
    def program(A: T.Buffer((2, 3), "int16"), B: T.Buffer((2, 3), "int16")):
        table = T.allocate_const([1, -2, 3, 5, 8, 13], "int16", [2, 3])
        rows = T.decl_buffer((2, 3), "int16", data=table)
        for i, j in T.grid(2, 3):
            B[i, j] = A[i, j] * rows[1 - i, j]

    a = np.arange(6, dtype="int16").reshape(2, 3)

    found = run(program, a)

    np.testing.assert_array_equal(found, a * np.array([[5, 8, 13], [1, -2, 3]]))
