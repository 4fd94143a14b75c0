// RUN: relax-opt %s -p relax-simplify --split-input-file | filecheck %s
// RUN: relax-opt %s -p relax-simplify{max-rounds=1} --split-input-file | filecheck %s --check-prefix=ONCE

// Equal operations are merged, and dead ones removed.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.exp"(%arg0)
// CHECK-NEXT:    "relax.add"(%0, %0)
// CHECK-NEXT:    return %1
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "relax.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "relax.tanh"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "relax.add"(%0, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}

// -----

// Reshapes are folded; an identity reshape is removed.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    return %arg0
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["6"]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["2", "3"]>} : (tensor<6xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Transposes are folded.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "relax.permute_dims"(%arg0) {axes = array<i64: 1, 2, 0>}
// CHECK-NEXT:    return
func.func @main(%x: tensor<2x3x5xf32>) -> tensor<3x5x2xf32> {
  %0 = "relax.permute_dims"(%x) {axes = array<i64: 2, 0, 1>} : (tensor<2x3x5xf32>) -> tensor<5x2x3xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 2, 0, 1>} : (tensor<5x2x3xf32>) -> tensor<3x5x2xf32>
  return %1 : tensor<3x5x2xf32>
}

// -----

// Inverse transposes fold to an identity, which the next round removes.
// CHECK-LABEL: func.func @undone
// CHECK-NEXT:    return %arg0
// ONCE-LABEL:  func.func @undone
// ONCE-NEXT:     "relax.permute_dims"(%arg0) {axes = array<i64: 0, 1>}
// ONCE-NEXT:     return
func.func @undone(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.permute_dims"(%x) {axes = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Axes may be omitted, for the reverse order, or negative.
// CHECK-LABEL: func.func @orders
// CHECK-NEXT:    return %arg0
func.func @orders(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "relax.permute_dims"(%x) {axes = unit} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: -1, -2>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Operations with different operands, attributes or result types are not merged.
// CHECK-LABEL: func.func @different
// CHECK-COUNT-2: relax.sum
// CHECK:         relax.astype
// CHECK:         relax.astype
// CHECK:         return
func.func @different(%x: tensor<3x3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3x3xf16>, tensor<3x3xf64>) {
  %0 = "relax.sum"(%x) {axis = array<i64: 0>, keepdims = false} : (tensor<3x3xf32>) -> tensor<3xf32>
  %1 = "relax.sum"(%x) {axis = array<i64: 1>, keepdims = false} : (tensor<3x3xf32>) -> tensor<3xf32>
  %2 = "relax.astype"(%x) {dtype = f16} : (tensor<3x3xf32>) -> tensor<3x3xf16>
  %3 = "relax.astype"(%x) {dtype = f64} : (tensor<3x3xf32>) -> tensor<3x3xf64>
  return %0, %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<3x3xf16>, tensor<3x3xf64>
}

// -----

// Tuple packs are merged, and removed with their users.
// CHECK-LABEL: func.func @packs
// CHECK-NEXT:    %[[PACK:.*]] = builtin.unrealized_conversion_cast %arg0, %arg0
// CHECK-NEXT:    %[[R:.*]] = "relax.concat"(%[[PACK]])
// CHECK-NEXT:    "relax.add"(%[[R]], %[[R]])
// CHECK-NEXT:    return
func.func @packs(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %x : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  %1 = "relax.concat"(%0) {axis = 0 : i64} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<4xf32>
  %2 = builtin.unrealized_conversion_cast %x, %x : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  %3 = "relax.concat"(%2) {axis = 0 : i64} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<4xf32>
  %4 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %5 = "relax.concat"(%4) {axis = 0 : i64} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %6 = "relax.add"(%1, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %6 : tensor<4xf32>
}

// -----

// Foreign operations may have side effects: calls and tensor programs stay.
// CHECK-LABEL: func.func @calls
// CHECK-NEXT:    call @elsewhere
// CHECK-NEXT:    call @elsewhere
// CHECK-NEXT:    return
// CHECK-LABEL: func.func @program
// CHECK-NEXT:    builtin.unrealized_conversion_cast
// CHECK-NEXT:    return
func.func @calls(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = func.call @elsewhere(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = func.call @elsewhere(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
func.func @program(%o: memref<2xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %0 = builtin.unrealized_conversion_cast %o : memref<2xf32> to memref<?xf32>
  return
}
func.func private @elsewhere(tensor<2xf32>) -> tensor<2xf32>

// -----

// A registered function may have side effects: each call stays, used or not.
// CHECK-LABEL: func.func @packed
// CHECK:         callee = "env.random"
// CHECK:         callee = "env.random"
// CHECK:         callee = "env.print"
func.func @packed(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_dps_packed"(%0) {callee = "env.random"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %2 = "relax.call_dps_packed"(%0) {callee = "env.random"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %3 = "relax.call_dps_packed"(%0) {callee = "env.print"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  %4 = "relax.add"(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %4 : tensor<2xf32>
}

// -----

// Slices of one value are reshaped together, if they are slices in the new shape: the last one is
// not, and for a single slice nothing is gained.
// CHECK-LABEL: func.func @cut
// CHECK-DAG:     %[[X:.+]] = "relax.reshape"(%arg0) {shape = #relax.shape<["n", "9", "4"]>}
// CHECK-DAG:     "relax.strided_slice"(%[[X]]) {{.*}}axes = array<i64: 1>, begin = #relax.shape<["0"]>, end = #relax.shape<["3"]>
// CHECK-DAG:     "relax.strided_slice"(%[[X]]) {{.*}}axes = array<i64: 1>, begin = #relax.shape<["6"]>, end = #relax.shape<["9"]>
// CHECK-DAG:     %[[Y:.+]] = "relax.strided_slice"(%arg0) {{.*}}begin = #relax.shape<["5"]>
// CHECK-DAG:     "relax.reshape"(%[[Y]]) {shape = #relax.shape<["n", "3", "4"]>}
// CHECK-DAG:     %[[Z:.+]] = "relax.strided_slice"(%arg1)
// CHECK-DAG:     "relax.reshape"(%[[Z]])
func.func @cut(%x: tensor<?x36xf32, #relax.shape<["n", "36"]>>, %z: tensor<36xf32>) -> (tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>, tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>, tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>, tensor<3x4xf32>) {
  %0 = "relax.strided_slice"(%x) {axes = array<i64: 0, 1>, begin = #relax.shape<["0", "0"]>, end = #relax.shape<["n", "12"]>, strides, assume_inbound = false} : (tensor<?x36xf32, #relax.shape<["n", "36"]>>) -> tensor<?x12xf32, #relax.shape<["n", "12"]>>
  %1 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["-12"]>, end = #relax.shape<["36"]>, strides, assume_inbound = false} : (tensor<?x36xf32, #relax.shape<["n", "36"]>>) -> tensor<?x12xf32, #relax.shape<["n", "12"]>>
  %2 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["5"]>, end = #relax.shape<["17"]>, strides, assume_inbound = false} : (tensor<?x36xf32, #relax.shape<["n", "36"]>>) -> tensor<?x12xf32, #relax.shape<["n", "12"]>>
  %3 = "relax.reshape"(%0) {shape = #relax.shape<["n", "3", "4"]>} : (tensor<?x12xf32, #relax.shape<["n", "12"]>>) -> tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>
  %4 = "relax.reshape"(%1) {shape = #relax.shape<["n", "3", "4"]>} : (tensor<?x12xf32, #relax.shape<["n", "12"]>>) -> tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>
  %5 = "relax.reshape"(%2) {shape = #relax.shape<["n", "3", "4"]>} : (tensor<?x12xf32, #relax.shape<["n", "12"]>>) -> tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>
  %6 = "relax.strided_slice"(%z) {axes = array<i64: 0>, begin = #relax.shape<["12"]>, end = #relax.shape<["24"]>, strides, assume_inbound = false} : (tensor<36xf32>) -> tensor<12xf32>
  %7 = "relax.reshape"(%6) {shape = #relax.shape<["3", "4"]>} : (tensor<12xf32>) -> tensor<3x4xf32>
  return %3, %4, %5, %7 : tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>, tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>, tensor<?x3x4xf32, #relax.shape<["n", "3", "4"]>>, tensor<3x4xf32>
}

// -----

// Empty slices, strided ones, and remainders of another size stay below the slice.
// CHECK-LABEL: func.func @not_whole
// CHECK:         %[[A:.+]] = "relax.strided_slice"(%arg0) {{.*}}end = #relax.shape<["0"]>
// CHECK:         "relax.reshape"(%[[A]]) {shape = #relax.shape<["2", "4", "0"]>}
// CHECK:         %[[B:.+]] = "relax.strided_slice"(%arg0) {{.*}}strides = array<i64: 2>
// CHECK:         "relax.reshape"(%[[B]]) {shape = #relax.shape<["2", "3", "6"]>}
// CHECK:         %[[C:.+]] = "relax.strided_slice"(%arg0) {{.*}}end = #relax.shape<["35"]>
// CHECK:         "relax.reshape"(%[[C]]) {shape = #relax.shape<["2", "5", "7"]>}
func.func @not_whole(%x: tensor<2x36xf32>) -> (tensor<2x4x0xf32>, tensor<2x3x6xf32>, tensor<2x5x7xf32>) {
  %0 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["0"]>, end = #relax.shape<["0"]>, strides, assume_inbound = false} : (tensor<2x36xf32>) -> tensor<2x0xf32>
  %1 = "relax.reshape"(%0) {shape = #relax.shape<["2", "4", "0"]>} : (tensor<2x0xf32>) -> tensor<2x4x0xf32>
  %2 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["0"]>, end = #relax.shape<["36"]>, strides = array<i64: 2>, assume_inbound = false} : (tensor<2x36xf32>) -> tensor<2x18xf32>
  %3 = "relax.reshape"(%2) {shape = #relax.shape<["2", "3", "6"]>} : (tensor<2x18xf32>) -> tensor<2x3x6xf32>
  %4 = "relax.strided_slice"(%x) {axes = array<i64: 1>, begin = #relax.shape<["0"]>, end = #relax.shape<["35"]>, strides, assume_inbound = false} : (tensor<2x36xf32>) -> tensor<2x35xf32>
  %5 = "relax.reshape"(%4) {shape = #relax.shape<["2", "5", "7"]>} : (tensor<2x35xf32>) -> tensor<2x5x7xf32>
  return %1, %3, %5 : tensor<2x4x0xf32>, tensor<2x3x6xf32>, tensor<2x5x7xf32>
}

// -----

// Axes split after a permutation are split before it, with those already split there; axes
// collapsed before one are collapsed after it.
// CHECK-LABEL: func.func @heads
// CHECK:         %[[A:.+]] = "relax.reshape"(%arg0) {shape = #relax.shape<["2", "n", "3", "4", "5"]>}
// CHECK:         %[[B:.+]] = "relax.permute_dims"(%[[A]]) {axes = array<i64: 0, 2, 3, 1, 4>}
// CHECK:         %[[C:.+]] = "relax.exp"(%[[B]])
// CHECK:         %[[D:.+]] = "relax.permute_dims"(%[[C]]) {axes = array<i64: 0, 3, 1, 2, 4>}
// CHECK:         "relax.reshape"(%[[D]]) {shape = #relax.shape<["2", "n", "60"]>}
func.func @heads(%x: tensor<2x?x60xf32, #relax.shape<["2", "n", "60"]>>) -> tensor<2x?x60xf32, #relax.shape<["2", "n", "60"]>> {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["2", "n", "12", "5"]>} : (tensor<2x?x60xf32, #relax.shape<["2", "n", "60"]>>) -> tensor<2x?x12x5xf32, #relax.shape<["2", "n", "12", "5"]>>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 0, 2, 1, 3>} : (tensor<2x?x12x5xf32, #relax.shape<["2", "n", "12", "5"]>>) -> tensor<2x12x?x5xf32, #relax.shape<["2", "12", "n", "5"]>>
  %2 = "relax.reshape"(%1) {shape = #relax.shape<["2", "3", "4", "n", "5"]>} : (tensor<2x12x?x5xf32, #relax.shape<["2", "12", "n", "5"]>>) -> tensor<2x3x4x?x5xf32, #relax.shape<["2", "3", "4", "n", "5"]>>
  %3 = "relax.exp"(%2) : (tensor<2x3x4x?x5xf32, #relax.shape<["2", "3", "4", "n", "5"]>>) -> tensor<2x3x4x?x5xf32, #relax.shape<["2", "3", "4", "n", "5"]>>
  %4 = "relax.reshape"(%3) {shape = #relax.shape<["2", "12", "n", "5"]>} : (tensor<2x3x4x?x5xf32, #relax.shape<["2", "3", "4", "n", "5"]>>) -> tensor<2x12x?x5xf32, #relax.shape<["2", "12", "n", "5"]>>
  %5 = "relax.permute_dims"(%4) {axes = array<i64: 0, 2, 1, 3>} : (tensor<2x12x?x5xf32, #relax.shape<["2", "12", "n", "5"]>>) -> tensor<2x?x12x5xf32, #relax.shape<["2", "n", "12", "5"]>>
  %6 = "relax.reshape"(%5) {shape = #relax.shape<["2", "n", "60"]>} : (tensor<2x?x12x5xf32, #relax.shape<["2", "n", "12", "5"]>>) -> tensor<2x?x60xf32, #relax.shape<["2", "n", "60"]>>
  return %6 : tensor<2x?x60xf32, #relax.shape<["2", "n", "60"]>>
}

// -----

// Unit axes go with their neighbours.
// CHECK-LABEL: func.func @ones
// CHECK:         %[[A:.+]] = "relax.reshape"(%arg0) {shape = #relax.shape<["1", "2", "1", "3", "1", "5"]>}
// CHECK:         "relax.permute_dims"(%[[A]]) {axes = array<i64: 5, 0, 1, 2, 3, 4>}
func.func @ones(%x: tensor<30xf32>) -> tensor<5x1x2x1x3x1xf32> {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["2", "3", "5"]>} : (tensor<30xf32>) -> tensor<2x3x5xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 2, 0, 1>} : (tensor<2x3x5xf32>) -> tensor<5x2x3xf32>
  %2 = "relax.reshape"(%1) {shape = #relax.shape<["5", "1", "2", "1", "3", "1"]>} : (tensor<5x2x3xf32>) -> tensor<5x1x2x1x3x1xf32>
  return %2 : tensor<5x1x2x1x3x1xf32>
}

// -----

// Collapses after a permutation and splits before one stay; so do values with other users, and
// permutations of values that are no reshape.
// CHECK-LABEL: func.func @stays
// CHECK:         %[[A:.+]] = "relax.reshape"(%arg0) {shape = #relax.shape<["2", "3", "5"]>}
// CHECK:         %[[B:.+]] = "relax.permute_dims"(%[[A]])
// CHECK:         %[[C:.+]] = "relax.reshape"(%[[B]]) {shape = #relax.shape<["5", "6"]>}
// CHECK:         %[[D:.+]] = "relax.reshape"(%arg0) {shape = #relax.shape<["6", "5"]>}
// CHECK:         %[[E:.+]] = "relax.permute_dims"(%[[D]])
// CHECK:         %[[F:.+]] = "relax.reshape"(%[[E]]) {shape = #relax.shape<["5", "2", "3"]>}
// CHECK:         %[[G:.+]] = "relax.permute_dims"(%arg1)
// CHECK:         %[[H:.+]] = "relax.reshape"(%[[G]])
// CHECK:         return %[[C]], %[[E]], %[[F]], %[[H]]
func.func @stays(%x: tensor<30xf32>, %z: tensor<6x5xf32>) -> (tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x2x3xf32>, tensor<5x2x3xf32>) {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["2", "3", "5"]>} : (tensor<30xf32>) -> tensor<2x3x5xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 2, 0, 1>} : (tensor<2x3x5xf32>) -> tensor<5x2x3xf32>
  %2 = "relax.reshape"(%1) {shape = #relax.shape<["5", "6"]>} : (tensor<5x2x3xf32>) -> tensor<5x6xf32>
  %3 = "relax.reshape"(%x) {shape = #relax.shape<["6", "5"]>} : (tensor<30xf32>) -> tensor<6x5xf32>
  %4 = "relax.permute_dims"(%3) {axes = array<i64: 1, 0>} : (tensor<6x5xf32>) -> tensor<5x6xf32>
  %5 = "relax.reshape"(%4) {shape = #relax.shape<["5", "2", "3"]>} : (tensor<5x6xf32>) -> tensor<5x2x3xf32>
  %6 = "relax.permute_dims"(%z) {axes = array<i64: 1, 0>} : (tensor<6x5xf32>) -> tensor<5x6xf32>
  %7 = "relax.reshape"(%6) {shape = #relax.shape<["5", "2", "3"]>} : (tensor<5x6xf32>) -> tensor<5x2x3xf32>
  return %2, %4, %5, %7 : tensor<5x6xf32>, tensor<5x6xf32>, tensor<5x2x3xf32>, tensor<5x2x3xf32>
}

// -----

// Shapes with a zero dimension stay.
// CHECK-LABEL: func.func @nothing
// CHECK:         %[[A:.+]] = "relax.reshape"(%arg0) {shape = #relax.shape<["0", "0", "1"]>}
// CHECK:         %[[B:.+]] = "relax.permute_dims"(%[[A]])
// CHECK:         %[[D:.+]] = "relax.reshape"(%[[B]]) {shape = #relax.shape<["0", "0"]>}
// CHECK:         return %[[D]]
func.func @nothing(%x: tensor<0x0xf32>) -> tensor<0x0xf32> {
  %0 = "relax.reshape"(%x) {shape = #relax.shape<["0", "0", "1"]>} : (tensor<0x0xf32>) -> tensor<0x0x1xf32>
  %1 = "relax.permute_dims"(%0) {axes = array<i64: 2, 1, 0>} : (tensor<0x0x1xf32>) -> tensor<1x0x0xf32>
  %2 = "relax.reshape"(%1) {shape = #relax.shape<["1", "0", "0"]>} : (tensor<1x0x0xf32>) -> tensor<1x0x0xf32>
  %3 = "relax.reshape"(%2) {shape = #relax.shape<["0", "0"]>} : (tensor<1x0x0xf32>) -> tensor<0x0xf32>
  return %3 : tensor<0x0xf32>
}

// -----

// An element of a tuple that was packed here is the packed value.
// CHECK-LABEL: func.func @taken_apart
// CHECK-NEXT:    %[[R:.*]] = "relax.add"(%arg1, %arg0)
// CHECK-NEXT:    return %[[R]]
func.func @taken_apart(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
  %0 = builtin.unrealized_conversion_cast %x, %y : tensor<2xf32>, tensor<2xf32> to tuple<tensor<2xf32>, tensor<2xf32>>
  %1 = "relax.tuple_get_item"(%0) {index = 1 : i64} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %2 = "relax.tuple_get_item"(%0) {index = 0 : i64} : (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32>
  %3 = "relax.add"(%1, %2) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}
