"""Custom pass pipeline: a model defined as a class, optimized, and run on the CPU."""

import numpy as np

from relax_mlir import IRModule, tvm
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.frontend import nn


class Model(nn.Module):
    """A two-layer perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 256)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(256, 10, bias=False)

    def forward(self, x):
        return self.fc2(self.relu1(self.fc1(x)))


@tvm.transform.module_pass(opt_level=0, name="CountOperators")
class CountOperators:
    """Analysis pass that prints the number of operators."""

    def transform_module(
        self, mod: IRModule, ctx: tvm.transform.PassContext
    ) -> IRModule:
        blocks = mod["forward"].body.blocks
        print("operators:", sum(len(block.bindings) for block in blocks))
        return mod


def main() -> None:
    """Export, optimize and run the model."""
    shape = (1, 784)
    mod, params = Model().export_tvm(
        {"forward": {"x": nn.spec.Tensor(shape, "float32")}}
    )
    mod.show()
    pipeline = tvm.transform.Sequential(
        [
            CountOperators(),
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )
    mod = pipeline(mod)
    mod.show()

    executable = tvm.compile(mod, target="llvm")
    device = tvm.device("cpu", 0)
    vm = relax.VirtualMachine(executable, device)
    rng = np.random.default_rng(0)
    data = tvm.nd.array(rng.random(shape, "float32"), device)
    weights = [tvm.nd.array(rng.random(p.shape).astype(p.dtype)) for _, p in params]
    logits = vm["forward"](data, *weights).numpy()
    w1, b1, w2 = (w.numpy() for w in weights)
    expected = np.maximum(data.numpy() @ w1.T + b1, 0) @ w2.T
    np.testing.assert_allclose(logits, expected, rtol=1e-4)
    print(logits)


if __name__ == "__main__":
    main()
