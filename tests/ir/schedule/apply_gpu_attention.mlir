// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-transposes,tir-fuse-attention{sm=80},tir-to-linalg,schedule-apply-gpu{sm=80}" --split-input-file | filecheck %s
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-fuse-transposes,tir-fuse-attention{sm=80 tf32=true},tir-to-linalg,schedule-apply-gpu{sm=80 tf32=true}" --split-input-file | filecheck %s --check-prefix=TF32

// One launch, with a block per 128 rows of a head. Tiles of keys and values alternate; each warp
// has 64 scores of 16 rows in registers, and 64 columns of values.
// CHECK-LABEL: func.func @{{.*}}_softmax
// CHECK-SAME:    tir.rule = "Attention"
// CHECK:         gpu.launch
// CHECK-SAME:      (%{{.+}} = %c1024,
// CHECK-SAME:      threads({{.+}}) in (%{{.+}} = %c256,
// CHECK:           memref.alloc() : memref<1x128x72xf16, #gpu.address_space<workgroup>>
// CHECK:           memref.alloc() : memref<2x64x72xf16, #gpu.address_space<workgroup>>
// CHECK:           memref.alloc() : memref<2x64x72xf16, #gpu.address_space<workgroup>>
// CHECK-COUNT-8:   nvgpu.device_async_copy
// CHECK:           nvvm.cp.async.commit.group
// CHECK:           scf.for
// CHECK:             nvvm.cp.async.wait.group 0
// CHECK-NEXT:        gpu.barrier
// CHECK-COUNT-4:     nvgpu.device_async_copy
// CHECK:             nvvm.cp.async.commit.group
// CHECK-COUNT-32:    nvvm.mma.sync
// CHECK:             arith.maximumf
// CHECK-COUNT-2:     gpu.shuffle xor
// CHECK:             math.exp2 {{.*}} fastmath<afn> : vector<2xf32>
// CHECK:             arith.truncf {{.*}} : vector<2xf32> to vector<2xf16>
// CHECK-COUNT-32:    nvvm.mma.sync
// CHECK:             scf.yield
// CHECK-NOT:       gpu.barrier
// CHECK:           vector.store
// CHECK-NOT:     gpu.launch
func.func @main(%q: tensor<8x16x1024x64xf16>, %k: tensor<8x16x64x1024xf16>, %v: tensor<8x16x1024x64xf16>) -> tensor<8x16x1024x64xf16> {
  %0 = "relax.matmul"(%q, %k) {out_dtype = f32} : (tensor<8x16x1024x64xf16>, tensor<8x16x64x1024xf16>) -> tensor<8x16x1024x1024xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<8x16x1024x1024xf32>) -> tensor<8x16x1024x1024xf32>
  %2 = "relax.astype"(%1) {dtype = f16} : (tensor<8x16x1024x1024xf32>) -> tensor<8x16x1024x1024xf16>
  %3 = "relax.matmul"(%2, %v) {out_dtype = f16} : (tensor<8x16x1024x1024xf16>, tensor<8x16x1024x64xf16>) -> tensor<8x16x1024x64xf16>
  return %3 : tensor<8x16x1024x64xf16>
}

// -----

// f32 operands are not rounded: weights go through shared memory, within a warp. Remaining keys are
// processed one by one, without the mask.
// CHECK-LABEL: func.func @{{.*}}_add_softmax
// CHECK-SAME:    tir.rule = "Attention"
// CHECK:           memref.alloc() : memref<1x16x36xf32, #gpu.address_space<workgroup>>
// CHECK:           scf.for
// CHECK-COUNT-64:      math.fma
// CHECK:             scf.if
// CHECK:               vector.load %arg2{{.*}} vector<2xf32>
// CHECK:             } else {
// CHECK:               arith.minsi
// CHECK:               memref.load %arg2
// CHECK:               arith.select
// CHECK:             arith.subf
// CHECK:             math.exp2
// CHECK:             nvvm.bar.warp.sync
// CHECK:             scf.for
// CHECK:               vector.fma
// TF32-LABEL:  func.func @{{.*}}_add_softmax
// TF32-SAME:     tir.rule = "Attention"
// TF32-COUNT-16:   nvvm.mma.sync {{.*}}multiplicandAPtxType = #nvvm.mma_type<tf32>
// TF32:            math.exp2
// TF32:            nvvm.convert.float.to.tf32
// TF32:            nvvm.mma.sync
func.func @main(%q: tensor<2x50x32xf32>, %k: tensor<2x32x90xf32>, %m: tensor<50x90xf32>, %v: tensor<2x90x32xf32>) -> tensor<2x50x32xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<2x50x32xf32>, tensor<2x32x90xf32>) -> tensor<2x50x90xf32>
  %1 = "relax.add"(%0, %m) : (tensor<2x50x90xf32>, tensor<50x90xf32>) -> tensor<2x50x90xf32>
  %2 = "relax.nn_softmax"(%1) {axis = -1 : i64} : (tensor<2x50x90xf32>) -> tensor<2x50x90xf32>
  %3 = "relax.matmul"(%2, %v) {out_dtype} : (tensor<2x50x90xf32>, tensor<2x90x32xf32>) -> tensor<2x50x32xf32>
  return %3 : tensor<2x50x32xf32>
}

