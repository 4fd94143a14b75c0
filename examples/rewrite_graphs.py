"""Rewrite a graph in Python, fuse layers by hand, lower them to tensor programs, run.

Two layers of a classifier of 28 x 28 pictures, with random weights: first as operators,
then with each pair of layer and bias as one function, then as loops, then as machine code.
"""

import numpy as np

import relax_mlir as tvm
from relax_mlir import relax, topi
from relax_mlir.ir.module import IRModule
from relax_mlir.script import relax as R


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
    """A function is a tree: blocks of bindings, each a variable and its value."""
    function = Square["main"]
    (block,) = function.body.blocks
    print(type(function).__name__, function.params, type(block).__name__)
    for binding in block.bindings:
        print(f"  {binding.var}: {binding.value.op} of {binding.value.args}")


@relax.expr_functor.mutator
class UseFMA(relax.PyExprMutator):
    """``x * y + z`` becomes one operator."""

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
    """The product stays until somebody takes away what nothing reads."""
    fused = UseFMA().visit_expr(Square["main"])
    fused.show()
    return relax.analysis.remove_all_unused(fused)


def classifier(weights: dict[str, np.ndarray]) -> IRModule:
    """Two layers, built binding by binding."""
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
    """A layer and its bias become a function of their own."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__()
        self.mod_ = mod
        self.count = 0

    def transform(self) -> IRModule:
        """The module with all its functions rewritten."""
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
                product = bb.emit(relax.op.nn.dense(*params[:2]))
                gv = bb.emit_output(relax.op.add(product, params[2]))
            bb.emit_func_output(gv)
        fused = bb.get()[name].with_attr("Primitive", 1)
        return relax.Call(self.builder_.add_func(fused, name), operands, None, None)


@tvm.ir.transform.module_pass(opt_level=2, name="FuseDenseAdd")
class FuseDenseAdd:
    """The fuser as a pass."""

    def transform_module(self, mod, ctx):
        return DenseAddFuser(mod).transform()


@relax.expr_functor.mutator
class LowerToTensorIR(relax.PyExprMutator):
    """Operators become calls of tensor programs."""

    def __init__(self, mod: IRModule, op_map: dict) -> None:
        super().__init__()
        self.mod_ = mod
        self.op_map = {tvm.ir.Op.get(k): v for k, v in op_map.items()}

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        lower = self.op_map.get(call.op)
        return call if lower is None else lower(self.builder_, call)

    def transform(self) -> IRModule:
        """The module with all its functions rewritten."""
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
    """The lowering as a pass."""

    def transform_module(self, mod, ctx):
        return LowerToTensorIR(mod, OP_MAP).transform()


def main() -> None:
    """From the graph to a prediction."""
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

    picture = rng.normal(size=(1, 784)).astype("float32")
    vm = relax.VirtualMachine(relax.vm.build(final, target="llvm"), tvm.cpu())
    logits = vm["main"](tvm.nd.array(picture)).numpy()
    hidden = np.maximum(picture @ weights["w0"].T + weights["b0"], 0)
    expected = hidden @ weights["w1"].T + weights["b1"]
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-2)
    print("class:", int(np.argmax(logits)), "as numpy says:", int(np.argmax(expected)))


if __name__ == "__main__":
    main()
