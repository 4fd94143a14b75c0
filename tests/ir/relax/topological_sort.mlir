// RUN: relax-opt %s -p relax-topological-sort | filecheck %s
// RUN: relax-opt %s -p relax-topological-sort{order=breadth-first} | filecheck %s --check-prefix=WIDE
// RUN: relax-opt %s -p relax-topological-sort{direction=from-outputs} | filecheck %s --check-prefix=BACK

// Depth first, or breadth first.
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

// A tuple pack moves with its user. An unused operation follows its operands.
// CHECK-LABEL: func.func @packed
// CHECK-SAME:    (%[[X:.*]]: tensor<*x!relax.unknown>
// CHECK:         relax.name = "a"
// CHECK:         relax.name = "b"
// CHECK:         relax.name = "unread"
// CHECK:         relax.name = "c"
// CHECK:         relax.name = "d"
// BACK-LABEL:  func.func @packed
// BACK:          relax.name = "b"
// BACK:          relax.name = "unread"
// BACK:          relax.name = "c"
// BACK:          relax.name = "d"
func.func @packed(%x: tensor<*x!relax.unknown> {relax.name = "x"}) -> tensor<*x!relax.unknown> {
  %0 = "relax.constant"() {relax.dataflow = 0 : i64, relax.name = "a", value = dense<1> : tensor<i32>} : () -> tensor<i32>
  %1 = "relax.constant"() {relax.dataflow = 0 : i64, relax.name = "c", value = dense<2> : tensor<i32>} : () -> tensor<i32>
  %2 = builtin.unrealized_conversion_cast %x, %0 : tensor<*x!relax.unknown>, tensor<i32> to tuple<tensor<*x!relax.unknown>, tensor<i32>>
  %3 = "relax.call_operator"(%2) {attrs = {}, operator = "relax.add", relax.dataflow = 0 : i64, relax.name = "b", types = []} : (tuple<tensor<*x!relax.unknown>, tensor<i32>>) -> tensor<*x!relax.unknown>
  %4 = builtin.unrealized_conversion_cast %x, %3 : tensor<*x!relax.unknown>, tensor<*x!relax.unknown> to tuple<tensor<*x!relax.unknown>, tensor<*x!relax.unknown>>
  %5 = "relax.call_operator"(%4) {attrs = {}, operator = "relax.add", relax.dataflow = 0 : i64, relax.name = "unread", types = []} : (tuple<tensor<*x!relax.unknown>, tensor<*x!relax.unknown>>) -> tensor<*x!relax.unknown>
  %6 = builtin.unrealized_conversion_cast %3, %1 : tensor<*x!relax.unknown>, tensor<i32> to tuple<tensor<*x!relax.unknown>, tensor<i32>>
  %7 = "relax.call_operator"(%6) {attrs = {}, operator = "relax.add", relax.dataflow = 0 : i64, relax.name = "d", relax.output, types = []} : (tuple<tensor<*x!relax.unknown>, tensor<i32>>) -> tensor<*x!relax.unknown>
  return %7 : tensor<*x!relax.unknown>
}
