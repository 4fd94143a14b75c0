// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-to-linalg,schedule-apply-gpu{sm=90}" --split-input-file | filecheck %s
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-to-linalg,schedule-apply-gpu{sm=89}" --split-input-file | filecheck %s --check-prefix=ADA
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-to-linalg,schedule-apply-gpu{sm=90},schedule-align-vectors,schedule-outline-launches{overlap=true},gpu.module(convert-nvgpu-to-nvvm),convert-scf-to-cf,convert-nvvm-to-llvm,expand-strided-metadata,lower-affine,canonicalize,cse,gpu.module(convert-gpu-to-nvvm{index-bitwidth=64 use-bare-ptr-memref-call-conv=true},convert-vector-to-llvm,canonicalize,cse,reconcile-unrealized-casts),schedule-pass-descriptors,nvvm-attach-target{chip=sm_90a features=+ptx80 O=3},gpu-module-to-binary{format=isa}" --split-input-file | filecheck %s --check-prefix=PTX

// One thread of 384 copies tiles of both operands, in a pipeline of four stages; the
// other 256 multiply them, each half 64 rows by 256 columns. A persistent grid walks the
// tiles.
// CHECK-LABEL: func.func @{{.*}}matmul
// CHECK-SAME:    tir.rule = "GemmWgmma"
// CHECK:         %[[X:.*]] = nvgpu.tma.create.descriptor {{.*}} memref<*xf16> -> <tensor = memref<128x64xf16, #gpu.address_space<workgroup>>, swizzle = swizzle_128b
// CHECK:         %[[W:.*]] = nvgpu.tma.create.descriptor {{.*}} memref<*xf16> -> <tensor = memref<64x64xf16, #gpu.address_space<workgroup>>, swizzle = swizzle_128b
// CHECK:         %[[BLOCKS:.*]] = arith.constant 132 : index
// CHECK:         gpu.launch blocks({{.*}}) in (%{{.*}} = %[[BLOCKS]]
// CHECK:           memref.alloc() {alignment = 1024 : i64} : memref<4x128x64xf16, #gpu.address_space<workgroup>>
// CHECK:           memref.alloc() {alignment = 1024 : i64} : memref<4x256x64xf16, #gpu.address_space<workgroup>>
// CHECK:           %[[FULL:.*]] = nvgpu.mbarrier.create
// CHECK:           %[[EMPTY:.*]] = nvgpu.mbarrier.create
// CHECK-COUNT-8:   nvgpu.mbarrier.init
// CHECK:           nvvm.fence.mbarrier.init
// Sixteen tiles of rows need the same columns: they are not prefetched.
// CHECK-NOT:       prefetch
// CHECK:           nvvm.griddepcontrol wait
// CHECK-NEXT:      gpu.barrier
// The producer: a stage of 48 KB per iteration.
// CHECK:           nvvm.setmaxregister decrease 40
// CHECK:           nvgpu.mbarrier.try_wait.parity %[[EMPTY]]
// CHECK:           %[[BYTES:.*]] = arith.constant 49152 : index
// CHECK:           nvgpu.mbarrier.arrive.expect_tx %[[FULL]][{{.*}}], %[[BYTES]]
// CHECK:           nvgpu.tma.async.load %[[X]]
// CHECK-COUNT-4:   nvgpu.tma.async.load %[[W]]
// The consumers.
// CHECK:           nvvm.setmaxregister increase 232
// CHECK:           nvgpu.mbarrier.try_wait.parity %[[FULL]]
// CHECK:           nvvm.wgmma.fence.aligned
// CHECK-COUNT-4:   nvvm.wgmma.mma_async {{.*}} <m = 64, n = 256, k = 16>, D[<f32>, <one>, <wrapped>], A[<f16>, <one>, <row>], B[<f16>, <one>, <row>]
// CHECK:           nvvm.wgmma.commit.group.sync.aligned
// CHECK:           nvvm.wgmma.wait.group.sync.aligned 1
// CHECK:           nvgpu.mbarrier.arrive %[[EMPTY]]
// CHECK:           nvvm.wgmma.wait.group.sync.aligned 0
// The epilogue, on eight contiguous elements.
// CHECK:           nvvm.bar.warp.sync
// CHECK:           arith.addf {{.*}} : vector<8xf32>
// CHECK:           vector.store {{.*}} vector<8xf16>
// ADA-LABEL:  func.func @{{.*}}matmul
// ADA-SAME:     tir.rule = "GemmMmaSync"
// ADA-NOT:      wgmma
// PTX:         .target sm_90a
// PTX:         .extern .shared .align 1024 .b8 shared[];
// PTX:         .param .align 128 .b8 {{.*}}[128]
// PTX:         .maxntid 384, 1, 1
// PTX-DAG:     setmaxnreg.dec.sync.aligned.u32
// PTX-DAG:     mbarrier.arrive.expect_tx
// PTX-DAG:     cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
// PTX-DAG:     setmaxnreg.inc.sync.aligned.u32
// PTX-DAG:     wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16
// PTX-NOT:     .local
func.func @main(%x: tensor<2048x512xf16>, %w: tensor<512x4096xf16>, %b: tensor<4096xf32>) -> tensor<2048x4096xf16> {
  %p = "relax.matmul"(%x, %w) {out_dtype = f32} : (tensor<2048x512xf16>, tensor<512x4096xf16>) -> tensor<2048x4096xf32>
  %q = "relax.add"(%p, %b) : (tensor<2048x4096xf32>, tensor<4096xf32>) -> tensor<2048x4096xf32>
  %y = "relax.astype"(%q) {dtype = f16} : (tensor<2048x4096xf32>) -> tensor<2048x4096xf16>
  return %y : tensor<2048x4096xf16>
}

