// RUN: relax-opt %s -p schedule-lower-abi --split-input-file | filecheck %s

// A kernel's entry computes the numbers of tiles and scratch bytes, and submits its tile function.
// CHECK:       func.func private @relax_rt2_parallel_for(!llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64) -> (), !llvm.ptr, !llvm.ptr, i64, i64, i64)
// CHECK-LABEL: func.func @kernel(
// CHECK-SAME:    %[[BUFFERS:.*]]: !llvm.ptr, %[[SIZES:.*]]: !llvm.ptr, %[[CONTEXT:.*]]: !llvm.ptr) attributes {relax.entry}
// CHECK:         llvm.getelementptr %[[SIZES]][0]
// CHECK:         %[[N:.*]] = arith.index_cast
// CHECK:         %[[TILES:.*]] = arith.divui %[[N]]
// CHECK:         %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK:         arith.muli %[[N]], %[[EIGHT]]
// CHECK:         %[[ROUNDED:.*]] = arith.muli
// CHECK:         %[[BYTES:.*]] = arith.addi %{{.*}}, %[[ROUNDED]]
// CHECK:         %[[TILE:.*]] = constant @kernel.tile
// CHECK:         %[[GRAIN:.*]] = arith.constant 5 : i64
// CHECK:         %[[T:.*]] = arith.index_cast %[[TILES]]
// CHECK:         %[[B:.*]] = arith.index_cast %[[BYTES]]
// CHECK:         call @relax_rt2_parallel_for(%[[CONTEXT]], %[[TILE]], %[[BUFFERS]], %[[SIZES]], %[[T]], %[[GRAIN]], %[[B]])

// The loops run over a range of tiles, on noalias pointers, with each buffer of a tile at an
// aligned offset of the scratch.
// CHECK-LABEL: func.func private @kernel.body(
// CHECK-SAME:    %arg0: memref<1xf32> {llvm.noalias}, %arg1: memref<1xf32> {llvm.noalias}, %arg2: index, %arg3: memref<1xi8> {llvm.noalias}, %arg4: index, %arg5: index)
// CHECK:         %[[X:.*]] = memref.reinterpret_cast %arg0 to offset: [0], sizes: [%arg2, 3], strides: [3, 1]
// CHECK:         %[[O:.*]] = memref.reinterpret_cast %arg1 to offset: [0], sizes: [%arg2, 3], strides: [3, 1]
// CHECK:         %[[FIRST:.*]] = memref.view %arg3[%c0{{.*}}][] : memref<1xi8> to memref<3xf32>
// CHECK:         %[[C64:.*]] = arith.constant 64 : index
// CHECK-NEXT:    memref.view %arg3[%[[C64]]][%arg2] : memref<1xi8> to memref<?xf64>
// CHECK-NEXT:    scf.for %[[I:.*]] = %arg4 to %arg5 step
// CHECK-NEXT:      memref.load %[[X]][%[[I]],
// CHECK-NEXT:      memref.store %{{.*}}, %[[FIRST]]
// CHECK-NEXT:      memref.load %[[FIRST]]
// CHECK-NEXT:      memref.store %{{.*}}, %[[O]]
// CHECK-NOT:     memref.alloc

