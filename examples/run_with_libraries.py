"""PrimFuncs, external library functions, and binding of parameters."""

import numpy as np

from relax_mlir import tvm
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import relax as R
from relax_mlir.tvm.script import tir as T


@tvm.script.ir_module
class Mixture:
    @T.prim_func
    def relu0(X: T.Buffer((1, 128), "float32"), Y: T.Buffer((1, 128), "float32")):
        T.func_attr({"global_symbol": "relu0", "tir.noalias": True})
        for i, j in T.grid(1, 128):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear0(
        X: T.Buffer((1, 784), "float32"),
        W: T.Buffer((128, 784), "float32"),
        B: T.Buffer((128,), "float32"),
        Z: T.Buffer((1, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "linear0", "tir.noalias": True})
        Y = T.alloc_buffer((1, 128), "float32")
        for i, j, k in T.grid(1, 128, 784):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 128):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, 784), "float32"),
        w0: R.Tensor((128, 784), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((10, 128), "float32"),
        b1: R.Tensor((10,), "float32"),
    ):
        cls = Mixture
        with R.dataflow():
            lv0 = R.call_tir(cls.linear0, (x, w0, b0), R.Tensor((1, 128), "float32"))
            lv1 = R.call_tir(cls.relu0, (lv0,), R.Tensor((1, 128), "float32"))
            out = R.call_dps_packed(
                "example.linear", (lv1, w1, b1), R.Tensor((1, 10), "float32")
            )
            R.output(out)
        return out


@tvm.register_func("example.linear", override=True)
def linear(
    x: tvm.nd.NDArray, w: tvm.nd.NDArray, b: tvm.nd.NDArray, out: tvm.nd.NDArray
) -> None:
    """Linear layer by numpy, on shared memory."""
    arrays = [np.from_dlpack(a) for a in (x, w, b, out)]
    np.add(arrays[0] @ arrays[1].T, arrays[2], out=arrays[3])


def run(mod: tvm.IRModule, *arrays: np.ndarray) -> np.ndarray:
    """Compile a module and call it."""
    vm = relax.VirtualMachine(relax.vm.build(mod, target="llvm"), tvm.cpu())
    return vm["main"](*map(tvm.nd.array, arrays)).numpy()


def main() -> None:
    """Run with weights as arguments, then bound as constants."""
    Mixture.show()
    rng = np.random.default_rng(0)
    shapes = {"w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}
    weights = {k: rng.normal(size=s).astype("float32") for k, s in shapes.items()}
    image = rng.normal(size=(1, 784)).astype("float32")
    hidden = np.maximum(image @ weights["w0"].T + weights["b0"], 0)
    expected = hidden @ weights["w1"].T + weights["b1"]

    logits = run(Mixture, image, *weights.values())
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-2)

    bound = relax.transform.BindParams("main", weights)(Mixture)
    print("remaining parameters:", bound["main"].params)
    np.testing.assert_array_equal(run(bound, image), logits)
    print("class:", int(np.argmax(logits)))


if __name__ == "__main__":
    main()
