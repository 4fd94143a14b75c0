// RUN: relax-opt %s -p "schedule-apply-gpu{sm=90 library=always}" --split-input-file | filecheck %s
// RUN: relax-opt %s -p "schedule-apply-gpu{sm=90 tf32=true library=always}" --split-input-file | filecheck %s --check-prefix=TF32
// RUN: relax-opt %s -p "schedule-apply-gpu{sm=90 library=auto}" --split-input-file | filecheck %s --check-prefix=AUTO
// RUN: relax-opt %s -p "schedule-apply-gpu{sm=90}" --split-input-file | filecheck %s --check-prefix=NEVER

// A convolution and a ReLU are one call. A small K is not worth it.
// CHECK-LABEL: func.func @layer
// CHECK-SAME:    tir.rule = "Cudnn"
// CHECK-NOT:     memref.alloc
// CHECK-NOT:     gpu.launch
// CHECK:         %[[X:.*]] = memref.reinterpret_cast %arg0
// CHECK:         %[[W:.*]] = memref.reinterpret_cast %arg1
// CHECK:         %[[Y:.*]] = memref.reinterpret_cast %arg2
// CHECK:         %[[N:.*]] = arith.constant 2 : index
// CHECK:         "tir.library_convolution"(%[[X]], %[[W]], %[[Y]], %[[N]])
// CHECK-SAME:      activation = "relu"
// CHECK-SAME:      channels_last = false
// CHECK-SAME:      counts = array<i64: 4, 6, 1>
// CHECK-SAME:      image_strides = array<i64: 324, 81, 9, 1>
// CHECK-SAME:      result_sizes = array<i64: 7, 7>
// CHECK-SAME:      tf32 = false
// CHECK-SAME:      window_sizes = array<i64: 3, 3>
// TF32-LABEL:  func.func @layer
// TF32:          "tir.library_convolution"
// TF32-SAME:       tf32 = true
// AUTO-LABEL:  func.func @layer
// AUTO-NOT:      tir.library_convolution
// NEVER-LABEL: func.func @layer
// NEVER-NOT:     tir.library_convolution
#row = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#a = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 + d5, d3 + d6)>
#b = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
#d = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
func.func @layer(%x: memref<2x4x9x9xf32>, %w: memref<6x4x3x3xf32>, %y: memref<2x6x7x7xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %t = memref.alloc() : memref<2x6x7x7xf32>
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%t : memref<2x6x7x7xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : memref<2x4x9x9xf32>, memref<6x4x3x3xf32>) outs(%t : memref<2x6x7x7xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    ins(%t : memref<2x6x7x7xf32>) outs(%y : memref<2x6x7x7xf32>) {
  ^bb0(%l: f32, %out: f32):
    %zero = arith.constant 0.0 : f32
    %m = arith.maximumf %l, %zero : f32
    linalg.yield %m : f32
  }
  return
}

// -----

