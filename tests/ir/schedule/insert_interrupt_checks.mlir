// RUN: relax-opt %s -p schedule-insert-interrupt-checks --split-input-file | filecheck %s
// RUN: relax-opt %s -p schedule-insert-interrupt-checks,schedule-insert-interrupt-checks --split-input-file | filecheck %s

// A long loop with short, but not too short iterations has a check in each: a load of the flag, and
// a branch.
// CHECK-DAG:   llvm.mlir.global external @relax_rt2_attention() {{.*}}: i32
// CHECK-DAG:   func.func private @relax_rt2_check_interrupt() attributes {passthrough = ["cold", "nounwind"]}
// CHECK-LABEL: func.func @rows(
// CHECK:         scf.for %{{.*}} = %c0 to %c1000000 step %c1
// CHECK-NEXT:      %[[FLAG:.*]] = llvm.mlir.addressof @relax_rt2_attention
// CHECK-NEXT:      %[[VALUE:.*]] = llvm.load volatile %[[FLAG]]
// CHECK:           %[[RAISED:.*]] = arith.cmpi ne, %[[VALUE]],
// CHECK-NEXT:      scf.if %[[RAISED]] {
// CHECK-NEXT:        func.call @relax_rt2_check_interrupt()
// CHECK:           scf.for %{{.*}} = %c0 to %c5000 step %c1
// CHECK-NOT:       func.call @relax_rt2
func.func @rows(%x: memref<5000xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5000 = arith.constant 5000 : index
  %c1000000 = arith.constant 1000000 : index
  scf.for %i = %c0 to %c1000000 step %c1 {
    scf.for %j = %c0 to %c5000 step %c1 {
      %v = memref.load %x[%j] : memref<5000xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %x[%j] : memref<5000xf32>
    }
  }
  return
}

// -----

// Too short iterations share a check: the loop is strip-mined, and its carried values pass through
// both loops.
// CHECK-LABEL: func.func @sum(
// CHECK:         %[[STRIDE:.*]] = arith.muli %c4, %{{.*}} : index
// CHECK:         %[[ALL:.*]] = scf.for %[[FIRST:.*]] = %c0 to %c1000000000000 step %[[STRIDE]] iter_args(%[[TOTAL:.*]] = %arg1)
// CHECK:           func.call @relax_rt2_check_interrupt()
// CHECK:           %[[NEXT:.*]] = arith.addi %[[FIRST]], %[[STRIDE]]
// CHECK-NEXT:      %[[LAST:.*]] = arith.minsi %[[NEXT]], %c1000000000000
// CHECK-NEXT:      %[[STRIP:.*]] = scf.for %{{.*}} = %[[FIRST]] to %[[LAST]] step %c4 iter_args(%[[INNER:.*]] = %[[TOTAL]])
// CHECK-NEXT:        memref.load
// CHECK-NEXT:        arith.addf %[[INNER]]
// CHECK:           scf.yield %[[STRIP]]
// CHECK:         return %[[ALL]]
func.func @sum(%x: memref<1xf32>, %first: f32) -> f32 {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %end = arith.constant 1000000000000 : index
  %total = scf.for %i = %c0 to %end step %c4 iter_args(%t = %first) -> f32 {
    %v = memref.load %x[%c0] : memref<1xf32>
    %s = arith.addf %t, %v : f32
    scf.yield %s : f32
  }
  return %total : f32
}

// -----

// Work that provably ends within milliseconds has no check, even if bounds are values: an inner
// loop is bounded by its block's size.
// CHECK-NOT:   relax_rt2_attention
// CHECK-LABEL: func.func @short(
// CHECK-NOT:     func.call @relax_rt2
func.func @short(%x: memref<4096xf32>, %begin: index, %end: index) {
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %c4096 = arith.constant 4096 : index
  scf.for %i = %begin to %end step %c64 {
    %rest = arith.subi %c4096, %i : index
    %count = arith.minsi %rest, %c64 : index
    %last = arith.addi %i, %count : index
    scf.for %j = %i to %last step %c1 {
      %v = memref.load %x[%j] : memref<4096xf32>
      memref.store %v, %x[%j] : memref<4096xf32>
    }
  } {tir.tiles = 64 : i64}
  return
}

