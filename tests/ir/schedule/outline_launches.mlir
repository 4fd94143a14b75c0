// RUN: relax-opt %s -p schedule-outline-launches | filecheck %s
// RUN: relax-opt %s -p "schedule-outline-launches,convert-scf-to-cf,expand-strided-metadata,lower-affine,gpu.module(convert-gpu-to-nvvm{index-bitwidth=64 use-bare-ptr-memref-call-conv=true},reconcile-unrealized-casts),nvvm-attach-target{chip=sm_90a features=+ptx80},gpu-module-to-binary{format=isa}" | filecheck %s --check-prefix=PTX

// RUN: relax-opt %s -p schedule-outline-launches{overlap=true} | filecheck %s --check-prefix=OVERLAP

// Inner dimensions of a buffer may be dynamic: an address counts all rows before it.
// OVERLAP-LABEL: gpu.module @open_gpu
// OVERLAP:         %[[X:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [2, %{{.*}}, 4]
// OVERLAP:         %[[B:.*]] = gpu.block_id  x
// OVERLAP:         %[[T:.*]] = gpu.thread_id  x
// OVERLAP:         %[[ONE:.*]] = arith.constant 1 : index
// OVERLAP-NEXT:    %[[ROWS:.*]] = memref.dim %[[X]], %[[ONE]]
// OVERLAP:         %[[STEP:.*]] = arith.muli %[[ROWS]], %{{.*}}
// OVERLAP-NEXT:    %[[FIRST:.*]] = arith.muli %[[B]], %[[STEP]]
// OVERLAP:         %[[ROW:.*]] = arith.muli %[[T]], %{{.*}}
// OVERLAP-NEXT:    arith.addi %[[FIRST]], %[[ROW]]
// OVERLAP:         nvvm.prefetch
// OVERLAP:         nvvm.griddepcontrol wait

// Programmatic dependent launch: a kernel triggers its dependents, and waits before it
// accesses memory. Its inputs are not constant meanwhile. Prefetches may come before the
// wait.
// OVERLAP-LABEL: gpu.module @k_gpu
// OVERLAP:         gpu.func @k_0(%{{.*}}: memref<1xf32> {llvm.readonly}, %{{.*}}: memref<1xf32> {llvm.noalias}, %{{.*}}: index) kernel
// OVERLAP-NEXT:      nvvm.griddepcontrol launch_dependents
// OVERLAP-NOT:       {{load|store|get_global}}
// OVERLAP:           nvvm.griddepcontrol wait
// OVERLAP:           memref.get_global
// OVERLAP:           memref.load
// OVERLAP:         gpu.func @k_1(
// OVERLAP:           nvvm.griddepcontrol launch_dependents
// OVERLAP-NOT:       load
// OVERLAP:           %[[PLACE:.*]] = arith.addi %{{.*}}, %[[COLUMN:.*]] : index
// OVERLAP:           %[[BEGIN:.*]] = memref.extract_aligned_pointer_as_index
// OVERLAP:           arith.muli %[[PLACE]]
// OVERLAP:           %[[POINTER:.*]] = llvm.inttoptr
// OVERLAP:           nvvm.prefetch level = L2, %[[POINTER]]
// OVERLAP-NOT:       load
// OVERLAP:           nvvm.griddepcontrol wait
// OVERLAP:           memref.load
// OVERLAP-LABEL: func.func @k
// OVERLAP:         gpu.launch_func @k_gpu::@k_0 {{.*}} {tir.waits}
// OVERLAP:         gpu.launch_func @k_gpu::@k_1 {{.*}} {tir.waits}

// Dynamic shared memory is external: its size is the launch's, and it follows all static
// allocations.
// PTX: .extern .shared .align 1024 .b8 shared[];
// PTX: .visible .entry k_0(
// PTX: .maxntid 128, 1, 1
// PTX: .visible .entry k_1(
// PTX: .minnctapersm 2

