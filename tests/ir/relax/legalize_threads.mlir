// RUN: relax-opt %s -p relax-legalize{threads=true} | filecheck %s
// RUN: relax-opt %s -p "relax-legalize{threads=true},tir-lower-blocks{threads=true},cse,tir-to-linalg,schedule-apply-gpu{sm=90}" | filecheck %s --check-prefix=GPU

// A thread block computes a sequence: 40 columns, then 40 units of the cell, with the state in
// shared memory.
// CHECK-LABEL: func.func @rnn
// CHECK:         "tir.alloc_buffer"() {{.*}} -> memref<1x40xf32, "shared">
// CHECK:         scf.for
// CHECK:           scf.for {{.*}} {
// CHECK:             scf.for
// CHECK:               memref.load {{.*}} "shared"
// CHECK:           } {tir.kind = "thread_binding", tir.thread = "threadIdx.x"}
// CHECK:         } {tir.kind = "thread_binding", tir.thread = "blockIdx.x"}
// GPU-LABEL:   func.func @rnn
// GPU-SAME:      tir.rule = "ThreadBound"
// GPU:           gpu.launch blocks({{.*}}) in ({{.*}} = %c3
// GPU:             memref.alloc() : memref<1x40xf32, #gpu.address_space<workgroup>>
// GPU:             scf.for
// GPU:               scf.for
// GPU:                 math.fma
// GPU:               gpu.barrier
// GPU:               math.tanh
// GPU:               gpu.barrier
func.func @main(%x: tensor<7x3x1x40xf32>, %r: tensor<1x1x1x40x48xf32>, %h: tensor<1x3x40xf32>, %n: tensor<0xi32>) -> tuple<tensor<7x1x3x40xf32>, tensor<1x3x40xf32>> {
  %y = "relax.nn_rnn"(%x, %r, %h, %n) {direction = "forward", functions = "tanh", alphas = array<f64: 0.0>, betas = array<f64: 0.0>, clip} : (tensor<7x3x1x40xf32>, tensor<1x1x1x40x48xf32>, tensor<1x3x40xf32>, tensor<0xi32>) -> tuple<tensor<7x1x3x40xf32>, tensor<1x3x40xf32>>
  return %y : tuple<tensor<7x1x3x40xf32>, tensor<1x3x40xf32>>
}
