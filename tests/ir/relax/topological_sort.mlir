// RUN: relax-opt %s -p relax-topological-sort | filecheck %s
// RUN: relax-opt %s -p relax-topological-sort{order=breadth-first} | filecheck %s --check-prefix=WIDE
// RUN: relax-opt %s -p relax-topological-sort{direction=from-outputs} | filecheck %s --check-prefix=BACK

// Readers follow what they read at once, or all beside each other come first.
// CHECK:      relax.name = "a1"
// CHECK-NEXT: relax.name = "a2"
// CHECK-NEXT: relax.name = "b1"
// CHECK-NEXT: relax.name = "b2"
// CHECK-NEXT: relax.name = "c"
// WIDE:       relax.name = "a1"
// WIDE-NEXT:  relax.name = "b1"
// WIDE-NEXT:  relax.name = "a2"
// WIDE-NEXT:  relax.name = "b2"
// BACK:       relax.name = "b1"
// BACK-NEXT:  relax.name = "b2"
// BACK-NEXT:  relax.name = "a1"
// BACK-NEXT:  relax.name = "a2"
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %b1 = "relax.exp"(%x) {relax.dataflow = 0 : i64, relax.name = "a1"} : (tensor<2xf32>) -> tensor<2xf32>
  %c1 = "relax.tanh"(%x) {relax.dataflow = 0 : i64, relax.name = "b1"} : (tensor<2xf32>) -> tensor<2xf32>
  %c2 = "relax.tanh"(%c1) {relax.dataflow = 0 : i64, relax.name = "b2"} : (tensor<2xf32>) -> tensor<2xf32>
  %b2 = "relax.exp"(%b1) {relax.dataflow = 0 : i64, relax.name = "a2"} : (tensor<2xf32>) -> tensor<2xf32>
  %d = "relax.add"(%c2, %b2) {relax.dataflow = 0 : i64, relax.name = "c", relax.output} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %d : tensor<2xf32>
}
