// RUN: relax-opt %s -p "relax-legalize{inline-scalars=true},relax-fuse-ops,tir-fuse,tir-fuse-transposes,tir-fuse-attention{sm=90},tir-to-linalg,schedule-apply-gpu{sm=90}" --split-input-file | filecheck %s

// One launch, with a block per 128 rows of a head: two consumer warpgroups, and one producer thread
// in a third, which loads tiles of 128 keys and values, double-buffered. The scores of a tile and
// the values of the previous one are multiplied concurrently; the softmax of scores overlaps the
// accumulation of values. Warpgroups alternate in issuing matmuls.
// CHECK-LABEL: func.func @attention
// CHECK-SAME:    tir.rule = "AttentionWgmma"
// CHECK-COUNT-3: nvgpu.tma.create.descriptor
// CHECK:         gpu.launch
// CHECK-SAME:      (%{{.+}} = %c1024,
// CHECK-SAME:      threads({{.+}}) in (%{{.+}} = %c384,
// CHECK:           memref.alloc() {alignment = 1024 : i64} : memref<1x128x64xf16, #gpu.address_space<workgroup>>
// CHECK:           memref.alloc() {alignment = 1024 : i64} : memref<2x128x64xf16, #gpu.address_space<workgroup>>
// CHECK:           memref.alloc() {alignment = 1024 : i64} : memref<4x64x64xf16, #gpu.address_space<workgroup>>
// CHECK:           nvvm.fence.mbarrier.init
// CHECK:           gpu.barrier
// CHECK:           scf.if
// CHECK:             nvvm.setmaxregister increase 240
// CHECK:             nvgpu.mbarrier.try_wait.parity
// CHECK:             nvvm.barrier.arrive
// CHECK:             nvgpu.mbarrier.try_wait.parity
// CHECK-NEXT:        nvvm.wgmma.fence.aligned
// CHECK:             nvvm.wgmma.mma_async {{.*}} <m = 64, n = 128, k = 16>, D[<f32>, <zero>, <wrapped>], A[<f16>, <one>, <row>], B[<f16>, <one>, <col>]
// CHECK-COUNT-3:     nvvm.wgmma.mma_async {{.*}} <m = 64, n = 128, k = 16>, D[<f32>, <one>, <wrapped>]
// CHECK:             nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT:        nvvm.wgmma.wait.group.sync.aligned 0
// CHECK:             nvgpu.mbarrier.arrive
// Rows that see all keys of a tile need no mask.
// CHECK:             math.exp2
// CHECK:             scf.for
// CHECK:               nvgpu.mbarrier.try_wait.parity
// CHECK:               nvvm.barrier id = %{{.+}} number_of_threads = %c256
// CHECK-NEXT:          nvvm.wgmma.fence.aligned
// CHECK-COUNT-4:       nvvm.wgmma.mma_async
// CHECK:               nvvm.wgmma.commit.group.sync.aligned
// CHECK:               nvgpu.mbarrier.try_wait.parity
// CHECK-COUNT-8:       llvm.inline_asm {{.*}} wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{.*}}, p, 1, 1, 1; }"
// CHECK:               nvvm.wgmma.commit.group.sync.aligned
// CHECK:               nvvm.barrier.arrive
// CHECK-NEXT:          nvvm.wgmma.wait.group.sync.aligned 1
// CHECK:               nvgpu.mbarrier.arrive
// CHECK-NOT:           arith.select {{.*}} vector<2xi1>
// CHECK:               gpu.shuffle xor
// CHECK:               math.fma
// CHECK:               math.exp2 {{.*}} fastmath<afn> : vector<2xf32>
// CHECK:               nvvm.wgmma.wait.group.sync.aligned 0
// CHECK:               nvgpu.mbarrier.arrive
// CHECK:               arith.truncf {{.*}} : vector<2xf32> to vector<2xf16>
// CHECK:               scf.yield
// CHECK:             scf.for
// CHECK-COUNT-32:      arith.select {{.*}} vector<2xi1>
// CHECK:             nvvm.wgmma.fence.aligned
// CHECK-COUNT-8:     llvm.inline_asm
// CHECK:             nvvm.wgmma.wait.group.sync.aligned 0
// CHECK:             nvvm.barrier id
// CHECK:             vector.store
// CHECK:           } else {
// CHECK:             nvvm.setmaxregister decrease 24
// CHECK:             nvgpu.tma.async.load
// CHECK:             scf.for
// CHECK:               nvgpu.mbarrier.try_wait.parity
// CHECK:               nvgpu.mbarrier.arrive.expect_tx
// CHECK:               nvgpu.tma.async.load
// CHECK:               nvgpu.mbarrier.try_wait.parity
// CHECK:               nvgpu.mbarrier.arrive.expect_tx
// CHECK-COUNT-2:       nvgpu.tma.async.load
// CHECK-NOT:     gpu.launch
func.func @main(%q: tensor<8x1024x16x64xf16>, %k: tensor<8x1024x16x64xf16>, %v: tensor<8x1024x16x64xf16>) -> tensor<8x1024x16x64xf16> {
  %0 = "relax.nn_attention"(%q, %k, %v) {scale, causal_mask = "TopLeft", window_size} : (tensor<8x1024x16x64xf16>, tensor<8x1024x16x64xf16>, tensor<8x1024x16x64xf16>) -> tensor<8x1024x16x64xf16>
  return %0 : tensor<8x1024x16x64xf16>
}

