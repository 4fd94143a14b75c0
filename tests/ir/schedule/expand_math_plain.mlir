// RUN: relax-opt %s -p schedule-expand-math{polynomials=false} | filecheck %s

// Functions are left to the target's math library, except those that it lacks.
// CHECK-LABEL: func.func @f
// CHECK:         math.exp %arg0 : vector<4xf32>
// CHECK-NOT:     math.ipowi
// CHECK-NOT:     arith.extf
func.func @f(%x: vector<4xf32>, %i: i32, %n: vector<4xf8E4M3FN>) -> (vector<4xf32>, i32, vector<4xf32>) {
  %y = math.exp %x : vector<4xf32>
  %p = math.ipowi %i, %i : i32
  %w = arith.extf %n : vector<4xf8E4M3FN> to vector<4xf32>
  return %y, %p, %w : vector<4xf32>, i32, vector<4xf32>
}
