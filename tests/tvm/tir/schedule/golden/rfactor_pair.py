"""An argmax is factorised over a loop."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(
    A: T.Buffer((4, 6), "float32"),
    N: T.Buffer((4, 6), "int32"),
    M: T.Buffer((4,), "float32"),
    P: T.Buffer((4,), "int32"),
):
    for i, k in T.grid(4, 6):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.min_value("float32")
                P[vi] = -1
            best: T.float32 = T.Select(M[vi] >= A[vi, vk], M[vi], A[vi, vk])
            place: T.int32 = T.Select(M[vi] >= A[vi, vk], P[vi], N[vi, vk])
            M[vi] = best
            P[vi] = place


# CHECK:      M_rf = T.alloc_buffer((4, 3))
# CHECK-NEXT: P_rf = T.alloc_buffer((4, 3), "int32")
# CHECK-NEXT: for i, k_0, k_1 in T.grid(4, 3, 2):
# CHECK-NEXT:     with T.block("M_rf"):
# CHECK-NEXT:         vk_0, vi, vk_1 = T.axis.remap("SSR", [k_0, i, k_1])
# CHECK:              with T.init():
# CHECK-NEXT:             M_rf[vi, vk_0] = T.float32(-3.4028235e+38)
# CHECK-NEXT:             P_rf[vi, vk_0] = -1
# CHECK-NEXT:         best_rf: T.float32 = T.Select(M_rf[vi, vk_0] >= A[vi, vk_0 * 2 + vk_1], M_rf[vi, vk_0], A[vi, vk_0 * 2 + vk_1])
# CHECK-NEXT:         place_rf: T.int32 = T.Select(M_rf[vi, vk_0] >= A[vi, vk_0 * 2 + vk_1], P_rf[vi, vk_0], N[vi, vk_0 * 2 + vk_1])
# CHECK-NEXT:         M_rf[vi, vk_0] = best_rf
# CHECK-NEXT:         P_rf[vi, vk_0] = place_rf
# CHECK-NEXT: for i, k_0 in T.grid(4, 3):
# CHECK-NEXT:     with T.block("M"):
# CHECK-NEXT:         vk_0, vi = T.axis.remap("RS", [k_0, i])
# CHECK:              with T.init():
# CHECK-NEXT:             M[vi] = T.float32(-3.4028235e+38)
# CHECK-NEXT:             P[vi] = -1
# CHECK-NEXT:         best: T.float32 = T.Select(M[vi] >= M_rf[vi, vk_0], M[vi], M_rf[vi, vk_0])
# CHECK-NEXT:         place: T.int32 = T.Select(M[vi] >= M_rf[vi, vk_0], P[vi], P_rf[vi, vk_0])
# CHECK-NEXT:         M[vi] = best
# CHECK-NEXT:         P[vi] = place
def steps(sch):
    _, k = sch.get_loops("M")
    outer, _ = sch.split(k, [3, 2])
    sch.rfactor(outer, 1)
