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
// CHECK:         call @tir_exp(%{{.*}}, %{{.*}}, %arg4)
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
// CHECK:         call @tir_exp(%arg0, %arg2)
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
// CHECK:         call @tir_exp
// CHECK-NOT:     memref.copy
// CHECK:         return
func.func @main(%x: tensor<6xf32>) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["2", "3"]>} : (tensor<6xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Names, types, sizes and constants become a signature; derived sizes, including the arena's, are
// computed by the shape function after the symbols.
// CHECK:       module attributes {relax.signature =
// CHECK-SAME:    {{.22inputs.22: \[{.22name.22: .22a.22, .22dtype.22: .22float32.22, .22shape.22: \[.22n.22, .222.22\]}, {.22name.22: .22b.22, .22dtype.22: .22bool.22}}
// CHECK-SAME:    {{.22outputs.22: \[{.22name.22: .22c.22, .*}, {.22name.22: .22d.22, .22dtype.22: .22float32.22, .22shape.22: \[.222\*n.22\]}\]}}
// CHECK-SAME:    {{.22symbols.22: \[.22n.22, .22m.22\], .22derived.22: \[.222\*n.22, .2264\*ceildiv\(5\*n, 16\).22\]}}
// CHECK-SAME:    {{.22arena.22: .2264\*ceildiv\(5\*n, 16\).22, .22constants.22: \[.22w.22, .22inline.float32}}
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %arg2: memref<?x5xf32> {relax.dtype = "float32", relax.output = "c"
// CHECK-SAME:    %arg3: memref<?xf32> {relax.dtype = "float32", relax.output = "d"
// CHECK-SAME:    %arg7: index {tir.symbol = "n"}, %arg8: index {tir.symbol = "m"})
// CHECK-SAME:    relax.arena_bytes = "64*ceildiv(5*n, 16)"
// CHECK:         %[[T:.*]] = memref.view %arg6[%{{.*}}][%arg7] : memref<?xi8> to memref<?x5xf32>
// CHECK-NEXT:    call @matmul(%arg0, %arg4, %[[T]], %arg7)
// CHECK-LABEL: func.func @main_shapes(
// CHECK-SAME:    %arg0: memref<4xi64>)
// CHECK:         %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-NEXT:    %[[L:.*]] = memref.load %arg0[%[[ZERO]]]
// CHECK:         %[[N:.*]] = arith.index_cast %[[L]]
// CHECK:         %[[F:.*]] = arith.sitofp %[[L]] : i64 to f64
// CHECK:         %[[P:.*]] = arith.muli %[[N]]
// CHECK:         %[[D:.*]] = arith.index_cast %[[P]]
// CHECK:         arith.maximumf %{{.*}}, %[[F]]
// CHECK:         %[[FITS:.*]] = arith.cmpf olt
// CHECK:         %[[BAD:.*]] = arith.constant -1 : i64
// CHECK-NEXT:    %[[S:.*]] = arith.select %[[FITS]], %[[D]], %[[BAD]]
// CHECK:         %[[C2:.*]] = arith.constant 2 : index
// CHECK-NEXT:    memref.store %[[S]], %arg0[%[[C2]]]
// CHECK:         %[[C3:.*]] = arith.constant 3 : index
// CHECK-NEXT:    memref.store %{{.*}}, %arg0[%[[C3]]]
// CHECK-NEXT:    return
// CHECK-NOT:   @main.old
func.func @main(%x: tensor<?x2xf32, #relax.shape<["n", "2"]>>, %y: tensor<?xi1, #relax.shape<["m"]>>) -> (tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<?xf32, #relax.shape<["2*n"]>>) attributes {relax.input_names = ["a", "b"], relax.output_names = ["c", "d"]} {
  %w = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<2x5xf32>
  %k = "relax.constant"() {value = dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>} : () -> tensor<5xf32>
  %0 = "relax.matmul"(%x, %w) {out_dtype} : (tensor<?x2xf32, #relax.shape<["n", "2"]>>, tensor<2x5xf32>) -> tensor<?x5xf32, #relax.shape<["n", "5"]>>
  %1 = "relax.add"(%0, %k) : (tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<5xf32>) -> tensor<?x5xf32, #relax.shape<["n", "5"]>>
  %2 = "relax.reshape"(%x) {shape = #relax.shape<["2*n"]>} : (tensor<?x2xf32, #relax.shape<["n", "2"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  %3 = "relax.exp"(%2) : (tensor<?xf32, #relax.shape<["2*n"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  return %1, %3 : tensor<?x5xf32, #relax.shape<["n", "5"]>>, tensor<?xf32, #relax.shape<["2*n"]>>
}

// -----

// Unused results of a call are allocated in the arena.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[UNUSED:.*]] = memref.view %arg2
// CHECK-NEXT:    call @max_pool_with_indices(%arg0, %[[UNUSED]], %arg1)
func.func @main(%x: tensor<1x1x8xf32>) -> tensor<1x1x4xi64> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<1x1x8xf32> to tuple<tensor<1x1x8xf32>>
  %1 = "relax.call_tir"(%0) {callee = @max_pool_with_indices, sizes = #relax.shape<[]>} : (tuple<tensor<1x1x8xf32>>) -> tuple<tensor<1x1x4xf32>, tensor<1x1x4xi64>>
  %2 = "relax.tuple_get_item"(%1) {index = 1 : i64} : (tuple<tensor<1x1x4xf32>, tensor<1x1x4xi64>>) -> tensor<1x1x4xi64>
  return %2 : tensor<1x1x4xi64>
}
func.func @max_pool_with_indices(%x: memref<1x1x8xf32>, %y: memref<1x1x4xf32>, %i: memref<1x1x4xi64>) attributes {tir.prim_func, tir.num_outputs = 2 : i64} {
  return
}

// -----

// A lowered `main` stays.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %arg0: memref<4xf32>
// CHECK-NEXT:    return
// CHECK-NOT:   @main_shapes
func.func @main(%x: memref<4xf32> {relax.input = "x"}) attributes {relax.main} {
  return
}

// -----

// A registered function is called on buffers, its result's last, with their element types.
// CHECK-LABEL: func.func @main(
// CHECK:         %[[PACK:.*]] = builtin.unrealized_conversion_cast %arg0, %arg1 : memref<2xi8>, memref<2xi8>
// CHECK-NEXT:    "tir.call_packed"(%[[PACK]]) {callee = "env.f", tir.dtypes = ["bool", "uint8"]}
func.func @main(%x: tensor<2xi1>) -> tensor<2xui8> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xi1> to tuple<tensor<2xi1>>
  %1 = "relax.call_dps_packed"(%0) {callee = "env.f"} : (tuple<tensor<2xi1>>) -> tensor<2xui8>
  return %1 : tensor<2xui8>
}