// -----

// Rows of 66 bytes are not aligned to 16: threads load them themselves.
// CHECK-LABEL: func.func @{{.*}}matmul
// CHECK-SAME:    tir.rule = "GemmMmaSync"
// CHECK-NOT:     nvgpu.tma
func.func @main(%x: tensor<128x33xf16>, %w: tensor<33x128xf16>) -> tensor<128x128xf32> {
  %p = "relax.matmul"(%x, %w) {out_dtype = f32} : (tensor<128x33xf16>, tensor<33x128xf16>) -> tensor<128x128xf32>
  return %p : tensor<128x128xf32>
}

// -----

// Windows: a TMA box of 2 images, 8 rows and 8 columns, with stride 2, and 64 channels; the weights
// are K-major.
// CHECK-LABEL: func.func @{{.*}}conv2d
// CHECK-SAME:    tir.rule = "GemmWgmma"
// CHECK:         memref.reinterpret_cast %arg0 to offset: [0], sizes: [32, 17, 17, 64], strides: [18496, 1088, 64, 1]
// CHECK:         nvgpu.tma.create.descriptor {{.*}} {tir.steps = array<i64: 1, 2, 2, 1>} : memref<*xf16> -> <tensor = memref<2x8x8x64xf16
// CHECK:         nvgpu.tma.create.descriptor {{.*}} -> <tensor = memref<128x1x1x64xf16
// CHECK:         nvgpu.tma.async.load {{.*}}[{{[^,]*, [^,]*, [^,]*, [^,]*}}]
func.func @main(%x: tensor<32x17x17x64xf16>, %w: tensor<1024x3x3x64xf16>) -> tensor<32x8x8x1024xf32> {
  %y = "relax.nn_conv2d"(%x, %w) {data_layout = "NHWC", kernel_layout = "OHWI", out_layout = "NHWC", dilation = array<i64: 1, 1>, groups = 1 : i64, padding = array<i64: 0, 0, 0, 0>, strides = array<i64: 2, 2>, out_dtype = f32} : (tensor<32x17x17x64xf16>, tensor<1024x3x3x64xf16>) -> tensor<32x8x8x1024xf32>
  return %y : tensor<32x8x8x1024xf32>
}

// -----

// Few blocks need the same columns, which may be weights: one thread prefetches them before the
// launch waits for the previous one.
// CHECK-LABEL: func.func @matmul
// CHECK:         %[[W:.*]] = nvgpu.tma.create.descriptor {{.*}} memref<64x64xf16
// CHECK:         %[[W:.*]] = nvgpu.tma.create.descriptor {{.*}} memref<64x64xf16
// CHECK:           nvvm.fence.mbarrier.init
// CHECK:           scf.for
// CHECK:             %[[MAP:.*]] = builtin.unrealized_conversion_cast %[[W]]
// CHECK:             nvvm.cp.async.bulk.tensor.prefetch %[[MAP]], box[%{{.*}}, %{{.*}}]
// CHECK:           nvvm.griddepcontrol wait
// CHECK-NEXT:      gpu.barrier
// PTX:         griddepcontrol.launch_dependents
// PTX-DAG:     griddepcontrol.wait
// PTX-DAG:     cp.async.bulk.prefetch.tensor.2d.L2.global.tile
func.func @main(%x: tensor<64x512xf16>, %w: tensor<512x64xf16>) -> tensor<64x64xf32> {
  %y = "relax.matmul"(%x, %w) {out_dtype = f32} : (tensor<64x512xf16>, tensor<512x64xf16>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
