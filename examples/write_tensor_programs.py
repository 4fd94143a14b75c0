"""A model as a graph of PrimFuncs: first in numpy, then as loops, then in TVMScript.

`call_tir` allocates the output of a PrimFunc and passes it as the last argument
(destination passing); the graph itself has value semantics, without side effects.
"""

import numpy as np

from relax_mlir import tvm
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import relax as R
from relax_mlir.tvm.script import tir as T


def numpy_model(x, w0, b0, w1, b1):
    """The reference computation."""
    return np.maximum(x @ w0.T + b0, 0) @ w1.T + b1


def loops_linear(x, w, b, z):
    """Linear layer as loops, in destination-passing style."""
    y = np.zeros(z.shape, "float32")
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            for k in range(x.shape[1]):
                y[i, j] += x[i, k] * w[j, k]
            z[i, j] = y[i, j] + b[j]


def loops_relu(x, y):
    """ReLU as loops."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = max(x[i, j], 0)


def call_tir(program, inputs, shape, dtype="float32"):
    """The semantics of ``R.call_tir``."""
    result = np.empty(shape, dtype)
    program(*inputs, result)
    return result


@tvm.script.ir_module
class Model:
    @T.prim_func
    def relu0(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (1, n), "float32")
        Y = T.match_buffer(y, (1, n), "float32")
        for i, j in T.grid(1, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear0(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        m, n = T.int64(), T.int64()
        X = T.match_buffer(x, (1, m), "float32")
        W = T.match_buffer(w, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        Z = T.match_buffer(z, (1, n), "float32")
        Y = T.alloc_buffer((1, n), "float32")
        for i, j, k in T.grid(1, n, m):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, n):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, "m"), "float32"),
        w0: R.Tensor(("n", "m"), "float32"),
        b0: R.Tensor(("n",), "float32"),
        w1: R.Tensor(("k", "n"), "float32"),
        b1: R.Tensor(("k",), "float32"),
    ):
        n, k = T.int64(), T.int64()
        cls = Model
        with R.dataflow():
            lv0 = R.call_tir(cls.linear0, (x, w0, b0), R.Tensor((1, n), "float32"))
            lv1 = R.call_tir(cls.relu0, (lv0,), R.Tensor((1, n), "float32"))
            out = R.call_tir(cls.linear0, (lv1, w1, b1), R.Tensor((1, k), "float32"))
            R.output(out)
        return out


def main() -> None:
    """Check that numpy, loops and compiled code agree."""
    rng = np.random.default_rng(0)
    sizes = ((1, 20), (12, 20), (12,), (4, 12), (4,))
    arrays = [rng.normal(size=s).astype("float32") for s in sizes]
    x, w0, b0, w1, b1 = arrays
    expected = numpy_model(*arrays)

    hidden = call_tir(
        loops_relu, [call_tir(loops_linear, [x, w0, b0], (1, 12))], (1, 12)
    )
    by_loops = call_tir(loops_linear, [hidden, w1, b1], (1, 4))
    np.testing.assert_allclose(by_loops, expected, rtol=1e-4, atol=1e-5)

    Model.show()
    vm = relax.VirtualMachine(relax.vm.build(Model, target="llvm"), tvm.cpu())
    compiled = vm["main"](*map(tvm.nd.array, arrays)).numpy()
    np.testing.assert_allclose(compiled, expected, rtol=1e-4, atol=1e-5)
    print("numpy, loops and compiled code agree:", np.argmax(compiled))


if __name__ == "__main__":
    main()
