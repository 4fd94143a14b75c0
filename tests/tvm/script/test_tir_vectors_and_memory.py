"""Parsing, printing and comparison of vectors, pointers, attributes and jumps in TIR."""

# ruff: noqa: N803, N806  scripts name buffers in capitals

from typing import Any

import pytest

from relax_mlir.dialects import dtypes
from relax_mlir.errors import ScriptError
from relax_mlir.objects import prim
from relax_mlir.objects.compare.structural_equal import (
    assert_structural_equal,
    structural_equal,
)
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import ir as I  # noqa: N812  as scripts call it
from relax_mlir.tvm.script import tir as T  # noqa: N812


@T.prim_func
def vectors(A: T.Buffer((6, 8), "float32"), B: T.Buffer((6, 8), "bool")):
    for i in range(6):
        A[i, 0:8] = A[i, T.Ramp(7, -1, 8)] * T.float32(3)
        A[i, 1:8:2] = T.Cast("float32x4", T.Ramp(i, 2, 4)) + T.Broadcast(0.5, 4)
        B[i, 0:4] = A[i, 4:8:1] < A[i, 0:4:1]
        A[i, 0:2] = T.vectorlow("float32x2", A[i, 4:8])
        A[i, 2:4] = T.Shuffle([A[i, 4:6], A[i, 6:8]], [3, 0])


@T.prim_func
def masked(A: T.Buffer((9,), "int16")):
    A[T.Ramp(0, 3, 3 * T.vscale())] = T.Broadcast(T.int16(2), 3 * T.vscale())
    A.vstore(
        [T.Ramp(0, 2, 3)],
        A.vload([T.Ramp(1, 2, 3)], predicate=T.Broadcast(T.bool(True), 3)),
        predicate=T.Broadcast(T.bool(False), 3),
    )


@T.prim_func
def narrow(
    A: T.Buffer((5,), "float8_e4m3fn"),
    B: T.Buffer((5,), "float16x4"),
    C: T.Buffer((5,), "uint4"),
    D: T.Buffer((5,), "float4_e2m1fn"),
):
    for i in range(5):
        A[i] = T.Cast("float8_e4m3fn", T.float32(i))
        C[i] = C[4 - i]
        D[i] = T.Cast("float4_e2m1fn", T.Cast("float32", D[4 - i]))
        B[i] = B[i] + T.Broadcast(T.float16(1), 4)


@T.prim_func
def memory(A: T.Buffer((3, 4), "float32"), p: T.handle("int8", "shared")):
    flat = T.decl_buffer((12,), data=A.data)
    with T.attr(flat, "storage", "near"):
        again = T.decl_buffer((6, 2), data=flat.data)
        again[5, 1] = flat[0]
    scratch = T.allocate([7], "float32", "local", annotations={"k": 1})
    T.attr([A, flat], "both", 2)
    tile = T.decl_buffer((7,), data=scratch, scope="local")
    table = T.allocate_const([0.5, -2.0], "float32", [2])
    halves = T.decl_buffer((2,), data=table)
    foreign = T.decl_buffer((2,), "int8", data=p, scope="shared")
    q: T.handle("int32") = T.call_extern("handle", "where", p)
    T.call_extern("void", "free", q)
    tile[0] = A[0, 0] + T.Cast("float32", foreign[1]) * halves[1]


