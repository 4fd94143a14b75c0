// RUN: relax-opt %s -p relax-bind-symbolic-vars{func-name=absent} --expect-error | filecheck %s

// The function must exist.
// CHECK: error: {{.*}}module has no graph function `absent`
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