// The tile function loads pointers and sizes from arrays.
// CHECK-LABEL: func.func @kernel.tile(
// CHECK-SAME:    %arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: i64, %arg4: i64)
// CHECK-DAG:     llvm.getelementptr %arg0[0] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK-DAG:     llvm.getelementptr %arg0[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
// CHECK-DAG:     llvm.getelementptr %arg1[0] : (!llvm.ptr) -> !llvm.ptr, i64
// CHECK:         %[[BEGIN:.*]] = arith.index_cast %arg3
// CHECK:         %[[END:.*]] = arith.index_cast %arg4
// CHECK:         call @kernel.body({{.*}}, %[[BEGIN]], %[[END]])
func.func @kernel(%x: memref<?x3xf32> {tir.shape = #relax.shape<["s0", "3"]>}, %o: memref<?x3xf32> {tir.shape = #relax.shape<["s0", "3"]>}, %n: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.rule = "RowWise"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %half = arith.divui %n, %c2 : index
  scf.for %t = %c0 to %half step %c1 {
    %s = memref.alloc() : memref<3xf32>
    %u = memref.alloc(%n) : memref<?xf64>
    %v = memref.load %x[%t, %c1] : memref<?x3xf32>
    memref.store %v, %s[%c1] : memref<3xf32>
    %w = memref.load %s[%c1] : memref<3xf32>
    memref.store %w, %o[%t, %c1] : memref<?x3xf32>
  } {tir.grain = 5 : i64}
  return
}

// -----

// A result and the argument that it may overwrite are not noalias.
// CHECK-LABEL: func.func private @sum.body(
// CHECK-SAME:    %arg0: memref<1xf32> {llvm.noalias}, %arg1: memref<1xf32>, %arg2: memref<1xf32>, %arg3: memref<1xi8> {llvm.noalias}, %arg4
func.func @sum(%x: memref<3xf32> {tir.shape = #relax.shape<["3"]>}, %r: memref<3xf32> {tir.shape = #relax.shape<["3"]>}, %o: memref<3xf32> {tir.shape = #relax.shape<["3"]>}) attributes {tir.in_place = array<i64: 1>, tir.prim_func, tir.num_outputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %t = %c0 to %c3 step %c1 {
    %v = memref.load %x[%t] : memref<3xf32>
    %w = memref.load %r[%t] : memref<3xf32>
    %s = arith.addf %v, %w : f32
    memref.store %s, %o[%t] : memref<3xf32>
  } {tir.grain = 5 : i64}
  return
}

// -----

// An external kernel has the same convention; the runtime is not needed.
// CHECK-NOT:   relax_rt2_parallel_for
// CHECK:       func.func private @elsewhere(!llvm.ptr, !llvm.ptr, !llvm.ptr){{$}}

// main fills the arrays anew for every call, in the order of its arguments.
// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: !llvm.ptr) -> i32
// CHECK:         llvm.getelementptr %arg1[0]
// CHECK:         %[[N:.*]] = arith.index_cast
// CHECK:         llvm.getelementptr %arg0[0]
// CHECK:         %[[X:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[N]]], strides: [1]
// CHECK:         llvm.getelementptr %arg0[1]
// CHECK:         %[[Y:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [%[[N]]], strides: [1]
// CHECK:         llvm.insertvalue %arg2
// CHECK:         %[[ARENA:.*]] = memref.reinterpret_cast %{{.*}} : memref<1xi8> to memref<?xi8>
// CHECK:         %[[TWO:.*]] = arith.constant 2 : i64
// CHECK-NEXT:    %[[BUFFERS:.*]] = llvm.alloca %[[TWO]] x !llvm.ptr
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1 : i64
// CHECK-NEXT:    %[[SIZES:.*]] = llvm.alloca %[[ONE]] x i64
// CHECK-NOT:     llvm.alloca
// CHECK:         %[[T:.*]] = memref.view %[[ARENA]]
// CHECK-NEXT:    memref.extract_aligned_pointer_as_index %[[X]]
// CHECK:         %[[AT0:.*]] = llvm.getelementptr %[[BUFFERS]][0]
// CHECK-NEXT:    llvm.store %{{.*}}, %[[AT0]]
// CHECK:         memref.extract_aligned_pointer_as_index %[[T]]
// CHECK:         %[[AT1:.*]] = llvm.getelementptr %[[BUFFERS]][1]
// CHECK-NEXT:    llvm.store %{{.*}}, %[[AT1]]
// CHECK-NEXT:    %[[SIZE:.*]] = arith.index_cast %[[N]] : index to i64
// CHECK-NEXT:    %[[AT:.*]] = llvm.getelementptr %[[SIZES]][0]
// CHECK-NEXT:    llvm.store %[[SIZE]], %[[AT]]
// CHECK-NEXT:    call @elsewhere(%[[BUFFERS]], %[[SIZES]], %arg3)
// CHECK-NEXT:    memref.extract_aligned_pointer_as_index %[[T]]
// CHECK:         memref.extract_aligned_pointer_as_index %[[Y]]
// CHECK:         call @elsewhere(%[[BUFFERS]], %[[SIZES]], %arg3)
// CHECK:         return %{{.*}} : i32
func.func private @elsewhere(memref<?xf32>, memref<?xf32>, index) attributes {tir.prim_func}
func.func @main(%x: memref<?xf32> {relax.dtype = "float32", relax.input = "x", tir.shape = #relax.shape<["n"]>}, %y: memref<?xf32> {relax.dtype = "float32", relax.output = "y", tir.shape = #relax.shape<["n"]>}, %arena: memref<?xi8> {relax.arena}, %n: index {tir.symbol = "n"}) attributes {relax.main} {
  %c64 = arith.constant 64 : index
  %t = memref.view %arena[%c64][%n] : memref<?xi8> to memref<?xf32>
  call @elsewhere(%x, %t, %n) : (memref<?xf32>, memref<?xf32>, index) -> ()
  call @elsewhere(%t, %y, %n) : (memref<?xf32>, memref<?xf32>, index) -> ()
  return
}

// -----

// A kernel on empty tensors has no tiles.
// CHECK-LABEL: func.func @nothing(
// CHECK:         %[[ZERO:.*]] = arith.constant 0 : index
// CHECK:         %[[TILES:.*]] = arith.index_cast %[[ZERO]]
// CHECK:         call @relax_rt2_parallel_for(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[TILES]],
// CHECK-LABEL: func.func private @nothing.body
func.func @nothing(%x: memref<0xf32>, %o: memref<0xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.rule = "RowWise"} {
  return
}

// -----

// A registered function gets DLPack tensors: address, device, rank and type, shape, strides; if it
// fails, later ones are skipped, and main returns its status.
// CHECK-DAG: llvm.mlir.global internal constant @packed_name_0("env.f\00")
// CHECK-DAG: func.func private @relax_rt2_call_packed(!llvm.ptr, i32, !llvm.ptr) -> i32
// CHECK-LABEL: func.func @main(
// CHECK:         llvm.alloca %{{.*}} x !llvm.ptr
// CHECK:         llvm.alloca %{{.*}} x i64
// CHECK:         %[[TENSORS:.*]] = llvm.alloca %{{.*}} x i64
// CHECK:         %[[FIRST:.*]] = scf.if
// CHECK:           call @relax_rt2_call_packed(%{{.*}}, %{{.*}}, %[[TENSORS]])
// CHECK:         arith.cmpi eq, %[[FIRST]]
// CHECK:         %[[SECOND:.*]] = scf.if
// CHECK:         return %[[SECOND]] : i32
// CHECK-NOT:     packed_name_1
func.func @main(%x: memref<?x3xi8> {relax.dtype = "uint8", relax.input = "x", tir.shape = #relax.shape<["n", "3"]>}, %y: memref<?x3xi8> {relax.dtype = "uint8", relax.output = "y", tir.shape = #relax.shape<["n", "3"]>}, %arena: memref<?xi8> {relax.arena}, %n: index {tir.symbol = "n"}) attributes {relax.main} {
  %0 = builtin.unrealized_conversion_cast %x, %y : memref<?x3xi8>, memref<?x3xi8> to tuple<memref<?x3xi8>, memref<?x3xi8>>
  "tir.call_packed"(%0) {callee = "env.f", tir.dtypes = ["uint8", "uint8"]} : (tuple<memref<?x3xi8>, memref<?x3xi8>>) -> ()
  %1 = builtin.unrealized_conversion_cast %x, %y : memref<?x3xi8>, memref<?x3xi8> to tuple<memref<?x3xi8>, memref<?x3xi8>>
  "tir.call_packed"(%1) {callee = "env.f", tir.dtypes = ["uint8", "uint8"]} : (tuple<memref<?x3xi8>, memref<?x3xi8>>) -> ()
  return
}

// -----

// Calls with the same arguments may share the tuple pack.
// CHECK-LABEL: func.func @main(
// CHECK-COUNT-2: call @relax_rt2_call_packed
// CHECK-NOT:     unrealized_conversion_cast
func.func @main(%x: memref<3xi8> {relax.dtype = "uint8", relax.input = "x", tir.shape = #relax.shape<["3"]>}, %y: memref<3xi8> {relax.dtype = "uint8", relax.output = "y", tir.shape = #relax.shape<["3"]>}, %arena: memref<?xi8> {relax.arena}) attributes {relax.main} {
  %0 = builtin.unrealized_conversion_cast %x, %y : memref<3xi8>, memref<3xi8> to tuple<memref<3xi8>, memref<3xi8>>
  "tir.call_packed"(%0) {callee = "env.f", tir.dtypes = ["uint8", "uint8"]} : (tuple<memref<3xi8>, memref<3xi8>>) -> ()
  "tir.call_packed"(%0) {callee = "env.f", tir.dtypes = ["uint8", "uint8"]} : (tuple<memref<3xi8>, memref<3xi8>>) -> ()
  return
}
