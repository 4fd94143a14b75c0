// RUN: relax-opt %s -p relax-bind-symbolic-vars{func-name=main} | filecheck %s

// Pipeline text has no sizes: symbols stay.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    tensor<?x3xf32, #relax.shape<["n", "3"]>>
func.func @main(%x: tensor<?x3xf32, #relax.shape<["n", "3"]>>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>> {
  %0 = "relax.exp"(%x) : (tensor<?x3xf32, #relax.shape<["n", "3"]>>) -> tensor<?x3xf32, #relax.shape<["n", "3"]>>
  return %0 : tensor<?x3xf32, #relax.shape<["n", "3"]>>
}
