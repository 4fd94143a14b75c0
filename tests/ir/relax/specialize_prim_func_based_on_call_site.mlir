// RUN: relax-opt %s -p relax-specialize-prim-func-based-on-call-site | filecheck %s

// The two calls have static sizes and different memory scopes, so there are two programs.
// CHECK:       vdevice = {{\[\[}}"opencl", 0, "global.texture"
// CHECK:       func.func private @twice(%{{.*}}: memref<5x3xf32> {{.*}}, %{{.*}}: memref<5x3xf32, "global.texture">
// CHECK-SAME:  scoped = 1
// CHECK:       memref.store {{.*}}"global.texture">
// CHECK:       func.func @main
// CHECK:       callee = @twice, {{.*}}sizes = #relax.shape<[]>
// CHECK:       callee = @twice1, {{.*}}sizes = #relax.shape<[]>
// CHECK:       func.func private @twice1(%{{.*}}: memref<5x3xf32, "global.texture"> {{.*}}, %{{.*}}: memref<5x3xf32, "global.texture">
module attributes {relax.global_infos = {vdevice = [["opencl", 0, "global.texture"], ["opencl", 0, "global"]]}} {
  func.func private @twice(%arg0: memref<?x3xf32> {relax.name = "A", tir.handle = "x", tir.shape = #relax.shape<["n", "3"]>}, %arg1: memref<?x3xf32> {relax.name = "B", tir.handle = "y", tir.shape = #relax.shape<["n", "3"]>}, %arg2: index {relax.name = "n", tir.symbol = "n"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %arg3 = %c0 to %arg2 step %c1 {
      %c0_0 = arith.constant 0 : index
      %c3 = arith.constant 3 : index
      %c1_1 = arith.constant 1 : index
      scf.for %arg4 = %c0_0 to %c3 step %c1_1 {
        "tir.block"(%arg2, %arg3, %arg4) ({
        }, {
        ^bb0(%arg5: index, %arg6: index):
          %0 = memref.load %arg0[%arg5, %arg6] : memref<?x3xf32>
          %1 = memref.load %arg0[%arg5, %arg6] : memref<?x3xf32>
          %2 = arith.addf %0, %1 : f32
          memref.store %2, %arg1[%arg5, %arg6] : memref<?x3xf32>
          gpu.yield
        }) {kinds = "SS", name = "b", operandSegmentSizes = array<i32: 1, 2>, static_extents = array<i64: -1, 3>, tir.axis_dtypes = ["int64", "int32"], tir.axis_names = ["vi", "vj"]} : (index, index, index) -> ()
      } {tir.kind = "serial", tir.name = "j"}
    } {tir.dtype = "int64", tir.kind = "serial", tir.name = "i"}
    return
  }
  func.func @main(%arg0: tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global"]>> {relax.name = "x"}) -> tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global.texture"]>> {
    %0 = builtin.unrealized_conversion_cast %arg0 : tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global"]>> to tuple<tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global"]>>>
    %1 = "relax.call_tir"(%0) {callee = @twice, relax.dataflow = 0 : i64, relax.name = "a", sizes = #relax.shape<["5"]>} : (tuple<tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global"]>>>) -> tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global.texture"]>>
    %2 = builtin.unrealized_conversion_cast %1 : tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global.texture"]>> to tuple<tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global.texture"]>>>
    %3 = "relax.call_tir"(%2) {callee = @twice, relax.dataflow = 0 : i64, relax.name = "b", relax.output, sizes = #relax.shape<["5"]>} : (tuple<tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global.texture"]>>>) -> tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global.texture"]>>
    return %3 : tensor<5x3xf32, #relax.shape<[["5", "3"], "opencl:0:global.texture"]>>
  }
}
