// RUN: relax-opt %s -p relax-compute-prim-value | filecheck %s

// A condition on sizes is computed by a program; a symbol and a number are not.
// CHECK-LABEL: func.func @main
// CHECK:         %[[N:.*]] = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "n"]>
// CHECK:         %[[ARGS:.*]] = builtin.unrealized_conversion_cast %[[N]]
// CHECK:         "relax.call"(%[[ARGS]]) {callee = @compute_symbolic_expr
// CHECK-NOT:     @compute_symbolic_expr
// CHECK:         return
// CHECK:       func.func private @compute_symbolic_expr
// CHECK:         arith.cmpi eq
// CHECK:         "tir.call"({{.*}}) {callee = "ret"
func.func @main(%s: !relax.sizes<["n"]> {relax.name = "s"}) -> !relax.sizes<["n"]> attributes {relax.impure} {
  %0 = "relax.prim_value"() {value} : () -> !relax.prim<[i1, "(EQ (FloorMod n:int64 int64=4) int64=0)"]>
  %1 = "relax.string"() {value = "{} and {}"} : () -> !relax.object
  %2 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "n"]>
  %3 = "relax.prim_value"() {value} : () -> !relax.prim<[i64, "4"]>
  %4 = builtin.unrealized_conversion_cast %0, %1, %2, %3 : !relax.prim<[i1, "(EQ (FloorMod n:int64 int64=4) int64=0)"]>, !relax.object, !relax.prim<[i64, "n"]>, !relax.prim<[i64, "4"]> to tuple<!relax.prim<[i1, "(EQ (FloorMod n:int64 int64=4) int64=0)"]>, !relax.object, !relax.prim<[i64, "n"]>, !relax.prim<[i64, "4"]>>
  %5 = "relax.call_operator"(%4) {attrs = {}, operator = "relax.assert_op", relax.dataflow = -1 : i64, relax.name = "_", types = [tuple<>]} : (tuple<!relax.prim<[i1, "(EQ (FloorMod n:int64 int64=4) int64=0)"]>, !relax.object, !relax.prim<[i64, "n"]>, !relax.prim<[i64, "4"]>>) -> tuple<>
  return %s : !relax.sizes<["n"]>
}
