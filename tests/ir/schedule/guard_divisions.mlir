// RUN: relax-opt %s -p schedule-guard-divisions --split-input-file | filecheck %s

// CHECK-LABEL: func.func @signed(
// CHECK-SAME:    %[[A:.+]]: i32, %[[B:.+]]: i32)
// CHECK: %[[IS_ZERO:.+]] = arith.cmpi eq, %[[B]], %c0_i32
// CHECK: %[[NOT_ZERO:.+]] = arith.select %[[IS_ZERO]], %c1_i32, %[[B]]
// CHECK: %[[LEAST:.+]] = arith.cmpi eq, %[[A]], %c-2147483648_i32
// CHECK: %[[NEGATES:.+]] = arith.cmpi eq, %[[NOT_ZERO]], %c-1_i32
// CHECK: %[[OVERFLOWS:.+]] = arith.andi %[[LEAST]], %[[NEGATES]]
// CHECK: %[[DIVISOR:.+]] = arith.select %[[OVERFLOWS]], %c1_i32{{.*}}, %[[NOT_ZERO]]
// CHECK: arith.divsi %[[A]], %[[DIVISOR]]
func.func @signed(%a: i32, %b: i32) -> i32 {
  %q = arith.divsi %a, %b : i32
  return %q : i32
}

// -----

// CHECK-LABEL: func.func @unsigned_lanes(
// CHECK: %[[DIVISOR:.+]] = arith.select %{{.+}}, %{{.+}}, %arg1 : vector<4xi1>, vector<4xi8>
// CHECK-NEXT: arith.remui %arg0, %[[DIVISOR]] : vector<4xi8>
func.func @unsigned_lanes(%a: vector<4xi8>, %b: vector<4xi8>) -> vector<4xi8> {
  %r = arith.remui %a, %b : vector<4xi8>
  return %r : vector<4xi8>
}

// -----

// Divisors that are provably neither 0 nor -1.
// CHECK-LABEL: func.func @constants(
// CHECK-NOT: arith.select
// CHECK: return
func.func @constants(%a: vector<4xi32>, %i: index, %n: index) -> (vector<4xi32>, index, index) {
  %three = arith.constant dense<3> : vector<4xi32>
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %q = arith.divsi %a, %three : vector<4xi32>
  %j = arith.floordivsi %i, %c4 : index
  %size = arith.maxsi %n, %c1 : index
  %k = arith.remsi %i, %size : index
  return %q, %j, %k : vector<4xi32>, index, index
}

// -----

// A division that a program guards: 0 becomes 1, and -1 does.
// CHECK-LABEL: func.func @guarded(
// CHECK-COUNT-2: arith.select
// CHECK-NOT: arith.select
// CHECK: arith.divsi
func.func @guarded(%a: i32, %b: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %minus_one = arith.constant -1 : i32
  %is_zero = arith.cmpi eq, %b, %zero : i32
  %some = arith.select %is_zero, %one, %b : i32
  %negates = arith.cmpi eq, %b, %minus_one : i32
  %divisor = arith.select %negates, %one, %some : i32
  %q = arith.divsi %a, %divisor : i32
  return %q : i32
}