// CHECK-LABEL: gpu.module @k_gpu
// CHECK:         memref.global @shared : memref<0xi8, #gpu.address_space<workgroup>> {alignment = 1024 : i64}
// Pointers and sizes; other values from outside of the launch are rematerialized.
// CHECK:         gpu.func @k_0(%[[X:.*]]: memref<1xf32> {llvm.noalias, llvm.readonly}, %[[Y:.*]]: memref<1xf32> {llvm.noalias}, %[[N:.*]]: index) kernel
// CHECK-SAME:      known_block_size = array<i32: 128, 1, 1>
// CHECK:           memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[N]], 4], strides: [4, 1]
// CHECK:           gpu.block_id  x
// CHECK:           gpu.thread_id  x
// CHECK:           memref.get_global @shared
// CHECK:           memref.view {{.*}} memref<128xf32, #gpu.address_space<workgroup>>
// CHECK:           memref.view {{.*}} memref<3xf16, #gpu.address_space<workgroup>>
// CHECK:           arith.muli %[[N]]
// CHECK:           gpu.barrier
// CHECK:           gpu.return
// CHECK-NOT:     {{prefetch|griddepcontrol}}
// CHECK:         gpu.func @k_1(%{{.*}}: memref<1xf32> {llvm.noalias, llvm.readonly}, %{{.*}}: memref<1xf32> {llvm.noalias}{{.*}} nvvm.minctasm = 2 : i32
// CHECK-LABEL: func.func @k
// CHECK-NOT:     gpu.launch blocks
// CHECK:         %[[S:.*]] = arith.constant 640 : i32
// CHECK-NEXT:    gpu.launch_func @k_gpu::@k_0 blocks in (%arg2, {{.*}}) threads in ({{.*}}) dynamic_shared_memory_size %[[S]] args({{.*}} : memref<1xf32>, {{.*}} : memref<1xf32>, %arg2 : index)
// CHECK:         gpu.launch_func @k_gpu::@k_1
func.func @k(%x: memref<?x4xf32>, %y: memref<?x4xf32>, %n: index) attributes {tir.prim_func, tir.num_outputs = 1 : i64, arg_attrs = [{tir.shape = #relax.shape<["n", "4"]>}, {tir.shape = #relax.shape<["n", "4"]>}, {tir.symbol = "n"}]} {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c128 = arith.constant 128 : index
  %all = arith.muli %n, %c4 : index
  gpu.launch blocks(%b, %by, %bz) in (%nb = %n, %nby = %c1, %nbz = %c1) threads(%t, %ty, %tz) in (%nt = %c128, %nty = %c1, %ntz = %c1) {
    %zero = arith.constant 0 : index
    %s = memref.alloc() : memref<128xf32, #gpu.address_space<workgroup>>
    %other = memref.alloc() : memref<3xf16, #gpu.address_space<workgroup>>
    %in = arith.cmpi ult, %t, %all : index
    scf.if %in {
      %v = memref.load %x[%b, %zero] : memref<?x4xf32>
      memref.store %v, %s[%t] : memref<128xf32, #gpu.address_space<workgroup>>
    }
    gpu.barrier
    %w = memref.load %s[%zero] : memref<128xf32, #gpu.address_space<workgroup>>
    memref.store %w, %y[%b, %zero] : memref<?x4xf32>
    gpu.terminator
  }
  gpu.launch blocks(%b, %by, %bz) in (%nb = %n, %nby = %c1, %nbz = %c1) threads(%t, %ty, %tz) in (%nt = %c1, %nty = %c1, %ntz = %c1) {
    %zero = arith.constant 0 : index
    memref.prefetch %x[%b, %zero], read, locality<3>, data : memref<?x4xf32>
    nvvm.griddepcontrol wait
    %v = memref.load %x[%b, %zero] : memref<?x4xf32>
    memref.store %v, %y[%b, %zero] : memref<?x4xf32>
    gpu.terminator
  } {tir.at_once = 2 : i32}
  return
}

// CHECK-LABEL: func.func @open
func.func @open(%x: memref<2x?x4xf32>, %y: memref<?x4xf32>, %m: index, %n: index) attributes {tir.prim_func, tir.num_outputs = 1 : i64, arg_attrs = [{tir.shape = #relax.shape<["2", "n", "4"]>}, {tir.shape = #relax.shape<["m", "4"]>}, {tir.symbol = "m"}, {tir.symbol = "n"}]} {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  gpu.launch blocks(%b, %by, %bz) in (%nb = %c2, %nby = %c1, %nbz = %c1) threads(%t, %ty, %tz) in (%nt = %c1, %nty = %c1, %ntz = %c1) {
    %zero = arith.constant 0 : index
    memref.prefetch %x[%b, %t, %zero], read, locality<2>, data : memref<2x?x4xf32>
    nvvm.griddepcontrol wait
    %v = memref.load %x[%b, %t, %zero] : memref<2x?x4xf32>
    memref.store %v, %y[%b, %zero] : memref<?x4xf32>
    gpu.terminator
  }
  return
}
