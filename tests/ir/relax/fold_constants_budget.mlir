// RUN: relax-opt %s -p relax-fold-constants | filecheck %s
// RUN: relax-opt %s -p relax-fold-constants{max-bytes=4096} | filecheck %s --check-prefix=SPACE
// RUN: relax-opt %s -p relax-fold-constants{max-time-ms=0} | filecheck %s --check-prefix=TIME

// A pooling visits each of its 144 windows: it is computed at run time if the budget of memory or
// time is too small.
// CHECK-LABEL: func.func @pool
// CHECK-NOT:     relax.nn_max_pool2d
// SPACE-LABEL: func.func @pool
// SPACE:         relax.nn_max_pool2d
// TIME-LABEL:  func.func @pool
// TIME:          relax.nn_max_pool2d
func.func @pool() -> tensor<1x1x12x12xf32> {
  %0 = "relax.constant"() {value = dense<1.0> : tensor<1x1x16x16xf32>} : () -> tensor<1x1x16x16xf32>
  %1 = "relax.nn_max_pool2d"(%0) {pool_size = array<i64: 5, 5>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, ceil_mode = false, count_include_pad = false, layout = "NCHW", out_layout} : (tensor<1x1x16x16xf32>) -> tensor<1x1x12x12xf32>
  return %1 : tensor<1x1x12x12xf32>
}