// -----

// Scores of f32 operands that a model rounds are rounded before the maximum.
// CHECK-LABEL: func.func @{{.*}}_cast_cast1_softmax
// CHECK-SAME:    tir.rule = "Attention"
// CHECK:           scf.for
// CHECK:             arith.truncf {{.*}} : vector<2xf32> to vector<2xf16>
// CHECK:             arith.extf {{.*}} : vector<2xf16> to vector<2xf32>
// CHECK:             arith.maximumf
func.func @main(%q: tensor<2x50x32xf32>, %k: tensor<2x32x96xf32>, %v: tensor<2x96x32xf32>) -> tensor<2x50x32xf32> {
  %0 = "relax.matmul"(%q, %k) {out_dtype} : (tensor<2x50x32xf32>, tensor<2x32x96xf32>) -> tensor<2x50x96xf32>
  %1 = "relax.astype"(%0) {dtype = f16} : (tensor<2x50x96xf32>) -> tensor<2x50x96xf16>
  %2 = "relax.astype"(%1) {dtype = f32} : (tensor<2x50x96xf16>) -> tensor<2x50x96xf32>
  %3 = "relax.nn_softmax"(%2) {axis = -1 : i64} : (tensor<2x50x96xf32>) -> tensor<2x50x96xf32>
  %4 = "relax.matmul"(%3, %v) {out_dtype} : (tensor<2x50x96xf32>, tensor<2x96x32xf32>) -> tensor<2x50x32xf32>
  return %4 : tensor<2x50x32xf32>
}

// -----

// Causal mask: tiles after a block's queries are skipped, and only the last tiles of the others
// mask scores. The scale is fused with the exponent.
// CHECK-LABEL: func.func @attention
// CHECK-SAME:    tir.rule = "Attention"
// CHECK:           %[[FIRST:.+]] = arith.muli %{{.+}}, %c128
// CHECK:           %[[ROWS:.+]] = arith.constant 128 : index
// CHECK:           %[[SEEN:.+]] = arith.addi %[[FIRST]], %[[ROWS]]
// CHECK:           %[[SOME:.+]] = arith.maxsi %[[SEEN]]
// CHECK:           %[[ALL:.+]] = arith.minsi %{{.+}}, %[[SOME]]
// CHECK:           scf.for
// CHECK:             scf.if
// CHECK-NOT:           arith.mulf
// CHECK:               scf.yield
// CHECK-NEXT:        } else {
// CHECK:               arith.cmpi sle
// CHECK:               %[[SCORE:.+]] = arith.select
// CHECK:               scf.yield %[[SCORE]],
func.func @main(%q: tensor<8x1024x16x64xf16>, %k: tensor<8x1024x16x64xf16>, %v: tensor<8x1024x16x64xf16>) -> tensor<8x1024x16x64xf16> {
  %0 = "relax.nn_attention"(%q, %k, %v) {scale, causal_mask = "TopLeft", window_size} : (tensor<8x1024x16x64xf16>, tensor<8x1024x16x64xf16>, tensor<8x1024x16x64xf16>) -> tensor<8x1024x16x64xf16>
  return %0 : tensor<8x1024x16x64xf16>
}

// -----

// Decoding: eight blocks split the keys of a head, and a second launch merges their results. A
// thread loads 16 bytes at once, of four keys.
// CHECK-LABEL: func.func @{{.*}}_softmax
// CHECK-SAME:    tir.rule = "Attention"
// CHECK:         memref.alloc() : memref<32x8x1x132xf32>
// CHECK:         gpu.launch
// CHECK:           scf.for
// CHECK-COUNT-8:     vector.load {{.*}} vector<4xf32>
// CHECK:             gpu.shuffle xor
// CHECK:           gpu.barrier
// CHECK:         gpu.launch
// CHECK:           memref.store {{.*}}, %arg3
func.func @main(%q: tensor<32x1x128xf32>, %k: tensor<32x2048x128xf32>, %v: tensor<32x2048x128xf32>) -> tensor<32x1x128xf32> {
  %t = "relax.permute_dims"(%k) {axes = array<i64: 0, 2, 1>} : (tensor<32x2048x128xf32>) -> tensor<32x128x2048xf32>
  %0 = "relax.matmul"(%q, %t) {out_dtype} : (tensor<32x1x128xf32>, tensor<32x128x2048xf32>) -> tensor<32x1x2048xf32>
  %1 = "relax.nn_softmax"(%0) {axis = -1 : i64} : (tensor<32x1x2048xf32>) -> tensor<32x1x2048xf32>
  %2 = "relax.matmul"(%1, %v) {out_dtype} : (tensor<32x1x2048xf32>, tensor<32x2048x128xf32>) -> tensor<32x1x128xf32>
  return %2 : tensor<32x1x128xf32>
}
