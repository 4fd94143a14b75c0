// RUN: relax-opt %s -p relax-legalize,relax-to-non-dataflow,relax-call-tir-rewrite,relax-static-plan-block-memory | filecheck %s

// A tensor reuses the memory of a dead one; returned tensors have their own.
// CHECK-LABEL:   func.func @main
// CHECK:         %[[A:.*]] = "relax.call_operator"({{.*}}operator = "relax.memory.alloc_storage"
// CHECK:         "relax.call_operator"({{.*}}operator = "relax.memory.alloc_tensor"
// CHECK:         %[[B:.*]] = "relax.call_operator"({{.*}}operator = "relax.memory.alloc_storage"
// CHECK-NOT:     alloc_storage
// CHECK:         "relax.call_operator"({{.*}}operator = "relax.builtin.alloc_tensor"
func.func @main(%x: tensor<6xf32> {relax.name = "x"}) -> tensor<6xf32> {
  %0 = "relax.sqrt"(%x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<6xf32>) -> tensor<6xf32>
  %1 = "relax.exp"(%0) {relax.dataflow = 0 : i64, relax.name = "lv1"} : (tensor<6xf32>) -> tensor<6xf32>
  %2 = "relax.log"(%1) {relax.dataflow = 0 : i64, relax.name = "lv2"} : (tensor<6xf32>) -> tensor<6xf32>
  %3 = "relax.sin"(%2) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<6xf32>) -> tensor<6xf32>
  return %3 : tensor<6xf32>
}
