// RUN: relax-opt %s -p relax-dataflow-use-inplace-calls | filecheck %s

// The second sum overwrites the first; the first overwrites nothing, since `x` is a parameter.
// CHECK-LABEL: func.func @main
// CHECK:         %[[A:.*]] = "relax.add"
// CHECK:         %[[ARGS:.*]] = builtin.unrealized_conversion_cast %[[A]],
// CHECK:         "relax.call_operator"({{.*}}inplace_indices = [0]{{.*}}"relax.call_tir_inplace"
// CHECK-NOT:   func.func private @add(
// CHECK-LABEL: func.func private @add_inplace(
// CHECK-SAME:    %[[X:[a-z0-9]*]]: memref<3x5xf32>
// CHECK-SAME:    %{{[a-z0-9]*}}: memref<1x5xf32> {{{[^{}]*}}}) attributes
// CHECK:         memref.store {{.*}}, %[[X]]
// CHECK-NOT:   func.func
func.func @main(%x: tensor<3x5xf32>, %y: tensor<1x5xf32>) -> tensor<3x5xf32> {
  %0 = "relax.add"(%x, %y) {relax.dataflow = 0 : i64, relax.name = "a"} : (tensor<3x5xf32>, tensor<1x5xf32>) -> tensor<3x5xf32>
  %1 = "relax.add"(%0, %y) {relax.dataflow = 0 : i64, relax.name = "b", relax.output} : (tensor<3x5xf32>, tensor<1x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}
