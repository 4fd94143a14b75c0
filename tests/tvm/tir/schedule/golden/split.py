"""A loop is split by a non-divisor; a predicate excludes the rest."""

# RUN: python -m tests.tvm.tir.schedule.apply %s | filecheck %s
# RUN: python -m tests.tvm.tir.schedule.apply %s --style mlir | filecheck %s --check-prefix=MLIR
# RUN: python -m tests.tvm.tir.schedule.apply %s refused | filecheck %s --check-prefix=REFUSED

from relax_mlir.tvm.script import tir as T


@T.prim_func
def before(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0


# CHECK:      for i_0, i_1, j_0, j_1 in T.grid(2, 3, 3, 4):
# CHECK-NEXT:   with T.block("B"):
# CHECK-NEXT:     vi = T.axis.spatial(6, i_0 * 3 + i_1)
# CHECK-NEXT:     vj = T.axis.spatial(10, j_0 * 4 + j_1)
# CHECK-NEXT:     T.where(j_0 * 4 + j_1 < 10)
# MLIR:         scf.for %[[J0:.*]] =
# MLIR:         scf.for %[[J1:.*]] =
# MLIR:         %[[C10:.*]] = arith.constant 10
# MLIR-NEXT:    %[[IN:.*]] = arith.cmpi slt, %{{.*}}, %[[C10]] : index
# MLIR-NEXT:    scf.if %[[IN]] {
# MLIR:           "tir.block"
# MLIR:         } {tir.where}
# MLIR-NEXT:  } {tir.kind = "serial", tir.name = "j_1"}
# MLIR-NEXT:  } {tir.kind = "serial", tir.name = "j_0"}
def steps(sch):
    i, j = sch.get_loops("B")
    sch.split(i, [None, 3])
    sch.split(j, [None, 4])


# REFUSED: error: split: loop `j`: the product of the factors, 9, is less than the extent, 10
def refused(sch):
    sch.split(sch.get_loops("B")[1], [3, 3])
