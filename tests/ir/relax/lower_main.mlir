// RUN: relax-opt %s -p relax-legalize,relax-plan-memory,relax-lower-main --split-input-file | filecheck %s

// Inputs, outputs, constants, the arena and the sizes become arguments; kernels are calls.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %arg0: memref<?x4xf32> {relax.dtype = "float32", relax.input = "x0"
// CHECK-SAME:    %arg1: memref<?x4xf32> {relax.dtype = "float32", relax.output = "y0"
// CHECK-SAME:    %arg2: memref<4xf32> {relax.constant = "w"
// CHECK-SAME:    %arg3: memref<?xi8> {relax.arena}
// CHECK-SAME:    %arg4: index {tir.symbol = "n"}
// CHECK:         memref.view %arg3
// CHECK-NEXT:    call @add(%arg0, %arg2, %{{.*}}, %arg4)
// CHECK:         call @exp(%{{.*}}, %{{.*}}, %arg4)
// CHECK:         return
// CHECK-LABEL: func.func @main_shapes(
func.func @main(%x: tensor<?x4xf32, #relax.shape<["n", "4"]>>) -> tensor<?x4xf32, #relax.shape<["n", "4"]>> {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<4xf32>
  %0 = "relax.add"(%x, %w) : (tensor<?x4xf32, #relax.shape<["n", "4"]>>, tensor<4xf32>) -> tensor<?x4xf32, #relax.shape<["n", "4"]>>
  %1 = "relax.exp"(%0) : (tensor<?x4xf32, #relax.shape<["n", "4"]>>) -> tensor<?x4xf32, #relax.shape<["n", "4"]>>
  return %1 : tensor<?x4xf32, #relax.shape<["n", "4"]>>
}

// -----

// A returned input is copied; a value returned twice is computed once and copied.
// CHECK-LABEL: func.func @main(
// CHECK:         call @exp(%arg0, %arg2)
// CHECK:         memref.copy %arg0, %arg1
// CHECK:         memref.copy %arg2, %arg3
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = "relax.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %x, %0, %0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A returned reshape is computed in place, in the caller's buffer.
// CHECK-LABEL: func.func @main(
// CHECK:         memref.reinterpret_cast %arg1 to offset: [0], sizes: [6]
// CHECK:         call @exp
// CHECK-NOT:     memref.copy
// CHECK:         return
func.func @main(%x: tensor<6xf32>) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["2", "3"]>} : (tensor<6xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
