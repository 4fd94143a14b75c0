// RUN: relax-opt %s -p relax-decompose-ops-for-inference | filecheck %s
// RUN: relax-opt %s -p relax-decompose-ops-for-inference{func-name=other} | filecheck %s --check-prefix=OTHER

// A batch normalisation becomes arithmetic on its statistics, which stay unchanged.
// CHECK-LABEL: func.func @main
// CHECK:         "relax.subtract"(%arg0, %
// CHECK:         "relax.sqrt"
// CHECK:         "relax.divide"
// CHECK:         "relax.multiply"
// CHECK:         %[[Y:.*]] = "relax.add"
// CHECK:         builtin.unrealized_conversion_cast %[[Y]], %arg3, %arg4
// OTHER-LABEL: func.func @main
// OTHER:         relax.nn_batch_norm
func.func @main(%x: tensor<1x2x5x5xf32>, %g: tensor<2xf32>, %b: tensor<2xf32>, %m: tensor<2xf32>, %v: tensor<2xf32>) -> tuple<tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>> {
  %0 = "relax.nn_batch_norm"(%x, %g, %b, %m, %v) {axis = 1 : i64, center = true, epsilon = 1.0e-05 : f64, momentum = 1.0e-01 : f64, scale = true, training = false} : (tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tuple<tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>>
  return %0 : tuple<tensor<1x2x5x5xf32>, tensor<2xf32>, tensor<2xf32>>
}
