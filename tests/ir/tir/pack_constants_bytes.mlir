// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants{vector-bits=512 int8-dot=true}" | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants{vector-bits=512} | filecheck %s --check-prefix=PLAIN

// For `vpdpbusd`, four steps of K of a column are interleaved; zeros pad the last four, and the
// panel.
// CHECK-LABEL: func.func @bytes
// CHECK:         tensor<1x3x32x4xi8>
// CHECK-LABEL: func.func @matmul_1({{.*}}, %arg1: memref<1x3x32x4xi8>
// CHECK:         ^bb0(%[[I:.+]]: index, %[[J:.+]]: index, %[[K:.+]]: index):
// CHECK-DAG:     %[[BLOCK:.+]] = arith.divui %[[J]], %c32
// CHECK-DAG:     %[[COLUMN:.+]] = arith.remui %[[J]], %c32
// CHECK-DAG:     %[[GROUP:.+]] = arith.divui %[[K]], %c4
// CHECK-DAG:     %[[STEP:.+]] = arith.remui %[[K]], %c4
// CHECK:         memref.load %arg1[%[[BLOCK]], %[[GROUP]], %[[COLUMN]], %[[STEP]]]

// PLAIN-LABEL: func.func @bytes
// PLAIN-NOT:     x32x4xi8
func.func @bytes(%a: tensor<40x10xui8>) -> tensor<40x20xi32> {
  %w = "relax.constant"() {value = dense<1> : tensor<10x20xi8>} : () -> tensor<10x20xi8>
  %0 = "relax.matmul"(%a, %w) {out_dtype = i32} : (tensor<40x10xui8>, tensor<10x20xi8>) -> tensor<40x20xi32>
  return %0 : tensor<40x20xi32>
}
