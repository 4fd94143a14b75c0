// RUN: relax-opt %s -p relax-specialize-prim-funcs --split-input-file | filecheck %s

// A program is copied for the static sizes of a call; dynamic ones are still passed.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @scale_1, sizes = #relax.shape<[]>
// CHECK:         callee = @scale_1, sizes = #relax.shape<[]>
// CHECK:         callee = @scale_2, sizes = #relax.shape<["r"]>
// CHECK-NOT:   @scale(
// CHECK-LABEL: func.func private @scale_1(
// CHECK-SAME:    memref<3x5xf32>
// CHECK:         static_extents = array<i64: 3, 5>
// CHECK-LABEL: func.func private @scale_2(
// CHECK-SAME:    memref<?x7xf32>
// CHECK-SAME:    tir.shape = #relax.shape<["n", "7"]>
// CHECK-SAME:    index {{.*}}tir.symbol = "n"
// CHECK:         static_extents = array<i64: -1, 7>
func.func private @scale(%a: memref<?x?xf32> {tir.shape = #relax.shape<["n", "m"]>}, %b: memref<?x?xf32> {tir.shape = #relax.shape<["n", "m"]>}, %n: index {tir.symbol = "n"}, %m: index {tir.symbol = "m"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  "tir.block"(%n, %m) ({
  }, {
  ^bb0(%i: index, %j: index):
    %0 = memref.load %a[%i, %j] : memref<?x?xf32>
    %1 = arith.addf %0, %0 : f32
    memref.store %1, %b[%i, %j] : memref<?x?xf32>
    gpu.yield
  }) {kinds = "SS", name = "b", operandSegmentSizes = array<i32: 2, 0>, static_extents = array<i64: -1, -1>} : (index, index) -> ()
  return
}
func.func @main(%x: tensor<3x5xf32>, %y: tensor<?x7xf32, #relax.shape<["r", "7"]>>) -> (tensor<3x5xf32>, tensor<?x7xf32, #relax.shape<["r", "7"]>>) {
  %0 = builtin.unrealized_conversion_cast %x : tensor<3x5xf32> to tuple<tensor<3x5xf32>>
  %1 = "relax.call_tir"(%0) {callee = @scale, sizes = #relax.shape<["3", "5"]>} : (tuple<tensor<3x5xf32>>) -> tensor<3x5xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<3x5xf32> to tuple<tensor<3x5xf32>>
  %3 = "relax.call_tir"(%2) {callee = @scale, sizes = #relax.shape<["3", "5"]>} : (tuple<tensor<3x5xf32>>) -> tensor<3x5xf32>
  %4 = builtin.unrealized_conversion_cast %y : tensor<?x7xf32, #relax.shape<["r", "7"]>> to tuple<tensor<?x7xf32, #relax.shape<["r", "7"]>>>
  %5 = "relax.call_tir"(%4) {callee = @scale, sizes = #relax.shape<["r", "7"]>} : (tuple<tensor<?x7xf32, #relax.shape<["r", "7"]>>>) -> tensor<?x7xf32, #relax.shape<["r", "7"]>>
  return %3, %5 : tensor<3x5xf32>, tensor<?x7xf32, #relax.shape<["r", "7"]>>
}

// -----

// A program that is only called with dynamic sizes stays, and so does one that the script syntax
// cannot express.
// CHECK-LABEL: func.func private @copy(
// CHECK:         callee = @copy, sizes = #relax.shape<["r"]>
func.func private @copy(%a: memref<?xf32> {tir.shape = #relax.shape<["n"]>}, %b: memref<?xf32> {tir.shape = #relax.shape<["n"]>}, %n: index {tir.symbol = "n"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  "tir.block"(%n) ({
  }, {
  ^bb0(%i: index):
    %0 = memref.load %a[%i] : memref<?xf32>
    memref.store %0, %b[%i] : memref<?xf32>
    gpu.yield
  }) {kinds = "S", name = "b", operandSegmentSizes = array<i32: 1, 0>, static_extents = array<i64: -1>} : (index) -> ()
  return
}
func.func @main(%x: tensor<?xf32, #relax.shape<["r"]>>) -> tensor<?xf32, #relax.shape<["r"]>> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["r"]>> to tuple<tensor<?xf32, #relax.shape<["r"]>>>
  %1 = "relax.call_tir"(%0) {callee = @copy, sizes = #relax.shape<["r"]>} : (tuple<tensor<?xf32, #relax.shape<["r"]>>>) -> tensor<?xf32, #relax.shape<["r"]>>
  return %1 : tensor<?xf32, #relax.shape<["r"]>>
}

// -----

// CHECK-LABEL: func.func private @loop(
// CHECK:         callee = @loop, sizes = #relax.shape<["4"]>
func.func private @loop(%a: memref<?xf32> {tir.shape = #relax.shape<["n"]>}, %b: memref<?xf32> {tir.shape = #relax.shape<["n"]>}, %n: index {tir.symbol = "n"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %c0 = arith.constant 0 : index
  scf.execute_region {
    %0 = memref.load %a[%c0] : memref<?xf32>
    memref.store %0, %b[%c0] : memref<?xf32>
    scf.yield
  }
  return
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @loop, sizes = #relax.shape<["4"]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
