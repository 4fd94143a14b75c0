// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants{vector-bits=512 bf16-dot=true}" | filecheck %s
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-pack-constants{vector-bits=512} | filecheck %s --check-prefix=PLAIN

// For `vdpbf16ps`, two steps of K of a column are interleaved.
// CHECK-LABEL: func.func @halves
// CHECK:         tensor<1x6x32x2xbf16>
// CHECK-LABEL: func.func @matmul_1({{.*}}, %arg1: memref<1x6x32x2xbf16>
// CHECK:         ^bb0(%[[I:.+]]: index, %[[J:.+]]: index, %[[K:.+]]: index):
// CHECK-DAG:     %[[BLOCK:.+]] = arith.divui %[[J]], %c32
// CHECK-DAG:     %[[COLUMN:.+]] = arith.remui %[[J]], %c32
// CHECK-DAG:     %[[GROUP:.+]] = arith.divui %[[K]], %c2
// CHECK-DAG:     %[[STEP:.+]] = arith.remui %[[K]], %c2
// CHECK:         memref.load %arg1[%[[BLOCK]], %[[GROUP]], %[[COLUMN]], %[[STEP]]]

// Without it, K is not interleaved, and elements are extended after loads.
// PLAIN-LABEL: func.func @halves
// PLAIN:         tensor<1x11x{{[0-9]+}}xbf16>
func.func @halves(%a: tensor<40x11xbf16>) -> tensor<40x20xf32> {
  %w = "relax.constant"() {value = dense<1.0> : tensor<11x20xbf16>} : () -> tensor<11x20xbf16>
  %0 = "relax.matmul"(%a, %w) {out_dtype = f32} : (tensor<40x11xbf16>, tensor<11x20xbf16>) -> tensor<40x20xf32>
  return %0 : tensor<40x20xf32>
}
