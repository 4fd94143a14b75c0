// RUN: relax-opt %s -p "tir-make-main{program=scale}" | filecheck %s
// RUN: relax-opt %s -p "tir-make-main{program=scale integers=true}" | filecheck %s --check-prefix=GPU

// The entry point takes the parameters in the order of the script: here the destination, a scalar,
// a size, a source. The scalar is loaded from memory.
// CHECK:       relax.signature = "{\22inputs\22: [{\22name\22: \22y\22
// CHECK-SAME:  \22name\22: \22factor\22, \22dtype\22: \22float32\22, \22shape\22: []}
// CHECK-SAME:  \22symbols\22: [\22n\22]
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %[[Y:[a-z0-9]+]]: memref<?xf32> {relax.dtype = "float32", relax.input = "y"
// CHECK-SAME:    %[[FACTOR:[a-z0-9]+]]: memref<f32>
// CHECK-SAME:    %[[COUNT:[a-z0-9]+]]: memref<i32>
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<?xf32>
// CHECK-SAME:    %[[N:[a-z0-9]+]]: index {tir.symbol = "n"}
// CHECK:         %[[LOADED:.*]] = memref.load %[[COUNT]][] : memref<i32>
// CHECK:         %[[INDEX:.*]] = arith.index_cast %[[LOADED]] : i32 to index
// CHECK:         call @scale(%[[FACTOR]], %[[X]], %[[Y]], %[[N]], %[[INDEX]])
// CHECK-LABEL: func.func private @scale(
// CHECK-SAME:    %[[PLACE:[a-z0-9]+]]: memref<f32>
// CHECK:         memref.load %[[PLACE]][] : memref<f32>
// CHECK-NOT:   func.func @other

// GPU launches pass sizes only: kernels load all other integers themselves.
// GPU-LABEL: func.func @main(
// GPU-SAME:    %[[COUNT:[a-z0-9]+]]: memref<i32>
// GPU-NOT:     memref.load
// GPU:         call @scale(%[[COUNT]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// GPU-LABEL: func.func private @scale(
// GPU-SAME:    %[[PLACE:[a-z0-9]+]]: memref<i32>
// GPU:         "tir.block"
// GPU:           memref.load %[[PLACE]][] : memref<i32>
func.func @scale(%x: memref<?xf32> {relax.name = "x", tir.shape = #relax.shape<["n"]>}, %y: memref<?xf32> {relax.name = "y", tir.shape = #relax.shape<["n"]>}, %n: index {relax.name = "n", tir.symbol = "n"}, %count: index {relax.name = "count", tir.dtype = "int32", tir.param, tir.symbol = "count"}, %factor: f32 {relax.name = "factor", tir.param}) attributes {tir.num_outputs = 1 : i64, tir.order = array<i64: 1, 4, 3, 0>, tir.prim_func} {
  "tir.block"(%n) ({
  }, {
  ^bb0(%i: index):
    %a = memref.load %x[%i] : memref<?xf32>
    %b = arith.mulf %a, %factor : f32
    %c = arith.index_cast %count : index to i32
    %d = arith.sitofp %c : i32 to f32
    %e = arith.addf %b, %d : f32
    memref.store %e, %y[%i] : memref<?xf32>
    gpu.yield
  }) {name = "scale", kinds = "S", static_extents = array<i64: -1>, operandSegmentSizes = array<i32: 1, 0>} : (index) -> ()
  return
}
func.func @other(%x: memref<4xf32>) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  return
}
