"""A loop is partitioned into consecutive loops."""

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


# CHECK:      with T.block("root"):
# CHECK:          with T.block("B_i_common"):
# CHECK:              with T.block("B_i0_partition"):
# CHECK:                  for i0, k in T.grid(1, 6):
# CHECK-NEXT:                 with T.block("B_i0"):
# CHECK-NEXT:                     vi, vk = T.axis.remap("SR", [i0, k])
# CHECK:                          with T.init():
# CHECK-NEXT:                         B[vi] = T.float32(0.0)
# CHECK-NEXT:                     B[vi] = B[vi] + A[vi, vk]
# CHECK-NEXT:         with T.block("B_i1_partition"):
# CHECK:                  for i1 in range(1, 4):
# CHECK-NEXT:                 for k in range(6):
# CHECK-NEXT:                     with T.block("B_i1"):
# CHECK-NEXT:                         vi, vk = T.axis.remap("SR", [i1, k])
# CHECK:                              with T.init():
# CHECK-NEXT:                             B[vi] = T.float32(0.0)
# CHECK-NEXT:                         B[vi] = B[vi] + A[vi, vk]
def steps(sch):
    sch.loop_partition(sch.get_loops("B")[0], [1])


# REFUSED: error: loop_partition: loop `k` is part of a reduce axis of block `B`, which has an init block. Hint: apply `decompose_reduction` first
def refused(sch):
    sch.loop_partition(sch.get_loops("B")[1], [4])
