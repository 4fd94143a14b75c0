// RUN: relax-opt %s -p schedule-report-masked --split-input-file | filecheck %s

// The address of a masked load or store, and the bytes of all its lanes, are reported to the
// runtime.
// CHECK:       llvm.func @relax_rt2_masked_access(!llvm.ptr, i64)
// CHECK-LABEL: llvm.func @masked(
// CHECK-SAME:    %[[X:.*]]: !llvm.ptr, %[[Y:.*]]: !llvm.ptr, %[[MASK:.*]]: vector<4xi1>
// CHECK:         %[[BYTES:.*]] = llvm.mlir.constant(16 : i64)
// CHECK-NEXT:    llvm.call @relax_rt2_masked_access(%[[X]], %[[BYTES]])
// CHECK-NEXT:    %[[V:.*]] = llvm.intr.masked.load %[[X]]
// CHECK:         llvm.call @relax_rt2_masked_access(%[[Y]],
// CHECK-NEXT:    llvm.intr.masked.store %[[V]], %[[Y]]
llvm.func @masked(%x: !llvm.ptr, %y: !llvm.ptr, %mask: vector<4xi1>, %none: vector<4xf32>) {
  %v = llvm.intr.masked.load %x, %mask, %none {alignment = 4 : i32} : (!llvm.ptr, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
  llvm.intr.masked.store %v, %y, %mask {alignment = 4 : i32} : vector<4xf32>, vector<4xi1> into !llvm.ptr
  llvm.return
}

// -----

// Without masked accesses, the module is unchanged.
// CHECK-NOT:   relax_rt2_masked_access
// CHECK-LABEL: llvm.func @plain(
llvm.func @plain(%x: !llvm.ptr) -> vector<4xf32> {
  %v = llvm.load %x : !llvm.ptr -> vector<4xf32>
  llvm.return %v : vector<4xf32>
}
