// RUN: relax-opt %s -p schedule-expand-math --split-input-file | filecheck %s

// exp is a polynomial between a range reduction and two powers of two, without a branch.
// CHECK-LABEL: func.func @exp
// CHECK-NOT:     math.exp
// CHECK-NOT:     scf.if
// CHECK:         math.fma {{.*}} : vector<16xf32>
// CHECK:         arith.shli {{.*}} : vector<16xi32>
// CHECK:         arith.mulf {{.*}} : vector<16xf32>
func.func @exp(%x: vector<16xf32>) -> vector<16xf32> {
  %r = math.exp %x : vector<16xf32>
  return %r : vector<16xf32>
}

// -----

// Large angles are reduced in a branch that is normally not taken.
// CHECK-LABEL: func.func @sin
// CHECK-NOT:     math.sin
// CHECK:         %[[LARGE:.*]] = arith.cmpf oge, {{.*}} : vector<3xf32>
// CHECK:         %[[ANY:.*]] = vector.reduction <or>, %[[LARGE]]
// CHECK:         scf.if %[[ANY]] -> (vector<3xi32>, vector<3xf32>)
func.func @sin(%x: vector<3xf32>) -> vector<3xf32> {
  %r = math.sin %x : vector<3xf32>
  return %r : vector<3xf32>
}

// -----

// pow computes its logarithm in f64.
// CHECK-LABEL: func.func @pow
// CHECK-NOT:     math.powf
// CHECK:         arith.divf {{.*}} : vector<8xf64>
// CHECK:         arith.truncf {{.*}} : vector<8xf64> to vector<8xf32>
func.func @pow(%x: vector<8xf32>, %y: vector<8xf32>) -> vector<8xf32> {
  %r = math.powf %x, %y : vector<8xf32>
  return %r : vector<8xf32>
}

// -----

// A square, as models write it, is one multiplication, also if the exponent is a broadcast scalar.
// CHECK-LABEL: func.func @square
// CHECK-SAME:    %[[X:.*]]: vector<8xf32>
// CHECK:         %[[R:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK:         return %[[R]]
func.func @square(%x: vector<8xf32>) -> vector<8xf32> {
  %two = arith.constant 2.0 : f32
  %y = vector.broadcast %two : f32 to vector<8xf32>
  %r = math.powf %x, %y : vector<8xf32>
  return %r : vector<8xf32>
}

// -----

// Scalars, other element types and other ranks are left to libm.
// CHECK-LABEL: func.func @left
// CHECK:         math.exp %{{.*}} : f32
// CHECK:         math.exp %{{.*}} : vector<8xf64>
// CHECK:         math.exp %{{.*}} : vector<2x4xf32>
// CHECK:         math.exp %{{.*}} : vector<[4]xf32>
// CHECK:         math.atan2 %{{.*}} : vector<8xf32>
func.func @left(%a: f32, %b: vector<8xf64>, %c: vector<2x4xf32>, %d: vector<[4]xf32>, %e: vector<8xf32>) {
  %0 = math.exp %a : f32
  %1 = math.exp %b : vector<8xf64>
  %2 = math.exp %c : vector<2x4xf32>
  %3 = math.exp %d : vector<[4]xf32>
  %4 = math.atan2 %e, %e : vector<8xf32>
  return
}

// -----

// Integer powers of floats, of scalars, too; other types than f32 call libm's pow.
// CHECK-LABEL: func.func @fpowi
// CHECK-NOT:     math.fpowi
// CHECK:         arith.sitofp {{.*}} : i32 to f64
// CHECK:         %[[N:.*]] = arith.sitofp {{.*}} : vector<2xi64> to vector<2xf64>
// CHECK:         math.powf %{{.*}}, %[[N]] : vector<2xf64>
func.func @fpowi(%a: f32, %m: i32, %b: vector<2xf64>, %n: vector<2xi64>) -> (f32, vector<2xf64>) {
  %0 = math.fpowi %a, %m : f32, i32
  %1 = math.fpowi %b, %n : vector<2xf64>, vector<2xi64>
  return %0, %1 : f32, vector<2xf64>
}

// -----

// Integer powers of integers use square-and-multiply.
// CHECK-LABEL: func.func @ipowi
// CHECK-NOT:     math.ipowi
// CHECK:         scf.while
// CHECK:           arith.cmpi sgt, {{.*}} : vector<4xi32>
// CHECK:           vector.reduction <or>
// CHECK:         } do {
// CHECK-COUNT-2:   arith.muli {{.*}} : vector<4xi32>
// CHECK:           arith.shrsi
func.func @ipowi(%x: vector<4xi32>, %n: vector<4xi32>) -> vector<4xi32> {
  %r = math.ipowi %x, %n : vector<4xi32>
  return %r : vector<4xi32>
}

// -----

// x**5 of scalars is three multiplications.
// CHECK-LABEL: func.func @fifth
// CHECK-NOT:     scf.while
// CHECK-COUNT-3: arith.muli
// CHECK-NOT:     arith.muli
// CHECK:         return
func.func @fifth(%x: i64) -> i64 {
  %n = arith.constant 5 : i64
  %r = math.ipowi %x, %n : i64
  return %r : i64
}

// -----

// An 8-bit float is converted by integer shifts and comparisons.
// CHECK-LABEL: func.func @narrow
// CHECK-NOT:     arith.truncf
// CHECK:         arith.trunci {{.*}} : vector<8xi32> to vector<8xi8>
// CHECK-NEXT:    arith.bitcast {{.*}} : vector<8xi8> to vector<8xf8E5M2>
func.func @narrow(%x: vector<8xf32>) -> vector<8xf8E5M2> {
  %r = arith.truncf %x : vector<8xf32> to vector<8xf8E5M2>
  return %r : vector<8xf8E5M2>
}

// -----

// Also for scalars, and through f32.
// CHECK-LABEL: func.func @wide
// CHECK:         arith.bitcast %arg0 : f4E2M1FN to i4
// CHECK-NOT:     arith.extf {{.*}} : f4E2M1FN
// CHECK:         arith.extf {{.*}} : f32 to f64
func.func @wide(%x: f4E2M1FN) -> f64 {
  %r = arith.extf %x : f4E2M1FN to f64
  return %r : f64
}

// -----

// A softmax marks its exponential as non-positive: one power of two is enough.
// CHECK-LABEL: func.func @exp_not_positive
// CHECK-COUNT-1: arith.shli
// CHECK-NOT:     arith.shli
// CHECK:         return
func.func @exp_not_positive(%x: vector<16xf32>) -> vector<16xf32> {
  %r = math.exp %x {tir.not_positive} : vector<16xf32>
  return %r : vector<16xf32>
}
