// RUN: relax-opt %s -p relax-legalize,relax-plan-memory --split-input-file | filecheck %s

// The third tensor takes the place of the first, which is dead by then.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "128"
// CHECK-SAME:    relax.unshared_bytes = "192"
// CHECK:         callee = @exp, relax.offsets = ["[[FIRST:[0-9]+]]"]
// CHECK:         callee = @tanh, relax.offsets = ["{{[0-9]+}}"]
// CHECK:         callee = @exp, relax.offsets = ["[[FIRST]]"]
// CHECK:         callee = @tanh, sizes
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = "relax.exp"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "relax.tanh"(%0) : (tensor<16xf32>) -> tensor<16xf32>
  %2 = "relax.exp"(%1) : (tensor<16xf32>) -> tensor<16xf32>
  %3 = "relax.tanh"(%2) : (tensor<16xf32>) -> tensor<16xf32>
  return %3 : tensor<16xf32>
}

// -----

// Symbolic sizes: equal ones share a slot, the arena's size is an expression.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "128*n"
// CHECK:         relax.offsets = ["0"]
// CHECK:         relax.offsets = ["64*n"]
// CHECK:         relax.offsets = ["0"]
func.func @main(%x: tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>> {
  %0 = "relax.exp"(%x) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %1 = "relax.tanh"(%0) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %2 = "relax.exp"(%1) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %3 = "relax.tanh"(%2) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  return %3 : tensor<?x16xf32, #relax.shape<["n", "16"]>>
}

// -----

// A tensor lives as long as the reshape that looks at it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "128"
// CHECK:         callee = @exp, relax.offsets = ["[[PLACE:[0-9]+]]"]
// CHECK:         callee = @tanh
// CHECK-NOT:     relax.offsets = ["[[PLACE]]"]
// CHECK:         callee = @add
func.func @main(%x: tensor<16xf32>) -> tensor<4x4xf32> {
  %0 = "relax.exp"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["4", "4"]>} : (tensor<16xf32>) -> tensor<4x4xf32>
  %2 = "relax.tanh"(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "relax.add"(%1, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
