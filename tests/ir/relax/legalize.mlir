// RUN: relax-opt %s -p relax-legalize --split-input-file | filecheck %s

// A matrix product becomes one block over rows, columns and the sum.
// CHECK-LABEL: func.func @main
// CHECK:         "relax.call_tir"(%{{.*}}) {callee = @matmul, sizes = #relax.shape<["n"]>}
// CHECK-LABEL: func.func @matmul
// CHECK-SAME:    %arg0: memref<?x5xf32> {tir.shape = #relax.shape<["s0", "5"]>}
// CHECK-SAME:    %arg3: index {tir.symbol = "s0"}
// CHECK:         "tir.block"(%arg3)
// CHECK:           memref.store %cst, %arg2
// CHECK:           arith.mulf
// CHECK:           arith.addf
// CHECK:         kinds = "SSR", name = "matmul"
// CHECK-SAME:    static_extents = array<i64: -1, 3, 5>
func.func @main(%x: tensor<?x5xf32, #relax.shape<["n", "5"]>>, %w: tensor<5x3xf32>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>> {
  %0 = "relax.matmul"(%x, %w) : (tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<5x3xf32>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  return %0 : tensor<?x3xf32, #relax.shape<["n", "3"]>>
}

// -----

// Equal operations share a program, whatever their sizes are called.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @exp, sizes = #relax.shape<["n"]>
// CHECK:         callee = @exp, sizes = #relax.shape<["m"]>
// CHECK:         func.func @exp
// CHECK-NOT:     func.func @exp_1
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>, %y: tensor<?xf32, #relax.shape<["m"]>>) -> (tensor<?xf32, #relax.shape<["n"]>>, tensor<?xf32, #relax.shape<["m"]>>) {
  %0 = "relax.exp"(%x) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>>
  %1 = "relax.exp"(%y) : (tensor<?xf32, #relax.shape<["m"]>>) -> tensor<?xf32, #relax.shape<["m"]>>
  return %0, %1 : tensor<?xf32, #relax.shape<["n"]>>, tensor<?xf32, #relax.shape<["m"]>>
}

// -----

// A reshape stays: it becomes a view.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    relax.reshape
func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["6"]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
