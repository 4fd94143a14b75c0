"""A function is a tree of blocks and bindings; a mutator rewrites its calls."""

# RUN: python %s | filecheck %s

from __future__ import annotations

from relax_mlir import tvm
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import relax as R


@tvm.script.ir_module
class Scaled:
    @R.function
    def main(a: Tensor((2, 5), "float32"), b: Tensor((2, 5), "float32")):
        with relax.dataflow():
            scaled = relax.multiply(a, b)
            moved = relax.add(scaled, a)
            relax.output(moved)
        return moved


@relax.expr_functor.mutator
class UseFMA(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op != tvm.ir.Op.get("relax.add"):
            return call
        product = self.lookup_binding(call.args[0])
        fma = tvm.ir.Op.get("relax.ewise_fma")
        return relax.Call(fma, [*product.args, call.args[1]], None, None)


function = Scaled["main"]
block = function.body.blocks[0]
binding = block.bindings[0]

# CHECK:      Function [a, b]
# CHECK-NEXT: SeqExpr DataflowBlock DataflowVar scaled
print(type(function).__name__, function.params)
kinds = (function.body, block, binding.var)
print(*(type(part).__name__ for part in kinds), binding.var)
# CHECK-NEXT: R.multiply(a, b)
# CHECK-NEXT: Op(relax.multiply) (a, b)
print(binding.value)
print(binding.value.op, binding.value.args)
# CHECK-NEXT: a: R.Tensor((2, 5), dtype="float32")
# CHECK-NEXT: b: R.Tensor((2, 5), dtype="float32")
# CHECK-NEXT: scaled: R.Tensor((2, 5), dtype="float32") = R.multiply(a, b)
print(binding)
# CHECK-NEXT: a: R.Tensor((2, 5), dtype="float32")
# CHECK-NEXT: b: R.Tensor((2, 5), dtype="float32")
# CHECK-NEXT: with R.dataflow():
# CHECK-NEXT:     scaled: R.Tensor((2, 5), dtype="float32") = R.multiply(a, b)
# CHECK-NEXT:     moved: R.Tensor((2, 5), dtype="float32") = R.add(scaled, a)
# CHECK-NEXT:     R.output(moved)
print(block)

# The new operator is there, and what it replaces.
# CHECK:      @R.function
# CHECK-NEXT: def main(a: R.Tensor((2, 5), dtype="float32"), b: R.Tensor((2, 5), dtype="float32")) -> R.Tensor((2, 5), dtype="float32"):
# CHECK-NEXT:     with R.dataflow():
# CHECK-NEXT:         scaled: R.Tensor((2, 5), dtype="float32") = R.multiply(a, b)
# CHECK-NEXT:         moved: R.Tensor((2, 5), dtype="float32") = R.ewise_fma(a, b, a)
# CHECK-NEXT:         R.output(moved)
# CHECK-NEXT:     return moved
updated = UseFMA().visit_expr(function)
updated.show()

# CHECK:      def main(
# CHECK-NEXT:     with R.dataflow():
# CHECK-NEXT:         moved: R.Tensor((2, 5), dtype="float32") = R.ewise_fma(a, b, a)
# CHECK-NEXT:         R.output(moved)
# CHECK-NEXT:     return moved
relax.analysis.remove_all_unused(updated).show()
