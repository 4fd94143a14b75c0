// RUN: relax-opt %s -p relax-lazy-get-input --expect-error | filecheck %s

// CHECK: function `main`, attribute `num_input`: expected at most the 2 parameters of the function, got 3
func.func @main(%a: tensor<3x7xf32> {relax.name = "a"}, %b: tensor<7xf32> {relax.name = "b"}) -> tuple<tensor<3x7xf32>, tensor<7xf32>> attributes {relax.attrs = {num_input = 3 : i64}, relax.impure} {
  %0 = "relax.exp"(%a) {relax.dataflow = -1 : i64, relax.name = "y"} : (tensor<3x7xf32>) -> tensor<3x7xf32>
  %1 = "relax.add"(%0, %b) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<3x7xf32>, tensor<7xf32>) -> tensor<3x7xf32>
  %2 = builtin.unrealized_conversion_cast %1, %b : tensor<3x7xf32>, tensor<7xf32> to tuple<tensor<3x7xf32>, tensor<7xf32>>
  return %2 : tuple<tensor<3x7xf32>, tensor<7xf32>>
}
