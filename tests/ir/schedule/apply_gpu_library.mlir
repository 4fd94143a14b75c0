// RUN: relax-opt %s -p "schedule-apply-gpu{sm=90 library=always}" --split-input-file | filecheck %s
// RUN: relax-opt %s -p "schedule-apply-gpu{sm=90 tf32=true library=always}" --split-input-file | filecheck %s --check-prefix=TF32
// RUN: relax-opt %s -p "schedule-apply-gpu{sm=90 library=auto}" --split-input-file | filecheck %s --check-prefix=AUTO
// RUN: relax-opt %s -p "schedule-apply-gpu{sm=90}" --split-input-file | filecheck %s --check-prefix=NEVER

// A matmul, a bias and a ReLU are one call: sizes, leading dimensions, batch strides, bias. A small
// K is not worth it.
// CHECK-LABEL: func.func @layer
// CHECK-SAME:    tir.rule = "CublasLt"
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     gpu.launch
// CHECK:         %[[X:.*]] = memref.reinterpret_cast %arg0
// CHECK:         %[[W:.*]] = memref.reinterpret_cast %arg1
// CHECK:         %[[Y:.*]] = memref.reinterpret_cast %arg3
// CHECK:         "tir.library_product"(%[[X]], %[[W]], %[[Y]],
// CHECK-SAME:      activation = "relu"
// CHECK-SAME:      tf32 = false
// CHECK-SAME:      turned = [false, false]
// TF32-LABEL:  func.func @layer
// TF32:          "tir.library_product"
// TF32-SAME:       tf32 = true
// AUTO-LABEL:  func.func @layer
// AUTO-NOT:      tir.library_product
// NEVER-LABEL: func.func @layer
// NEVER-NOT:     tir.library_product
#row = affine_map<(d0, d1) -> (d0, d1)>
#bias = affine_map<(d0, d1) -> (d1)>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#d = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @layer(%x: memref<30x16xf32>, %w: memref<16x20xf32>, %v: memref<20xf32>,
                 %y: memref<30x20xf32>) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %t = memref.alloc() : memref<30x20xf32>
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel"]}
    outs(%t : memref<30x20xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : memref<30x16xf32>, memref<16x20xf32>) outs(%t : memref<30x20xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %out, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#row, #bias, #row], iterator_types = ["parallel", "parallel"]}
    ins(%t, %v : memref<30x20xf32>, memref<20xf32>) outs(%y : memref<30x20xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %s = arith.addf %l, %r : f32
    %zero = arith.constant 0.0 : f32
    %m = arith.maximumf %s, %zero : f32
    linalg.yield %m : f32
  }
  return
}

// -----

