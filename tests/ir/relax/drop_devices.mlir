// RUN: relax-opt %s -p relax-drop-devices | filecheck %s

// A device copy is replaced by its operand, and operators on it become operations.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    (%[[X:.*]]: tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-NOT:     device
// CHECK:         %[[Y:.*]] = "relax.exp"(%[[X]])
// CHECK:         return %[[Y]] : tensor<2x3xf32>
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32, #relax.shape<[["2", "3"], "llvm:1:global"]>> {
  %p = builtin.unrealized_conversion_cast %x : tensor<2x3xf32> to tuple<tensor<2x3xf32>>
  %m = "relax.call_operator"(%p) {attrs = {dst_vdevice = "llvm:1:global"}, operator = "relax.to_vdevice", types = []} : (tuple<tensor<2x3xf32>>) -> tensor<2x3xf32, #relax.shape<[["2", "3"], "llvm:1:global"]>>
  %q = builtin.unrealized_conversion_cast %m : tensor<2x3xf32, #relax.shape<[["2", "3"], "llvm:1:global"]>> to tuple<tensor<2x3xf32, #relax.shape<[["2", "3"], "llvm:1:global"]>>>
  %y = "relax.call_operator"(%q) {attrs = {}, operator = "relax.exp", types = []} : (tuple<tensor<2x3xf32, #relax.shape<[["2", "3"], "llvm:1:global"]>>>) -> tensor<2x3xf32, #relax.shape<[["2", "3"], "llvm:1:global"]>>
  return %y : tensor<2x3xf32, #relax.shape<[["2", "3"], "llvm:1:global"]>>
}
