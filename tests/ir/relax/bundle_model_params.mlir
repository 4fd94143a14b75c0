// RUN: relax-opt %s -p relax-bundle-model-params | filecheck %s
// RUN: relax-opt %s -p relax-bundle-model-params{param-tuple-name=weights} | filecheck %s --check-prefix=NAME

// Parameters after the first become one tuple; each use reads its element.
// CHECK-LABEL: func.func @main(%arg0: tensor<2xf32> {relax.name = "x"}, %arg1: tuple<tensor<2xf32>, tensor<2xf32>> {relax.name = "model_params"})
// CHECK-NEXT:    %0 = "relax.tuple_get_item"(%arg1) {index = 0 : i64
// CHECK-NEXT:    %1 = "relax.add"(%arg0, %0)
// CHECK-NEXT:    %2 = "relax.tuple_get_item"(%arg1) {index = 1 : i64
// CHECK-NEXT:    "relax.add"(%1, %2)
// NAME:          {relax.name = "weights"}
func.func @main(%x: tensor<2xf32> {relax.name = "x"}, %a: tensor<2xf32> {relax.name = "a"}, %b: tensor<2xf32> {relax.name = "b"}) -> tensor<2xf32> attributes {relax.attrs = {num_input = 1 : i64}} {
  %0 = "relax.add"(%x, %a) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.add"(%0, %b) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
