"""Printing of PrimFuncs: layout, names, and round trip through the parser."""

# ruff: noqa: N803, N806, B007  scripts name buffers in capitals

from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.script import tir as T  # noqa: N812  as scripts call it


@T.prim_func
def matmul(a: T.handle, B: T.Buffer((128, 64), "float32"), c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 128))
    C = T.match_buffer(c, (n, 64))
    D = T.alloc_buffer((n, 64), scope="shared")
    for i, j, k in T.grid(n, 64, 128):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = 0.0
            D[vi, vj] += A[vi, vk] * B[vk, vj]
    for i in T.parallel(n):
        for j0 in range(3, 10):
            for j1 in T.vectorized(8, annotations={"wide": 1}):
                with T.block("C"):
                    vi = T.axis.spatial(n, i)
                    vj = T.axis.spatial(64, j0 * 8 + j1)
                    T.where(j0 * 8 + j1 < 60)
                    T.block_attr({"mark": "x"})
                    if vj % 2 == 0:
                        x: T.float32 = D[vi, vj]
                        C[vi, vj] = T.max(x, T.float32(2)) * (x - T.float32(1))
                    else:
                        C[vi, vj] = T.Cast("float32", vi) + T.exp(-D[vi, vj])


PRINTED = """\
# from relax_mlir.tvm.script import tir as T

@T.prim_func
def matmul(a: T.handle, B: T.Buffer((128, 64), "float32"), c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n, 128))
    C = T.match_buffer(c, (n, 64))
    # with T.block("root"):
    D = T.alloc_buffer((n, 64), scope="shared")
    for i, j, k in T.grid(n, 64, 128):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(D[vi, vj])
            with T.init():
                D[vi, vj] = T.float32(0.0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
    for i in T.parallel(n):
        for j0 in range(3, 10):
            for j1 in T.vectorized(8, annotations={"wide": 1}):
                with T.block("C"):
                    vi = T.axis.spatial(n, i)
                    vj = T.axis.spatial(64, j0 * 8 + j1)
                    T.where(j0 * 8 + j1 < 60)
                    T.reads(D[vi, vj])
                    T.writes(C[vi, vj])
                    T.block_attr({"mark": "x"})
                    if vj % 2 == 0:
                        x: T.float32 = D[vi, vj]
                        C[vi, vj] = T.max(x, T.float32(2.0)) * (x - T.float32(1.0))
                    else:
                        C[vi, vj] = T.Cast("float32", vi) + \
T.exp(D[vi, vj] * T.float32(-1.0))"""


def test_layout() -> None:
    assert matmul.script() == PRINTED


def test_round_trip() -> None:
    assert_structural_equal(from_source(matmul.script()), matmul)


def test_names_are_reused_after_their_scope() -> None:
    @T.prim_func
    def program(A: T.Buffer((4,), "float32"), A_1: T.Buffer((4,), "float32")):
        for A_2 in range(4):
            for i in range(2):
                A[A_2] = T.float32(0)
        for i in range(4):
            A_1[i] = A[i]

    text = program.script()

    assert text.count("for i in range") == 1
    assert "for A_2, i in T.grid(4, 2):" in text
    assert_structural_equal(from_source(text), program)


def test_operator_precedence_round_trips() -> None:
    @T.prim_func
    def program(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "bool")):
        for i in range(8):
            A[i] = A[i] - (A[i] - (A[i] + 3) * 2) // (A[i] % 5 + 1) - -A[i]
            A[i] = (A[i] & 3) << (A[i] | 1) ^ A[i]
            B[i] = (A[i] > 3 or A[i] < -2) and not (B[i] and A[i] == 1)

    assert_structural_equal(from_source(program.script()), program)


def test_nontrivial_root_block_is_printed() -> None:
    @T.prim_func
    def marked(A: T.Buffer((4,), "float32")):
        with T.block("root"):
            T.block_attr({"unroll": 16})
            for i in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = T.float32(1)

    assert '    with T.block("root"):\n' in marked.script()
    assert_structural_equal(from_source(marked.script()), marked)


def test_stand_alone_statement_declares_its_variables() -> None:
    text = str(matmul.body.block.body[0].body.body.body)

    assert text.startswith("i = T.int64()\nj = T.int32()\nk = T.int32()\nn = T.int64()")
    assert 'D = T.Buffer((n, 64), "float32", scope="shared")' in text
    assert "vi, vj, vk" not in text
    assert "vj = T.axis.spatial(64, j)" in text


def test_loop_carried_values_are_printed_as_a_buffer() -> None:
    """Passes can produce such values in loops; scripts cannot express them."""
    from relax_mlir.ir.module import IRModule

    module = IRModule.parse("""
      func.func @total(%x: memref<4xf32>, %o: memref<1xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        %z = arith.constant 0.0 : f32
        %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %z) -> (f32) {
          %v = memref.load %x[%i] : memref<4xf32>
          %s = arith.addf %a, %v : f32
          scf.yield %s : f32
        }
        memref.store %r, %o[%c0] : memref<1xf32>
        return
      }""")

    text = module["total"].script()

    assert "        carried_1[0] = carried_1[0] + arg0[i]\n" in text
    assert text.endswith("    arg1[0] = carried_1[0]")


@T.prim_func
def nothing(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.where(T.bool(False))
            B[vi] = A[vi]


def test_predicate_of_a_block_without_axes() -> None:
    written = nothing.with_body(nothing.body)
    for function in (nothing, from_source(nothing.script()), written):
        assert "T.where(T.bool(False))" in function.script()
