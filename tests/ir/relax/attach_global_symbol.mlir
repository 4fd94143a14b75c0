// RUN: relax-opt %s -p relax-attach-global-symbol --split-input-file | filecheck %s

// A private function becomes public.
// CHECK: func.func @helper
func.func private @helper(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----

// A module attribute may give a prefix of tensor programs' names.
// CHECK:       func.func @main
// CHECK:         callee = @mine_copy
// CHECK:       func.func @mine_copy
module attributes {relax.attrs = {system_lib_prefix = "mine_"}} {
  func.func @main(%x: tensor<2xf32> {relax.name = "x"}) -> tensor<2xf32> {
    %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
    %1 = "relax.call_tir"(%0) {callee = @copy, sizes = #relax.shape<[]>, relax.dataflow = -1 : i64, relax.name = "y"} : (tuple<tensor<2xf32>>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
  func.func private @copy(%a: memref<2xf32>, %b: memref<2xf32>) attributes {tir.num_outputs = 1 : i64, tir.prim_func} {
    return
  }
}
