// RUN: relax-opt %s -p relax-normalize{check-indices=true} | filecheck %s
// RUN: relax-opt %s -p relax-normalize | filecheck %s --check-prefix=DROPPED

// Operators read checked indices, with `check-indices`.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = "relax.check_indices"(%arg1)
// CHECK:         "relax.take"(%arg0, %[[C]])
// CHECK:         "relax.check_indices"(%arg1) {{.*}}operand = "of the script"
// DROPPED-LABEL: func.func @main
// DROPPED-NOT:     check_indices
// DROPPED:         "relax.take"(%arg0, %arg1)
// DROPPED:         "relax.negative"(%arg1)
func.func @main(%x: tensor<5xf32>, %i: tensor<2xi64>) -> (tensor<2xf32>, tensor<2xi64>) {
  %y = "relax.take"(%x, %i) {axis = 0 : i64, mode = "fast"} : (tensor<5xf32>, tensor<2xi64>) -> tensor<2xf32>
  %j = "relax.check_indices"(%i) {ignored, least, limits = #relax.shape<["3"]>, operand = "of the script", where = ""} : (tensor<2xi64>) -> tensor<2xi64>
  %z = "relax.negative"(%j) : (tensor<2xi64>) -> tensor<2xi64>
  return %y, %z : tensor<2xf32>, tensor<2xi64>
}
