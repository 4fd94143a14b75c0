// RUN: relax-opt %s -p relax-rewrite-cuda-graph | filecheck %s --check-prefix=OFF
// RUN: relax-opt %s -p relax-rewrite-cuda-graph{is-enabled=true} | filecheck %s

// The second kernel accesses memory that persists between calls.
// OFF-NOT:     cuda_graph
// CHECK-LABEL: func.func @main
// CHECK:         callee = "vm.builtin.cuda_graph.get_cached_alloc"
// CHECK:         callee = @cuda_graph_alloc
// CHECK:         %[[A:.*]] = "relax.call_operator"{{.*}}relax.name = "a"
// CHECK:         callee = @exp
// CHECK:         %[[B:.*]] = "relax.call_operator"{{.*}}relax.name = "b"
// CHECK-NOT:     callee = @exp
// CHECK:         callee = "vm.builtin.cuda_graph.run_or_capture"
// CHECK:         callee = @main_cuda_graph_capture
// CHECK:         builtin.unrealized_conversion_cast %[[A]], %[[B]] :
// CHECK:         callee = @exp
// CHECK:         return
// CHECK-LABEL: func.func private @cuda_graph_alloc() -> tuple<!relax.object, !relax.object>
// CHECK-COUNT-2: "relax.memory.alloc_storage"
// CHECK-LABEL: func.func private @main_cuda_graph_capture(
// CHECK:         callee = @exp
func.func private @exp(%arg0: memref<6xf32> {relax.name = "A"}, %arg1: memref<6xf32> {relax.name = "C"}) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %c0 = arith.constant 0 : index
  %c6 = arith.constant 6 : index
  %c1 = arith.constant 1 : index
  scf.for %arg2 = %c0 to %c6 step %c1 {
    "tir.block"(%arg2) ({
    }, {
    ^bb0(%arg3: index):
      %0 = memref.load %arg0[%arg3] : memref<6xf32>
      %1 = math.exp %0 : f32
      memref.store %1, %arg1[%arg3] : memref<6xf32>
      gpu.yield
    }) {kinds = "S", name = "b", operandSegmentSizes = array<i32: 0, 1>, static_extents = array<i64: 6>, tir.axis_names = ["vi"]} : (index) -> ()
  } {tir.kind = "serial", tir.name = "i"}
  return
}
func.func @main(%arg0: tensor<6xf32> {relax.name = "x"}) -> tensor<6xf32> attributes {relax.attrs = {relax.force_pure = true}} {
  %0 = "relax.shape_expr"() : () -> !relax.sizes<["24"]>
  %1 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %2 = "relax.string"() {value = "global"} : () -> !relax.object
  %3 = "relax.data_type"() {value = "float32"} : () -> !relax.object
  %4 = builtin.unrealized_conversion_cast %0, %1, %2, %3 : !relax.sizes<["24"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object to tuple<!relax.sizes<["24"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object>
  %5 = "relax.call_operator"(%4) {attrs = {}, operator = "relax.memory.alloc_storage", relax.dataflow = -1 : i64, relax.name = "s1", types = []} : (tuple<!relax.sizes<["24"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object>) -> !relax.object
  %6 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %7 = "relax.shape_expr"() : () -> !relax.sizes<["6"]>
  %8 = "relax.data_type"() {value = "float32"} : () -> !relax.object
  %9 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %10 = builtin.unrealized_conversion_cast %5, %6, %7, %8, %9 : !relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]> to tuple<!relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]>>
  %11 = "relax.call_operator"(%10) {attrs = {}, operator = "relax.memory.alloc_tensor", relax.dataflow = -1 : i64, relax.name = "a", types = []} : (tuple<!relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]>>) -> tensor<6xf32>
  %12 = builtin.unrealized_conversion_cast %arg0, %11 : tensor<6xf32>, tensor<6xf32> to tuple<tensor<6xf32>, tensor<6xf32>>
  %13 = "relax.call"(%12) {callee = @exp, relax.dataflow = -1 : i64, relax.impure, relax.name = "_1"} : (tuple<tensor<6xf32>, tensor<6xf32>>) -> tuple<>
  %14 = "relax.shape_expr"() : () -> !relax.sizes<["24"]>
  %15 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %16 = "relax.string"() {value = "global"} : () -> !relax.object
  %17 = "relax.data_type"() {value = "float32"} : () -> !relax.object
  %18 = builtin.unrealized_conversion_cast %14, %15, %16, %17 : !relax.sizes<["24"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object to tuple<!relax.sizes<["24"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object>
  %19 = "relax.call_operator"(%18) {attrs = {}, operator = "relax.memory.alloc_storage", relax.dataflow = -1 : i64, relax.name = "s2", types = []} : (tuple<!relax.sizes<["24"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object>) -> !relax.object
  %20 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %21 = "relax.shape_expr"() : () -> !relax.sizes<["6"]>
  %22 = "relax.data_type"() {value = "float32"} : () -> !relax.object
  %23 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %24 = builtin.unrealized_conversion_cast %19, %20, %21, %22, %23 : !relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]> to tuple<!relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]>>
  %25 = "relax.call_operator"(%24) {attrs = {}, operator = "relax.memory.alloc_tensor", relax.dataflow = -1 : i64, relax.name = "b", types = []} : (tuple<!relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]>>) -> tensor<6xf32>
  %26 = builtin.unrealized_conversion_cast %11, %25 : tensor<6xf32>, tensor<6xf32> to tuple<tensor<6xf32>, tensor<6xf32>>
  %27 = "relax.call"(%26) {callee = @exp, relax.dataflow = -1 : i64, relax.impure, relax.name = "_2"} : (tuple<tensor<6xf32>, tensor<6xf32>>) -> tuple<>
  %28 = "relax.shape_expr"() : () -> !relax.sizes<["6"]>
  %29 = "relax.data_type"() {value = "float32"} : () -> !relax.object
  %30 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %31 = "relax.string"() {value = "global"} : () -> !relax.object
  %32 = builtin.unrealized_conversion_cast %28, %29, %30, %31 : !relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]>, !relax.object to tuple<!relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]>, !relax.object>
  %33 = "relax.call_operator"(%32) {attrs = {}, operator = "relax.builtin.alloc_tensor", relax.dataflow = -1 : i64, relax.name = "c", types = []} : (tuple<!relax.sizes<["6"]>, !relax.object, !relax.prim<[i64, "0"]>, !relax.object>) -> tensor<6xf32>
  %34 = builtin.unrealized_conversion_cast %25, %33 : tensor<6xf32>, tensor<6xf32> to tuple<tensor<6xf32>, tensor<6xf32>>
  %35 = "relax.call"(%34) {callee = @exp, relax.dataflow = -1 : i64, relax.impure, relax.name = "_3"} : (tuple<tensor<6xf32>, tensor<6xf32>>) -> tuple<>
  return %33 : tensor<6xf32>
}
