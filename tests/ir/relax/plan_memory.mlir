// RUN: relax-opt %s -p relax-legalize,relax-plan-memory --split-input-file | filecheck %s

// The third tensor reuses the memory of the first, which is dead by then.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "128", relax.live_bytes = "128"
// CHECK-SAME:    relax.unshared_bytes = "192"
// CHECK:         callee = @tir_exp, relax.offsets = ["[[FIRST:[0-9]+]]"]
// CHECK:         callee = @tir_tanh, relax.offsets = ["{{[0-9]+}}"]
// CHECK:         callee = @tir_exp, relax.offsets = ["[[FIRST]]"]
// CHECK:         callee = @tir_tanh, sizes
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
// CHECK-SAME:    relax.arena_bytes = "128*n", relax.unshared_bytes
// CHECK:         relax.offsets = ["0"]
// CHECK:         relax.offsets = ["64*n"]
// CHECK:         relax.offsets = ["0"]
// CHECK:         relax.offsets = ["64*n"]
func.func @main(%x: tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>> {
  %0 = "relax.exp"(%x) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %1 = "relax.tanh"(%0) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %2 = "relax.exp"(%1) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %3 = "relax.tanh"(%2) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %4 = "relax.exp"(%3) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  return %4 : tensor<?x16xf32, #relax.shape<["n", "16"]>>
}

// -----

// A tensor is live as long as a reshape of it.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "128"
// CHECK:         callee = @tir_exp, relax.offsets = ["[[PLACE:[0-9]+]]"]
// CHECK:         callee = @tir_tanh
// CHECK-NOT:     relax.offsets = ["[[PLACE]]"]
// CHECK:         callee = @add
func.func @main(%x: tensor<16xf32>) -> tensor<4x4xf32> {
  %0 = "relax.exp"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["4", "4"]>} : (tensor<16xf32>) -> tensor<4x4xf32>
  %2 = "relax.tanh"(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "relax.add"(%1, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// Only the entry function has a plan.
// CHECK-LABEL: func.func @other
// CHECK-NOT:     relax.arena_bytes
// CHECK:         relax.call_tir
// CHECK-NOT:     relax.offsets
// CHECK-LABEL: func.func private @main(tensor<4xf32>)
func.func @other(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = "relax.exp"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "relax.tanh"(%0) : (tensor<16xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}
func.func private @main(tensor<4xf32>) -> tensor<4xf32>

// -----

// A lowered main has nothing to plan.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    attributes {relax.main}
func.func @main(%x: memref<4xf32>) attributes {relax.main} {
  return
}

// -----

// Four tensors that are live at once have four slots, with symbolic sizes, too.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "256*n"
// CHECK:         callee = @tir_exp, relax.offsets = ["0"]
// CHECK:         callee = @tir_tanh, relax.offsets = ["64*n"]
// CHECK:         callee = @tir_sin, relax.offsets = ["128*n"]
// CHECK:         callee = @add, relax.offsets = ["192*n"]
// CHECK:         callee = @add
func.func @main(%x: tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>> {
  %0 = "relax.exp"(%x) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %1 = "relax.tanh"(%x) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %2 = "relax.sin"(%x) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %3 = "relax.add"(%0, %1) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>, tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  %4 = "relax.add"(%3, %2) : (tensor<?x16xf32, #relax.shape<["n", "16"]>>, tensor<?x16xf32, #relax.shape<["n", "16"]>>) -> tensor<?x16xf32, #relax.shape<["n", "16"]>>
  return %4 : tensor<?x16xf32, #relax.shape<["n", "16"]>>
}

// -----

// Sizes are rounded up to whole cache lines; unused tuple elements have slots.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "64"
// CHECK:         callee = @pool, relax.offsets = ["0", ""]
func.func @main(%x: tensor<1x1x8xf32>) -> tensor<1x1x4xi64> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<1x1x8xf32> to tuple<tensor<1x1x8xf32>>
  %1 = "relax.call_tir"(%0) {callee = @pool, sizes = #relax.shape<[]>} : (tuple<tensor<1x1x8xf32>>) -> tuple<tensor<1x1x4xf32>, tensor<1x1x4xi64>>
  %2 = "relax.tuple_get_item"(%1) {index = 1 : i64} : (tuple<tensor<1x1x4xf32>, tensor<1x1x4xi64>>) -> tensor<1x1x4xi64>
  return %2 : tensor<1x1x4xi64>
}
func.func @pool(%x: memref<1x1x8xf32>, %y: memref<1x1x4xf32>, %i: memref<1x1x4xi64>) attributes {tir.prim_func, tir.num_outputs = 2 : i64} {
  return
}

// -----

// A result overwrites an argument that is dead after the call.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "128", relax.live_bytes = "128"
// CHECK-SAME:    relax.unshared_bytes = "192"
// CHECK:         callee = @first, relax.offsets = ["[[FIRST:[0-9]+]]"]
// CHECK:         callee = @second, relax.offsets = ["[[SECOND:[0-9]+]]"]
// CHECK:         callee = @sum, relax.offsets = ["[[SECOND]]"]
// CHECK:         callee = @sum, sizes
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<16xf32> to tuple<tensor<16xf32>>
  %1 = "relax.call_tir"(%0) {callee = @first, sizes = #relax.shape<[]>} : (tuple<tensor<16xf32>>) -> tensor<16xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<16xf32> to tuple<tensor<16xf32>>
  %3 = "relax.call_tir"(%2) {callee = @second, sizes = #relax.shape<[]>} : (tuple<tensor<16xf32>>) -> tensor<16xf32>
  %4 = builtin.unrealized_conversion_cast %3, %1 : tensor<16xf32>, tensor<16xf32> to tuple<tensor<16xf32>, tensor<16xf32>>
  %5 = "relax.call_tir"(%4) {callee = @sum, sizes = #relax.shape<[]>} : (tuple<tensor<16xf32>, tensor<16xf32>>) -> tensor<16xf32>
  %6 = builtin.unrealized_conversion_cast %5, %1 : tensor<16xf32>, tensor<16xf32> to tuple<tensor<16xf32>, tensor<16xf32>>
  %7 = "relax.call_tir"(%6) {callee = @sum, sizes = #relax.shape<[]>} : (tuple<tensor<16xf32>, tensor<16xf32>>) -> tensor<16xf32>
  return %7 : tensor<16xf32>
}
func.func @first(%x: memref<16xf32>, %y: memref<16xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}
func.func @second(%x: memref<16xf32>, %y: memref<16xf32>) attributes {tir.in_place = array<i64: 0>, tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}
func.func @sum(%x: memref<16xf32>, %r: memref<16xf32>, %y: memref<16xf32>) attributes {tir.in_place = array<i64: 0>, tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// Not if the same memory is another argument, too, or belongs to the caller.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "128"
// CHECK:         callee = @sum, relax.offsets = ["[[FIRST:[0-9]+]]"]
// CHECK-NOT:     relax.offsets = ["[[FIRST]]"]
// CHECK:         callee = @sum, sizes
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %x : tensor<16xf32>, tensor<16xf32> to tuple<tensor<16xf32>, tensor<16xf32>>
  %1 = "relax.call_tir"(%0) {callee = @sum, sizes = #relax.shape<[]>} : (tuple<tensor<16xf32>, tensor<16xf32>>) -> tensor<16xf32>
  %2 = builtin.unrealized_conversion_cast %1, %1 : tensor<16xf32>, tensor<16xf32> to tuple<tensor<16xf32>, tensor<16xf32>>
  %3 = "relax.call_tir"(%2) {callee = @sum, sizes = #relax.shape<[]>} : (tuple<tensor<16xf32>, tensor<16xf32>>) -> tensor<16xf32>
  %4 = builtin.unrealized_conversion_cast %3, %x : tensor<16xf32>, tensor<16xf32> to tuple<tensor<16xf32>, tensor<16xf32>>
  %5 = "relax.call_tir"(%4) {callee = @sum, sizes = #relax.shape<[]>} : (tuple<tensor<16xf32>, tensor<16xf32>>) -> tensor<16xf32>
  return %5 : tensor<16xf32>
}
func.func @sum(%x: memref<16xf32>, %r: memref<16xf32>, %y: memref<16xf32>) attributes {tir.in_place = array<i64: 0>, tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A tuple has no buffer: what is taken out of one that was packed here is the packed value.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    relax.arena_bytes = "0"
// CHECK:         return %arg1 : tensor<2xf32>
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 1 : i64} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
