// RUN: relax-opt %s -p relax-legalize,relax-fuse-ops,tir-fuse,tir-to-linalg,schedule-apply-gpu{sm=80} --split-input-file | filecheck %s
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-to-linalg,schedule-apply-gpu{sm=80 tf32=true}" --split-input-file | filecheck %s --check-prefix=TF32
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-to-linalg,schedule-apply-gpu{sm=80 only=Fallback}" --split-input-file | filecheck %s --check-prefix=ONLY
// RUN: relax-opt %s -p "relax-legalize,relax-fuse-ops,tir-fuse,tir-to-linalg,schedule-apply-gpu{sm=80},schedule-align-vectors" --split-input-file | filecheck %s --check-prefix=ALIGNED

// Four contiguous elements per thread; the last block has idle threads.
// CHECK-LABEL: func.func @{{.*}}exp
// CHECK-SAME:    tir.rule = "Elementwise"
// CHECK:         gpu.launch blocks(%[[B:[a-z0-9]+]],{{.*}}) threads(%[[T:[a-z0-9]*]],
// CHECK:           %[[N:.*]] = arith.constant 256
// CHECK:           %[[F:.*]] = arith.muli %[[B]], %[[N]]
// CHECK:           %[[P:.*]] = arith.addi %[[F]], %[[T]]
// CHECK:           %[[E:.*]] = arith.constant 300
// CHECK:           arith.cmpi ult, %[[P]], %[[E]]
// CHECK:           vector.load %arg0{{.*}} vector<4xf32>
// CHECK:           math.exp {{.*}} : vector<4xf32>
// CHECK:           vector.store {{.*}} vector<4xf32>
// Row lengths are no multiples of 16 bytes, but the concatenated rows are.
// ALIGNED-LABEL: func.func @{{.*}}exp
// ALIGNED:         vector.load %arg0{{.*}} {alignment = 16 : i64} : memref<24x50xf32>
// ALIGNED:         vector.store {{.*}} {alignment = 16 : i64} : memref<24x50xf32>
// ONLY-LABEL:  func.func @{{.*}}exp
// ONLY-SAME:     tir.rule = "Fallback"
// ONLY:          memref.load %arg0
// ONLY-NEXT:     math.exp {{.*}} : f32
// ONLY-NEXT:     memref.store
func.func @main(%x: tensor<24x50xf32>) -> tensor<24x50xf32> {
  %y = "relax.exp"(%x) : (tensor<24x50xf32>) -> tensor<24x50xf32>
  return %y : tensor<24x50xf32>
}

// -----

// A block per row; each thread keeps its part in registers, and partial sums of warps go through
// shared memory.
// CHECK-LABEL: func.func @softmax
// CHECK-SAME:    tir.rule = "RowReduction"
// CHECK:         gpu.launch
// CHECK:           memref.alloca() {alignment = 16 : i64} : memref<16xf32>
// CHECK:           vector.load %arg0{{.*}} vector<4xf32>
// CHECK:           arith.maximumf
// CHECK:           vector.reduction <maximumf>
// CHECK-COUNT-5:   gpu.shuffle xor
// CHECK:           memref.alloc() : memref<8xf32, #gpu.address_space<workgroup>>
// CHECK:           gpu.barrier
// CHECK-COUNT-3:   gpu.shuffle xor
// CHECK:           math.exp
// CHECK:           vector.reduction <add>
// CHECK:           gpu.barrier
// CHECK:           vector.store
// CHECK-NOT:     gpu.launch
// Without the rule there is a launch per statement.
// ONLY-LABEL:  func.func @softmax
// ONLY-COUNT-4:  gpu.launch
func.func @main(%x: tensor<1024x4096xf32>) -> tensor<1024x4096xf32> {
  %y = "relax.nn_softmax"(%x) {axis = -1 : i64} : (tensor<1024x4096xf32>) -> tensor<1024x4096xf32>
  return %y : tensor<1024x4096xf32>
}

// -----

// More threads share each of few rows, with vector loads. Six warps have partial sums; the others
// of eight contribute the identity.
// CHECK-LABEL: func.func @softmax
// CHECK-SAME:    tir.rule = "RowReduction"
// CHECK:         %[[THREADS:.+]] = arith.constant 192 : index
// CHECK:         gpu.launch blocks{{.*}} threads({{.*}} = %[[THREADS]],
// CHECK-NOT:       scf.for
// CHECK:           vector.load %arg0{{.*}} vector<4xf32>
// CHECK-COUNT-5:   gpu.shuffle xor
// CHECK:           memref.alloc() : memref<6xf32, #gpu.address_space<workgroup>>
// CHECK:           arith.select
// CHECK-COUNT-3:   gpu.shuffle xor
func.func @main(%x: tensor<8x768xf32>) -> tensor<8x768xf32> {
  %y = "relax.nn_softmax"(%x) {axis = -1 : i64} : (tensor<8x768xf32>) -> tensor<8x768xf32>
  return %y : tensor<8x768xf32>
}

