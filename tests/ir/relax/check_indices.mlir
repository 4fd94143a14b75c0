// RUN: relax-opt %s -p relax-check-indices | filecheck %s
// RUN: relax-opt %s -p relax-normalize{check-indices=true} | filecheck %s
// RUN: relax-opt %s -p relax-check-indices,relax-normalize | filecheck %s --check-prefix=DROPPED
// RUN: relax-opt %s -p relax-check-indices,relax-check-indices | filecheck %s --check-prefix=ONCE
// RUN: relax-opt %s -p relax-check-indices,relax-legalize | filecheck %s --check-prefix=CALLED

// An operator reads checked indices, within limits that may be symbolic.
// CHECK-LABEL: func.func @take
// CHECK-SAME:    %[[X:.*]]: tensor<?x3xf32, {{.*}}>, %[[I:.*]]: tensor<2xi64>
// CHECK-NEXT:    %[[C:.*]] = "relax.check_indices"(%[[I]]) {ignored, least, limits = #relax.shape<["n"]>, operand = "indices", where = "{{.*}} (relax.take)"}
// CHECK-NEXT:    "relax.take"(%[[X]], %[[C]])
// DROPPED-LABEL: func.func @take
// DROPPED-NOT:     check_indices
// ONCE-LABEL:  func.func @take
// ONCE:          "relax.check_indices"
// ONCE-NOT:      "relax.check_indices"
// ONCE:          "relax.take"
// CALLED-LABEL: func.func @take
// CALLED:         callee = @shape_to_tensor, sizes = #relax.shape<["n"]>
// CALLED:         %[[C:.*]] = "relax.call_dps_packed"({{.*}}) {callee = "relax_mlir.check_indices"}
// CALLED:         builtin.unrealized_conversion_cast %{{.*}}, %[[C]]
func.func @take(%x: tensor<?x3xf32, #relax.shape<["n", "3"]>>, %i: tensor<2xi64>) -> tensor<2x3xf32> {
  %y = "relax.take"(%x, %i) {axis = 0 : i64, mode = "fast"} : (tensor<?x3xf32, #relax.shape<["n", "3"]>>, tensor<2xi64>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// An index that wraps, or is clipped, is never out of range.
// CHECK-LABEL: func.func @wrap
// CHECK-NOT:     check_indices
// CHECK:         return
func.func @wrap(%x: tensor<5xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {
  %a = "relax.take"(%x, %i) {axis = 0 : i64, mode = "wrap"} : (tensor<5xf32>, tensor<2xi64>) -> tensor<2xf32>
  %y = "relax.take"(%a, %i) {axis = 0 : i64, mode = "clip"} : (tensor<2xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// Constants in range need no check, nor does an empty operand.
// CHECK-LABEL: func.func @constant
// CHECK-NOT:     check_indices
// CHECK:         return
func.func @constant(%x: tensor<5xf32>, %none: tensor<0xi64>) -> tensor<0xf32> {
  %i = "relax.constant"() {value = dense<[4, -5]> : tensor<2xi64>} : () -> tensor<2xi64>
  %a = "relax.take"(%x, %i) {axis = 0 : i64, mode = "fast"} : (tensor<5xf32>, tensor<2xi64>) -> tensor<2xf32>
  %y = "relax.take"(%a, %none) {axis = 0 : i64, mode = "fast"} : (tensor<2xf32>, tensor<0xi64>) -> tensor<0xf32>
  return %y : tensor<0xf32>
}

// Index vectors have a limit per component.
// CHECK-LABEL: func.func @vectors
// CHECK:         "relax.check_indices"(%{{.*}}) {{.*}}limits = #relax.shape<["2", "7"]>
func.func @vectors(%x: tensor<2x7xf32>, %i: tensor<4x2xi64>) -> tensor<4xf32> {
  %y = "relax.gather_nd"(%x, %i) {batch_dims = 0 : i64} : (tensor<2x7xf32>, tensor<4x2xi64>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// Every tensor of a tuple is checked against its own axis.
// CHECK-LABEL: func.func @tuple
// CHECK:         %[[A:.*]] = "relax.check_indices"(%arg1) {{.*}}limits = #relax.shape<["2"]>, operand = "indices[0]"
// CHECK:         %[[B:.*]] = "relax.check_indices"(%arg2) {{.*}}limits = #relax.shape<["7"]>, operand = "indices[1]"
// CHECK:         %[[P:.*]] = builtin.unrealized_conversion_cast %[[A]], %[[B]]
// CHECK:         "relax.index_tensor"(%arg0, %[[P]])
func.func @tuple(%x: tensor<2x7xf32>, %i: tensor<4xi64>, %j: tensor<4xi64>) -> tensor<4xf32> {
  %p = builtin.unrealized_conversion_cast %i, %j : tensor<4xi64>, tensor<4xi64> to tuple<tensor<4xi64>, tensor<4xi64>>
  %y = "relax.index_tensor"(%x, %p) : (tensor<2x7xf32>, tuple<tensor<4xi64>, tensor<4xi64>>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// A column of floats is checked as integers; the operator reads the whole operand.
// CHECK-LABEL: func.func @column
// CHECK:         %[[S:.*]] = "relax.strided_slice"(%arg1)
// CHECK:         %[[N:.*]] = "relax.astype"(%[[S]]) {{.*}} -> tensor<4x1xi64>
// CHECK:         "relax.check_indices"(%[[N]]) {ignored, least = 0 : i64, limits = #relax.shape<["2"]>
// CHECK:         "relax.vision_roi_pool"(%arg0, %arg1)
func.func @column(%x: tensor<2x3x6x7xf32>, %r: tensor<4x5xf32>) -> tensor<4x3x2x3xf32> {
  %y = "relax.vision_roi_pool"(%x, %r) {layout = "NCHW", pooled_size = [2, 3], spatial_scale = 1.0 : f64} : (tensor<2x3x6x7xf32>, tensor<4x5xf32>) -> tensor<4x3x2x3xf32>
  return %y : tensor<4x3x2x3xf32>
}

// A target may be the ignored index.
// CHECK-LABEL: func.func @targets
// CHECK:         "relax.check_indices"(%arg1) {ignored = -1 : i64, least = 0 : i64, limits = #relax.shape<["3"]>, operand = "targets"
func.func @targets(%x: tensor<2x3xf32>, %t: tensor<2xi64>) -> tensor<f32> {
  %y = "relax.nn_nll_loss"(%x, %t) {ignore_index = -1 : i64, reduction = "sum"} : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<f32>
  return %y : tensor<f32>
}
