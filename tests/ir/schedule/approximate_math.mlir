// RUN: relax-opt %s -p schedule-approximate-math | filecheck %s

// Each lane is an instruction.
// CHECK-LABEL: func.func @rough(
// CHECK:         %[[A:.+]] = vector.extract %arg0[0]
// CHECK-NEXT:    %[[B:.+]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%[[A]]) : (f32) -> f32
// CHECK:         %[[C:.+]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"
// CHECK-NEXT:    vector.from_elements %[[B]], %[[C]] : vector<2xf32>
// CHECK-NEXT:    llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%arg1) : (f32) -> f32
func.func @rough(%x: vector<2xf32>, %y: f32) -> (vector<2xf32>, f32) {
  %0 = math.exp2 %x fastmath<afn> : vector<2xf32>
  %1 = math.exp2 %y fastmath<fast> : f32
  return %0, %1 : vector<2xf32>, f32
}

// Exact operations, and other types, stay.
// CHECK-LABEL: func.func @exact(
// CHECK-COUNT-3: math.exp2
// CHECK-NOT:     llvm.call_intrinsic
func.func @exact(%x: f32, %y: f64, %z: vector<2xf16>) -> (f32, f64, vector<2xf16>) {
  %0 = math.exp2 %x : f32
  %1 = math.exp2 %y fastmath<afn> : f64
  %2 = math.exp2 %z fastmath<afn> : vector<2xf16>
  return %0, %1, %2 : f32, f64, vector<2xf16>
}