// -----

// 16-bit elements are loaded 16 bytes at a time: along rows, and across points.
// CHECK-LABEL: func.func @sum
// CHECK:         vector.load %arg0{{.*}} vector<8xf16>
// CHECK-LABEL: func.func @tir_negative(
// CHECK:         vector.load %arg0{{.*}} vector<8xf16>
// CHECK-LABEL: func.func @tir_negative1(
// CHECK:         vector.load %arg0{{.*}} vector<4xf16>
func.func @main(%x: tensor<4x1024xf16>, %y: tensor<1024x2048xf16>, %z: tensor<64x64xf16>) -> (tensor<4xf16>, tensor<1024x2048xf16>, tensor<64x64xf16>) {
  %0 = "relax.sum"(%x) {axis = array<i64: 1>, keepdims = false} : (tensor<4x1024xf16>) -> tensor<4xf16>
  %1 = "relax.negative"(%y) : (tensor<1024x2048xf16>) -> tensor<1024x2048xf16>
  %2 = "relax.negative"(%z) : (tensor<64x64xf16>) -> tensor<64x64xf16>
  return %0, %1, %2 : tensor<4xf16>, tensor<1024x2048xf16>, tensor<64x64xf16>
}

// -----

// A GEMV: a thread prefetches its part of a matrix row before it waits for the previous launch, and
// reads it afterwards.
// CHECK-LABEL: func.func @dense
// CHECK-SAME:    tir.rule = "Gemv"
// CHECK:         gpu.launch
// CHECK:           memref.prefetch %arg1{{.*}} memref<96x768xf16>
// CHECK:           nvvm.griddepcontrol wait
// CHECK:           vector.load %arg1{{.*}} vector<8xf16>
func.func @main(%x: tensor<1x768xf16>, %w: tensor<96x768xf16>) -> tensor<1x96xf32> {
  %y = "relax.nn_dense"(%x, %w) {out_dtype = f32} : (tensor<1x768xf16>, tensor<96x768xf16>) -> tensor<1x96xf32>
  return %y : tensor<1x96xf32>
}

// -----

// Two stages of each operand in shared memory; a thread has eight rows by eight columns, and
// computes the epilogue on them.
// CHECK-LABEL: func.func @{{.*}}matmul
// CHECK-SAME:    tir.rule = "GemmSimt"
// TF32-LABEL:  func.func @{{.*}}matmul
// TF32-SAME:     tir.rule = "GemmMmaSync"
// TF32:          nvvm.convert.float.to.tf32
// TF32:          nvvm.mma.sync
// CHECK:         memref.alloc() : memref<2x8x132xf32, #gpu.address_space<workgroup>>
// CHECK:         memref.alloc() : memref<2x8x132xf32, #gpu.address_space<workgroup>>
// CHECK:         gpu.barrier
// CHECK:         scf.for {{.*}} iter_args
// CHECK:           vector.load {{.*}} : memref<{{.*}}xf32>, vector<4xf32>
// CHECK-COUNT-128: vector.fma
// CHECK:           gpu.barrier
// CHECK-NEXT:      scf.yield
// CHECK:         arith.select {{.*}} vector<4xf32>
// CHECK:         vector.store
// CHECK-NOT:     gpu.launch
func.func @main(%x: tensor<2048x256xf32>, %w: tensor<256x2048xf32>) -> tensor<2048x2048xf32> {
  %p = "relax.matmul"(%x, %w) {out_dtype} : (tensor<2048x256xf32>, tensor<256x2048xf32>) -> tensor<2048x2048xf32>
  %y = "relax.nn_relu"(%p) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
  return %y : tensor<2048x2048xf32>
}

// -----

// f16 operands on tensor cores: a warp has 64 rows by 32 columns. Three stages are in flight while
// one is multiplied.
// CHECK-LABEL: func.func @{{.*}}matmul
// CHECK-SAME:    tir.rule = "GemmMmaSync"
// CHECK:         memref.alloc() : memref<4x128x40xf16, #gpu.address_space<workgroup>>
// CHECK:         memref.alloc() : memref<4x32x136xf16, #gpu.address_space<workgroup>>
// CHECK:         nvgpu.device_async_copy %{{.*}}, 8, %{{.*}} {bypassL1}
// CHECK-COUNT-3: nvvm.cp.async.commit.group
// CHECK:         scf.for
// CHECK:         nvvm.cp.async.wait.group 2
// CHECK-NEXT:    gpu.barrier
// CHECK:         nvvm.cp.async.commit.group
// CHECK:         nvgpu.ldmatrix {{.*}} {numTiles = 4 : i32, transpose = false}
// CHECK:         nvgpu.ldmatrix {{.*}} {numTiles = 4 : i32, transpose = true}
// CHECK-COUNT-32: nvvm.mma.sync
// CHECK:         scf.yield
func.func @main(%x: tensor<2048x256xf16>, %w: tensor<256x2048xf16>) -> tensor<2048x2048xf32> {
  %p = "relax.matmul"(%x, %w) {out_dtype = f32} : (tensor<2048x256xf16>, tensor<256x2048xf16>) -> tensor<2048x2048xf32>
  return %p : tensor<2048x2048xf32>
}