// -----

// Strides of batches are computed from sizes. Division of scores by a constant becomes
// multiplication.
// CHECK-LABEL: func.func @{{.*}}_softmax
// CHECK-SAME:    tir.rule = "AttentionWgmma"
// CHECK:         memref.reinterpret_cast %arg0 to offset: [0], sizes: [%{{.+}}, %{{.+}}, 2, 32], strides: [%{{.+}}, 64, 32, 1]
// CHECK:         nvgpu.tma.create.descriptor
// CHECK:         gpu.launch
// CHECK-NOT:       arith.divf
// CHECK:           arith.constant 0.142857
// CHECK:           arith.mulf {{.*}} fastmath<contract>
// CHECK:           arith.addf {{.*}} fastmath<contract>
// CHECK:           math.exp2
func.func @main(%q: tensor<?x?x2x32xf16, #relax.shape<["b", "s", "2", "32"]>>, %k: tensor<?x?x2x32xf16, #relax.shape<["b", "s", "2", "32"]>>, %m: tensor<?x1x1x?xf32, #relax.shape<["b", "1", "1", "s"]>>, %v: tensor<?x?x2x32xf16, #relax.shape<["b", "s", "2", "32"]>>) -> tensor<?x2x?x32xf16, #relax.shape<["b", "2", "s", "32"]>> {
  %seven = "relax.constant"() {value = dense<7.000000e+00> : tensor<f32>} : () -> tensor<f32>
  %0 = "relax.permute_dims"(%q) {axes = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x32xf16, #relax.shape<["b", "s", "2", "32"]>>) -> tensor<?x2x?x32xf16, #relax.shape<["b", "2", "s", "32"]>>
  %1 = "relax.permute_dims"(%k) {axes = array<i64: 0, 2, 3, 1>} : (tensor<?x?x2x32xf16, #relax.shape<["b", "s", "2", "32"]>>) -> tensor<?x2x32x?xf16, #relax.shape<["b", "2", "32", "s"]>>
  %2 = "relax.permute_dims"(%v) {axes = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x32xf16, #relax.shape<["b", "s", "2", "32"]>>) -> tensor<?x2x?x32xf16, #relax.shape<["b", "2", "s", "32"]>>
  %3 = "relax.matmul"(%0, %1) {out_dtype = f32} : (tensor<?x2x?x32xf16, #relax.shape<["b", "2", "s", "32"]>>, tensor<?x2x32x?xf16, #relax.shape<["b", "2", "32", "s"]>>) -> tensor<?x2x?x?xf32, #relax.shape<["b", "2", "s", "s"]>>
  %4 = "relax.divide"(%3, %seven) : (tensor<?x2x?x?xf32, #relax.shape<["b", "2", "s", "s"]>>, tensor<f32>) -> tensor<?x2x?x?xf32, #relax.shape<["b", "2", "s", "s"]>>
  %5 = "relax.add"(%4, %m) : (tensor<?x2x?x?xf32, #relax.shape<["b", "2", "s", "s"]>>, tensor<?x1x1x?xf32, #relax.shape<["b", "1", "1", "s"]>>) -> tensor<?x2x?x?xf32, #relax.shape<["b", "2", "s", "s"]>>
  %6 = "relax.nn_softmax"(%5) {axis = -1 : i64} : (tensor<?x2x?x?xf32, #relax.shape<["b", "2", "s", "s"]>>) -> tensor<?x2x?x?xf32, #relax.shape<["b", "2", "s", "s"]>>
  %7 = "relax.astype"(%6) {dtype = f16} : (tensor<?x2x?x?xf32, #relax.shape<["b", "2", "s", "s"]>>) -> tensor<?x2x?x?xf16, #relax.shape<["b", "2", "s", "s"]>>
  %8 = "relax.matmul"(%7, %2) {out_dtype = f16} : (tensor<?x2x?x?xf16, #relax.shape<["b", "2", "s", "s"]>>, tensor<?x2x?x32xf16, #relax.shape<["b", "2", "s", "32"]>>) -> tensor<?x2x?x32xf16, #relax.shape<["b", "2", "s", "32"]>>
  return %8 : tensor<?x2x?x32xf16, #relax.shape<["b", "2", "s", "32"]>>
}

// -----

// For few blocks of one warpgroup, there is one producer warp, and no register reallocation.
// CHECK-LABEL: func.func @attention
// CHECK-SAME:    tir.rule = "AttentionWgmma"
// CHECK:         gpu.launch
// CHECK-SAME:      threads({{.+}}) in (%{{.+}} = %c160,
// CHECK-NOT:       nvvm.setmaxregister
// CHECK-NOT:       nvvm.barrier
// CHECK:         return
func.func @main(%q: tensor<1x64x2x64xf16>, %k: tensor<1x64x2x64xf16>, %v: tensor<1x64x2x64xf16>) -> tensor<1x64x2x64xf16> {
  %0 = "relax.nn_attention"(%q, %k, %v) {scale, causal_mask, window_size} : (tensor<1x64x2x64xf16>, tensor<1x64x2x64xf16>, tensor<1x64x2x64xf16>) -> tensor<1x64x2x64xf16>
  return %0 : tensor<1x64x2x64xf16>
}