// Both operands are transposed, in a batch that the second, at an offset of three rows, does not
// have. f16 operands give an f16 result.
// CHECK-LABEL: func.func @turned
// CHECK:         %[[W:.*]] = memref.reinterpret_cast {{.*}} offset: [32]
// CHECK-NEXT:    %[[MANY:.*]] = arith.constant 3 : index
// CHECK-NEXT:    %[[ROWS:.*]] = arith.constant 30 : index
// CHECK:         "tir.library_product"({{.*}}, %[[W]], {{.*}}, %[[MANY]], %[[ROWS]],
// CHECK-SAME:      activation = "none"
// CHECK-SAME:      turned = [true, true]
// AUTO-LABEL:  func.func @turned
// AUTO-NOT:      tir.library_product
#row3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#xt = affine_map<(d0, d1, d2, d3) -> (d0, d3, d1)>
#wt = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
#yt = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
func.func @turned(%x: memref<3x16x30xf16>, %w: memref<22x16xf16>, %y: memref<3x30x20xf16>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %t = memref.alloc() : memref<3x30x20xf32>
  %part = memref.subview %w[2, 0] [20, 16] [1, 1] {tir.kept = array<i64: 0, 1>}
    : memref<22x16xf16> to memref<20x16xf16, strided<[16, 1], offset: 32>>
  linalg.generic {indexing_maps = [#row3], iterator_types = ["parallel", "parallel", "parallel"]}
    outs(%t : memref<3x30x20xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#xt, #wt, #yt],
                  iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %part : memref<3x16x30xf16>, memref<20x16xf16, strided<[16, 1], offset: 32>>)
    outs(%t : memref<3x30x20xf32>) {
  ^bb0(%l: f16, %r: f16, %out: f32):
    %a = arith.extf %l : f16 to f32
    %b = arith.extf %r : f16 to f32
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %out, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#row3, #row3],
                  iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%t : memref<3x30x20xf32>) outs(%y : memref<3x30x20xf16>) {
  ^bb0(%l: f32, %out: f16):
    %h = arith.truncf %l : f32 to f16
    linalg.yield %h : f16
  }
  return
}

// -----

// An epilogue that the library lacks is a launch; with `auto`, the whole kernel is one.
// CHECK-LABEL: func.func @then_exp
// CHECK-SAME:    tir.rule = "CublasLt"
// CHECK:         %[[T:.*]] = memref.alloc
// CHECK:         %[[F:.*]] = memref.reinterpret_cast %[[T]]
// CHECK:         "tir.library_product"({{.*}}, {{.*}}, %[[F]],
// CHECK:         gpu.launch
// CHECK:           math.exp
// AUTO-LABEL:  func.func @then_exp
// AUTO-SAME:     tir.rule = "GemmSimt"
#row = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#d = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @then_exp(%x: memref<512x512xf32>, %w: memref<512x512xf32>, %y: memref<512x512xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %t = memref.alloc() : memref<512x512xf32>
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel"]}
    outs(%t : memref<512x512xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : memref<512x512xf32>, memref<512x512xf32>) outs(%t : memref<512x512xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %out, %p : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel"]}
    ins(%t : memref<512x512xf32>) outs(%y : memref<512x512xf32>) {
  ^bb0(%l: f32, %out: f32):
    %e = math.exp %l : f32
    linalg.yield %e : f32
  }
  return
}

// -----

// Alone it is worth a call.
// AUTO-LABEL: func.func @large
// AUTO-SAME:    tir.rule = "CublasLt"
// AUTO:         "tir.library_product"
// AUTO-NOT:     gpu.launch
// NEVER-LABEL: func.func @large
// NEVER-SAME:    tir.rule = "GemmSimt"
#row = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#d = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @large(%x: memref<512x512xf32>, %w: memref<512x512xf32>, %y: memref<512x512xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel"]}
    outs(%y : memref<512x512xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%x, %w : memref<512x512xf32>, memref<512x512xf32>) outs(%y : memref<512x512xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %out, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Zero padding of rows is not in memory: a kernel is used.
// AUTO-LABEL: func.func @zeros_before
// CHECK-LABEL: func.func @zeros_before
// CHECK-SAME:    tir.rule = "GemmSimt"
// CHECK-NOT:     tir.library_product
#row = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#d = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @zeros_before(%x: memref<30x16xf32>, %w: memref<16x20xf32>, %y: memref<32x20xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %p = memref.alloc() : memref<32x16xf32>
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel"]}
    outs(%p : memref<32x16xf32>) attrs = {tir.pad = array<i64: 2, 0>} {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %two = arith.constant 2 : index
    %s = arith.subi %i, %two : index
    %none = arith.constant 0 : index
    %in = arith.cmpi sge, %s, %none : index
    %zero = arith.constant 0.0 : f32
    %e = scf.if %in -> f32 {
      %l = memref.load %x[%s, %j] : memref<30x16xf32>
      scf.yield %l : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel"]}
    outs(%y : memref<32x20xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%p, %w : memref<32x16xf32>, memref<16x20xf32>) outs(%y : memref<32x20xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}
