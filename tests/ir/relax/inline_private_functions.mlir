// RUN: relax-opt %s -p relax-inline-private-functions | filecheck %s

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
