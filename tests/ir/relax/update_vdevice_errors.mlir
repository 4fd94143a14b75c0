// RUN: relax-opt %s -p 'relax-update-vdevice{index=2}' --expect-error | filecheck %s
// RUN: relax-opt %s -p 'relax-update-vdevice{index=1}' --expect-error | filecheck %s --check-prefix=NEW

// CHECK: the module lists 2 virtual devices: expected an index into them, got 2
// NEW: expected a new virtual device, got None
module attributes {relax.global_infos = {vdevice = [["llvm", 0, "global"], ["cuda", 0, "global"]]}} {
  func.func @main(%x: tensor<3x7xf32, #relax.shape<[["3", "7"], "llvm:0:global"]>> {relax.name = "x"}, %y: tensor<3x7xf32> {relax.name = "y"}) -> tensor<3x7xf32> {
    %0 = builtin.unrealized_conversion_cast %x, %y : tensor<3x7xf32, #relax.shape<[["3", "7"], "llvm:0:global"]>>, tensor<3x7xf32> to tuple<tensor<3x7xf32, #relax.shape<[["3", "7"], "llvm:0:global"]>>, tensor<3x7xf32>>
    %1 = "relax.call_operator"(%0) {attrs = {}, operator = "relax.add", relax.dataflow = -1 : i64, relax.name = "a", types = []} : (tuple<tensor<3x7xf32, #relax.shape<[["3", "7"], "llvm:0:global"]>>, tensor<3x7xf32>>) -> tensor<3x7xf32>
    %2 = builtin.unrealized_conversion_cast %1 : tensor<3x7xf32> to tuple<tensor<3x7xf32>>
    %3 = "relax.call_operator"(%2) {attrs = {dst_vdevice = "cuda(0)", memory_scope = "global"}, operator = "relax.hint_on_device", relax.dataflow = -1 : i64, relax.name = "b", types = []} : (tuple<tensor<3x7xf32>>) -> tensor<3x7xf32>
    return %3 : tensor<3x7xf32>
  }
}
