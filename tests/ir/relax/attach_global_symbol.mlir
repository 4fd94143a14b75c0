// RUN: relax-opt %s -p relax-attach-global-symbol | filecheck %s

// A private function is one for all.
// CHECK: func.func @helper
func.func private @helper(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
