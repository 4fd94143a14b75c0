// RUN: relax-opt %s -p relax-inline-private-functions --split-input-file | filecheck %s

// The call of the private function is inlined; others stay.
// CHECK-LABEL: func.func @main
// CHECK:         "relax.exp"(%arg0) : (tensor<?xf32, #relax.shape<["n"]>>)
// CHECK:         "relax.call"(%{{.*}}) {callee = @public}
// CHECK-LABEL: func.func @public
// CHECK-NOT:   @private
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<?xf32, #relax.shape<["n"]>> to tuple<tensor<?xf32, #relax.shape<["n"]>>>
  %1 = "relax.call"(%0) {callee = @private} : (tuple<tensor<?xf32, #relax.shape<["n"]>>>) -> tensor<?xf32, #relax.shape<["n"]>>
  %2 = builtin.unrealized_conversion_cast %1 : tensor<?xf32, #relax.shape<["n"]>> to tuple<tensor<?xf32, #relax.shape<["n"]>>>
  %3 = "relax.call"(%2) {callee = @public} : (tuple<tensor<?xf32, #relax.shape<["n"]>>>) -> tensor<?xf32, #relax.shape<["n"]>>
  return %3 : tensor<?xf32, #relax.shape<["n"]>>
}
func.func private @private(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>> {
  %0 = "relax.exp"(%x) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>>
  return %0 : tensor<?xf32, #relax.shape<["n"]>>
}
func.func @public(%x: tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>> {
  %0 = "relax.tanh"(%x) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>>
  return %0 : tensor<?xf32, #relax.shape<["n"]>>
}

// -----

// A size of the callee is a part of the parameter's: it is that at the same place of the argument's.
// CHECK-LABEL: func.func @part_of_a_size
// CHECK:         "relax.exp"(%arg1) : (tensor<?xf32, #relax.shape<["a + min(b, 5)"]>>) -> tensor<?xf32, #relax.shape<["a + min(b, 5)"]>>
// CHECK-NOT:     relax.call
func.func @part_of_a_size(%x: tensor<?x?xf32, #relax.shape<["a", "b"]>>, %y: tensor<?xf32, #relax.shape<["a + min(b, 5)"]>>) -> tensor<?xf32, #relax.shape<["a + min(b, 5)"]>> {
  %0 = builtin.unrealized_conversion_cast %y : tensor<?xf32, #relax.shape<["a + min(b, 5)"]>> to tuple<tensor<?xf32, #relax.shape<["a + min(b, 5)"]>>>
  %1 = "relax.call"(%0) {callee = @private} : (tuple<tensor<?xf32, #relax.shape<["a + min(b, 5)"]>>>) -> tensor<?xf32, #relax.shape<["a + min(b, 5)"]>>
  return %1 : tensor<?xf32, #relax.shape<["a + min(b, 5)"]>>
}
func.func private @private(%x: tensor<?xf32, #relax.shape<["b + min(a, 5)"]>>) -> tensor<?xf32, #relax.shape<["b + min(a, 5)"]>> {
  %0 = "relax.exp"(%x) : (tensor<?xf32, #relax.shape<["b + min(a, 5)"]>>) -> tensor<?xf32, #relax.shape<["b + min(a, 5)"]>>
  return %0 : tensor<?xf32, #relax.shape<["b + min(a, 5)"]>>
}
