// RUN: relax-opt %s -p schedule-lower-abi{guard=true} --split-input-file | filecheck %s

// main passes every kernel to the runtime, with the size, kind and number of each buffer: an input,
// and an intermediate; then that one, and an output.
// CHECK:       func.func private @relax_rt2_guarded_call((!llvm.ptr, !llvm.ptr, !llvm.ptr) -> (), !llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64, i64, i64)
// CHECK-LABEL: func.func @main(
// CHECK:         %[[BUFFERS:.*]] = llvm.alloca
// CHECK:         %[[SIZES:.*]] = llvm.alloca
// CHECK:         %[[SIX:.*]] = arith.constant 6 : i64
// CHECK-NEXT:    %[[EXTENTS:.*]] = llvm.alloca %[[SIX]] x i64
// CHECK:         %[[BYTES:.*]] = arith.muli %{{.*}}, %{{.*}} : index
// CHECK-NEXT:    %[[B:.*]] = arith.index_cast %[[BYTES]]
// CHECK-NEXT:    %[[P0:.*]] = llvm.getelementptr %[[EXTENTS]][0]
// CHECK-NEXT:    llvm.store %[[B]], %[[P0]]
// CHECK:         llvm.getelementptr %[[EXTENTS]][1]
// CHECK:         llvm.getelementptr %[[EXTENTS]][2]
// CHECK:         %[[ARENA:.*]] = arith.constant 3 : index
// CHECK-NEXT:    %[[A:.*]] = arith.index_cast %[[ARENA]]
// CHECK-NEXT:    %[[P4:.*]] = llvm.getelementptr %[[EXTENTS]][4]
// CHECK-NEXT:    llvm.store %[[A]], %[[P4]]
// CHECK:         %[[KERNEL:.*]] = constant @elsewhere
// CHECK-NEXT:    %[[COUNT:.*]] = arith.constant 2 : i64
// CHECK-NEXT:    %[[OUTPUTS:.*]] = arith.constant 1 : i64
// CHECK-NEXT:    %[[FIRST:.*]] = arith.constant 0 : i64
// CHECK-NEXT:    call @relax_rt2_guarded_call(%[[KERNEL]], %[[BUFFERS]], %[[SIZES]], %arg3, %[[EXTENTS]], %[[COUNT]], %[[OUTPUTS]], %[[FIRST]])
// CHECK:         constant @elsewhere
// CHECK-NEXT:    arith.constant 2 : i64
// CHECK-NEXT:    arith.constant 1 : i64
// CHECK-NEXT:    %[[SECOND:.*]] = arith.constant 1 : i64
// CHECK-NEXT:    call @relax_rt2_guarded_call({{.*}}, %[[SECOND]])
// CHECK-NOT:     call @elsewhere
func.func private @elsewhere(memref<?xf32>, memref<?xf32>, index) attributes {tir.prim_func, tir.num_outputs = 1 : i64}
func.func @main(%x: memref<?xf32> {relax.dtype = "float32", relax.input = "x", tir.shape = #relax.shape<["n"]>}, %y: memref<?xf32> {relax.dtype = "float32", relax.output = "y", tir.shape = #relax.shape<["n"]>}, %arena: memref<?xi8> {relax.arena}, %n: index {tir.symbol = "n"}) attributes {relax.main} {
  %c64 = arith.constant 64 : index
  %t = memref.view %arena[%c64][%n] : memref<?xi8> to memref<?xf32>
  call @elsewhere(%x, %t, %n) : (memref<?xf32>, memref<?xf32>, index) -> ()
  call @elsewhere(%t, %y, %n) : (memref<?xf32>, memref<?xf32>, index) -> ()
  return
}

// -----

// Every buffer of a tile is its own scratch allocation; the kernel requests none.
// CHECK:       func.func private @relax_rt2_guarded_scratch(i64, i64) -> !llvm.ptr
// CHECK-LABEL: func.func @kernel(
// CHECK:         %[[NONE:.*]] = arith.constant 0 : index
// CHECK:         %[[BYTES:.*]] = arith.index_cast %[[NONE]]
// CHECK:         call @relax_rt2_parallel_for({{.*}}, %[[BYTES]])
// CHECK-LABEL: func.func private @kernel.body(
// CHECK:         scf.for
// CHECK:           %[[FIRST:.*]] = arith.constant 0 : i64
// CHECK:           %[[TWELVE:.*]] = arith.index_cast %c12
// CHECK-NEXT:      call @relax_rt2_guarded_scratch(%[[FIRST]], %[[TWELVE]])
// CHECK:           %[[DYNAMIC:.*]] = arith.muli %arg2, %{{.*}} : index
// CHECK-NEXT:      %[[EIGHT_N:.*]] = arith.index_cast %[[DYNAMIC]]
// CHECK-NEXT:      call @relax_rt2_guarded_scratch(%{{.*}}, %[[EIGHT_N]])
func.func @kernel(%x: memref<?x3xf32> {tir.shape = #relax.shape<["s0", "3"]>}, %o: memref<?x3xf32> {tir.shape = #relax.shape<["s0", "3"]>}, %n: index {tir.symbol = "s0"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64, tir.rule = "RowWise"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %t = %c0 to %n step %c1 {
    %s = memref.alloc() : memref<3xf32>
    %u = memref.alloc(%n) : memref<?xf64>
    %v = memref.load %x[%t, %c1] : memref<?x3xf32>
    memref.store %v, %s[%c1] : memref<3xf32>
    %w = memref.load %s[%c1] : memref<3xf32>
    memref.store %w, %o[%t, %c1] : memref<?x3xf32>
  } {tir.grain = 5 : i64}
  return
}