// Implicit padding is done by the library, if it is symmetric. Channels are
// last.
// CHECK-LABEL: func.func @pads
// CHECK-SAME:    tir.rule = "Cudnn"
// CHECK-NOT:     memref.alloc
// CHECK:         "tir.library_convolution"(
// CHECK-SAME:      channels_last = true
// CHECK-SAME:      counts = array<i64: 4, 6, 1>
// CHECK-SAME:      dilations = array<i64: 3, 1>
// CHECK-SAME:      image_sizes = array<i64: 9, 8>
// CHECK-SAME:      image_strides = array<i64: 288, 1, 32, 4>
// CHECK-SAME:      pads = array<i64: 2, 1>
// CHECK-SAME:      steps = array<i64: 2, 1>
#row = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#a = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 * 2 + d4 * 3, d2 + d5, d6)>
#b = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6)>
#d = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
func.func @pads(%x: memref<2x9x8x4xf32>, %w: memref<6x3x3x4xf32>, %y: memref<2x4x8x6xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %p = memref.alloc() : memref<2x13x10x4xf32>
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%p : memref<2x13x10x4xf32>) attrs = {tir.pad = array<i64: 0, 2, 1, 0>} {
  ^bb0(%out: f32):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %b1 = arith.constant 2 : index
    %s1 = arith.subi %i1, %b1 : index
    %i2 = linalg.index 2 : index
    %b2 = arith.constant 1 : index
    %s2 = arith.subi %i2, %b2 : index
    %i3 = linalg.index 3 : index
    %none = arith.constant 0 : index
    %n1 = arith.constant 9 : index
    %f1 = arith.cmpi sge, %s1, %none : index
    %l1 = arith.cmpi slt, %s1, %n1 : index
    %c1 = arith.andi %f1, %l1 : i1
    %n2 = arith.constant 8 : index
    %f2 = arith.cmpi sge, %s2, %none : index
    %l2 = arith.cmpi slt, %s2, %n2 : index
    %c2 = arith.andi %f2, %l2 : i1
    %in0 = arith.andi %c1, %c2 : i1
    %zero = arith.constant 0.0 : f32
    %e = scf.if %in0 -> f32 {
      %v = memref.load %x[%i0, %s1, %s2, %i3] : memref<2x9x8x4xf32>
      scf.yield %v : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%y : memref<2x4x8x6xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %w : memref<2x13x10x4xf32>, memref<6x3x3x4xf32>) outs(%y : memref<2x4x8x6xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Asymmetric padding is not passed to the library.
// CHECK-LABEL: func.func @before_alone
// CHECK-NOT:     tir.library_convolution
// CHECK:         gpu.launch
#row = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#a = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 + d5, d3 + d6)>
#b = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
#d = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
func.func @before_alone(%x: memref<2x4x9x9xf32>, %w: memref<6x4x3x3xf32>, %y: memref<2x6x9x7xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %p = memref.alloc() : memref<2x4x11x9xf32>
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%p : memref<2x4x11x9xf32>) attrs = {tir.pad = array<i64: 0, 0, 2, 0>} {
  ^bb0(%out: f32):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %i2 = linalg.index 2 : index
    %b2 = arith.constant 2 : index
    %s2 = arith.subi %i2, %b2 : index
    %i3 = linalg.index 3 : index
    %none = arith.constant 0 : index
    %n2 = arith.constant 9 : index
    %f2 = arith.cmpi sge, %s2, %none : index
    %l2 = arith.cmpi slt, %s2, %n2 : index
    %c2 = arith.andi %f2, %l2 : i1
    %zero = arith.constant 0.0 : f32
    %e = scf.if %c2 -> f32 {
      %v = memref.load %x[%i0, %i1, %s2, %i3] : memref<2x4x9x9xf32>
      scf.yield %v : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%y : memref<2x6x9x7xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %w : memref<2x4x11x9xf32>, memref<6x4x3x3xf32>) outs(%y : memref<2x6x9x7xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Padding of channels is not padding of windows.
// CHECK-LABEL: func.func @more_channels
// CHECK-NOT:     tir.library_convolution
// CHECK:         gpu.launch
#row = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#a = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 + d5, d3 + d6)>
#b = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
#d = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
func.func @more_channels(%x: memref<2x4x9x9xf32>, %w: memref<6x5x3x3xf32>, %y: memref<2x6x7x7xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %p = memref.alloc() : memref<2x5x9x9xf32>
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%p : memref<2x5x9x9xf32>) attrs = {tir.pad = array<i64: 0, 0, 0, 0>} {
  ^bb0(%out: f32):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %i2 = linalg.index 2 : index
    %i3 = linalg.index 3 : index
    %none = arith.constant 0 : index
    %n1 = arith.constant 4 : index
    %f1 = arith.cmpi sge, %i1, %none : index
    %l1 = arith.cmpi slt, %i1, %n1 : index
    %c1 = arith.andi %f1, %l1 : i1
    %zero = arith.constant 0.0 : f32
    %e = scf.if %c1 -> f32 {
      %v = memref.load %x[%i0, %i1, %i2, %i3] : memref<2x4x9x9xf32>
      scf.yield %v : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%y : memref<2x6x7x7xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %w : memref<2x5x9x9xf32>, memref<6x5x3x3xf32>) outs(%y : memref<2x6x7x7xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Padding of the batch is none either.
// CHECK-LABEL: func.func @more_pictures
// CHECK-NOT:     tir.library_convolution
// CHECK:         gpu.launch
#row = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#a = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 + d5, d3 + d6)>
#b = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
#d = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
func.func @more_pictures(%x: memref<2x4x9x9xf32>, %w: memref<6x4x3x3xf32>, %y: memref<3x6x7x7xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  %p = memref.alloc() : memref<3x4x9x9xf32>
  linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%p : memref<3x4x9x9xf32>) attrs = {tir.pad = array<i64: 0, 0, 0, 0>} {
  ^bb0(%out: f32):
    %i0 = linalg.index 0 : index
    %i1 = linalg.index 1 : index
    %i2 = linalg.index 2 : index
    %i3 = linalg.index 3 : index
    %none = arith.constant 0 : index
    %n0 = arith.constant 2 : index
    %f0 = arith.cmpi sge, %i0, %none : index
    %l0 = arith.cmpi slt, %i0, %n0 : index
    %c0 = arith.andi %f0, %l0 : i1
    %zero = arith.constant 0.0 : f32
    %e = scf.if %c0 -> f32 {
      %v = memref.load %x[%i0, %i1, %i2, %i3] : memref<2x4x9x9xf32>
      scf.yield %v : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%y : memref<3x6x7x7xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%p, %w : memref<3x4x9x9xf32>, memref<6x4x3x3xf32>) outs(%y : memref<3x6x7x7xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// Each group of two channels has three filters; groups are an axis of the result.
// CHECK-LABEL: func.func @groups
// CHECK-SAME:    tir.rule = "Cudnn"
// CHECK:         "tir.library_convolution"(
// CHECK-SAME:      counts = array<i64: 8, 12, 4>
// CHECK-SAME:      result_strides = array<i64: 588, 49, 7, 1>
#row = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#a = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1 * 2 + d5, d3 + d6, d4 + d7)>
#b = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d1 * 3 + d2, d5, d6, d7)>
#d = affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, d1, d2, d3, d4)>
func.func @groups(%x: memref<2x8x9x9xf32>, %w: memref<12x2x3x3xf32>, %y: memref<2x4x3x7x7xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
    outs(%y : memref<2x4x3x7x7xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : memref<2x8x9x9xf32>, memref<12x2x3x3xf32>) outs(%y : memref<2x4x3x7x7xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// A flipped kernel is another convolution.
// CHECK-LABEL: func.func @turned_around
// CHECK-NOT:     tir.library_convolution
// CHECK:         gpu.launch
#row = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#a = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d4, d2 - d5 + 2, d3 + d6)>
#b = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d1, d4, d5, d6)>
#d = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
func.func @turned_around(%x: memref<2x4x9x9xf32>, %w: memref<6x4x3x3xf32>, %y: memref<2x6x7x7xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%y : memref<2x6x7x7xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : memref<2x4x9x9xf32>, memref<6x4x3x3xf32>) outs(%y : memref<2x6x7x7xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// A layer with large K, in a single layout, is worth a call.
// AUTO-LABEL: func.func @large
// AUTO-SAME:    tir.rule = "Cudnn"
// AUTO:         "tir.library_convolution"
// AUTO-NOT:     gpu.launch
// NEVER-LABEL: func.func @large
// NEVER-SAME:    tir.rule = "GemmSimt"
#row = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#a = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1 + d4, d2 + d5, d6)>
#b = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6)>
#d = affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>
func.func @large(%x: memref<8x34x34x64xf32>, %w: memref<64x3x3x64xf32>, %y: memref<8x32x32x64xf32>)
    attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
  linalg.generic {indexing_maps = [#row], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
    outs(%y : memref<8x32x32x64xf32>) {
  ^bb0(%out: f32):
    %zero = arith.constant 0.0 : f32
    linalg.yield %zero : f32
  }
  linalg.generic {indexing_maps = [#a, #b, #d],
                  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
    ins(%x, %w : memref<8x34x34x64xf32>, memref<64x3x3x64xf32>) outs(%y : memref<8x32x32x64xf32>) {
  ^bb0(%l: f32, %r: f32, %out: f32):
    %m = arith.mulf %l, %r : f32
    %s = arith.addf %out, %m : f32
    linalg.yield %s : f32
  }
  return
}
