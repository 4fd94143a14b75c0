// RUN: relax-opt %s -p relax-optimize-layout-transform | filecheck %s

// `b` is `x`; rotating axes twice is not the inverse, though the shape is the same.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    %[[X:[a-z0-9]*]]: tensor<12xf32> {{.*}}, %[[Y:[a-z0-9]*]]:
// CHECK:         "relax.exp"(%[[X]])
// CHECK:         %[[D:.*]] = "relax.layout_transform"(%[[Y]])
// CHECK:         "relax.layout_transform"(%[[D]])
#map = affine_map<(d0) -> (d0 floordiv 4, d0 mod 4)>
#map1 = affine_map<(d0, d1) -> (d0 * 4 + d1)>
#map2 = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
module {
  func.func @main(%arg0: tensor<12xf32> {relax.name = "x"}, %arg1: tensor<2x2x2xf32> {relax.name = "y"}) -> (tensor<12xf32>, tensor<2x2x2xf32>) {
    %0 = "relax.layout_transform"(%arg0) {index_map = #map, pad_value, relax.dataflow = 0 : i64, relax.name = "a"} : (tensor<12xf32>) -> tensor<3x4xf32>
    %1 = "relax.layout_transform"(%0) {index_map = #map1, pad_value, relax.dataflow = 0 : i64, relax.name = "b"} : (tensor<3x4xf32>) -> tensor<12xf32>
    %2 = "relax.exp"(%1) {relax.dataflow = 0 : i64, relax.name = "c", relax.output} : (tensor<12xf32>) -> tensor<12xf32>
    %3 = "relax.layout_transform"(%arg1) {index_map = #map2, pad_value, relax.dataflow = 0 : i64, relax.name = "d"} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
    %4 = "relax.layout_transform"(%3) {index_map = #map2, pad_value, relax.dataflow = 0 : i64, relax.name = "e", relax.output} : (tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
    return %2, %4 : tensor<12xf32>, tensor<2x2x2xf32>
  }
}
