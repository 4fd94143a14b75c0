// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-horizontal --split-input-file | filecheck %s
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-horizontal{max-elements=11}" --split-input-file | filecheck %s --check-prefix=SMALLER
// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-horizontal,tir-lower-blocks,tir-to-linalg,schedule-apply-gpu{sm=90} --split-input-file | filecheck %s --check-prefix=LOOPS

// Two elementwise programs on one value, and one on another, become one program with three results,
// and one launch.
// CHECK-LABEL: func.func @joined(
// CHECK:         %[[ALL:.+]] = "relax.call_tir"(%{{.+}}) {callee = @joined_tir_exp_tir_tanh_concatenate,
// CHECK:         %[[A:.+]] = "relax.tuple_get_item"(%[[ALL]]) {index = 0 : i64}
// CHECK:         %[[B:.+]] = "relax.tuple_get_item"(%[[ALL]]) {index = 1 : i64}
// CHECK:         %[[C:.+]] = "relax.tuple_get_item"(%[[ALL]]) {index = 2 : i64}
// CHECK-NOT:     relax.call_tir
// CHECK:         return %[[A]], %[[B]], %[[C]]
// CHECK-LABEL: func.func @joined_tir_exp_tir_tanh_concatenate(%arg0: memref<3x4xf32>, %arg1: memref<3x4xf32>, %arg2: memref<2x4xf32>, %arg3: memref<3x4xf32>, %arg4: memref<3x4xf32>, %arg5: memref<3x4xf32>, %arg6: memref<5x4xf32>) attributes {tir.num_outputs = 3 : i64, tir.prim_func}
// CHECK:         memref.store %{{.*}}, %arg4
// CHECK:         memref.store %{{.*}}, %arg5
// CHECK:         memref.store %{{.*}}, %arg6
// CHECK:         memref.store %{{.*}}, %arg6
// SMALLER-LABEL: func.func @joined(
// SMALLER-COUNT-3: relax.call_tir
// LOOPS-LABEL: func.func @joined(
// LOOPS-LABEL: func.func @joined_tir_exp_tir_tanh_concatenate
// LOOPS-SAME:    tir.rule = "MultiOutput"
// LOOPS-COUNT-1: gpu.launch
// LOOPS-NOT:     gpu.launch
// LOOPS-LABEL: func.func @alike(
func.func @joined(%x: tensor<3x4xf32>, %y: tensor<2x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<5x4xf32>) {
  %0 = "relax.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "relax.tanh"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %2 = builtin.unrealized_conversion_cast %y, %x : tensor<2x4xf32>, tensor<3x4xf32> to tuple<tensor<2x4xf32>, tensor<3x4xf32>>
  %3 = "relax.concat"(%2) {axis = 0 : i64} : (tuple<tensor<2x4xf32>, tensor<3x4xf32>>) -> tensor<5x4xf32>
  return %0, %1, %3 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<5x4xf32>
}

// -----

