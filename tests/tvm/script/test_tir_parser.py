"""Parsing of PrimFuncs."""

# ruff: noqa: N803, N806, B007, F821  scripts name buffers in capitals

import pytest

from relax_mlir.errors import ScriptError
from relax_mlir.objects.compare.structural_equal import (
    assert_structural_equal,
    structural_equal,
)
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it


@T.prim_func(private=True)
def plain(A: T.Buffer((6, 4), "float32"), B: T.Buffer((6, 4), "float32")):
    for i, j in T.grid(6, 4):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            vj = T.axis.spatial(4, j)
            B[vi, vj] = A[vi, vj] + T.float32(1)


def test_old_and_new_syntax_are_equal() -> None:
    @T.prim_func(private=True, s_tir=True)
    def spelled(x: T.handle, y: T.handle) -> None:
        A = T.match_buffer(x, [6, 4], dtype="float32")
        B = T.match_buffer(y, (6, 4))
        for i in T.serial(0, 6):
            for j in range(4):
                with T.sblock("another name"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads([A[vi, vj]])
                    T.writes(B[vi, vj])
                    B[vi, vj] = A[vi, vj] + 1.0

    @T.prim_func(private=True)
    def indexed(A: T.Buffer[(6, 4), "float32"], B: T.Buffer[(6, 4)]):
        for i, j in T.grid(6, 4):
            with T.block("B"):
                vi, vj = T.axis.S(6, i), T.axis.S(4, j)
                T.buffer_store(B, A[vi, vj] + T.float32(1), [vi, vj])

    assert_structural_equal(spelled, plain)
    assert_structural_equal(indexed, plain)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T.grid(6, 4)", "T.grid(4, 6)"),
        ("for i, j in T.grid(6, 4)", "for i, j in T.grid(6, 5)"),
        ('"SS"', '"SR"'),
        ("[i, j]", "[j, i]"),
        ("T.float32(1.0)", "T.float32(2.0)"),
        ("A[vi, vj] +", "A[vi, vj] -"),
        ("B[vi, vj] = A", "B[vi, 3 - vj] = A"),
    ],
)
def test_differences_are_detected(old: str, new: str) -> None:
    text = plain.script()

    assert old in text
    assert not structural_equal(from_source(text.replace(old, new)), plain)


def test_index_arithmetic_is_compared_in_canonical_form() -> None:
    @T.prim_func(private=True)
    def one(A: T.Buffer((64,), "float32")):
        for i, j in T.grid(8, 8):
            A[i * 8 + j] = T.float32(0)

    @T.prim_func(private=True)
    def other(A: T.Buffer((64,), "float32")):
        for i, j in T.grid(8, 8):
            A[2 * j + (4 * i) * 2 - j] = T.float32(0)

    @T.prim_func(private=True)
    def third(A: T.Buffer((64,), "float32")):
        for i, j in T.grid(8, 8):
            A[i + 8 * j] = T.float32(0)

    assert_structural_equal(one, other)
    assert not structural_equal(one, third)


def test_python_functions_can_emit_statements() -> None:
    shape, factor = (6, 4), 1.0

    def plus(x: object) -> object:
        return x + T.float32(factor)

    @T.macro
    def body(target, source, *, where):
        target[where] = plus(source[where])

    @T.prim_func(private=True)
    def program(A: T.Buffer(shape, "float32"), B: T.Buffer(shape, "float32")):
        for *outer, j in T.grid(*shape):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [*outer, j])
                if len(shape) == 2:
                    body(B, A, where=(vi, vj))
                else:
                    B[vi, vj] = T.float32(0)

    assert_structural_equal(program, plain)


def test_hygienic_and_unhygienic_macros() -> None:
    step = 5

    @T.macro
    def own(A):
        A[step] = T.float32(0)

    @T.macro(hygienic=False)
    def callers(A):
        A[step] = T.float32(0)

    def program(macro):
        @T.prim_func(private=True)
        def made(A: T.Buffer((8,), "float32")):
            for step in range(8):
                macro(A)

        return made

    assert "A[5] = " in program(own).script()
    assert "A[step] = " in program(callers).script()


def test_macro_as_a_method() -> None:
    class Copier:
        def __init__(self, source):
            self.copy = T.alloc_buffer(source.shape, source.dtype)

        @T.macro
        def run(self, source):
            for i in range(4):
                self.copy[i] = source[i]

    @T.prim_func(private=True)
    def program(A: T.Buffer((4,), "float32")):
        copier = T.meta_var(Copier(A))
        copier.run(A)
        again = T.meta_var(Copier(A))
        again.run(copier.copy)

    root = program.body.block

    assert len(root.alloc_buffers) == 2
    assert root.body[1].body.buffer is root.alloc_buffers[1]
    assert root.body[1].body.value.buffer is root.alloc_buffers[0]


