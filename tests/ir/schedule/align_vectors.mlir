// RUN: relax-opt %s -p schedule-align-vectors | filecheck %s

// CHECK-LABEL: func.func @k
func.func @k(%x: memref<4x6xf32>, %y: memref<8x8xf16>, %n: index) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  // Rows of 24 bytes: the second one begins at 24, a multiple of 8.
  // CHECK: vector.load %arg0[%c0, %c0] {alignment = 16 : i64}
  %a = vector.load %x[%c0, %c0] : memref<4x6xf32>, vector<4xf32>
  // CHECK: vector.load %arg0[%c2, %c4] {alignment = 16 : i64}
  %b = vector.load %x[%c2, %c4] : memref<4x6xf32>, vector<4xf32>
  // CHECK: vector.load %arg0[%arg2, %c0] {alignment = 8 : i64}
  %c = vector.load %x[%n, %c0] : memref<4x6xf32>, vector<2xf32>
  // CHECK: vector.load %arg0[%c0, %arg2] {alignment = 4 : i64}
  %d = vector.load %x[%c0, %n] : memref<4x6xf32>, vector<2xf32>
  // Values computed from multiples, and loop steps.
  %r = arith.remui %n, %c8 : index
  %m = arith.muli %r, %c8 : index
  %v = vector.load %y[%c0, %c0] : memref<8x8xf16>, vector<8xf16>
  // CHECK: vector.store {{.*}} {alignment = 16 : i64}
  vector.store %v, %y[%c0, %m] : memref<8x8xf16>, vector<8xf16>
  scf.for %i = %c0 to %c64 step %c4 {
    // CHECK: vector.store {{.*}} {alignment = 8 : i64}
    %h = vector.load %y[%c0, %c0] : memref<8x8xf16>, vector<4xf16>
    vector.store %h, %y[%c0, %i] : memref<8x8xf16>, vector<4xf16>
  }
  return
}
