// RUN: relax-opt %s -p relax-bind-sizes --split-input-file | filecheck %s

// Where [n] meets [5], n is 5 everywhere.
// CHECK: module {
// CHECK-LABEL: func.func @main(%arg0: tensor<5xf32>, %arg1: tensor<5xf32>)
// CHECK-NEXT:    [[SUM:%.*]] = "relax.add"(%arg0, %arg0) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
// CHECK-NEXT:    "relax.add"([[SUM]], %arg1) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
// CHECK-NEXT:    "relax.reshape"([[SUM]]) {shape = #relax.shape<["1", "5"]>} : (tensor<5xf32>) -> tensor<1x5xf32>
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>, %y: tensor<5xf32>) -> tensor<1x?xf32, #relax.shape<["1", "n"]>> {
  %0 = "relax.add"(%x, %x) : (tensor<?xf32, #relax.shape<["n"]>>, tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>>
  %1 = "relax.add"(%0, %y) : (tensor<?xf32, #relax.shape<["n"]>>, tensor<5xf32>) -> tensor<5xf32>
  %2 = "relax.reshape"(%0) {shape = #relax.shape<["1", "n"]>} : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<1x?xf32, #relax.shape<["1", "n"]>>
  return %2 : tensor<1x?xf32, #relax.shape<["1", "n"]>>
}

// -----
// Constraints that no substitution expresses are listed.
// CHECK: module attributes {relax.constraints = ["n == min(n, 3)"]}
// CHECK: -> tensor<?xf32, #relax.shape<["n"]>>
func.func @main(%x: tensor<?xf32, #relax.shape<["n"]>>, %y: tensor<?xf32, #relax.shape<["min(n, 3)"]>>) -> tensor<?xf32, #relax.shape<["n"]>> {
  %0 = "relax.add"(%x, %y) : (tensor<?xf32, #relax.shape<["n"]>>, tensor<?xf32, #relax.shape<["min(n, 3)"]>>) -> tensor<?xf32, #relax.shape<["n"]>>
  return %0 : tensor<?xf32, #relax.shape<["n"]>>
}
