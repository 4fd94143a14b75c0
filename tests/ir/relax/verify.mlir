// RUN: relax-opt %s --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-verify --no-verify --split-input-file | filecheck %s

// A valid module passes unchanged, with or without its arrays.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.constant"() {value = #relax.const<"w">} : () -> tensor<4xf32>
// CHECK-NEXT:    "relax.add"(%arg0, %0)
// CHECK-NEXT:    return %1
func.func @main(%x: tensor<?x4xf32, #relax.shape<["n", "4"]>>) -> tensor<?x4xf32, #relax.shape<["n", "4"]>> {
  %0 = "relax.constant"() {value = #relax.const<"w">} : () -> tensor<4xf32>
  %1 = "relax.add"(%x, %0) : (tensor<?x4xf32, #relax.shape<["n", "4"]>>, tensor<4xf32>) -> tensor<?x4xf32, #relax.shape<["n", "4"]>>
  return %1 : tensor<?x4xf32, #relax.shape<["n", "4"]>>
}

// -----

// An out-of-bounds read under a branch is not an error; neither is an empty domain.
// CHECK-LABEL: func.func @guarded
func.func @guarded(%x: memref<4xf32>, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  "tir.block"() ({}, {
  ^bb0(%i: index):
    %c4 = arith.constant 4 : index
    %z = arith.constant 0.0 : f32
    %inside = arith.cmpi ult, %i, %c4 : index
    %v = scf.if %inside -> f32 {
      %r = memref.load %x[%i] : memref<4xf32>
      scf.yield %r : f32
    } else {
      scf.yield %z : f32
    }
    memref.store %v, %o[%i] : memref<8xf32>
    gpu.yield
  }) {name = "guarded", kinds = "S", static_extents = array<i64: 8>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({}, {
  ^bb0(%i: index, %j: index):
    %c9 = arith.constant 9 : index
    %z = arith.constant 0.0 : f32
    memref.store %z, %o[%c9] : memref<8xf32>
    gpu.yield
  }) {name = "empty", kinds = "SS", static_extents = array<i64: 8, 0>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
