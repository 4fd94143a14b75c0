// RUN: relax-opt %s -p tir-fuse --split-input-file | filecheck %s

// A producer that its consumer reads at two points is computed once, into a buffer.
// CHECK-LABEL: func.func @neighbours
// CHECK:         tir.alloc_buffer
// CHECK:         arith.negf
// CHECK:         arith.addf
// CHECK-NOT:     arith.negf
// CHECK:         return
func.func @main(%x: tensor<9xf32>) -> tensor<8xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<9xf32> to tuple<tensor<9xf32>>
  %0 = "relax.call"(%args) {callee = @neighbours} : (tuple<tensor<9xf32>>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
func.func private @neighbours(%x: tensor<9xf32>) -> tensor<8xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<9xf32> to tuple<tensor<9xf32>>
  %1 = "relax.call_tir"(%0) {callee = @negate, sizes = #relax.shape<[]>} : (tuple<tensor<9xf32>>) -> tensor<9xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<9xf32> to tuple<tensor<9xf32>>
  %3 = "relax.call_tir"(%2) {callee = @sums, sizes = #relax.shape<[]>} : (tuple<tensor<9xf32>>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
func.func @negate(%x: memref<9xf32>, %o: memref<9xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<9xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%i] : memref<9xf32>
    gpu.yield
  }) {name = "negate", kinds = "S", static_extents = array<i64: 9>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @sums(%x: memref<9xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c1 = arith.constant 1 : index
    %j = arith.addi %i, %c1 : index
    %a = memref.load %x[%i] : memref<9xf32>
    %b = memref.load %x[%j] : memref<9xf32>
    %s = arith.addf %a, %b : f32
    memref.store %s, %o[%i] : memref<8xf32>
    gpu.yield
  }) {name = "sums", kinds = "S", static_extents = array<i64: 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// So is one that two blocks read; the block between them is inlined where it is read.
// CHECK-LABEL: func.func @two_readers
// CHECK:         %[[T:.*]] = "tir.alloc_buffer"
// CHECK-NOT:     tir.alloc_buffer
// CHECK:         arith.negf
// CHECK:         memref.store %{{.*}}, %[[T]]
// CHECK:         memref.load %[[T]]
// CHECK:         arith.maximumf
// CHECK:         memref.load %[[T]]
// CHECK:         arith.subf
// CHECK-NOT:     arith.negf
// CHECK:         return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %0 = "relax.call"(%args) {callee = @two_readers} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @two_readers(%x: tensor<4xf32>) -> tensor<4xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4xf32> to tuple<tensor<4xf32>>
  %1 = "relax.call_tir"(%0) {callee = @negate, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<4xf32> to tuple<tensor<4xf32>>
  %3 = "relax.call_tir"(%2) {callee = @shift, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func @negate(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "negate", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @shift(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %t = "tir.alloc_buffer"() {shape = #relax.shape<["1"]>} : () -> memref<1xf32>
  "tir.block"() ({
  ^bb0(%i: index, %j: index):
    %l = arith.constant 0xFF800000 : f32
    memref.store %l, %t[%i] : memref<1xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%j] : memref<4xf32>
    %b = memref.load %t[%i] : memref<1xf32>
    %m = arith.maximumf %a, %b : f32
    memref.store %m, %t[%i] : memref<1xf32>
    gpu.yield
  }) {name = "top", kinds = "SR", static_extents = array<i64: 1, 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c0 = arith.constant 0 : index
    %a = memref.load %x[%i] : memref<4xf32>
    %b = memref.load %t[%c0] : memref<1xf32>
    %d = arith.subf %a, %b : f32
    memref.store %d, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "rest", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A reduction is complete before it is read.
// CHECK-LABEL: func.func @after_sum
// CHECK:         tir.alloc_buffer
// CHECK:         arith.addf
// CHECK:         kinds = "SR"
// CHECK:         arith.negf
// CHECK:         kinds = "S"
func.func @main(%x: tensor<4x3xf32>) -> tensor<4xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<4x3xf32> to tuple<tensor<4x3xf32>>
  %0 = "relax.call"(%args) {callee = @after_sum} : (tuple<tensor<4x3xf32>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @after_sum(%x: tensor<4x3xf32>) -> tensor<4xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4x3xf32> to tuple<tensor<4x3xf32>>
  %1 = "relax.call_tir"(%0) {callee = @sum, sizes = #relax.shape<[]>} : (tuple<tensor<4x3xf32>>) -> tensor<4xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<4xf32> to tuple<tensor<4xf32>>
  %3 = "relax.call_tir"(%2) {callee = @negate, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func @negate(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "negate", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @sum(%x: memref<4x3xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index, %j: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%i] : memref<4xf32>
    gpu.yield
  }, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<4x3xf32>
    %b = memref.load %o[%i] : memref<4xf32>
    %s = arith.addf %b, %a : f32
    memref.store %s, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "sum", kinds = "SR", static_extents = array<i64: 4, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A cheap producer is recomputed rather than stored.
// CHECK-LABEL: func.func @cheap
// CHECK-NOT:     tir.alloc_buffer
// CHECK:         memref.load %arg0[%[[J:.*]]] : memref<3xf32>
// CHECK-NEXT:    arith.negf
// CHECK-NEXT:    memref.store
// CHECK:         static_extents = array<i64: 2, 3>
// CHECK-NOT:     tir.block
func.func @main(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<3xf32> to tuple<tensor<3xf32>>
  %0 = "relax.call"(%args) {callee = @cheap} : (tuple<tensor<3xf32>>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func private @cheap(%x: tensor<3xf32>) -> tensor<2x3xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<3xf32> to tuple<tensor<3xf32>>
  %1 = "relax.call_tir"(%0) {callee = @negate, sizes = #relax.shape<[]>} : (tuple<tensor<3xf32>>) -> tensor<3xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<3xf32> to tuple<tensor<3xf32>>
  %3 = "relax.call_tir"(%2) {callee = @repeat, sizes = #relax.shape<[]>} : (tuple<tensor<3xf32>>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}
func.func @negate(%x: memref<3xf32>, %o: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<3xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%i] : memref<3xf32>
    gpu.yield
  }) {name = "negate", kinds = "S", static_extents = array<i64: 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @repeat(%x: memref<3xf32>, %o: memref<2x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%j] : memref<3xf32>
    memref.store %a, %o[%i, %j] : memref<2x3xf32>
    gpu.yield
  }) {name = "repeat", kinds = "SS", static_extents = array<i64: 2, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An expensive one is inlined, too, if each element is read once, in any order.
// CHECK-LABEL: func.func @reordered
// CHECK-NOT:     tir.alloc_buffer
// CHECK:         ^bb0(%[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT:      memref.load %arg0[%[[J]], %[[I]]]
// CHECK-NEXT:      math.exp
// CHECK-NEXT:      memref.store %{{.*}}, %arg1[%[[I]], %[[J]]]
func.func @main(%x: tensor<3x2xf32>) -> tensor<2x3xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<3x2xf32> to tuple<tensor<3x2xf32>>
  %0 = "relax.call"(%args) {callee = @reordered} : (tuple<tensor<3x2xf32>>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
func.func private @reordered(%x: tensor<3x2xf32>) -> tensor<2x3xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<3x2xf32> to tuple<tensor<3x2xf32>>
  %1 = "relax.call_tir"(%0) {callee = @exp, sizes = #relax.shape<[]>} : (tuple<tensor<3x2xf32>>) -> tensor<3x2xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<3x2xf32> to tuple<tensor<3x2xf32>>
  %3 = "relax.call_tir"(%2) {callee = @turn, sizes = #relax.shape<[]>} : (tuple<tensor<3x2xf32>>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}
func.func @exp(%x: memref<3x2xf32>, %o: memref<3x2xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<3x2xf32>
    %n = math.exp %a : f32
    memref.store %n, %o[%i, %j] : memref<3x2xf32>
    gpu.yield
  }) {name = "exp", kinds = "SS", static_extents = array<i64: 3, 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @turn(%x: memref<3x2xf32>, %o: memref<2x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%j, %i] : memref<3x2xf32>
    memref.store %a, %o[%i, %j] : memref<2x3xf32>
    gpu.yield
  }) {name = "turn", kinds = "SS", static_extents = array<i64: 2, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Not if the diagonal is read repeatedly.
// CHECK-LABEL: func.func @diagonal
// CHECK:         tir.alloc_buffer
// CHECK:         math.exp
// CHECK:         tir.block
func.func @main(%x: tensor<3x3xf32>) -> tensor<3x2xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<3x3xf32> to tuple<tensor<3x3xf32>>
  %0 = "relax.call"(%args) {callee = @diagonal} : (tuple<tensor<3x3xf32>>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
func.func private @diagonal(%x: tensor<3x3xf32>) -> tensor<3x2xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<3x3xf32> to tuple<tensor<3x3xf32>>
  %1 = "relax.call_tir"(%0) {callee = @exp, sizes = #relax.shape<[]>} : (tuple<tensor<3x3xf32>>) -> tensor<3x3xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<3x3xf32> to tuple<tensor<3x3xf32>>
  %3 = "relax.call_tir"(%2) {callee = @diagonals, sizes = #relax.shape<[]>} : (tuple<tensor<3x3xf32>>) -> tensor<3x2xf32>
  return %3 : tensor<3x2xf32>
}
func.func @exp(%x: memref<3x3xf32>, %o: memref<3x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<3x3xf32>
    %n = math.exp %a : f32
    memref.store %n, %o[%i, %j] : memref<3x3xf32>
    gpu.yield
  }) {name = "exp", kinds = "SS", static_extents = array<i64: 3, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @diagonals(%x: memref<3x3xf32>, %o: memref<3x2xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %i] : memref<3x3xf32>
    memref.store %a, %o[%i, %j] : memref<3x2xf32>
    gpu.yield
  }) {name = "diagonals", kinds = "SS", static_extents = array<i64: 3, 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An elementwise consumer of a permuted result is inlined there.
// CHECK-LABEL: func.func @turned
// CHECK-NOT:     tir.alloc_buffer
// CHECK:         %[[A:.*]] = memref.load %arg0[%[[I:.*]], %[[J:.*]]]
// CHECK-NEXT:    %[[N:.*]] = arith.negf %[[A]]
// CHECK-NEXT:    memref.store %[[N]], %arg1[%[[J]], %[[I]]]
func.func @main(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<3x3xf32> to tuple<tensor<3x3xf32>>
  %0 = "relax.call"(%args) {callee = @turned} : (tuple<tensor<3x3xf32>>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}
func.func private @turned(%x: tensor<3x3xf32>) -> tensor<3x3xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<3x3xf32> to tuple<tensor<3x3xf32>>
  %1 = "relax.call_tir"(%0) {callee = @turn, sizes = #relax.shape<[]>} : (tuple<tensor<3x3xf32>>) -> tensor<3x3xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<3x3xf32> to tuple<tensor<3x3xf32>>
  %3 = "relax.call_tir"(%2) {callee = @negate, sizes = #relax.shape<[]>} : (tuple<tensor<3x3xf32>>) -> tensor<3x3xf32>
  return %3 : tensor<3x3xf32>
}
func.func @negate(%x: memref<3x3xf32>, %o: memref<3x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<3x3xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%i, %j] : memref<3x3xf32>
    gpu.yield
  }) {name = "negate", kinds = "SS", static_extents = array<i64: 3, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @turn(%x: memref<3x3xf32>, %o: memref<3x3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<3x3xf32>
    memref.store %a, %o[%j, %i] : memref<3x3xf32>
    gpu.yield
  }) {name = "turn", kinds = "SS", static_extents = array<i64: 3, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// An elementwise consumer of a buffer that two blocks write is inlined into both.
// CHECK-LABEL: func.func @joined
// CHECK-NOT:     tir.alloc_buffer
// CHECK:         %[[LOW:.*]] = arith.negf
// CHECK-NEXT:    memref.store %[[LOW]], %arg1
// CHECK:         name = "low"
// CHECK:         %[[HIGH:.*]] = arith.negf
// CHECK-NEXT:    memref.store %[[HIGH]], %arg1
// CHECK:         name = "high"
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %0 = "relax.call"(%args) {callee = @joined} : (tuple<tensor<2xf32>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @joined(%x: tensor<2xf32>) -> tensor<4xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {callee = @twice, sizes = #relax.shape<[]>} : (tuple<tensor<2xf32>>) -> tensor<4xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<4xf32> to tuple<tensor<4xf32>>
  %3 = "relax.call_tir"(%2) {callee = @negate, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func @negate(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "negate", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @twice(%x: memref<2xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "low", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c2 = arith.constant 2 : index
    %j = arith.addi %i, %c2 : index
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%j] : memref<4xf32>
    gpu.yield
  }) {name = "high", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// Not if it reads its input backwards,
// CHECK-LABEL: func.func @backwards
// CHECK:         tir.alloc_buffer
// CHECK:         name = "low"
// CHECK:         arith.subi
// CHECK:         name = "reverse"
func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %0 = "relax.call"(%args) {callee = @backwards} : (tuple<tensor<2xf32>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @backwards(%x: tensor<2xf32>) -> tensor<4xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {callee = @twice, sizes = #relax.shape<[]>} : (tuple<tensor<2xf32>>) -> tensor<4xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<4xf32> to tuple<tensor<4xf32>>
  %3 = "relax.call_tir"(%2) {callee = @reverse, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
func.func @twice(%x: memref<2xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "low", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c2 = arith.constant 2 : index
    %j = arith.addi %i, %c2 : index
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%j] : memref<4xf32>
    gpu.yield
  }) {name = "high", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @reverse(%x: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c3 = arith.constant 3 : index
    %j = arith.subi %c3, %i : index
    %a = memref.load %x[%j] : memref<4xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "reverse", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// nor if it is a reduction,
// CHECK-LABEL: func.func @summed
// CHECK:         tir.alloc_buffer
// CHECK:         name = "high"
// CHECK:         arith.addf
// CHECK:         kinds = "R"
func.func @main(%x: tensor<2xf32>) -> tensor<f32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %0 = "relax.call"(%args) {callee = @summed} : (tuple<tensor<2xf32>>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @summed(%x: tensor<2xf32>) -> tensor<f32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {callee = @twice, sizes = #relax.shape<[]>} : (tuple<tensor<2xf32>>) -> tensor<4xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<4xf32> to tuple<tensor<4xf32>>
  %3 = "relax.call_tir"(%2) {callee = @sum, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<f32>
  return %3 : tensor<f32>
}
func.func @twice(%x: memref<2xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "low", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c2 = arith.constant 2 : index
    %j = arith.addi %i, %c2 : index
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%j] : memref<4xf32>
    gpu.yield
  }) {name = "high", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @sum(%x: memref<4xf32>, %o: memref<f32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({
  ^bb0(%i: index):
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[] : memref<f32>
    gpu.yield
  }, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    %b = memref.load %o[] : memref<f32>
    %s = arith.addf %b, %a : f32
    memref.store %s, %o[] : memref<f32>
    gpu.yield
  }) {name = "sum", kinds = "R", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// nor if it needs a value that is computed after the writers: one of the two buffers stays.
// CHECK-LABEL: func.func @late
// CHECK:         %[[T:.*]] = "tir.alloc_buffer"
// CHECK-NOT:     tir.alloc_buffer
// CHECK:         memref.store %{{.*}}, %[[T]]
// CHECK:         name = "high"
// CHECK:         %[[A:.*]] = memref.load %[[T]]
// CHECK:         arith.addf
// CHECK:         return
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<4xf32> {
  %args = builtin.unrealized_conversion_cast %x, %y : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  %0 = "relax.call"(%args) {callee = @late} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @late(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<4xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {callee = @twice, sizes = #relax.shape<[]>} : (tuple<tensor<2xf32>>) -> tensor<4xf32>
  %2 = builtin.unrealized_conversion_cast %y : tensor<2xf32> to tuple<tensor<2xf32>>
  %3 = "relax.call_tir"(%2) {callee = @twice, sizes = #relax.shape<[]>} : (tuple<tensor<2xf32>>) -> tensor<4xf32>
  %4 = builtin.unrealized_conversion_cast %1, %3 : tensor<4xf32>, tensor<4xf32> to tuple<tensor<4xf32>, tensor<4xf32>>
  %5 = "relax.call_tir"(%4) {callee = @add, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>, tensor<4xf32>>) -> tensor<4xf32>
  return %5 : tensor<4xf32>
}
func.func @twice(%x: memref<2xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "low", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c2 = arith.constant 2 : index
    %j = arith.addi %i, %c2 : index
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%j] : memref<4xf32>
    gpu.yield
  }) {name = "high", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @add(%x: memref<4xf32>, %y: memref<4xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    %b = memref.load %y[%i] : memref<4xf32>
    %s = arith.addf %a, %b : f32
    memref.store %s, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "add", kinds = "S", static_extents = array<i64: 4>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}

// -----

// A consumer that reads only part of a piecewise buffer stays apart: inlined, it would write out of
// bounds.
// CHECK-LABEL: func.func @begins
// CHECK:         tir.alloc_buffer
// CHECK:         arith.negf
func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
  %args = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %0 = "relax.call"(%args) {callee = @begins} : (tuple<tensor<2xf32>>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @begins(%x: tensor<2xf32>) -> tensor<3xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {callee = @twice, sizes = #relax.shape<[]>} : (tuple<tensor<2xf32>>) -> tensor<4xf32>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<4xf32> to tuple<tensor<4xf32>>
  %3 = "relax.call_tir"(%2) {callee = @first, sizes = #relax.shape<[]>} : (tuple<tensor<4xf32>>) -> tensor<3xf32>
  return %3 : tensor<3xf32>
}
func.func @first(%x: memref<4xf32>, %o: memref<3xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<4xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%i] : memref<3xf32>
    gpu.yield
  }) {name = "first", kinds = "S", static_extents = array<i64: 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
func.func @twice(%x: memref<2xf32>, %o: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<2xf32>
    memref.store %a, %o[%i] : memref<4xf32>
    gpu.yield
  }) {name = "low", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<2xf32>
    %c2 = arith.constant 2 : index
    %j = arith.addi %i, %c2 : index
    memref.store %a, %o[%j] : memref<4xf32>
    gpu.yield
  }) {name = "high", kinds = "S", static_extents = array<i64: 2>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
