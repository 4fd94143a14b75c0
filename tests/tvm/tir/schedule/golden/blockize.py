"""A loop nest over a tile becomes a block with an init block."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(
    A: T.Buffer((6, 8), "float32"),
    B: T.Buffer((8, 4), "float32"),
    C: T.Buffer((6, 4), "float32"),
):
    for i, j, k in T.grid(6, 4, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


# CHECK:      for i_0, j, k_0 in T.grid(2, 4, 2):
# CHECK-NEXT:     with T.block("C_o"):
# CHECK-NEXT:         vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j, k_0])
# CHECK:              with T.init():
# CHECK-NEXT:             for i_1 in range(3):
# CHECK-NEXT:                 with T.block("C_init"):
# CHECK-NEXT:                     vi_i_init = T.axis.spatial(3, i_1)
# CHECK:                          C[vi_o * 3 + vi_i_init, vj_o] = T.float32(0.0)
# CHECK-NEXT:         for i_1, k_1 in T.grid(3, 4):
# CHECK-NEXT:             with T.block("C"):
# CHECK-NEXT:                 vi_i, vk_i = T.axis.remap("SR", [i_1, k_1])
# CHECK:                      C[vi_o * 3 + vi_i, vj_o] = C[vi_o * 3 + vi_i, vj_o] + A[vi_o * 3 + vi_i, vk_o * 4 + vk_i] * B[vk_o * 4 + vk_i, vj_o]
def steps(sch):
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [None, 3])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(i_0, j, k_0, i_1, k_1)
    sch.blockize(i_1)


# REFUSED: error: blockize: the bindings of block `C` can not be blockized by the loops starting at loop `i_1`: expected bindings of the form outer loops times the extent of inner loops plus inner loops
def refused(sch):
    i, _, _ = sch.get_loops("C")
    _, i_1 = sch.split(i, [None, 4])
    sch.blockize(i_1)
