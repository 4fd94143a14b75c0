// RUN: relax-opt %s -p schedule-outline-launches | filecheck %s
// RUN: relax-opt %s -p "schedule-outline-launches,convert-scf-to-cf,expand-strided-metadata,lower-affine,gpu.module(convert-gpu-to-nvvm{index-bitwidth=64 use-bare-ptr-memref-call-conv=true},reconcile-unrealized-casts),nvvm-attach-target{chip=sm_90a features=+ptx80},gpu-module-to-binary{format=isa}" | filecheck %s --check-prefix=PTX

// Kernel names are valid PTX identifiers, whatever programs are called: LLVM aborts on others. GPU
// modules have unique names.
// PTX-LABEL: gpu.binary @k_1_k_gpu
// PTX-SAME:    .visible .entry k_1_k_0(
// PTX-LABEL: gpu.binary @_lambda__gpu_1
// PTX-SAME:    .visible .entry _lambda__0(
// PTX-LABEL: gpu.binary @_lambda__gpu
// PTX-SAME:    .visible .entry _lambda__0(
// CHECK-LABEL: gpu.module @k_1_k_gpu
// CHECK-LABEL: gpu.module @_lambda__gpu_1
// CHECK-LABEL: gpu.module @_lambda__gpu

// CHECK-LABEL: func.func @"<lambda>"
// CHECK: gpu.launch_func @_lambda__gpu::@_lambda__0
func.func @"<lambda>"(%x: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, arg_attrs = [{tir.shape = #relax.shape<["4"]>}]} {
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%b, %by, %bz) in (%nb = %c1, %nby = %c1, %nbz = %c1) threads(%t, %ty, %tz) in (%nt = %c1, %nty = %c1, %ntz = %c1) {
    %v = memref.load %x[%t] : memref<4xf32>
    memref.store %v, %x[%b] : memref<4xf32>
    gpu.terminator
  }
  return
}

// CHECK-LABEL: func.func @_lambda_
// CHECK: gpu.launch_func @_lambda__gpu_1::@_lambda__0
func.func @_lambda_(%x: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, arg_attrs = [{tir.shape = #relax.shape<["4"]>}]} {
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%b, %by, %bz) in (%nb = %c1, %nby = %c1, %nbz = %c1) threads(%t, %ty, %tz) in (%nt = %c1, %nty = %c1, %ntz = %c1) {
    %v = memref.load %x[%t] : memref<4xf32>
    memref.store %v, %x[%b] : memref<4xf32>
    gpu.terminator
  }
  return
}

// CHECK-LABEL: func.func @"1.k"
// CHECK: gpu.launch_func @k_1_k_gpu::@k_1_k_0
func.func @"1.k"(%x: memref<4xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, arg_attrs = [{tir.shape = #relax.shape<["4"]>}]} {
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%b, %by, %bz) in (%nb = %c1, %nby = %c1, %nbz = %c1) threads(%t, %ty, %tz) in (%nt = %c1, %nty = %c1, %ntz = %c1) {
    %v = memref.load %x[%t] : memref<4xf32>
    memref.store %v, %x[%b] : memref<4xf32>
    gpu.terminator
  }
  return
}
