// RUN: relax-opt %s -p relax-allocate-workspace --split-input-file | filecheck %s

// The largest workspace that a callee needs is allocated at the call and passed to it.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.shape_expr"() : () -> !relax.sizes<["96"]>
// CHECK:         %[[W:.*]] = "relax.call_operator"{{.*}}"relax.builtin.alloc_tensor", relax.dataflow = 0 {{.*}}relax.name = "workspace_main"
// CHECK:         %[[A:.*]] = "relax.exp"
// CHECK:         %[[BOTH:.*]] = builtin.unrealized_conversion_cast %[[A]], %[[W]]
// CHECK:         "relax.call"(%[[BOTH]]) {callee = @lib1
// CHECK-LABEL: func.func @other
// CHECK-NEXT:    "relax.exp"
// CHECK-LABEL: func.func @part1
// CHECK-SAME:    %{{.*}}: tensor<96xui8> {relax.name = "workspace"}
// CHECK-SAME:    relax.attrs = {Composite = "lib.exp"}
// CHECK-LABEL: func.func @lib1
// CHECK-SAME:    %[[OWN:[a-z0-9]*]]: tensor<96xui8> {relax.name = "workspace"}
// CHECK-SAME:    relax.attrs = {Codegen = "lib"}
// CHECK:         builtin.unrealized_conversion_cast %{{.*}}, %[[OWN]]
// CHECK-NEXT:    "relax.call"({{.*}}callee = @part1
func.func @main(%arg0: tensor<5xf32> {relax.name = "x"}) -> tensor<5xf32> {
  %0 = "relax.exp"(%arg0) {relax.dataflow = 0 : i64, relax.name = "a"} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = builtin.unrealized_conversion_cast %0 : tensor<5xf32> to tuple<tensor<5xf32>>
  %2 = "relax.call"(%1) {callee = @lib, relax.dataflow = 0 : i64, relax.name = "b", relax.output} : (tuple<tensor<5xf32>>) -> tensor<5xf32>
  return %2 : tensor<5xf32>
}
func.func @other(%arg0: tensor<5xf32> {relax.name = "x"}) -> tensor<5xf32> {
  %0 = "relax.exp"(%arg0) {relax.dataflow = -1 : i64, relax.name = "b"} : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}
func.func @lib(%arg0: tensor<5xf32> {relax.name = "x"}) -> tensor<5xf32> attributes {relax.attrs = {Codegen = "lib", WorkspaceSize = 48 : i64}} {
  %0 = builtin.unrealized_conversion_cast %arg0 : tensor<5xf32> to tuple<tensor<5xf32>>
  %1 = "relax.call"(%0) {callee = @part, relax.dataflow = -1 : i64, relax.name = "b"} : (tuple<tensor<5xf32>>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}
func.func private @part(%arg0: tensor<5xf32> {relax.name = "x"}) -> tensor<5xf32> attributes {relax.attrs = {Composite = "lib.exp", WorkspaceSize = 96 : i64}} {
  %0 = "relax.exp"(%arg0) {relax.dataflow = -1 : i64, relax.name = "b"} : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// A call outside of dataflow blocks gets its workspace before it.
// CHECK-LABEL: func.func @plain
// CHECK-NEXT:    "relax.exp"
// CHECK:         "relax.builtin.alloc_tensor"
// CHECK:         callee = @one1
func.func @plain(%x: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "relax.exp"(%x) {relax.dataflow = -1 : i64, relax.name = "a"} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = builtin.unrealized_conversion_cast %0 : tensor<5xf32> to tuple<tensor<5xf32>>
  %2 = "relax.call"(%1) {callee = @one, relax.dataflow = -1 : i64, relax.name = "b"} : (tuple<tensor<5xf32>>) -> tensor<5xf32>
  return %2 : tensor<5xf32>
}
func.func @one(%x: tensor<5xf32>) -> tensor<5xf32> attributes {relax.attrs = {Codegen = "lib", WorkspaceSize = 8 : i64}} {
  return %x : tensor<5xf32>
}

// -----

// A nested function gets the workspace of the enclosing function.
// CHECK-LABEL: func.func @lib1
// CHECK-SAME:    %[[ALL:[a-z0-9]*]]: tensor<8xui8>
// CHECK:         %[[ONE:.*]] = builtin.unrealized_conversion_cast %arg0 :
// CHECK:         "relax.call_value"(%{{.*}}, %[[ONE]])
// CHECK:         %[[TWO:.*]] = builtin.unrealized_conversion_cast %{{.*}}, %[[ALL]] :
// CHECK:         "relax.call_value"(%{{.*}}, %[[TWO]])
func.func @lib(%arg0: tensor<5xf32> {relax.name = "x"}) -> tensor<5xf32> attributes {relax.attrs = {Codegen = "lib", WorkspaceSize = 8 : i64}} {
  %0 = "relax.function"() ({
  ^bb0(%arg1: !relax.callable<[[tensor<5xf32>], tensor<5xf32>, true]>, %arg2: tensor<5xf32>):
    %6 = "relax.exp"(%arg2) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<5xf32>) -> tensor<5xf32>
    gpu.yield %6 : tensor<5xf32>
  }) {attrs = {attrs = {}, is_pure = true, params = ["y"]}, relax.dataflow = -1 : i64, relax.name = "plain"} : () -> !relax.callable<[[tensor<5xf32>], tensor<5xf32>, true]>
  %1 = "relax.function"() ({
  ^bb0(%arg1: !relax.callable<[[tensor<5xf32>], tensor<5xf32>, true]>, %arg2: tensor<5xf32>):
    %6 = "relax.exp"(%arg2) {relax.dataflow = -1 : i64, relax.name = "z"} : (tensor<5xf32>) -> tensor<5xf32>
    gpu.yield %6 : tensor<5xf32>
  }) {attrs = {attrs = {Composite = "lib.exp", WorkspaceSize = 8 : i64}, is_pure = true, params = ["y"]}, relax.dataflow = -1 : i64, relax.name = "part"} : () -> !relax.callable<[[tensor<5xf32>], tensor<5xf32>, true]>
  %2 = builtin.unrealized_conversion_cast %arg0 : tensor<5xf32> to tuple<tensor<5xf32>>
  %3 = "relax.call_value"(%0, %2) {relax.dataflow = -1 : i64, relax.name = "a"} : (!relax.callable<[[tensor<5xf32>], tensor<5xf32>, true]>, tuple<tensor<5xf32>>) -> tensor<5xf32>
  %4 = builtin.unrealized_conversion_cast %3 : tensor<5xf32> to tuple<tensor<5xf32>>
  %5 = "relax.call_value"(%1, %4) {relax.dataflow = -1 : i64, relax.name = "b"} : (!relax.callable<[[tensor<5xf32>], tensor<5xf32>, true]>, tuple<tensor<5xf32>>) -> tensor<5xf32>
  return %5 : tensor<5xf32>
}
