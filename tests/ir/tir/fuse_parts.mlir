// RUN: relax-opt %s -p tir-fuse --split-input-file | filecheck %s

// Subviews have the strides of their buffers, of which dimensions became static.
// CHECK-LABEL: func.func @kept
// CHECK-SAME:    memref<4x5xf32>
// CHECK:         %[[kept:.*]] = "tir.alloc_buffer"(){{.*}}-> memref<4x5xf32>
// CHECK:         memref.subview %[[kept]]
// CHECK-SAME:      strides = ["5", "1"]
// CHECK-SAME:      to memref<1x?xf32, strided<[5, 1], offset: ?>>
// CHECK:         %[[row:.*]] = memref.subview %arg0
// CHECK-SAME:      to memref<1x?xf32, strided<[5, 1], offset: ?>>
// CHECK-NEXT:    memref.subview %[[row]]
// CHECK-SAME:      to memref<1x1xf32, strided<[5, 1], offset: ?>>
func.func @main(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4x5xf32> to tuple<tensor<4x5xf32>>
  %1 = "relax.call"(%0) {callee = @kept} : (tuple<tensor<4x5xf32>>) -> tensor<4x5xf32>
  return %1 : tensor<4x5xf32>
}
func.func private @kept(%x: tensor<4x5xf32>) -> tensor<4x5xf32> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<4x5xf32> to tuple<tensor<4x5xf32>>
  %1 = "relax.call_tir"(%0) {callee = @work, sizes = #relax.shape<["4", "5"]>}
    : (tuple<tensor<4x5xf32>>) -> tensor<4x5xf32>
  return %1 : tensor<4x5xf32>
}
func.func @work(%arg0: memref<?x?xf32> {relax.name = "X", tir.handle = "x", tir.shape = #relax.shape<["n", "m"]>, tir.size_dtype = "int64"}, %arg1: memref<?x?xf32> {relax.name = "O", tir.handle = "o", tir.shape = #relax.shape<["n", "m"]>, tir.size_dtype = "int64"}, %arg2: index {relax.name = "n", tir.symbol = "n"}, %arg3: index {relax.name = "m", tir.symbol = "m"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
    %0 = "tir.alloc_buffer"(%arg2, %arg3) {shape = #relax.shape<["n", "m"]>, tir.name = "K", tir.size_dtype = "int64"} : (index, index) -> memref<?x?xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %arg4 = %c0 to %arg2 step %c1 {
      "tir.block"(%arg2, %arg4) ({
      }, {
      ^bb0(%arg5: index):
        %c0_2 = arith.constant 0 : index
        %subview = memref.subview %0[%arg5, %c0_2] [1, %arg3] [1, 1] {tir.buffer = {elem_offset = "Krow_elem_offset", strides = ["m", "1"]}, tir.match_buffer, tir.name = "Krow"} : memref<?x?xf32> to memref<1x?xf32, strided<[?, 1], offset: ?>>
        %c0_3 = arith.constant 0 : index
        %c1_4 = arith.constant 1 : index
        scf.for %arg6 = %c0_3 to %arg3 step %c1_4 {
          "tir.block"(%arg3, %arg6) ({
          }, {
          ^bb0(%arg7: index):
            %given = memref.subview %arg0[%arg5, %c0_3] [1, %arg3] [1, 1] {tir.match_buffer, tir.name = "Xrow"} : memref<?x?xf32> to memref<1x?xf32, strided<[?, 1], offset: ?>>
            %part = memref.subview %given[0, %arg7] [1, 1] [1, 1] {tir.match_buffer, tir.name = "Xone"} : memref<1x?xf32, strided<[?, 1], offset: ?>> to memref<1x1xf32, strided<[?, 1], offset: ?>>
            %1 = memref.load %part[%c0_3, %c0_3] : memref<1x1xf32, strided<[?, 1], offset: ?>>
            %cst = arith.constant 2.000000e+00 : f32
            %2 = arith.mulf %1, %cst : f32
            %c0_5 = arith.constant 0 : index
            memref.store %2, %subview[%c0_5, %arg7] : memref<1x?xf32, strided<[?, 1], offset: ?>>
            gpu.yield
          }) {kinds = "S", name = "a_in", operandSegmentSizes = array<i32: 1, 1>, static_extents = array<i64: -1>, tir.axis_dtypes = ["int64"], tir.axis_names = ["vj"]} : (index, index) -> ()
        } {tir.dtype = "int64", tir.kind = "serial", tir.name = "j"}
        gpu.yield
      }) {kinds = "S", name = "a", operandSegmentSizes = array<i32: 1, 1>, static_extents = array<i64: -1>, tir.axis_dtypes = ["int64"], tir.axis_names = ["vi"]} : (index, index) -> ()
    } {tir.dtype = "int64", tir.kind = "serial", tir.name = "i"}
    %c0_0 = arith.constant 0 : index
    %c1_1 = arith.constant 1 : index
    scf.for %arg4 = %c0_0 to %arg2 step %c1_1 {
      %c0_2 = arith.constant 0 : index
      %c1_3 = arith.constant 1 : index
      scf.for %arg5 = %c0_2 to %arg3 step %c1_3 {
        "tir.block"(%arg2, %arg3, %arg4, %arg5) ({
        }, {
        ^bb0(%arg6: index, %arg7: index):
          %1 = memref.load %0[%arg6, %arg7] : memref<?x?xf32>
          %cst = arith.constant 1.000000e+00 : f32
          %2 = arith.addf %1, %cst : f32
          memref.store %2, %arg1[%arg6, %arg7] : memref<?x?xf32>
          gpu.yield
        }) {kinds = "SS", name = "b", operandSegmentSizes = array<i32: 2, 2>, static_extents = array<i64: -1, -1>, tir.axis_dtypes = ["int64", "int64"], tir.axis_names = ["vi", "vj"]} : (index, index, index, index) -> ()
      } {tir.dtype = "int64", tir.kind = "serial", tir.name = "j"}
    } {tir.dtype = "int64", tir.kind = "serial", tir.name = "i"}
    return
  }

// -----

// Symbolic strides have the names of the fused program's symbols.
// CHECK-LABEL: func.func @kept
// CHECK:         strides = ["s1", "1"]
// CHECK-SAME:      to memref<1x?xf32, strided<[?, 1], offset: ?>>
func.func @main(%x: tensor<?x?xf32, #relax.shape<["a", "b"]>>) -> tensor<?x?xf32, #relax.shape<["a", "b"]>> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?x?xf32, #relax.shape<["a", "b"]>> to tuple<tensor<?x?xf32, #relax.shape<["a", "b"]>>>
  %1 = "relax.call"(%0) {callee = @kept} : (tuple<tensor<?x?xf32, #relax.shape<["a", "b"]>>>) -> tensor<?x?xf32, #relax.shape<["a", "b"]>>
  return %1 : tensor<?x?xf32, #relax.shape<["a", "b"]>>
}
func.func private @kept(%x: tensor<?x?xf32, #relax.shape<["a", "b"]>>) -> tensor<?x?xf32, #relax.shape<["a", "b"]>> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?x?xf32, #relax.shape<["a", "b"]>> to tuple<tensor<?x?xf32, #relax.shape<["a", "b"]>>>
  %1 = "relax.call_tir"(%0) {callee = @work, sizes = #relax.shape<["a", "b"]>}
    : (tuple<tensor<?x?xf32, #relax.shape<["a", "b"]>>>) -> tensor<?x?xf32, #relax.shape<["a", "b"]>>
  return %1 : tensor<?x?xf32, #relax.shape<["a", "b"]>>
}
func.func @work(%arg0: memref<?x?xf32> {relax.name = "X", tir.handle = "x", tir.shape = #relax.shape<["n", "m"]>, tir.size_dtype = "int64"}, %arg1: memref<?x?xf32> {relax.name = "O", tir.handle = "o", tir.shape = #relax.shape<["n", "m"]>, tir.size_dtype = "int64"}, %arg2: index {relax.name = "n", tir.symbol = "n"}, %arg3: index {relax.name = "m", tir.symbol = "m"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
    %0 = "tir.alloc_buffer"(%arg2, %arg3) {shape = #relax.shape<["n", "m"]>, tir.name = "K", tir.size_dtype = "int64"} : (index, index) -> memref<?x?xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %arg4 = %c0 to %arg2 step %c1 {
      "tir.block"(%arg2, %arg4) ({
      }, {
      ^bb0(%arg5: index):
        %c0_2 = arith.constant 0 : index
        %subview = memref.subview %0[%arg5, %c0_2] [1, %arg3] [1, 1] {tir.buffer = {elem_offset = "Krow_elem_offset", strides = ["m", "1"]}, tir.match_buffer, tir.name = "Krow"} : memref<?x?xf32> to memref<1x?xf32, strided<[?, 1], offset: ?>>
        %c0_3 = arith.constant 0 : index
        %c1_4 = arith.constant 1 : index
        scf.for %arg6 = %c0_3 to %arg3 step %c1_4 {
          "tir.block"(%arg3, %arg6) ({
          }, {
          ^bb0(%arg7: index):
            %given = memref.subview %arg0[%arg5, %c0_3] [1, %arg3] [1, 1] {tir.match_buffer, tir.name = "Xrow"} : memref<?x?xf32> to memref<1x?xf32, strided<[?, 1], offset: ?>>
            %part = memref.subview %given[0, %arg7] [1, 1] [1, 1] {tir.match_buffer, tir.name = "Xone"} : memref<1x?xf32, strided<[?, 1], offset: ?>> to memref<1x1xf32, strided<[?, 1], offset: ?>>
            %1 = memref.load %part[%c0_3, %c0_3] : memref<1x1xf32, strided<[?, 1], offset: ?>>
            %cst = arith.constant 2.000000e+00 : f32
            %2 = arith.mulf %1, %cst : f32
            %c0_5 = arith.constant 0 : index
            memref.store %2, %subview[%c0_5, %arg7] : memref<1x?xf32, strided<[?, 1], offset: ?>>
            gpu.yield
          }) {kinds = "S", name = "a_in", operandSegmentSizes = array<i32: 1, 1>, static_extents = array<i64: -1>, tir.axis_dtypes = ["int64"], tir.axis_names = ["vj"]} : (index, index) -> ()
        } {tir.dtype = "int64", tir.kind = "serial", tir.name = "j"}
        gpu.yield
      }) {kinds = "S", name = "a", operandSegmentSizes = array<i32: 1, 1>, static_extents = array<i64: -1>, tir.axis_dtypes = ["int64"], tir.axis_names = ["vi"]} : (index, index) -> ()
    } {tir.dtype = "int64", tir.kind = "serial", tir.name = "i"}
    %c0_0 = arith.constant 0 : index
    %c1_1 = arith.constant 1 : index
    scf.for %arg4 = %c0_0 to %arg2 step %c1_1 {
      %c0_2 = arith.constant 0 : index
      %c1_3 = arith.constant 1 : index
      scf.for %arg5 = %c0_2 to %arg3 step %c1_3 {
        "tir.block"(%arg2, %arg3, %arg4, %arg5) ({
        }, {
        ^bb0(%arg6: index, %arg7: index):
          %1 = memref.load %0[%arg6, %arg7] : memref<?x?xf32>
          %cst = arith.constant 1.000000e+00 : f32
          %2 = arith.addf %1, %cst : f32
          memref.store %2, %arg1[%arg6, %arg7] : memref<?x?xf32>
          gpu.yield
        }) {kinds = "SS", name = "b", operandSegmentSizes = array<i32: 2, 2>, static_extents = array<i64: -1, -1>, tir.axis_dtypes = ["int64", "int64"], tir.axis_names = ["vi", "vj"]} : (index, index, index, index) -> ()
      } {tir.dtype = "int64", tir.kind = "serial", tir.name = "j"}
    } {tir.dtype = "int64", tir.kind = "serial", tir.name = "i"}
    return
  }

// -----

// Strides that are expressions, too.
// CHECK-LABEL: func.func @kept
// CHECK:         elem_offset = "2*s1", strides = ["2*s1", "1"]
// CHECK-SAME:      to memref<1x?xf32, strided<[?, 1], offset: ?>>
func.func @main(%x: tensor<?x?xf32, #relax.shape<["a", "b"]>>) -> tensor<?x?xf32, #relax.shape<["a", "b"]>> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?x?xf32, #relax.shape<["a", "b"]>> to tuple<tensor<?x?xf32, #relax.shape<["a", "b"]>>>
  %1 = "relax.call"(%0) {callee = @kept} : (tuple<tensor<?x?xf32, #relax.shape<["a", "b"]>>>) -> tensor<?x?xf32, #relax.shape<["a", "b"]>>
  return %1 : tensor<?x?xf32, #relax.shape<["a", "b"]>>
}
func.func private @kept(%x: tensor<?x?xf32, #relax.shape<["a", "b"]>>) -> tensor<?x?xf32, #relax.shape<["a", "b"]>> attributes {relax.primitive} {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?x?xf32, #relax.shape<["a", "b"]>> to tuple<tensor<?x?xf32, #relax.shape<["a", "b"]>>>
  %1 = "relax.call_tir"(%0) {callee = @work, sizes = #relax.shape<["a", "b"]>}
    : (tuple<tensor<?x?xf32, #relax.shape<["a", "b"]>>>) -> tensor<?x?xf32, #relax.shape<["a", "b"]>>
  return %1 : tensor<?x?xf32, #relax.shape<["a", "b"]>>
}
func.func @work(%arg0: memref<?x?xf32> {relax.name = "X", tir.handle = "x", tir.shape = #relax.shape<["n", "m"]>, tir.size_dtype = "int64"}, %arg1: memref<?x?xf32> {relax.name = "O", tir.handle = "o", tir.shape = #relax.shape<["n", "m"]>, tir.size_dtype = "int64"}, %arg2: index {relax.name = "n", tir.symbol = "n"}, %arg3: index {relax.name = "m", tir.symbol = "m"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
    %0 = "tir.alloc_buffer"(%arg2, %arg3) {shape = #relax.shape<["n", "m"]>, tir.name = "K", tir.size_dtype = "int64"} : (index, index) -> memref<?x?xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %arg4 = %c0 to %arg2 step %c1 {
      "tir.block"(%arg2, %arg4) ({
      }, {
      ^bb0(%arg5: index):
        %c0_2 = arith.constant 0 : index
        %subview = memref.subview %0[%arg5, %c0_2] [1, %arg3] [1, 1] {tir.buffer = {elem_offset = "m * 2", strides = ["m * 2", "1"]}, tir.match_buffer, tir.name = "Krow"} : memref<?x?xf32> to memref<1x?xf32, strided<[?, 1], offset: ?>>
        %c0_3 = arith.constant 0 : index
        %c1_4 = arith.constant 1 : index
        scf.for %arg6 = %c0_3 to %arg3 step %c1_4 {
          "tir.block"(%arg3, %arg6) ({
          }, {
          ^bb0(%arg7: index):
            %given = memref.subview %arg0[%arg5, %c0_3] [1, %arg3] [1, 1] {tir.match_buffer, tir.name = "Xrow"} : memref<?x?xf32> to memref<1x?xf32, strided<[?, 1], offset: ?>>
            %part = memref.subview %given[0, %arg7] [1, 1] [1, 1] {tir.match_buffer, tir.name = "Xone"} : memref<1x?xf32, strided<[?, 1], offset: ?>> to memref<1x1xf32, strided<[?, 1], offset: ?>>
            %1 = memref.load %part[%c0_3, %c0_3] : memref<1x1xf32, strided<[?, 1], offset: ?>>
            %cst = arith.constant 2.000000e+00 : f32
            %2 = arith.mulf %1, %cst : f32
            %c0_5 = arith.constant 0 : index
            memref.store %2, %subview[%c0_5, %arg7] : memref<1x?xf32, strided<[?, 1], offset: ?>>
            gpu.yield
          }) {kinds = "S", name = "a_in", operandSegmentSizes = array<i32: 1, 1>, static_extents = array<i64: -1>, tir.axis_dtypes = ["int64"], tir.axis_names = ["vj"]} : (index, index) -> ()
        } {tir.dtype = "int64", tir.kind = "serial", tir.name = "j"}
        gpu.yield
      }) {kinds = "S", name = "a", operandSegmentSizes = array<i32: 1, 1>, static_extents = array<i64: -1>, tir.axis_dtypes = ["int64"], tir.axis_names = ["vi"]} : (index, index) -> ()
    } {tir.dtype = "int64", tir.kind = "serial", tir.name = "i"}
    %c0_0 = arith.constant 0 : index
    %c1_1 = arith.constant 1 : index
    scf.for %arg4 = %c0_0 to %arg2 step %c1_1 {
      %c0_2 = arith.constant 0 : index
      %c1_3 = arith.constant 1 : index
      scf.for %arg5 = %c0_2 to %arg3 step %c1_3 {
        "tir.block"(%arg2, %arg3, %arg4, %arg5) ({
        }, {
        ^bb0(%arg6: index, %arg7: index):
          %1 = memref.load %0[%arg6, %arg7] : memref<?x?xf32>
          %cst = arith.constant 1.000000e+00 : f32
          %2 = arith.addf %1, %cst : f32
          memref.store %2, %arg1[%arg6, %arg7] : memref<?x?xf32>
          gpu.yield
        }) {kinds = "SS", name = "b", operandSegmentSizes = array<i32: 2, 2>, static_extents = array<i64: -1, -1>, tir.axis_dtypes = ["int64", "int64"], tir.axis_names = ["vi", "vj"]} : (index, index, index, index) -> ()
      } {tir.dtype = "int64", tir.kind = "serial", tir.name = "j"}
    } {tir.dtype = "int64", tir.kind = "serial", tir.name = "i"}
    return
  }
