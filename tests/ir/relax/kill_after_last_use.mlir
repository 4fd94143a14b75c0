// RUN: relax-opt %s -p relax-kill-after-last-use | filecheck %s

// A temporary is released after its last use; parameters and results are not.
// CHECK-LABEL: func.func @chain
// CHECK:         %[[A:.*]] = "relax.exp"
// CHECK-NEXT:    %[[B:.*]] = "relax.log"(%[[A]])
// CHECK-NEXT:    %[[P:.*]] = builtin.unrealized_conversion_cast %[[A]] :
// CHECK-NEXT:    "relax.call_operator"(%[[P]]) {{.*}}operator = "relax.memory.kill_tensor"
// CHECK-NEXT:    return %[[B]]
func.func @chain(%x: tensor<7xf32> {relax.name = "x"}) -> tensor<7xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = -1 : i64, relax.name = "a"} : (tensor<7xf32>) -> tensor<7xf32>
  %1 = "relax.log"(%0) {relax.dataflow = -1 : i64, relax.name = "b"} : (tensor<7xf32>) -> tensor<7xf32>
  return %1 : tensor<7xf32>
}

// A storage is released after the last tensor in it, other objects after their last use. Released
// objects are not released again, and null storages are skipped.
// CHECK-LABEL: func.func @memory
// CHECK:         alloc_storage
// CHECK:         alloc_tensor
// CHECK:         kill_storage
// CHECK:         null_value
// CHECK:         callee = "make"
// CHECK:         callee = "fill"
// CHECK:         vm.kill_object
// CHECK-NOT:     vm.kill_object
// CHECK:         relax.add
// CHECK:         kill_tensor
// CHECK-NOT:     kill_tensor
// CHECK:         return
func.func @memory(%x: tensor<3x7xf32> {relax.name = "x"}) -> tensor<3x7xf32> attributes {relax.impure} {
  %0 = "relax.shape_expr"() {} : () -> !relax.sizes<["84"]>
  %1 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %2 = "relax.string"() {value = "global"} : () -> !relax.object
  %3 = "relax.data_type"() {value = "uint8"} : () -> !relax.object
  %4 = builtin.unrealized_conversion_cast %0, %1, %2, %3 : !relax.sizes<["84"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object to tuple<!relax.sizes<["84"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object>
  %5 = "relax.call_operator"(%4) {attrs = {}, operator = "relax.memory.alloc_storage", relax.dataflow = -1 : i64, relax.name = "m", types = []} : (tuple<!relax.sizes<["84"]>, !relax.prim<[i64, "0"]>, !relax.object, !relax.object>) -> !relax.object
  %6 = "relax.shape_expr"() {} : () -> !relax.sizes<["3", "7"]>
  %7 = "relax.data_type"() {value = "float32"} : () -> !relax.object
  %8 = builtin.unrealized_conversion_cast %5, %1, %6, %7, %1 : !relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["3", "7"]>, !relax.object, !relax.prim<[i64, "0"]> to tuple<!relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["3", "7"]>, !relax.object, !relax.prim<[i64, "0"]>>
  %9 = "relax.call_operator"(%8) {attrs = {}, operator = "relax.memory.alloc_tensor", relax.dataflow = -1 : i64, relax.name = "t", types = []} : (tuple<!relax.object, !relax.prim<[i64, "0"]>, !relax.sizes<["3", "7"]>, !relax.object, !relax.prim<[i64, "0"]>>) -> tensor<3x7xf32>
  %10 = builtin.unrealized_conversion_cast to tuple<>
  %11 = "relax.call_operator"(%10) {attrs = {}, operator = "relax.null_value", relax.dataflow = -1 : i64, relax.name = "nothing", types = []} : (tuple<>) -> !relax.object
  %12 = "relax.call_extern"(%10) {attrs = {}, callee = "make", relax.dataflow = -1 : i64, relax.name = "o", relax.types = [!relax.object]} : (tuple<>) -> !relax.object
  %13 = builtin.unrealized_conversion_cast %9, %11, %12 : tensor<3x7xf32>, !relax.object, !relax.object to tuple<tensor<3x7xf32>, !relax.object, !relax.object>
  %14 = "relax.call_extern"(%13) {attrs = {}, callee = "fill", relax.dataflow = -1 : i64, relax.name = "_", relax.types = [!relax.object]} : (tuple<tensor<3x7xf32>, !relax.object, !relax.object>) -> !relax.object
  %15 = "relax.add"(%x, %9) {relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>, tensor<3x7xf32>) -> tensor<3x7xf32>
  %16 = builtin.unrealized_conversion_cast %9 : tensor<3x7xf32> to tuple<tensor<3x7xf32>>
  %17 = "relax.call_operator"(%16) {attrs = {}, operator = "relax.memory.kill_tensor", relax.dataflow = -1 : i64, relax.name = "_1", types = []} : (tuple<tensor<3x7xf32>>) -> tuple<>
  return %15 : tensor<3x7xf32>
}
