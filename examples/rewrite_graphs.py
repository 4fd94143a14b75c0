"""Graph rewriting in Python: mutators, custom fusion, and lowering to PrimFuncs.

A two-layer classifier of 28 x 28 images with random weights: first as operators, then with
each dense layer and its bias fused to one function, then as loops, then as machine code.
"""

import numpy as np

from relax_mlir import tvm
from relax_mlir.ir.module import IRModule
from relax_mlir.tvm import relax, topi
from relax_mlir.tvm.script import relax as R


@tvm.script.ir_module
class Square:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            product = R.multiply(x, y)
            total = R.add(product, y)
            R.output(total)
        return total


def look_inside() -> None:
    """Print the structure of a function: blocks of bindings of variables to values."""
    function = Square["main"]
    (block,) = function.body.blocks
    print(type(function).__name__, function.params, type(block).__name__)
    for binding in block.bindings:
        print(f"  {binding.var}: {binding.value.op} of {binding.value.args}")


@relax.expr_functor.mutator
class UseFMA(relax.PyExprMutator):
    """Rewrites ``x * y + z`` to a fused multiply-add operator."""

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op != tvm.ir.Op.get("relax.add"):
            return call
        product = self.lookup_binding(call.args[0])
        is_product = isinstance(product, relax.Call)
        if not is_product or product.op != tvm.ir.Op.get("relax.multiply"):
            return call
        fma = tvm.ir.Op.get("relax.ewise_fma")
        return relax.Call(fma, [*product.args, call.args[1]], None, None)


def rewrite() -> relax.Function:
    """Apply the mutator, then remove the dead multiplication."""
    fused = UseFMA().visit_expr(Square["main"])
    fused.show()
    return relax.analysis.remove_all_unused(fused)


def classifier(weights: dict[str, np.ndarray]) -> IRModule:
    """Build a two-layer classifier with the block builder."""
    bb = relax.BlockBuilder()
    shape = (1, weights["w0"].shape[1])
    x = relax.Var("x", shape, relax.DynTensorType(2, "float32"))
    w0, b0, w1, b1 = (relax.const(weights[k], "float32") for k in weights)
    with bb.function("main", [x]):
        with bb.dataflow():
            hidden = bb.emit(relax.op.add(bb.emit(relax.op.dense(x, w0)), b0))
            hidden = bb.emit(relax.op.relu(hidden))
            logits = bb.emit(relax.op.add(bb.emit(relax.op.dense(hidden, w1)), b1))
            gv = bb.emit_output(logits)
        bb.emit_func_output(gv)
    return bb.get()


@relax.expr_functor.mutator
class DenseAddFuser(relax.PyExprMutator):
    """Fuses a dense layer and its bias to a primitive function."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__()
        self.mod_ = mod
        self.count = 0

    def transform(self) -> IRModule:
        """Rewrite all functions of the module."""
        for name, function in self.mod_.functions.items():
            if isinstance(function, relax.Function):
                updated = relax.analysis.remove_all_unused(self.visit_expr(function))
                self.builder_.update_func(name, updated)
        return self.builder_.get()

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op != tvm.ir.Op.get("relax.add"):
            return call
        dense = self.lookup_binding(call.args[0])
        is_dense = isinstance(dense, relax.Call)
        if not is_dense or dense.op != tvm.ir.Op.get("relax.nn.dense"):
            return call
        operands = [*dense.args, call.args[1]]
        name = f"fused_dense_add{self.count}"
        self.count += 1
        params = [
            relax.Var(hint, value.struct_info)
            for hint, value in zip("xwb", operands, strict=True)
        ]
        bb = relax.BlockBuilder()
        with bb.function(name, params):
            with bb.dataflow():
                dense = bb.emit(relax.op.nn.dense(*params[:2]))
                gv = bb.emit_output(relax.op.add(dense, params[2]))
            bb.emit_func_output(gv)
        fused = bb.get()[name].with_attr("Primitive", 1)
        return relax.Call(self.builder_.add_func(fused, name), operands, None, None)


@tvm.ir.transform.module_pass(opt_level=2, name="FuseDenseAdd")
class FuseDenseAdd:
    """Module pass of :class:`DenseAddFuser`."""

    def transform_module(self, mod, ctx):
        return DenseAddFuser(mod).transform()


@relax.expr_functor.mutator
class LowerToTensorIR(relax.PyExprMutator):
    """Lowers operators to calls of PrimFuncs."""

    def __init__(self, mod: IRModule, op_map: dict) -> None:
        super().__init__()
        self.mod_ = mod
        self.op_map = {tvm.ir.Op.get(k): v for k, v in op_map.items()}

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        lower = self.op_map.get(call.op)
        return call if lower is None else lower(self.builder_, call)

    def transform(self) -> IRModule:
        """Rewrite all functions of the module."""
        for name, function in self.mod_.functions.items():
            if isinstance(function, relax.Function):
                self.builder_.update_func(name, self.visit_expr(function))
        return self.builder_.get()


OP_MAP = {
    "relax.nn.dense": lambda bb, call: bb.call_te(topi.nn.dense, *call.args),
    "relax.add": lambda bb, call: bb.call_te(topi.add, *call.args),
    "relax.nn.relu": lambda bb, call: bb.call_te(topi.nn.relu, *call.args),
}


@tvm.ir.transform.module_pass(opt_level=0, name="LowerToTensorIR")
class LowerToTensorIRPass:
    """Module pass of :class:`LowerToTensorIR`."""

    def transform_module(self, mod, ctx):
        return LowerToTensorIR(mod, OP_MAP).transform()


def main() -> None:
    """Fuse, lower, compile and run the classifier."""
    look_inside()
    rewrite().show()

    rng = np.random.default_rng(0)
    shapes = {"w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}
    weights = {k: rng.normal(size=s).astype("float32") for k, s in shapes.items()}
    model = classifier(weights)
    fused = FuseDenseAdd()(model)
    fused.show()
    lowered = LowerToTensorIRPass()(fused)
    lowered.show()
    final = relax.transform.FuseTIR()(lowered)
    final.show()

    image = rng.normal(size=(1, 784)).astype("float32")
    vm = relax.VirtualMachine(relax.vm.build(final, target="llvm"), tvm.cpu())
    logits = vm["main"](tvm.nd.array(image)).numpy()
    hidden = np.maximum(image @ weights["w0"].T + weights["b0"], 0)
    expected = hidden @ weights["w1"].T + weights["b1"]
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-2)
    print("class:", int(np.argmax(logits)), "by numpy:", int(np.argmax(expected)))


if __name__ == "__main__":
    main()
