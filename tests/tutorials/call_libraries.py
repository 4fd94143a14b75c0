"""A graph that calls tensor programs, library functions, or both; bound parameters."""

# RUN: python %s | filecheck %s

from __future__ import annotations

import numpy as np

from relax_mlir import tvm
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import relax as R
from relax_mlir.tvm.script import tir as T


@tvm.script.ir_module
class Programs:
    @T.prim_func
    def relu(X: T.Buffer[(1, 5), "float32"], Y: T.Buffer[(1, 5), "float32"]):
        # function attr dict
        T.func_attr({"global_symbol": "relu", "tir.noalias": True})
        for i, j in T.grid(1, 5):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear(
        X: T.Buffer[(1, 7), "float32"],
        W: T.Buffer[(5, 7), "float32"],
        B: T.Buffer[(5,), "float32"],
        Z: T.Buffer[(1, 5), "float32"],
    ):
        T.func_attr({"global_symbol": "linear", "tir.noalias": True})
        Y = T.alloc_buffer((1, 5), "float32")
        for i, j, k in T.grid(1, 5, 7):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 5):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: Tensor((1, 7), "float32"),
        w: Tensor((5, 7), "float32"),
        b: Tensor((5,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_tir(linear, (x, w, b), (1, 5), dtype="float32")
            out = R.call_tir(relu, (lv0,), (1, 5), dtype="float32")
            R.output(out)
        return out


# CHECK:      class Module:
# CHECK-NEXT:     @T.prim_func
# CHECK-NEXT:     def linear(X: T.Buffer((1, 7), "float32"), W: T.Buffer((5, 7), "float32"), B: T.Buffer((5,), "float32"), Z: T.Buffer((1, 5), "float32")):
# CHECK-NEXT:         T.func_attr({"tir.noalias": True})
# CHECK-NEXT:         # with T.block("root"):
# CHECK-NEXT:         Y = T.alloc_buffer((1, 5))
# CHECK-NEXT:         for i, j, k in T.grid(1, 5, 7):
# CHECK-NEXT:             with T.block("Y"):
# CHECK-NEXT:                 vi, vj, vk = T.axis.remap("SSR", [i, j, k])
# CHECK-NEXT:                 T.reads(X[vi, vk], W[vj, vk])
# CHECK-NEXT:                 T.writes(Y[vi, vj])
# CHECK-NEXT:                 with T.init():
# CHECK-NEXT:                     Y[vi, vj] = T.float32(0.0)
# CHECK-NEXT:                 Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
# CHECK-NEXT:         for i, j in T.grid(1, 5):
# CHECK-NEXT:             with T.block("Z"):
# CHECK-NEXT:                 vi, vj = T.axis.remap("SS", [i, j])
# CHECK-NEXT:                 T.reads(Y[vi, vj], B[vj])
# CHECK-NEXT:                 T.writes(Z[vi, vj])
# CHECK-NEXT:                 Z[vi, vj] = Y[vi, vj] + B[vj]
# CHECK:          def relu(X: T.Buffer((1, 5), "float32"), Y: T.Buffer((1, 5), "float32")):
# CHECK:          def main(x: R.Tensor((1, 7), dtype="float32"), w: R.Tensor((5, 7), dtype="float32"), b: R.Tensor((5,), dtype="float32")) -> R.Tensor((1, 5), dtype="float32"):
# CHECK-NEXT:         cls = Module
# CHECK-NEXT:         with R.dataflow():
# CHECK-NEXT:             lv0 = R.call_tir(cls.linear, (x, w, b), out_sinfo=R.Tensor((1, 5), dtype="float32"))
# CHECK-NEXT:             out = R.call_tir(cls.relu, (lv0,), out_sinfo=R.Tensor((1, 5), dtype="float32"))
Programs.show()


@tvm.register_func("tutorial.linear", override=True)
def linear(
    x: tvm.nd.NDArray, w: tvm.nd.NDArray, b: tvm.nd.NDArray, out: tvm.nd.NDArray
):
    x_, w_, b_, out_ = map(np.from_dlpack, (x, w, b, out))
    np.add(x_ @ w_.T, b_, out=out_)


@tvm.script.ir_module
class Mixed:
    @T.prim_func
    def relu(X: T.Buffer[(1, 5), "float32"], Y: T.Buffer[(1, 5), "float32"]):
        T.func_attr({"global_symbol": "relu", "tir.noalias": True})
        for i, j in T.grid(1, 5):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @R.function
    def main(
        x: Tensor((1, 7), "float32"),
        w: Tensor((5, 7), "float32"),
        b: Tensor((5,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_tir("tutorial.linear", (x, w, b), (1, 5), dtype="float32")
            out = R.call_tir(relu, (lv0,), (1, 5), dtype="float32")
            R.output(out)
        return out


weights = {"w": np.ones((5, 7), "float32"), "b": np.arange(5, dtype="float32") - 9}
bound = relax.transform.BindParams(
    "main", {name: tvm.nd.array(array) for name, array in weights.items()}
)(Mixed)

# CHECK:          def main(x: R.Tensor((1, 7), dtype="float32")) -> R.Tensor((1, 5), dtype="float32"):
# CHECK-NEXT:         cls = Module
# CHECK-NEXT:         with R.dataflow():
# CHECK-NEXT:             lv0 = R.call_dps_packed("tutorial.linear", (x, metadata["relax.expr.Constant"][0], metadata["relax.expr.Constant"][1]), out_sinfo=R.Tensor((1, 5), dtype="float32"))
# CHECK-NEXT:             out = R.call_tir(cls.relu, (lv0,), out_sinfo=R.Tensor((1, 5), dtype="float32"))
bound.show()


machine = relax.VirtualMachine(relax.vm.build(bound, target="llvm"), tvm.cpu())
x = tvm.nd.array(np.ones((1, 7), "float32"))
# CHECK:      {{\[\[}}0. 0. 0. 1. 2.{{\]\]}}
print(machine["main"](x).numpy())
