// RUN: relax-opt %s -p tir-fuse --split-input-file | filecheck %s

// Each distinct dimension becomes a symbol, whatever its expression, if no program computes with
// it.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @longer, sizes = #relax.shape<["n", "2*n"]>
// CHECK-LABEL: func.func @longer(
// CHECK-SAME:    memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %arg1: memref<?xf32> {tir.shape = #relax.shape<["s1"]>}, %arg2: index {tir.symbol = "s0"}, %arg3: index {tir.symbol = "s1"})
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>> {
  %args = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["n"]>> to tuple<tensor<?xf32, #relax.shape<["n"]>>>
  %0 = "relax.call"(%args) {callee = @longer} : (tuple<tensor<?xf32, #relax.shape<["n"]>>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  return %0 : tensor<?xf32, #relax.shape<["2*n"]>>
}
func.func private @longer(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["n"]>> to tuple<tensor<?xf32, #relax.shape<["n"]>>>
  %1 = "relax.call_tir"(%0) {callee = @double, sizes = #relax.shape<["n", "2*n"]>} : (tuple<tensor<?xf32, #relax.shape<["n"]>>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  return %1 : tensor<?xf32, #relax.shape<["2*n"]>>
}
func.func @double(%x: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["s1"]>}, %n: index {tir.symbol = "s0"}, %m: index {tir.symbol = "s1"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A program that computes a size from another keeps doing so: programs fused with it see that both
// are equal.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @longer, sizes = #relax.shape<["n"]>
// CHECK-LABEL: func.func @longer(
// CHECK-SAME:    memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %arg1: memref<?xf32> {tir.shape = #relax.shape<["2*s0"]>}, %arg2: index {tir.symbol = "s0"})
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>> {
  %args = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["n"]>> to tuple<tensor<?xf32, #relax.shape<["n"]>>>
  %0 = "relax.call"(%args) {callee = @longer} : (tuple<tensor<?xf32, #relax.shape<["n"]>>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  return %0 : tensor<?xf32, #relax.shape<["2*n"]>>
}
func.func private @longer(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["n"]>> to tuple<tensor<?xf32, #relax.shape<["n"]>>>
  %1 = "relax.call_tir"(%0) {callee = @double, sizes = #relax.shape<["n"]>} : (tuple<tensor<?xf32, #relax.shape<["n"]>>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  return %1 : tensor<?xf32, #relax.shape<["2*n"]>>
}
func.func @double(%x: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["2*s0"]>}, %n: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// Here a call needs n, where the group takes and returns 2*n.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @there_and_back, sizes = #relax.shape<["n"]>
// CHECK-LABEL: func.func @there_and_back(
// CHECK-SAME:    memref<?xf32> {tir.shape = #relax.shape<["2*s0"]>}, %arg1: memref<?xf32> {tir.shape = #relax.shape<["2*s0"]>}, %arg2: index {tir.symbol = "s0"})
// CHECK:         "tir.alloc_buffer"(%arg2) {shape = #relax.shape<["s0"]>}
func.func @main(%x: tensor<?xf32, #relax.shape<["2*n"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>> {
  %args = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["2*n"]>> to tuple<tensor<?xf32, #relax.shape<["2*n"]>>>
  %0 = "relax.call"(%args) {callee = @there_and_back} : (tuple<tensor<?xf32, #relax.shape<["2*n"]>>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  return %0 : tensor<?xf32, #relax.shape<["2*n"]>>
}
func.func private @there_and_back(%x: tensor<?xf32, #relax.shape<["2*n"]>>) -> tensor<?xf32, #relax.shape<["2*n"]>> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["2*n"]>> to tuple<tensor<?xf32, #relax.shape<["2*n"]>>>
  %1 = "relax.call_tir"(%0) {callee = @half, sizes = #relax.shape<["n"]>} : (tuple<tensor<?xf32, #relax.shape<["2*n"]>>>) -> tensor<?xf32, #relax.shape<["n"]>>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<?xf32, #relax.shape<["n"]>> to tuple<tensor<?xf32, #relax.shape<["n"]>>>
  %3 = "relax.call_tir"(%2) {callee = @double, sizes = #relax.shape<["n"]>} : (tuple<tensor<?xf32, #relax.shape<["n"]>>>) -> tensor<?xf32, #relax.shape<["2*n"]>>
  return %3 : tensor<?xf32, #relax.shape<["2*n"]>>
}
func.func @half(%x: memref<?xf32> {tir.shape = #relax.shape<["2*s0"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %n: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}
func.func @double(%x: memref<?xf32> {tir.shape = #relax.shape<["s0"]>}, %o: memref<?xf32> {tir.shape = #relax.shape<["2*s0"]>}, %n: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A program without callers is removed.
// CHECK-LABEL: func.func @main
// CHECK:       func.func @used
// CHECK-NOT:   func.func @unused
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @used, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @used(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}
func.func @unused(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// The only program of a module stays.
// CHECK-LABEL: func.func @alone
func.func @alone(%o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// The symbols of a buffer inside of a program are substituted in the fused program.
// CHECK-LABEL: func.func @kept(
// CHECK-SAME:    %[[N:[^:]*]]: index {tir.symbol = "s0"}, %[[M:[^:]*]]: index {tir.symbol = "s1"})
// CHECK:         "tir.alloc_buffer"(%[[N]], %[[M]]) {shape = #relax.shape<["s0", "s1"]>}
func.func @main(%x: tensor<?x?xf32, #relax.shape<["n", "m"]>>) -> tensor<?x?xf32, #relax.shape<["n", "m"]>> {
  %args = builtin.unrealized_conversion_cast %x : tensor<?x?xf32, #relax.shape<["n", "m"]>> to tuple<tensor<?x?xf32, #relax.shape<["n", "m"]>>>
  %0 = "relax.call"(%args) {callee = @kept} : (tuple<tensor<?x?xf32, #relax.shape<["n", "m"]>>>) -> tensor<?x?xf32, #relax.shape<["n", "m"]>>
  return %0 : tensor<?x?xf32, #relax.shape<["n", "m"]>>
}
func.func private @kept(%x: tensor<?x?xf32, #relax.shape<["n", "m"]>>) -> tensor<?x?xf32, #relax.shape<["n", "m"]>> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?x?xf32, #relax.shape<["n", "m"]>> to tuple<tensor<?x?xf32, #relax.shape<["n", "m"]>>>
  %1 = "relax.call_tir"(%0) {callee = @keep, sizes = #relax.shape<["n", "m"]>} : (tuple<tensor<?x?xf32, #relax.shape<["n", "m"]>>>) -> tensor<?x?xf32, #relax.shape<["n", "m"]>>
  return %1 : tensor<?x?xf32, #relax.shape<["n", "m"]>>
}
func.func @keep(%x: memref<?x?xf32> {tir.shape = #relax.shape<["s1", "s0"]>}, %o: memref<?x?xf32> {tir.shape = #relax.shape<["s1", "s0"]>}, %n: index {tir.symbol = "s1"}, %m: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %kept = "tir.alloc_buffer"(%n, %m) {shape = #relax.shape<["s1", "s0"]>} : (index, index) -> memref<?x?xf32>
  return
}

// -----

// It has a static shape if the call has a static size.
// CHECK-LABEL: func.func @kept(
// CHECK-SAME:    %[[N:[^:]*]]: index {tir.symbol = "s0"})
// CHECK:         "tir.alloc_buffer"(%[[N]]) {shape = #relax.shape<["s0", "5"]>} : (index) -> memref<?x5xf32>
func.func @main(%x: tensor<?x5xf32, #relax.shape<["n", "5"]>>) -> tensor<?x5xf32, #relax.shape<["n", "5"]>> {
  %args = builtin.unrealized_conversion_cast %x : tensor<?x5xf32, #relax.shape<["n", "5"]>> to tuple<tensor<?x5xf32, #relax.shape<["n", "5"]>>>
  %0 = "relax.call"(%args) {callee = @kept} : (tuple<tensor<?x5xf32, #relax.shape<["n", "5"]>>>) -> tensor<?x5xf32, #relax.shape<["n", "5"]>>
  return %0 : tensor<?x5xf32, #relax.shape<["n", "5"]>>
}
func.func private @kept(%x: tensor<?x5xf32, #relax.shape<["n", "5"]>>) -> tensor<?x5xf32, #relax.shape<["n", "5"]>> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?x5xf32, #relax.shape<["n", "5"]>> to tuple<tensor<?x5xf32, #relax.shape<["n", "5"]>>>
  %1 = "relax.call_tir"(%0) {callee = @keep, sizes = #relax.shape<["n", "5"]>} : (tuple<tensor<?x5xf32, #relax.shape<["n", "5"]>>>) -> tensor<?x5xf32, #relax.shape<["n", "5"]>>
  return %1 : tensor<?x5xf32, #relax.shape<["n", "5"]>>
}
func.func @keep(%x: memref<?x?xf32> {tir.shape = #relax.shape<["n", "m"]>}, %o: memref<?x?xf32> {tir.shape = #relax.shape<["n", "m"]>}, %n: index {tir.symbol = "n"}, %m: index {tir.symbol = "m"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %kept = "tir.alloc_buffer"(%n, %m) {shape = #relax.shape<["n", "m"]>} : (index, index) -> memref<?x?xf32>
  return
}
