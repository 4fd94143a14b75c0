// RUN: relax-opt %s -p relax-fuse-ops-by-pattern{patterns=nobody.} --expect-error | filecheck %s
// RUN: relax-opt %s -p relax-fuse-ops-by-pattern{patterns=mine.f:relax.nothing} --expect-error | filecheck %s --check-prefix=OP

// Pattern names must be registered.
// CHECK: error: {{.*}}name prefix of a registered one, got 'nobody.'

// A chain consists of known operators.
// OP: error: {{.*}}pattern `mine.f:relax.nothing`
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  return %x : tensor<3xf32>
}
