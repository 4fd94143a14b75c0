// RUN: relax-opt %s -p relax-run-codegen | filecheck %s
// RUN: relax-opt %s -p relax-run-codegen{entry-functions=aside} | filecheck %s --check-prefix=ENTRY

// Unreachable functions are removed, except for entry functions.
// CHECK-NOT:     @aside
// ENTRY:         func.func private @aside
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}

func.func private @aside(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
