// RUN: relax-opt %s -p schedule-expand-math --split-input-file | filecheck %s

// A sigmoid is one function: its quotient divides a power of two, without double negation.
// CHECK-LABEL: func.func @sigmoid
// CHECK:         arith.negf
// CHECK-NOT:     arith.negf
// CHECK:         arith.constant dense<9.09494702E-13> : vector<8xf32>
// CHECK:         %[[Y:.*]] = arith.divf {{.*}} : vector<8xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @sigmoid(%x: vector<8xf32>) -> vector<8xf32> {
  %one = arith.constant dense<1.0> : vector<8xf32>
  %0 = arith.negf %x : vector<8xf32>
  %1 = math.exp %0 : vector<8xf32>
  %2 = arith.addf %one, %1 : vector<8xf32>
  %3 = arith.divf %one, %2 : vector<8xf32>
  return %3 : vector<8xf32>
}

// -----

// x * sigmoid(x) divides x; the sigmoid of another value stays an operand.
// CHECK-LABEL: func.func @silu
// CHECK:         %[[X:.*]] = arith.select %{{.*}}, %{{.*}}, %arg0
// CHECK:         arith.divf %[[X]], %{{.*}} : vector<8xf32>
// CHECK:         %[[GATE:.*]] = arith.divf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK:         arith.mulf %[[GATE]], %arg1
func.func @silu(%x: vector<8xf32>, %y: vector<8xf32>) -> (vector<8xf32>, vector<8xf32>) {
  %one = arith.constant dense<1.0> : vector<8xf32>
  %0 = arith.negf %x : vector<8xf32>
  %1 = math.exp %0 : vector<8xf32>
  %2 = arith.addf %1, %one : vector<8xf32>
  %3 = arith.divf %one, %2 : vector<8xf32>
  %4 = arith.mulf %x, %3 : vector<8xf32>
  %5 = arith.negf %x : vector<8xf32>
  %6 = math.exp %5 : vector<8xf32>
  %7 = arith.addf %6, %one : vector<8xf32>
  %8 = arith.divf %one, %7 : vector<8xf32>
  %9 = arith.mulf %8, %y : vector<8xf32>
  return %4, %9 : vector<8xf32>, vector<8xf32>
}

// -----

// GELU divides once, in any order of its operands; no erf or tanh is left.
// CHECK-LABEL: func.func @gelu
// CHECK-NOT:     math.{{erf|tanh}}
// CHECK-COUNT-2: arith.divf {{.*}} : vector<8xf32>
// CHECK-NOT:     {{math.erf|math.tanh|arith.divf}}
// CHECK:         return
func.func @gelu(%x: vector<8xf32>) -> (vector<8xf32>, vector<8xf32>) {
  %one = arith.constant dense<1.0> : vector<8xf32>
  %half = arith.constant dense<0.5> : vector<8xf32>
  %root = arith.constant dense<0.707106769> : vector<8xf32>
  %a = arith.constant 0.797884583 : f32
  %b = arith.constant dense<0.0356774069> : vector<8xf32>
  %0 = arith.mulf %x, %root : vector<8xf32>
  %1 = math.erf %0 : vector<8xf32>
  %2 = arith.mulf %1, %half : vector<8xf32>
  %3 = arith.addf %2, %half : vector<8xf32>
  %4 = arith.mulf %3, %x : vector<8xf32>
  %5 = arith.mulf %x, %x : vector<8xf32>
  %6 = arith.mulf %5, %b : vector<8xf32>
  %7 = vector.broadcast %a : f32 to vector<8xf32>
  %8 = arith.addf %6, %7 : vector<8xf32>
  %9 = arith.mulf %x, %8 : vector<8xf32>
  %10 = math.tanh %9 : vector<8xf32>
  %11 = arith.addf %10, %one : vector<8xf32>
  %12 = arith.mulf %x, %half : vector<8xf32>
  %13 = arith.mulf %12, %11 : vector<8xf32>
  return %4, %13 : vector<8xf32>, vector<8xf32>
}

// -----

// With another user of the exponential, or another addend, it stays as it is.
// CHECK-LABEL: func.func @no_sigmoid
// CHECK-COUNT-2: arith.addf {{.*}}, %cst{{.*}} : vector<8xf32>
// CHECK:         return
func.func @no_sigmoid(%x: vector<8xf32>) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>) {
  %one = arith.constant dense<1.0> : vector<8xf32>
  %two = arith.constant dense<2.0> : vector<8xf32>
  %0 = arith.negf %x : vector<8xf32>
  %1 = math.exp %0 : vector<8xf32>
  %2 = arith.addf %1, %one : vector<8xf32>
  %3 = arith.divf %one, %2 : vector<8xf32>
  %4 = math.exp %0 : vector<8xf32>
  %5 = arith.addf %4, %two : vector<8xf32>
  %6 = arith.divf %one, %5 : vector<8xf32>
  return %1, %3, %6 : vector<8xf32>, vector<8xf32>, vector<8xf32>
}

// -----

// A scalar keeps the same bound; in f64 the approximations are not accurate enough.
// CHECK-LABEL: func.func @types
// CHECK-NOT:     math.exp %{{.*}} : f32
// CHECK:         math.fma {{.*}} : f32
// CHECK:         math.exp %{{.*}} : vector<8xf64>
func.func @types(%x: f32, %y: vector<8xf64>) -> (f32, vector<8xf64>) {
  %one = arith.constant 1.0 : f32
  %ones = arith.constant dense<1.0> : vector<8xf64>
  %0 = arith.negf %x : f32
  %1 = math.exp %0 : f32
  %2 = arith.addf %1, %one : f32
  %3 = arith.divf %one, %2 : f32
  %4 = arith.negf %y : vector<8xf64>
  %5 = math.exp %4 : vector<8xf64>
  %6 = arith.addf %5, %ones : vector<8xf64>
  %7 = arith.divf %ones, %6 : vector<8xf64>
  return %3, %7 : f32, vector<8xf64>
}