@T.prim_func
def placed(a: T.handle, B: T.Buffer((8,), "int8", offset_factor=4)):
    rows = T.int32()
    A = T.match_buffer(a, (5, 8), "int8", strides=[rows, 1], offset_factor=1)
    for i in range(5):
        with T.block("row"):
            vi = T.axis.spatial(5, i)
            step = T.int32()
            T.reads(A[vi, 0:8])
            T.writes(B[0:8])
            row = T.match_buffer(
                A[vi, 0:8], (8,), "int8", strides=[step], offset_factor=2
            )
            T.call_extern("int32", "copy", B.access_ptr("w"), row.access_ptr("r"), rows)
            T.evaluate(B.elem_offset + row.elem_offset // 2 + row.strides[0])


@T.prim_func
def realized(A: T.Buffer((3, 4), "float32")):
    with T.realize(A[0:3, 1:3], "local", A[0, 0] > 0.0):
        A[0, 1] = A[0, 2]


@T.prim_func
def reducer(A: T.Buffer((5,), "float32"), n: T.int32):
    least = T.comm_reducer(
        lambda i, x, j, y: (T.Select(x < y, i, j), T.min(x, y)),
        [T.int32(0), T.float32(9)],
    )
    with T.attr(least, "reduce_scope", n):
        T.evaluate(A[n])


@T.prim_func
def jumps(A: T.Buffer((20,), "int32"), n: T.int32):
    for i in T.serial(n, 20, step=3):
        if A[i] == 7:
            continue
        if A[i] == 8:
            break
        A[i] = 1
    for i in range(1, 9, 4):
        A[i] = 2


@T.prim_func(check_well_formed=False)
def free():
    n = T.int32()
    p = T.handle("float32")
    A = T.decl_buffer((3, n), data=p)
    B = T.Buffer((n,), "int8")
    T.evaluate(A[0, n] + T.Cast("float32", B[n]))


PROGRAMS = (vectors, masked, narrow, memory, placed, realized, reducer, jumps, free)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_round_trip(program: Any) -> None:
    again = from_source(program.script(), check_well_formed=False)

    assert_structural_equal(again, program, map_free_vars=True)
    assert again.script() == program.script()


@pytest.mark.parametrize(
    ("program", "old", "new"),
    [
        (vectors, "T.Ramp(7, -1, 8)", "T.Ramp(7, -2, 8)"),
        (vectors, "[3, 0]", "[0, 3]"),
        (masked, "T.bool(False)", "T.bool(True)"),
        (memory, '"near"', '"far"'),
        (memory, "(6, 2)", "(4, 3)"),
        (memory, "[A, flat]", "[flat, A]"),
        (placed, "B.elem_offset + row.elem_offset", "A.elem_offset + row.elem_offset"),
        (placed, "offset_factor=2", "offset_factor=4"),
        (realized, "A[0:3, 1:3]", "A[0:3, 0:2]"),
        (realized, '"local"', '"shared"'),
        (reducer, "T.float32(9.0)", "T.float32(8.0)"),
        (reducer, "T.min(", "T.max("),
        (jumps, ", 20, 3)", ", 20, 2)"),
        (jumps, "continue", "break"),
    ],
)
def test_differences_are_detected(program: Any, old: str, new: str) -> None:
    text = program.script()
    assert old in text

    assert not structural_equal(from_source(text.replace(old, new)), program)


def test_undefined_variable_is_an_error_unless_allowed() -> None:
    text = free.script()

    with pytest.raises(ScriptError, match="is undefined"):
        from_source(text)


def test_scalar_operand_of_a_vector_is_broadcast() -> None:
    i = prim.Var("i", "int32")
    A = Buffer((4, 6), "float16", "A")
    load = BufferLoad(A, [0, prim.Ramp(i, 1, 6)])

    assert load.dtype == "float16x6"
    assert str(load.script()).splitlines()[-1] == "A[0, i:i + 6]"
    assert (load < 2.0).dtype == "boolx6"
    assert (
        statements.BufferStore(A, 1.0, [0, prim.Ramp(0, 1, 6)]).value.dtype
        == "float16x6"
    )
    with pytest.raises(ValueError, match="different length"):
        _ = load + prim.Broadcast(i, 4)
    with pytest.raises(ValueError, match="last index only"):
        _ = A[prim.Ramp(0, 1, 2), 0]


def test_regions_cover_all_lanes_of_a_vector_access() -> None:
    @T.prim_func
    def program(A: T.Buffer((4, 9), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                A[vi, 0:3] = A[vi, T.Ramp(2, 3, 3)]

    body: Any = program.body
    block = body.block.body.body.block

    assert [str(r) for r in block.reads] == ["A[vi, 2:9]"]
    assert [str(r) for r in block.writes] == ["A[vi, 0:3]"]


def test_prim_funcs_call_each_other() -> None:
    @I.ir_module
    class Squares:
        @T.prim_func
        def main(A: T.Buffer((2,), "float32")):  # noqa: N805
            A[0] = Squares.square(A[0]) + Squares.square(A[1])
            Squares.nothing()

        @T.prim_func
        def square(x: T.float32) -> T.float32:  # noqa: N805  no method
            return x * x

        @T.prim_func
        def nothing():
            T.evaluate(0)

    text = Squares.script()

    assert "A[0] = Module.square(A[0]) + Module.square(A[1])" in text
    assert_structural_equal(from_source(text), Squares)


def test_buffers_before_parameters_and_axes() -> None:
    @T.prim_func
    def late(a: T.handle):
        B = T.alloc_buffer((5,))
        A = T.match_buffer(a, (5,))
        for i in T.grid(5):
            with T.block("b"):
                C = T.alloc_buffer((2,))
                vi = T.axis.spatial(5, i)
                A[vi] = B[vi] + C[0]

    @T.prim_func
    def early(A: T.Buffer((5,), "float32")):
        B = T.alloc_buffer((5,))
        for i in range(5):
            with T.block("b"):
                vi = T.axis.spatial(5, i)
                C = T.alloc_buffer((2,))
                A[vi] = B[vi] + C[0]

    assert structural_equal(
        late.without_attr("global_symbol"), early.without_attr("global_symbol")
    )


def test_contiguous_vector_accesses_are_slices() -> None:
    @T.prim_func
    def program(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "bool")):
        A[T.Ramp(2, 1, 4)] = -A[0:4] + A[4:12:2] * A[8:12]
        B[0:4] = A[0:4] < A[4:8]
        A[0 : T.vscale() * 2] = A.vload([T.Ramp(0, 1, T.vscale() * 2)])

    text = program.script()

    assert "A[2:6] = A[0:4] * T.Broadcast(T.float32(-1.0), 4)" in text
    assert "A[4:12:2] * A[8:12]" in text
    assert "B[0:4] = A[0:4] < A[4:8]" in text
    assert "A[0:T.vscale() * 2] = A[0:T.vscale() * 2]" in text
    assert_structural_equal(from_source(text), program)


@pytest.mark.parametrize("dtype", dtypes.NARROW_FLOATS)
def test_narrow_floats_are_stored(dtype: str) -> None:
    @T.prim_func
    def program(A: T.Buffer((3,), dtype)):
        A[0] = getattr(T, dtype)(1.0)

    text = program.script()

    assert f'A: T.Buffer((3,), "{dtype}")' in text
    assert f"A[0] = T.{dtype}(1.0)" in text
    assert_structural_equal(from_source(text), program)


def test_return_is_a_statement() -> None:
    @T.prim_func
    def program(n: T.int32) -> T.int32:
        for _ in range(n):
            T.evaluate(0)
        return n + 1

    assert program.script().endswith("    return n + 1")
    assert_structural_equal(from_source(program.script()), program)


def test_realize_buffer_region() -> None:
    text = realized.script().replace("A[0:3, 1:3], ", "A, ")

    with pytest.raises(ScriptError, match="expected a buffer region, got `A`"):
        from_source(text)
