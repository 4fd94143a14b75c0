// RUN: relax-opt %s -p relax-canonicalize-bindings --split-input-file | filecheck %s

// An alias is removed; its source becomes the block's output.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %0 = "relax.exp"(%arg0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output}
// CHECK-NEXT:    return %0
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "lv"} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.bind"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A symbol that a cast defines becomes the known size, and the cast is removed.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.exp"(%arg0) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>>
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["m"]>> {
  %0 = "relax.match_cast"(%x) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["m"]>>
  %1 = "relax.exp"(%0) : (tensor<?xf32, #relax.shape<["m"]>>) -> tensor<?xf32, #relax.shape<["m"]>>
  return %1 : tensor<?xf32, #relax.shape<["m"]>>
}

// -----

// An element of a packed tuple is that value.
// CHECK-LABEL: func.func @main
// CHECK:         return %arg1
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 1 : i64} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A cast that adds information stays.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.match_cast"(%arg0) : (tensor<?xf32>) -> tensor<?xf32, #relax.shape<["m"]>>
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32, #relax.shape<["m"]>> {
  %0 = "relax.match_cast"(%x) : (tensor<?xf32>) -> tensor<?xf32, #relax.shape<["m"]>>
  return %0 : tensor<?xf32, #relax.shape<["m"]>>
}

// -----

// An operand has no name, unless it is visible outside.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.constant"() {value =
// CHECK-NEXT:    "relax.constant"() {relax.dataflow = 0 : i64, relax.name = "seen", relax.output, value =
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = "relax.constant"() {relax.dataflow = 0 : i64, relax.name = "lv", value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "relax.constant"() {relax.dataflow = 0 : i64, relax.name = "seen", relax.output, value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %2 = "relax.add"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1, %2 : tensor<f32>, tensor<f32>
}

// -----

// A value unused outside of its block is not an output.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.exp"(%arg0) {relax.dataflow = 0 : i64, relax.name = "inner"}
// CHECK-NEXT:    "relax.sin"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "inner", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "relax.sin"(%0) {relax.dataflow = 0 : i64, relax.name = "gv", relax.output} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// A tuple of all elements of a tuple, in order, is that tuple; in another order it is not.
// CHECK-LABEL: func.func @main
// CHECK:         %[[S:.*]] = builtin.unrealized_conversion_cast %{{.*}}, %{{.*}} {{.*}}relax.name = "swapped"
// CHECK:         return %arg0, %[[S]]
func.func @main(%t: tuple<tensor<2xf32>, tensor<2xf32>>) -> (tuple<tensor<2xf32>, tensor<2xf32>>, tuple<tensor<2xf32>, tensor<2xf32>>) {
  %0 = "relax.tuple_get_item"(%t) {index = 0 : i64, relax.dataflow = -1 : i64, relax.name = "a"} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %1 = "relax.tuple_get_item"(%t) {index = 1 : i64, relax.dataflow = -1 : i64, relax.name = "b"} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %2 = builtin.unrealized_conversion_cast %0, %1 : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>> {relax.dataflow = -1 : i64, relax.name = "whole"}
  %3 = builtin.unrealized_conversion_cast %1, %0 : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>> {relax.dataflow = -1 : i64, relax.name = "swapped"}
  return %2, %3 : tuple<tensor<2xf32>, tensor<2xf32>>, tuple<tensor<2xf32>, tensor<2xf32>>
}
