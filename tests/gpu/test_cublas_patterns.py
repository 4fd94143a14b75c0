"""Layers that cuBLAS patterns match, after `RunCodegen`, on a GPU."""

import numpy as np
import pytest

from relax_mlir import IRModule, tvm
from relax_mlir.errors import PassError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.matmul_descriptors import Matmul
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax.frontend import nn
from tests.docs.test_customize_pipeline import exported
from tests.gpu.library_calls import rules_of
from tests.gpu.stub import TARGET, Stub
from tests.schedules.low_precision import drawn


class _Layers(nn.Module):
    """A layer with a bias and a ReLU, and one without."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(24, 16)
        self.relu = nn.ReLU()
        self.second = nn.Linear(16, 10, bias=False)

    def main(self, x: nn.Tensor) -> nn.Tensor:
        return self.second(self.relu(self.first(x)))


def layers(*shape: int | str) -> IRModule:
    inputs = {"x": nn.spec.Tensor(shape, "float32")}
    module, _ = _Layers().export_tvm({"main": inputs})
    return module


def dispatched(module: IRModule, prefix: str = "cublas", **options: bool) -> IRModule:
    patterns = relax.backend.get_patterns_with_prefix(prefix)
    fuse = relax.transform.FuseOpsByPattern(patterns, annotate_codegen=True, **options)
    return relax.transform.RunCodegen()(fuse(module))


def compiled(module: IRModule, target: str = TARGET) -> CudaExecutable:
    made = tvm.compile(module, target=target, cache=False)
    assert isinstance(made, CudaExecutable)
    return made


@pytest.mark.parametrize(
    ("shape", "rows"), [((3, 24), 3), ((2, 5, 24), 10), (("n", 24), 7)]
)
def test_layers_become_matmul_calls(
    shape: tuple[int | str, ...], rows: int, products: Stub
) -> None:
    model = compiled(dispatched(layers(*shape)))
    known = [7 if isinstance(size, str) else size for size in shape]
    x, w, b, v = drawn(*known), drawn(16, 24), drawn(16), drawn(10, 16)

    (y,) = model(x, w, b, v)

    np.testing.assert_allclose(
        y, np.maximum(x @ w.T + b, 0) @ v.T, atol=1e-4, rtol=1e-5
    )
    assert not model.contents.plan.calls_host
    found = [n for p in model.contents.plan.programs for n in p.launches]
    assert all(isinstance(launch, Matmul) for launch in found)
    assert rules_of(model) == ["CublasLt", "CublasLt"]
    assert model.kernels[0].name.endswith("relax_nn_relu_cublas")
    assert products.count("cublasLtMatmul") == 2
    times = model.profile(x, w, b, v).durations_ns
    assert times.shape[1] == 2


def test_kernels_around_library_calls_stay_in_order(products: Stub) -> None:
    """One layer is a library call, the other our kernel: the profile has both, in order."""
    name = "cublas.matmul_transposed_bias_relu"
    model = compiled(dispatched(layers(3, 24), name))

    rules = rules_of(model)
    assert rules[0] == "CublasLt"
    assert "CublasLt" not in rules[1:]
    programs = [step.program for step in model.contents.plan.steps]  # pyright: ignore[reportAttributeAccessIssue]
    assert programs[0] == len(model.contents.plan.programs) - 1


def test_the_virtual_machine_runs_them(products: Stub) -> None:
    """The whole example of the tutorial on customized pipelines."""
    executable = tvm.compile(dispatched(exported()), target=TARGET, cache=False)
    machine = relax.VirtualMachine(executable, tvm.device("cuda", 0))
    x, w, b, v = drawn(1, 784), drawn(256, 784), drawn(256), drawn(10, 256)

    y = machine["forward"](x, w, b, v)

    expected = np.maximum(x.astype(np.float64) @ w.T + b, 0) @ v.T
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-3, atol=1e-2)
    assert products.count("cublasLtMatmul") == 2


def test_elsewhere_the_call_says_what_is_missing() -> None:
    model = tvm.compile(dispatched(layers(3, 24)), target="cpu", cache=False)

    with pytest.raises(
        RuntimeError,
        match=r"`fused_.*_cublas`: a matmul by cuBLAS: expected a model that is compiled "
        r"for a GPU",
    ):
        model(drawn(3, 24), drawn(16, 24), drawn(16), drawn(10, 16))


def test_a_bias_may_stand_in_front(products: Stub) -> None:
    shapes = {"x": (3, 4), "w": (4, 5), "b": (5,)}
    x, w, b = (
        relax.Var(name, relax.TensorStructInfo(shape, "float32"))
        for name, shape in shapes.items()
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, b]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.add(b, relax.op.matmul(x, w)))
        builder.emit_func_output(y)
    model = compiled(dispatched(builder.get()))
    arrays = [drawn(*shape) for shape in shapes.values()]

    (result,) = model(*arrays)

    assert rules_of(model) == ["CublasLt"]
    np.testing.assert_allclose(result, arrays[0] @ arrays[1] + arrays[2], rtol=1e-5)


def test_constants_become_arguments_first() -> None:
    x = relax.Var("x", relax.TensorStructInfo((3, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            weights = relax.const(np.ones((4, 5), np.float32))
            y = builder.emit_output(relax.op.matmul(x, weights))
        builder.emit_func_output(y)

    with pytest.raises(PassError, match=r"expected only parameters, got a constant"):
        dispatched(builder.get())
    assert "_cublas" in dispatched(builder.get(), bind_constants=False).script()


@pytest.mark.parametrize(
    ("lhs", "rhs", "dtype"),
    [
        ((2, 3, 4), (2, 4, 5), "float32"),
        ((3, 4), (4, 5), "int32"),
        ((4,), (4, 5), "float32"),
    ],
)
def test_other_matmuls_are_not_partitioned(
    lhs: tuple[int, ...], rhs: tuple[int, ...], dtype: str
) -> None:
    x, w = (
        relax.Var(name, relax.TensorStructInfo(shape, dtype))
        for name, shape in (("x", lhs), ("w", rhs))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.matmul(x, w))
        builder.emit_func_output(y)

    assert "cublas" not in dispatched(builder.get()).script()
