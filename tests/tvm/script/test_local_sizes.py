"""Buffers whose sizes depend on loop variables."""

import numpy as np

from relax_mlir import IRModule, compile
from relax_mlir.objects.compare.structural_equal import assert_structural_equal
from relax_mlir.tvm.script import from_source

_TRIANGLE = """
@T.prim_func
def triangle(A: T.Buffer((6, 6), "float32"), C: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            B = T.alloc_buffer((v + 1,))
            for k in range(v + 1):
                B[k] = A[v, k] * T.float32(2.0)
            C[v] = B[v]
"""


def test_sizes_are_printed_over_block_variables() -> None:
    program = from_source(_TRIANGLE)

    text = program.script()

    assert "B = T.alloc_buffer((v + 1,))" in text
    assert "T.int32()" not in text
    assert_structural_equal(from_source(text), program, map_free_vars=True)


def test_allocation_has_the_maximum_size() -> None:
    a = np.arange(36, dtype=np.float32).reshape(6, 6)
    c = np.zeros(6, np.float32)

    compile(from_source(_TRIANGLE))(a, c)

    np.testing.assert_array_equal(c, 2 * a.diagonal())


def test_compound_strides_and_offsets_are_decoded_from_mlir() -> None:
    module = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def work(x: T.handle):
        n, m = T.int64(), T.int64()
        X = T.match_buffer(x, (n, m), strides=[m * 2, 1], elem_offset=m + 1)
        for i in range(n):
            X[i, 0] = T.float32(0)
""")

    again = IRModule.parse(str(module))

    assert "strides=(m * T.int64(2), 1), elem_offset=m + T.int64(1)" in again.script()