def test_parameters_come_in_any_order() -> None:
    @T.prim_func
    def program(n: T.int32, a: T.handle, x: T.float32, B: T.Buffer((8,), "int8")):
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = x

    assert [p.name for p in program.params] == ["n", "a", "x", "var_B"]
    assert [p.dtype for p in program.params][:3] == ["int32", "handle", "float32"]
    assert program.buffer_map[program.params[1]].shape[0] is program.params[0]
    assert_structural_equal(from_source(program.script()), program)


def test_let_bindings() -> None:
    @T.prim_func(private=True)
    def assigned(A: T.Buffer((4,), "float32"), n: T.int32):
        x = A[0]
        m = n
        A[m] = x * x

    @T.prim_func(private=True)
    def annotated(A: T.Buffer((4,), "float32"), n: T.int32):
        x: T.float32 = A[0]
        with T.LetStmt(n) as m:
            A[m] = x * x

    assert_structural_equal(assigned, annotated)
    assert str(assigned.body.var) == "x"


def test_launch_thread_equals_thread_binding() -> None:
    @T.prim_func(private=True)
    def launched(A: T.Buffer((4, 8), "float32")):
        bx = T.launch_thread("blockIdx.x", 4)
        tx = T.env_thread("threadIdx.x")
        T.launch_thread(tx, 8)
        A[bx, tx] = T.float32(0)

    @T.prim_func(private=True)
    def bound(A: T.Buffer((4, 8), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for tx in T.thread_binding(8, "threadIdx.x"):
                A[bx, tx] = T.float32(0)

    assert_structural_equal(launched, bound)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int8", -3), ("uint8", 250), ("int64", 2**40), ("float16", 0.5), ("bool", True)],
)
def test_constants_keep_their_dtype(dtype: str, value: float) -> None:
    text = (
        f'@T.prim_func\ndef f(A: T.Buffer((2,), "{dtype}")):\n'
        f"    A[0] = T.{dtype}({value})"
    )

    stored = from_source(text).body.value

    assert (stored.dtype, stored.value) == (dtype, value)


ERRORS = [
    ("C[0] = 0.0", 3, "undefined variable `C`"),
    ("for i in T.evaluate(0):\n    pass", 3, "expected `range`, `T.serial`"),
    ("with T.evaluate(0):\n    pass", 3, "expected `T.block"),
    ("return 'three'", 3, "`return`: expected a scalar"),
    ("A[0, 0] = 1.0", 3, "buffer `A`: expected 1 indices, got 2"),
    ("for i in range(2):\n    A[0:i] = 1.0", 4, "an element or a vector of constant"),
    ("T.evaluate(A)", 3, "expected a scalar"),
    ("B = T.alloc_buffer((4,))\nB = T.alloc_buffer((4,))", 4, "`B` is defined already"),
    ("for i, j in range(4):\n    pass", 3, "cannot unpack"),
    ("T.reads(A[0])", 3, "`T.reads` is used outside of a block"),
    ("v = T.axis.S(4, 0)", 3, "is used outside of a block"),
    ("with T.block():\n    T.where(1)\n    T.where(0)", 5, "`T.where` occurs twice"),
    (
        "with T.block():\n    v = T.axis.remap('S', [3])",
        4,
        "a variable of an enclosing loop",
    ),
    ("with T.block():\n    v = T.axis.remap('X', [3])", 4, "expected letters S and R"),
    ("with T.block():\n    A[0] = 1.0\n    v = T.axis.S(4, 0)", 5, "before the first"),
    (
        "with T.block():\n    s = T.match_buffer(A[0:2], (3,))",
        4,
        "the shape of its region",
    ),
    (
        "with T.block():\n    T.call_extern('int32', 'f', A.data)",
        3,
        "takes the address",
    ),
    ("x = T.nothing(3)", 3, "`T` has no member `nothing`"),
    ("B = T.match_buffer(A.data, (4,))", 3, "is not a parameter"),
]


@pytest.mark.parametrize(("body", "line", "message"), ERRORS)
def test_error_message_and_line(body: str, line: int, message: str) -> None:
    text = '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n'
    text += "".join(f"    {part}\n" for part in body.splitlines())

    with pytest.raises(ScriptError) as caught:
        from_source(text)

    assert message in str(caught.value)
    assert f"<str>:{line}:" in str(caught.value)


def test_private_prim_func_cannot_have_a_global_symbol() -> None:
    with pytest.raises(ScriptError, match="a private PrimFunc cannot have"):

        @T.prim_func(private=True)
        def program(A: T.Buffer((4,), "float32")):
            T.func_attr({"global_symbol": "f"})
            A[0] = T.float32(0)
