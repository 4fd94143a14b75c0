// RUN: relax-opt %s -p relax-remove-unused-parameters | filecheck %s

// An unused parameter is removed; a size that only it determines is passed explicitly.
// CHECK-LABEL: func.func @main
// CHECK:         builtin.unrealized_conversion_cast %arg1 : tensor<3xf32> to tuple<tensor<3xf32>>
// CHECK-NEXT:    "relax.call"(%0) {callee = @second}
// CHECK:         %[[N:.*]] = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "3"]>
// CHECK-NEXT:    %[[ARGS:.*]] = builtin.unrealized_conversion_cast %[[N]]
// CHECK-NEXT:    "relax.call"(%[[ARGS]]) {callee = @told}
// CHECK-LABEL: func.func private @second(%arg0: tensor<3xf32>)
// CHECK-LABEL: func.func private @told(%arg0: !relax.prim<[i64, "n"]> {relax.name = "param_n"})
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2xf32>, tensor<3xf32> to tuple<tensor<2xf32>, tensor<3xf32>>
  %1 = "relax.call"(%0) {callee = @second} : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<3xf32>
  %2 = builtin.unrealized_conversion_cast %y : tensor<3xf32> to tuple<tensor<3xf32>>
  %3 = "relax.call"(%2) {callee = @told} : (tuple<tensor<3xf32>>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func private @second(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  return %y : tensor<3xf32>
}
func.func private @told(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>> {
  %0 = "relax.zeros"() {dtype = f32, shape = #relax.shape<["n"]>} : () -> tensor<?xf32, #relax.shape<["n"]>>
  return %0 : tensor<?xf32, #relax.shape<["n"]>>
}

// -----
// One whose size the call does not determine stays.
// CHECK-LABEL: func.func private @untold(%arg0: tensor<?xf32, #relax.shape<["n"]>>)
func.func @blind(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?xf32> to tuple<tensor<?xf32>>
  %1 = "relax.call"(%0) {callee = @untold} : (tuple<tensor<?xf32>>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}
func.func private @untold(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>> {
  %0 = "relax.zeros"() {dtype = f32, shape = #relax.shape<["n"]>} : () -> tensor<?xf32, #relax.shape<["n"]>>
  return %0 : tensor<?xf32, #relax.shape<["n"]>>
}