// Two calls of one program have a result each.
// CHECK-LABEL: func.func @alike(
// CHECK-COUNT-1: relax.call_tir
// CHECK-LABEL: func.func @joined_tir_exp_tir_exp(%arg0: memref<4xf32>, %arg1: memref<4xf32>, %arg2: memref<4xf32>, %arg3: memref<4xf32>)
// CHECK:         memref.load %arg0
// CHECK:         memref.store %{{.*}}, %arg2
// CHECK:         memref.load %arg1
// CHECK:         memref.store %{{.*}}, %arg3
func.func @alike(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "relax.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "relax.exp"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// A program that reads another one's result, a reduction and a transpose stay by themselves.
// CHECK-LABEL: func.func @apart(
// CHECK-NOT:     joined
// CHECK:         return
// CHECK-NOT:   func.func @joined
// LOOPS-LABEL: func.func @apart(
func.func @apart(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3x4xf32>) {
  %0 = "relax.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %2 = "relax.permute_dims"(%x) {axes = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %3 = "relax.sum"(%x) {axis = array<i64: 1>, keepdims = false} : (tensor<3x4xf32>) -> tensor<3xf32>
  %4 = "relax.tanh"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0, %1, %2, %3, %4 : tensor<3x4xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<3xf32>, tensor<3x4xf32>
}

// -----

// Two KV caches that grow by one step: the appended slices are fused into one launch.
// CHECK-LABEL: func.func @open(
// CHECK:         "relax.call_tir"(%{{.+}}) {callee = @joined_concatenate_concatenate_tir_exp, sizes = #relax.shape<["past", "n"]>}
// CHECK-LABEL: func.func @joined_concatenate_concatenate_tir_exp(
// CHECK-SAME:    %arg0: memref<2x?x4xf32> {tir.shape = #relax.shape<["2", "s0", "4"]>}, %arg1: memref<2x1x4xf32> {tir.shape = #relax.shape<["2", "1", "4"]>},
// CHECK-SAME:    %arg4: memref<?xf32> {tir.shape = #relax.shape<["s1"]>}, %arg5: memref<2x?x4xf32> {tir.shape = #relax.shape<["2", "s0 + 1", "4"]>},
// CHECK-SAME:    %arg8: index {tir.symbol = "s0"}, %arg9: index {tir.symbol = "s1"}) attributes {tir.num_outputs = 3 : i64, tir.prim_func}
// CHECK:         "tir.block"(%arg8)
// CHECK:           memref.store %{{.*}}, %arg5
// CHECK:           memref.store %{{.*}}, %arg5
// CHECK:         "tir.block"(%arg8)
// CHECK:           memref.store %{{.*}}, %arg6
// CHECK:           memref.store %{{.*}}, %arg6
// CHECK:         "tir.block"(%arg9)
// CHECK:           memref.store %{{.*}}, %arg7
// LOOPS-LABEL: func.func @open(
// LOOPS-LABEL: func.func @joined_concatenate_concatenate_tir_exp(
// LOOPS-SAME:    tir.rule = "MultiOutput"
// LOOPS-COUNT-1: gpu.launch
// LOOPS-NOT:     gpu.launch
func.func @open(%k: tensor<2x?x4xf32, #relax.shape<["2", "past", "4"]>>, %v: tensor<2x?x4xf32, #relax.shape<["2", "past", "4"]>>, %x: tensor<2x1x4xf32>, %z: tensor<?xf32, #relax.shape<["n"]>>) -> (tensor<2x?x4xf32, #relax.shape<["2", "past + 1", "4"]>>, tensor<2x?x4xf32, #relax.shape<["2", "past + 1", "4"]>>, tensor<?xf32, #relax.shape<["n"]>>) {
  %0 = builtin.unrealized_conversion_cast %k, %x : tensor<2x?x4xf32, #relax.shape<["2", "past", "4"]>>, tensor<2x1x4xf32> to tuple<tensor<2x?x4xf32, #relax.shape<["2", "past", "4"]>>, tensor<2x1x4xf32>>
  %1 = "relax.concat"(%0) {axis = 1 : i64} : (tuple<tensor<2x?x4xf32, #relax.shape<["2", "past", "4"]>>, tensor<2x1x4xf32>>) -> tensor<2x?x4xf32, #relax.shape<["2", "past + 1", "4"]>>
  %2 = builtin.unrealized_conversion_cast %v, %x : tensor<2x?x4xf32, #relax.shape<["2", "past", "4"]>>, tensor<2x1x4xf32> to tuple<tensor<2x?x4xf32, #relax.shape<["2", "past", "4"]>>, tensor<2x1x4xf32>>
  %3 = "relax.concat"(%2) {axis = 1 : i64} : (tuple<tensor<2x?x4xf32, #relax.shape<["2", "past", "4"]>>, tensor<2x1x4xf32>>) -> tensor<2x?x4xf32, #relax.shape<["2", "past + 1", "4"]>>
  %4 = "relax.exp"(%z) : (tensor<?xf32, #relax.shape<["n"]>>) -> tensor<?xf32, #relax.shape<["n"]>>
  return %1, %3, %4 : tensor<2x?x4xf32, #relax.shape<["2", "past + 1", "4"]>>, tensor<2x?x4xf32, #relax.shape<["2", "past + 1", "4"]>>, tensor<?xf32, #relax.shape<["n"]>>
}
