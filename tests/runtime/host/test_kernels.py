"""Kernel modules: compiled PrimFuncs in destination-passing style."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir import tvm
from relax_mlir.errors import RunError
from relax_mlir.tvm.script import ir as I
from relax_mlir.tvm.script import tir as T

# ruff: noqa: N803, N805, N806, N812  scripts are not plain Python


@T.prim_func
def scale(
    x: T.handle, factor: T.float32, count: T.int32, y: T.Buffer((4, 3), "float32")
):
    n = T.int64()
    X = T.match_buffer(x, (n, 3), "float32")
    for i, j in T.grid(n, 3):
        with T.block("scale"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = X[vi, vj] * factor + T.cast(count, "float32")


def test_numbers_and_arrays_are_passed_in_order() -> None:
    kernel = tvm.compile(scale)
    x, y = np.arange(12, dtype="float32").reshape(4, 3), np.zeros((4, 3), "float32")
    kernel(x, 2.5, -3, y)
    np.testing.assert_allclose(y, x * 2.5 - 3)
    kernel["scale"](tvm.nd.array(x), 1.0, 0, y)
    np.testing.assert_array_equal(y, x)


def test_programs_are_written_to_a_file(tmp_path) -> None:
    path = tmp_path / "kernels.rxm"
    tvm.compile(scale).export_library(path)

    loaded = tvm.runtime.load_module(path)

    x, y = np.ones((4, 3), "float32"), np.zeros((4, 3), "float32")
    loaded["scale"](x, 2.0, 1, y)
    np.testing.assert_array_equal(y, 3)
    with pytest.raises(TypeError, match="`scale`: expected 4 arguments"):
        loaded(x)


def test_a_schedule_is_compiled_as_it_stands() -> None:
    sch = tvm.tir.Schedule(scale)
    i, j = sch.get_loops(sch.get_block("scale"))
    sch.reorder(j, i)
    outer, _ = sch.split(j, factors=[None, 2])
    sch.parallel(outer)
    kernel = tvm.build(sch.mod, target="llvm")
    x, y = np.arange(12, dtype="float32").reshape(4, 3), np.zeros((4, 3), "float32")
    kernel["main"](x, 1.0, 1, y)
    np.testing.assert_array_equal(y, x + 1)
    assert kernel.time_evaluator("main", number=2)(x, 1.0, 1, y).mean > 0


def test_what_is_written_must_be_memory_of_its_own() -> None:
    kernel = tvm.compile(scale)["scale"]
    x, wide = np.zeros((4, 3), "float32"), np.zeros((4, 6), "float32")
    with pytest.raises(RunError, match="argument 3 `y`: expected memory of its own"):
        kernel(x, 1.0, 0, x)
    with pytest.raises(RunError, match="C-contiguous"):
        kernel(x, 1.0, 0, wide[:, ::2])
    with pytest.raises(TypeError, match=r"expected 4 arguments .*, got 2"):
        kernel(x, 1.0)
    with pytest.raises(TypeError, match="expected an array to write to, got str"):
        kernel(x, 1.0, 0, "y")
    assert not wide.any()


def test_each_program_of_a_module_is_called_by_name() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def up(A: T.Buffer((2,), "int32")):
            for i in range(2):
                A[i] = A[i] + 1

        @T.prim_func
        def down(A: T.Buffer((2,), "int32")):
            for i in range(2):
                A[i] = A[i] - 1

    made = tvm.compile(Module)
    array = np.array([3, 4], "int32")
    made["up"](array)
    made["up"](array)
    made["down"](array)
    assert array.tolist() == [4, 5]
    assert made.entry_name == "up"
    with pytest.raises(AttributeError, match="Did you mean `down`"):
        made["dwn"]


def test_what_a_program_asserts_of_its_arguments_holds() -> None:
    @T.prim_func
    def first(A: T.Buffer((4,), "float32"), n: T.int32, b: T.handle):
        m = T.int32()
        B = T.match_buffer(b, (m,), "float32")
        assert n <= 4, "too many"
        assert m == n * 2 - 1, "odd"
        for i in range(n):
            B[i] = A[i]

    kernel = tvm.compile(first)
    x, y = np.arange(4, dtype="float32"), np.zeros(3, "float32")
    kernel(x, 2, y)
    assert y.tolist() == [0, 1, 0]
    with pytest.raises(AssertionError, match="`first`: too many"):
        kernel(x, 5, y)
    with pytest.raises(AssertionError, match="odd"):
        kernel(x, 3, y)


def test_c_functions_are_called_on_numbers_and_addresses() -> None:
    @T.prim_func
    def powers(A: T.Buffer((2, 3), "float32"), B: T.Buffer((2, 3), "float32")):
        T.evaluate(T.call_extern("int32", "memcpy", B.data, A.data, 12))
        for j in range(3):
            B[1, j] = T.call_extern("float32", "powf", A[1, j], T.float32(2))
        T.evaluate(T.call_extern("int32", "memcpy", T.address_of(B[0, 1]), A.data, 4))

    x = np.arange(1, 7, dtype="float32").reshape(2, 3)
    y = np.zeros((2, 3), "float32")
    tvm.compile(powers)(x, y)
    assert y.tolist() == [[1, 1, 3], [16, 25, 36]]


def test_a_c_function_that_is_not_there_is_named() -> None:
    @T.prim_func
    def lost(A: T.Buffer((2,), "float32")):
        for i in range(2):
            A[i] = T.call_extern("float32", "no_such_function", A[i])

    with pytest.raises(relax_mlir.RelaxError, match="no_such_function"):
        tvm.compile(lost)(np.zeros(2, "float32"))