// -----

// A row times a matrix of contiguous columns: threads split K.
// CHECK-LABEL: func.func @matmul
// CHECK-SAME:    tir.rule = "Gemv"
// CHECK:         scf.for {{.*}} iter_args({{.*}}) -> (vector<4xf32>)
// CHECK-COUNT-8: gpu.shuffle xor
// CHECK:         gpu.barrier
// ONLY-LABEL:  func.func @matmul
// ONLY-SAME:     tir.rule = "Fallback"
func.func @main(%x: tensor<1x1024xf32>, %w: tensor<1024x768xf32>) -> tensor<1x768xf32> {
  %p = "relax.matmul"(%x, %w) {out_dtype} : (tensor<1x1024xf32>, tensor<1024x768xf32>) -> tensor<1x768xf32>
  return %p : tensor<1x768xf32>
}

// -----

// A pooling window is strided: a thread per result.
// CHECK-LABEL: func.func @{{.*}}pool
// CHECK-SAME:    tir.rule = "ColumnReduction"
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:         memref.store
func.func @main(%x: tensor<1x64x64x64xf32>) -> tensor<1x64x32x32xf32> {
  %y = "relax.nn_max_pool2d"(%x) {ceil_mode = false, count_include_pad = false, dilation = array<i64: 1, 1>, layout = "NCHW", out_layout, padding = array<i64: 0, 0, 0, 0>, pool_size = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x64x64x64xf32>) -> tensor<1x64x32x32xf32>
  return %y : tensor<1x64x32x32xf32>
}

// -----

// The inputs of a concatenation are blocks of one launch.
// CHECK-LABEL: func.func @concat
// CHECK-SAME:    tir.rule = "MultiOutput"
// CHECK:         gpu.launch blocks(%[[B:[a-z0-9]+]],
// CHECK:           arith.cmpi ult, %[[B]], %c1
// CHECK:           vector.store
// CHECK:         } else {
// CHECK:           arith.subi %[[B]]
// CHECK-NOT:     gpu.launch
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x16xf32>) -> tensor<4x24xf32> {
  %t = builtin.unrealized_conversion_cast %x, %y : tensor<4x8xf32>, tensor<4x16xf32> to tuple<tensor<4x8xf32>, tensor<4x16xf32>>
  %z = "relax.concat"(%t) {axis = 1 : i64} : (tuple<tensor<4x8xf32>, tensor<4x16xf32>>) -> tensor<4x24xf32>
  return %z : tensor<4x24xf32>
}

// -----

// The outer axis of a running sum is bound to threads; the inner one is sequential.
// CHECK-LABEL: func.func @cumsum
// CHECK-SAME:    tir.rule = "Fallback"
// CHECK:         gpu.launch
// CHECK:           arith.cmpi ult
// CHECK:           scf.for
func.func @main(%x: tensor<300x7xf32>) -> tensor<300x7xf32> {
  %y = "relax.cumsum"(%x) {axis = 1 : i64, dtype, exclusive = false} : (tensor<300x7xf32>) -> tensor<300x7xf32>
  return %y : tensor<300x7xf32>
}

// -----

// Nothing reads the temporary: the statement that did has no points.
// CHECK-LABEL: func.func @unread
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     memref.store
// CHECK:         return
func.func @unread(%x: memref<2x3xf32>, %o: memref<2x0xf32>) attributes {tir.prim_func, tir.num_outputs = 1 : i64} {
  %t = "tir.alloc_buffer"() {shape = #relax.shape<["2", "3"]>} : () -> memref<2x3xf32>
  "tir.block"() ({
  }, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %x[%i, %j] : memref<2x3xf32>
    %b = arith.addf %a, %a : f32
    memref.store %b, %t[%i, %j] : memref<2x3xf32>
    gpu.yield
  }) {name = "twice", kinds = "SS", static_extents = array<i64: 2, 3>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  "tir.block"() ({
  }, {
  ^bb0(%i: index, %j: index):
    %a = memref.load %t[%i, %j] : memref<2x3xf32>
    memref.store %a, %o[%i, %j] : memref<2x0xf32>
    gpu.yield
  }) {name = "none", kinds = "SS", static_extents = array<i64: 2, 0>, operandSegmentSizes = array<i32: 0, 0>} : () -> ()
  return
}
