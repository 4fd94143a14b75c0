// RUN: relax-opt %s -p "schedule-outline-launches,gpu.module(convert-gpu-to-nvvm{index-bitwidth=64 use-bare-ptr-memref-call-conv=true},reconcile-unrealized-casts),schedule-pass-descriptors" | filecheck %s
// RUN: relax-opt %s -p schedule-outline-launches | filecheck %s --check-prefix=OUTLINED

// A descriptor is created outside of the launch, and passed in the kernel's parameters. Shared
// memory has its alignment.
// CHECK:       llvm.func @k_0(%{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: !llvm.ptr {llvm.align = 128 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
// CHECK-NOT:     tir.by_value
// CHECK-LABEL: func.func @k
// OUTLINED:      gpu.func @k_0(%{{.*}}: memref<1xf16> {llvm.noalias}, %[[P:.*]]: !llvm.ptr) kernel
// OUTLINED-SAME:   tir.by_value = array<i64: 1>
// OUTLINED:        builtin.unrealized_conversion_cast %[[P]] : !llvm.ptr to !nvgpu.tensormap.descriptor
// OUTLINED-DAG:    %[[FAR:.*]] = arith.constant 1024 : index
// OUTLINED:        memref.view %{{.*}}[%[[FAR]]][] : {{.*}} to memref<8x64xf16, #gpu.address_space<workgroup>>
// OUTLINED-LABEL: func.func @k
// OUTLINED:      %[[D:.*]] = nvgpu.tma.create.descriptor
// OUTLINED:      %[[Q:.*]] = builtin.unrealized_conversion_cast %[[D]]
// OUTLINED:      %[[BYTES:.*]] = arith.constant 2048 : i32
// OUTLINED:      gpu.launch_func {{.*}} dynamic_shared_memory_size %[[BYTES]] args(%{{.*}} : memref<1xf16>, %[[Q]] : !llvm.ptr)
func.func @k(%x: memref<64x64xf16>, %y: memref<4xf16>) attributes {tir.prim_func, tir.num_outputs = 1 : i64, arg_attrs = [{tir.shape = #relax.shape<["64", "64"]>}, {tir.shape = #relax.shape<["4"]>}]} {
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %whole = memref.cast %x : memref<64x64xf16> to memref<*xf16>
  %d = nvgpu.tma.create.descriptor %whole box[%c8, %c64] : memref<*xf16> -> !nvgpu.tensormap.descriptor<tensor = memref<8x64xf16, #gpu.address_space<workgroup>>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>
  gpu.launch blocks(%b, %by, %bz) in (%nb = %c1, %nby = %c1, %nbz = %c1) threads(%t, %ty, %tz) in (%nt = %c1, %nty = %c1, %ntz = %c1) {
    %zero = arith.constant 0 : index
    %s = memref.alloc() : memref<3xf16, #gpu.address_space<workgroup>>
    %box = memref.alloc() {alignment = 1024 : i64} : memref<8x64xf16, #gpu.address_space<workgroup>>
    %bars = nvgpu.mbarrier.create -> <memorySpace = #gpu.address_space<workgroup>>
    nvgpu.tma.async.load %d[%zero, %zero], %bars[%zero] to %box : !nvgpu.tensormap.descriptor<tensor = memref<8x64xf16, #gpu.address_space<workgroup>>, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>, <memorySpace = #gpu.address_space<workgroup>> -> memref<8x64xf16, #gpu.address_space<workgroup>>
    %v = memref.load %s[%zero] : memref<3xf16, #gpu.address_space<workgroup>>
    memref.store %v, %y[%zero] : memref<4xf16>
    gpu.terminator
  }
  return
}