// -----

// The number of tiles is unknown: the loop over them may be long. Its iterations count with usual
// sizes.
// CHECK-LABEL: func.func @open(
// CHECK:         scf.for %[[FIRST:.*]] = %arg2 to %arg3
// CHECK:           func.call @relax_rt2_check_interrupt()
// CHECK:           scf.for %[[TILE:.*]] = %[[FIRST]] to
// CHECK-NEXT:        scf.for %{{.*}} = %c0 to %arg1 step %c1
// CHECK-NOT:         func.call @relax_rt2
func.func @open(%x: memref<?x?xf32>, %n: index, %begin: index, %end: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %t = %begin to %end step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      %v = memref.load %x[%t, %j] : memref<?x?xf32>
      memref.store %v, %x[%t, %j] : memref<?x?xf32>
    }
  }
  return
}

// -----

// In a single tile the inner loops may be the long ones.
// CHECK-LABEL: func.func @one_tile(
// CHECK:         scf.for %{{.*}} = %arg2 to %arg3 step %c1
// CHECK-NEXT:      arith.constant
// CHECK-NEXT:      %[[STRIDE:.*]] = arith.muli %c1,
// CHECK-NEXT:      scf.for %[[FIRST:.*]] = %c0 to %arg1 step %[[STRIDE]]
// CHECK:             func.call @relax_rt2_check_interrupt()
func.func @one_tile(%x: memref<?xf32>, %n: index, %begin: index, %end: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %t = %begin to %end step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      %v = memref.load %x[%j] : memref<?xf32>
      memref.store %v, %x[%j] : memref<?xf32>
    }
  } {tir.tiles = 1 : i64}
  return
}

// -----

// The trip count of a `while` is unknown.
// CHECK-LABEL: func.func @until(
// CHECK:         scf.while
// CHECK:         } do {
// CHECK:           func.call @relax_rt2_check_interrupt()
// CHECK:           memref.store
func.func @until(%x: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %limit = arith.constant 5 : i32
  scf.while : () -> () {
    %v = memref.load %x[%c0] : memref<1xi32>
    %goes_on = arith.cmpi slt, %v, %limit : i32
    scf.condition(%goes_on)
  } do {
    %v = memref.load %x[%c0] : memref<1xi32>
    %w = arith.addi %v, %one : i32
    memref.store %w, %x[%c0] : memref<1xi32>
    scf.yield
  }
  return
}

// -----

// Loops in branches count like others.
// CHECK-LABEL: func.func @branch(
// CHECK:         scf.if
// CHECK:           scf.for
// CHECK:             func.call @relax_rt2_check_interrupt()
func.func @branch(%x: memref<1xf32>, %is_long: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %end = arith.constant 1000000000 : index
  scf.if %is_long {
    scf.for %i = %c0 to %end step %c1 {
      %v = memref.load %x[%c0] : memref<1xf32>
      %w = math.exp %v : f32
      memref.store %w, %x[%c0] : memref<1xf32>
    }
  }
  return
}

// -----

// A remainder loop is short.
// CHECK-LABEL: func.func @remainder(
// CHECK:         func.call @relax_rt2_check_interrupt()
// CHECK:         scf.for %{{.*}} = %arg2 to %arg3 step %c1
// CHECK-NOT:     func.call @relax_rt2
func.func @remainder(%x: memref<?xf32>, %begin: index, %whole: index, %end: index) {
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  scf.for %i = %begin to %whole step %c9 {
    %v = memref.load %x[%i] : memref<?xf32>
    memref.store %v, %x[%i] : memref<?xf32>
  }
  scf.for %i = %whole to %end step %c1 {
    %v = memref.load %x[%i] : memref<?xf32>
    memref.store %v, %x[%i] : memref<?xf32>
  }
  return
}
