// RUN: relax-opt %s -p relax-lower-alloc-tensor | filecheck %s

// A tensor of n times 3 two-byte elements gets an allocation of 6 * n bytes.
// CHECK-LABEL: func.func @main
// CHECK:         %[[BYTES:.*]] = "relax.shape_expr"() {{.*}}!relax.sizes<["6*n"]>
// CHECK:         %[[HOW:.*]] = builtin.unrealized_conversion_cast %[[BYTES]],
// CHECK:         %[[MEMORY:.*]] = "relax.call_operator"(%[[HOW]]) {{.*}}"relax.memory.alloc_storage"{{.*}}relax.name = "storage"
// CHECK:         %[[WHERE:.*]] = builtin.unrealized_conversion_cast %[[MEMORY]],
// CHECK:         %[[T:.*]] = "relax.call_operator"(%[[WHERE]]) {{.*}}"relax.memory.alloc_tensor"{{.*}}relax.name = "t"
// CHECK:         return %[[T]]
func.func @main(%s: !relax.sizes<["n"]> {relax.name = "s"}) -> tensor<?x3xf16, #relax.shape<["n", "3"]>> {
  %0 = "relax.shape_expr"() {} : () -> !relax.sizes<["n", "3"]>
  %1 = "relax.data_type"() {value = "float16"} : () -> !relax.object
  %2 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "0"]>
  %3 = "relax.string"() {value = "global"} : () -> !relax.object
  %4 = builtin.unrealized_conversion_cast %0, %1, %2, %3 : !relax.sizes<["n", "3"]>, !relax.object, !relax.prim<[i64, "0"]>, !relax.object to tuple<!relax.sizes<["n", "3"]>, !relax.object, !relax.prim<[i64, "0"]>, !relax.object>
  %5 = "relax.call_operator"(%4) {attrs = {}, operator = "relax.builtin.alloc_tensor", relax.dataflow = -1 : i64, relax.name = "t", types = []} : (tuple<!relax.sizes<["n", "3"]>, !relax.object, !relax.prim<[i64, "0"]>, !relax.object>) -> tensor<?x3xf16, #relax.shape<["n", "3"]>>
  return %5 : tensor<?x3xf16, #relax.shape<["n", "3"]>>
}
