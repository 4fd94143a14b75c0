// RUN: relax-opt %s -p "tir-pack-constants{vector-bits=512 bf16-dot=true}" | filecheck %s

// A constant that two programs read in different groups of K is packed for each of them.
// CHECK-LABEL: func.func @halves
// CHECK-DAG:     tensor<1x6x32x2xbf16>
// CHECK-DAG:     tensor<1x11x32xbf16>
// CHECK:         callee = @matmul_1
// CHECK-SAME:    tensor<1x6x32x2xbf16>
// CHECK:         callee = @matmul_t_1
// CHECK-SAME:    tensor<1x11x32xbf16>
module {
  func.func @halves(%arg0: tensor<40x11xbf16>, %arg1: tensor<11x40xbf16>) -> (tensor<40x20xf32>, tensor<40x20xf32>) {
    %0 = "relax.constant"() {value = dense<1.000000e+00> : tensor<11x20xbf16>} : () -> tensor<11x20xbf16>
    %1 = builtin.unrealized_conversion_cast %arg0, %0 : tensor<40x11xbf16>, tensor<11x20xbf16> to tuple<tensor<40x11xbf16>, tensor<11x20xbf16>>
    %2 = "relax.call_tir"(%1) {callee = @matmul, sizes = #relax.shape<[]>} : (tuple<tensor<40x11xbf16>, tensor<11x20xbf16>>) -> tensor<40x20xf32>
    %5 = builtin.unrealized_conversion_cast %arg1, %0 : tensor<11x40xbf16>, tensor<11x20xbf16> to tuple<tensor<11x40xbf16>, tensor<11x20xbf16>>
    %6 = "relax.call_tir"(%5) {callee = @matmul_t, sizes = #relax.shape<[]>} : (tuple<tensor<11x40xbf16>, tensor<11x20xbf16>>) -> tensor<40x20xf32>
    return %2, %6 : tensor<40x20xf32>, tensor<40x20xf32>
  }
  func.func @matmul(%arg0: memref<40x11xbf16>, %arg1: memref<11x20xbf16>, %arg2: memref<40x20xf32>) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
    "tir.block"() ({
    ^bb0(%arg3: index, %arg4: index, %arg5: index):
      %cst = arith.constant 0.000000e+00 : f32
      memref.store %cst, %arg2[%arg3, %arg4] : memref<40x20xf32>
      gpu.yield
    }, {
    ^bb0(%arg3: index, %arg4: index, %arg5: index):
      %0 = memref.load %arg0[%arg3, %arg5] : memref<40x11xbf16>
      %1 = memref.load %arg1[%arg5, %arg4] : memref<11x20xbf16>
      %2 = arith.extf %0 : bf16 to f32
      %3 = arith.extf %1 : bf16 to f32
      %4 = arith.mulf %2, %3 : f32
      %5 = memref.load %arg2[%arg3, %arg4] : memref<40x20xf32>
      %6 = arith.addf %5, %4 : f32
      memref.store %6, %arg2[%arg3, %arg4] : memref<40x20xf32>
      gpu.yield
    }) {kinds = "SSR", name = "matmul", operandSegmentSizes = array<i32: 0, 0>, static_extents = array<i64: 40, 20, 11>} : () -> ()
    return
  }
  func.func @matmul_t(%arg0: memref<11x40xbf16>, %arg1: memref<11x20xbf16>, %arg2: memref<40x20xf32>) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
    "tir.block"() ({
    ^bb0(%arg3: index, %arg4: index, %arg5: index):
      %cst = arith.constant 0.000000e+00 : f32
      memref.store %cst, %arg2[%arg3, %arg4] : memref<40x20xf32>
      gpu.yield
    }, {
    ^bb0(%arg3: index, %arg4: index, %arg5: index):
      %0 = memref.load %arg0[%arg5, %arg3] : memref<11x40xbf16>
      %1 = memref.load %arg1[%arg5, %arg4] : memref<11x20xbf16>
      %2 = arith.extf %0 : bf16 to f32
      %3 = arith.extf %1 : bf16 to f32
      %4 = arith.mulf %2, %3 : f32
      %5 = memref.load %arg2[%arg3, %arg4] : memref<40x20xf32>
      %6 = arith.addf %5, %4 : f32
      memref.store %6, %arg2[%arg3, %arg4] : memref<40x20xf32>
      gpu.yield
    }) {kinds = "SSR", name = "matmul", operandSegmentSizes = array<i32: 0, 0>, static_extents = array<i64: 40, 20, 11>} : () -> ()
    return
  }
}
