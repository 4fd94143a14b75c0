// RUN: relax-opt %s -p relax-verify --no-verify --split-input-file --expect-error | filecheck %s

// The dimensions of a program's buffers have symbols.
// CHECK: error: invalid module: {{.*}}`func.func`: buffer 0: `memref<?xf32>`: expected a `tir.shape` attribute
func.func @unnamed(%o: memref<?xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A size argument has a symbol.
// CHECK: error: invalid module: {{.*}}`func.func`: size argument 1: expected a `tir.symbol` attribute
func.func @nameless(%o: memref<8xf32>, %s: index) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// Two size arguments have two symbols.
// CHECK: error: invalid module: {{.*}}`func.func`: two size arguments have the same symbol
func.func @again(%o: memref<8xf32>, %s: index {tir.symbol = "n"}, %t: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// The shape of a buffer is determined by the size arguments.
// CHECK: error: invalid module: {{.*}}`func.func`: buffer 0: no argument for symbol `m`
func.func @unknown(%o: memref<?xf32> {tir.shape = #relax.shape<["m"]>}, %s: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// The shape of a buffer matches the static sizes of its type.
// CHECK: error: invalid module: {{.*}}`func.func`: buffer 0: expected the shape of `memref<?x2xf32>`, got [n, 3]
func.func @misfit(%o: memref<?x2xf32> {tir.shape = #relax.shape<["n", "3"]>}, %s: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// Arguments are buffers, then sizes.
// CHECK: error: invalid module: {{.*}}`func.func`: arguments: expected buffers first, and then sizes
func.func @order(%s: index {tir.symbol = "n"}, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// At least one buffer is an output, and at most all.
// CHECK: error: invalid module: {{.*}}`func.func`: `tir.num_outputs`: expected 1 to 1, the number of buffers, got 2
func.func @outputs(%o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 2 : i64} {
  return
}

// -----

// An internal buffer has the shape of its size operands.
// CHECK: error: invalid module: {{.*}}`tir.alloc_buffer`: `shape`: expected the size `n`, got `m`
func.func @inner(%o: memref<8xf32>, %s: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %0 = "tir.alloc_buffer"(%s) {shape = #relax.shape<["m"]>} : (index) -> memref<?xf32>
  return
}
