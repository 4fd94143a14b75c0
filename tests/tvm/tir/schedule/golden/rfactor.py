"""A reduction is factorised over a loop."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


# CHECK:      B_rf = T.alloc_buffer((2, 4))
# CHECK-NEXT: for i, k_0, k_1 in T.grid(4, 2, 3):
# CHECK-NEXT:     with T.block("B_rf"):
# CHECK-NEXT:         vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
# CHECK:              with T.init():
# CHECK-NEXT:             B_rf[vk_0, vi] = T.float32(0.0)
# CHECK-NEXT:         B_rf[vk_0, vi] = B_rf[vk_0, vi] + A[vi, vk_0 * 3 + vk_1]
# CHECK-NEXT: for i, k_0 in T.grid(4, 2):
# CHECK-NEXT:     with T.block("B"):
# CHECK-NEXT:         vk_0, vi = T.axis.remap("RS", [k_0, i])
# CHECK:              with T.init():
# CHECK-NEXT:             B[vi] = T.float32(0.0)
# CHECK-NEXT:         B[vi] = B[vi] + B_rf[vk_0, vi]
def steps(sch):
    _, k = sch.get_loops("B")
    outer, _ = sch.split(k, [2, 3])
    sch.rfactor(outer, 0)


# REFUSED: error: rfactor: loop `i` is bound to a spatial axis: expected a loop of a reduce axis
def refused(sch):
    i, _ = sch.get_loops("B")
    sch.rfactor(i, 0)
