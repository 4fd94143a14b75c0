// RUN: relax-opt %s -p relax-remove-redundant-reshape | filecheck %s

// Two reshapes are folded.
// CHECK-LABEL: func.func @twice
// CHECK-SAME:    (%[[X:.*]]: tensor<4x6xf32>
// CHECK-NEXT:    %[[Y:.*]] = "relax.reshape"(%[[X]]) {{.*}} -> tensor<3x8xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @twice(%x: tensor<4x6xf32> {relax.name = "x"}) -> tensor<3x8xf32> {
  %0 = "relax.reshape"(%x) {relax.dataflow = 0 : i64, relax.name = "flat", shape = #relax.shape<["24"]>} : (tensor<4x6xf32>) -> tensor<24xf32>
  %1 = "relax.reshape"(%0) {relax.dataflow = 0 : i64, relax.name = "y", relax.output, shape = #relax.shape<["3", "8"]>} : (tensor<24xf32>) -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// An identity reshape is removed.
// CHECK-LABEL: func.func @kept
// CHECK-SAME:    (%[[X:.*]]: tensor<4x6xf32>
// CHECK-NEXT:    "relax.nn_relu"(%[[X]])
func.func @kept(%x: tensor<4x6xf32> {relax.name = "x"}) -> tensor<4x6xf32> {
  %0 = "relax.reshape"(%x) {relax.dataflow = 0 : i64, relax.name = "y", shape = #relax.shape<["4", "6"]>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = "relax.nn_relu"(%0) {relax.dataflow = 0 : i64, relax.name = "z", relax.output} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// A size of 0 copies the dimension of the operand, so it depends on the operand.
// CHECK-LABEL: func.func @empty
// CHECK:         "relax.reshape"(%{{.*}}) {{.*}} -> tensor<0x2x5xf32>
// CHECK:         "relax.reshape"(%{{.*}}) {{.*}} -> tensor<0x0x7xf32>
func.func @empty(%x: tensor<3x0x5xf32> {relax.name = "x"}) -> tensor<0x0x7xf32> {
  %0 = "relax.reshape"(%x) {relax.dataflow = 0 : i64, relax.name = "y", shape = #relax.shape<["0", "2", "5"]>} : (tensor<3x0x5xf32>) -> tensor<0x2x5xf32>
  %1 = "relax.reshape"(%0) {relax.dataflow = 0 : i64, relax.name = "z", relax.output, shape = #relax.shape<["0", "0", "7"]>} : (tensor<0x2x5xf32>) -> tensor<0x0x7xf32>
  return %1 : tensor<0x0x7xf32>
}
