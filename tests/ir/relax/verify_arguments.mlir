// RUN: relax-opt %s -p relax-verify --no-verify --split-input-file --expect-error | filecheck %s

// A program names its sizes.
// CHECK: error: invalid module: {{.*}}`func.func`: buffer 0, `memref<?xf32>`, needs a `tir.shape`
func.func @unnamed(%o: memref<?xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A size is a symbol.
// CHECK: error: invalid module: {{.*}}`func.func`: size 1 needs a `tir.symbol`, its name
func.func @nameless(%o: memref<8xf32>, %s: index) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// Two sizes have two names.
// CHECK: error: invalid module: {{.*}}`func.func`: two sizes are one symbol
func.func @again(%o: memref<8xf32>, %s: index {tir.symbol = "n"}, %t: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// The shape of a buffer follows from the sizes.
// CHECK: error: invalid module: {{.*}}`func.func`: buffer 0: no argument tells `m`
func.func @unknown(%o: memref<?xf32> {tir.shape = #relax.shape<["m"]>}, %s: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// The shape of a buffer has the numbers of its type.
// CHECK: error: invalid module: {{.*}}`func.func`: buffer 0: expected the shape of `memref<?x2xf32>`, got [n, 3]
func.func @misfit(%o: memref<?x2xf32> {tir.shape = #relax.shape<["n", "3"]>}, %s: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// A program takes buffers, then sizes.
// CHECK: error: invalid module: {{.*}}`func.func`: a tensor program takes buffers, and then sizes
func.func @order(%s: index {tir.symbol = "n"}, %o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  return
}

// -----

// It writes at least one of the buffers, and at most all.
// CHECK: error: invalid module: {{.*}}`func.func`: `tir.num_outputs`: expected 1 to 1, the buffers that are there, got 2
func.func @outputs(%o: memref<8xf32>) attributes {tir.prim_func, tir.num_outputs = 2 : i64} {
  return
}

// -----

// A buffer inside a program has the shape that its sizes say.
// CHECK: error: invalid module: {{.*}}`tir.alloc_buffer`: `shape`: expected the size `n`, got `m`
func.func @inner(%o: memref<8xf32>, %s: index {tir.symbol = "n"}) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %0 = "tir.alloc_buffer"(%s) {shape = #relax.shape<["m"]>} : (index) -> memref<?xf32>
  return
}
