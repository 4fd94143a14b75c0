// RUN: relax-opt %s -p relax-fuse-ops-by-pattern{patterns=nobody.} --expect-error | filecheck %s
// RUN: relax-opt %s -p relax-fuse-ops-by-pattern{patterns=mine.f:relax.nothing} --expect-error | filecheck %s --check-prefix=OP

// Names of patterns must be registered.
// CHECK: error: {{.*}}how the name of a registered one starts, got 'nobody.'

// A chain is made of operators that there are.
// OP: error: {{.*}}pattern `mine.f:relax.nothing`
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
