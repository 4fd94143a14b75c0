"""Matmuls by cuBLASLt: selection, descriptors and results."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule, lower
from relax_mlir.compiler.launch_plan import serialize_program, unpack_program
from relax_mlir.errors import PipelineError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.matmul_descriptors import BatchedMatrix, Matmul
from relax_mlir.runtime.cuda.plan import Launch
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.targets import TargetError
from relax_mlir.tools.cli import main
from tests.gpu.emulated import emulated_program
from tests.gpu.library_calls import calls_of, compiled, emulated, onnx, rules_of
from tests.gpu.stub import TARGET, Emulation, Stub
from tests.gpu.test_gemm import layer
from tests.schedules.low_precision import drawn, rounded

_BOUNDS = {
    "tf32": 1e-3
}  # of the largest result, where operands are rounded when loaded


def products_of(model: CudaExecutable) -> list[Matmul]:
    return calls_of(model, Matmul)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(70, 40, 56), (31, 33, 27), (1, 40, 50), (5, 16, 1), ("n", 19, 13)],
)
@pytest.mark.parametrize("precision", ["f32", "tf32", "f16", "bf16"])
def test_a_layer_is_one_call(
    precision: str,
    m: int | str,
    k: int,
    n: int,
    is_transposed: bool,
    products: Stub,
    emulation: Emulation,
) -> None:
    module = layer(m, k, n, is_transposed=is_transposed)
    model = compiled(module, precision=precision)
    rows = 9 if isinstance(m, str) else m
    x, w, b = drawn(rows, k), drawn(*((n, k) if is_transposed else (k, n))), drawn(n)

    (y,) = model(x, w, b)

    (product,) = products_of(model)
    assert (product.bias is not None, product.activation) == (True, "relu")
    assert product.tf32 == (precision == "tf32")
    assert products.count("cublasLtMatmul") == 1
    np.testing.assert_allclose(
        y, emulated(module, x, w, b, precision=precision), rtol=1e-4, atol=1e-4
    )
    if precision in ("f16", "bf16") and m != 1:  # of one row they are read as often
        x, w = rounded(x, precision), rounded(w, precision)
    expected = np.maximum(x.astype(np.float64) @ (w.T if is_transposed else w) + b, 0)
    bound = _BOUNDS.get(precision, 1e-5) * max(1.0, float(expected.max()))
    np.testing.assert_allclose(y, expected, atol=bound, rtol=0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("follows", ["", "b", "relu", "b relu"])
def test_half_precision(
    dtype: type, follows: str, products: Stub, emulation: Emulation
) -> None:
    """f16 inputs and outputs; accumulator, bias and epilogue are rounded once."""
    name = {"float16": "float16", "bfloat16": "bfloat16", "float64": "double"}
    element = name[np.dtype(dtype).name]
    lines = ["t = MatMul (x, w)"]
    lines.append("u = Add (t, b)" if "b" in follows else "u = Identity (t)")
    lines.append("y = Relu (u)" if "relu" in follows else "y = Identity (u)")
    text = f"""g ({element}[24, 40] x, {element}[40, 17] w, {element}[17] b)
        => ({element}[24, 17] y) {{ {" ".join(lines)} }}"""
    module = onnx(text)
    x, w, b = (a.astype(dtype) for a in (drawn(24, 40), drawn(40, 17), drawn(17)))
    model = compiled(module)

    (y,) = model(x, w, b)

    (product,) = products_of(model)
    assert (product.bias is not None) == ("b" in follows)
    expected = x.astype(np.float64) @ w.astype(np.float64)
    expected += b.astype(np.float64) if "b" in follows else 0
    expected = np.maximum(expected, 0) if "relu" in follows else expected
    step = float(ml_dtypes.finfo(dtype).eps)
    error = np.abs(y.astype(np.float64) - expected)
    assert (error <= step * np.abs(expected) + 1e-6).all()
    np.testing.assert_allclose(
        y.astype(np.float64),
        emulated(module, x, w, b).astype(np.float64),
        rtol=2 * step,
        atol=1e-6,
    )


def test_a_batch_is_one_call(products: Stub) -> None:
    """Batch axes of equal strides fuse into one."""
    model = compiled(
        onnx(
            """g (float[2, 3, 28, 20] x, float[2, 3, 20, 11] w)
            => (float[2, 3, 28, 11] y) {
            y = MatMul (x, w) }"""
        )
    )
    x, w = drawn(2, 3, 28, 20), drawn(2, 3, 20, 11)

    (y,) = model(x, w)

    (found,) = products_of(model)
    assert found.sizes == (6, 28, 11, 20)
    assert found.lhs == BatchedMatrix(Pointer("argument", 0), "f32", 20, 560)
    assert found.rhs == BatchedMatrix(Pointer("argument", 1), "f32", 11, 220)
    assert products.count("cublasLtMatmul") == 1
    np.testing.assert_allclose(y, x @ w, atol=1e-4, rtol=0)


def test_one_matrix_for_a_batch_of_columns(products: Stub) -> None:
    """A 1x1 convolution: the weights are broadcast, the images are the batch."""
    module = onnx(
        """g (float[3, 8, 5, 6] x, float[12, 8, 1, 1] w) => (float[3, 12, 5, 6] y) {
        c = Conv (x, w)
        y = Relu (c) }"""
    )
    x, w = drawn(3, 8, 5, 6), drawn(12, 8, 1, 1)
    model = compiled(module)

    (y,) = model(x, w)

    (found,) = products_of(model)
    assert found.sizes == (3, 12, 30, 8)
    assert (found.lhs.step, found.rhs.step, found.result.step) == (0, 240, 360)
    expected = np.maximum(np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]), 0)
    np.testing.assert_allclose(y, expected, atol=1e-4, rtol=0)
    np.testing.assert_allclose(emulated(module, x, w), expected, atol=1e-4, rtol=0)


_WINDOWS = """g (float[2, 8, 9, 9] x, float[12, 8, 3, 3] w) => (float[a, b, c, d] y) {
    y = Conv (x, w) }"""
_OPEN_SUM = """g (float[20, n] x, float[n, 30] w) => (float[20, 30] y) {
    y = MatMul (x, w) }"""
_INTEGERS = """g (int32[20, 16] x, int32[16, 30] w) => (int32[20, 30] y) {
    y = MatMul (x, w) }"""


@pytest.mark.parametrize("text", [_WINDOWS, _OPEN_SUM, _INTEGERS])
def test_refusals(text: str) -> None:
    model = compiled(onnx(text))

    assert products_of(model) == []
    assert "CublasLt" not in rules_of(model)


_GELU = """g (float[300, 512] x, float[512, 520] w, float[520] b) => (float[300, 520] y) {
    t = MatMul (x, w)
    u = Add (t, b)
    s = Sigmoid (u)
    y = Mul (u, s) }"""


def test_unfused_statements_become_launches(
    products: Stub, emulation: Emulation
) -> None:
    small = _GELU.replace("300", "30").replace("512", "16").replace("520", "20")
    module = onnx(small)
    model = compiled(module)
    x, w, b = drawn(30, 16), drawn(16, 20), drawn(20)

    (y,) = model(x, w, b)

    first, *rest = model.contents.plan.programs[0].launches
    assert isinstance(first, Matmul)
    assert rest
    assert all(isinstance(launch, Launch) for launch in rest)
    u = x @ w + b
    np.testing.assert_allclose(y, u / (1 + np.exp(-u)), atol=1e-4, rtol=1e-4)
    np.testing.assert_allclose(emulated(module, x, w, b), y, atol=1e-5, rtol=1e-5)


def test_a_residual_that_the_result_overwrites(
    products: Stub, emulation: Emulation
) -> None:
    module = onnx(
        """g (float[1, 24] x, float[24, 20] w, float[1, 20] r) => (float[1, 20] y) {
        e = Exp (r)
        t = MatMul (x, w)
        y = Add (t, e) }"""
    )
    model = compiled(module)
    x, w, r = drawn(1, 24), drawn(24, 20), drawn(1, 20)

    (y,) = model(x, w, r)

    np.testing.assert_allclose(y, x @ w + np.exp(r), atol=1e-4, rtol=0)


def test_transposed_operands_and_slices() -> None:
    """The second kernel of the FileCheck test of the pass."""
    path = Path(__file__).parents[1] / "ir/schedule/apply_gpu_library.mlir"
    text = path.read_text().split("// -----")[1]
    module = relax_mlir.opt(
        IRModule.parse(text), "schedule-apply-gpu{sm=90 library=always}"
    )
    x, w = (a.astype(np.float16) for a in (drawn(3, 16, 30), drawn(22, 16)))
    like = np.zeros((3, 30, 20), np.float16)

    (y,) = emulated_program(module, [x, w], [like], target=TARGET)
    program, _ = unpack_program(
        serialize_program(lower(module, target=TARGET, to="ptx"))
    )

    expected = x.swapaxes(1, 2).astype(np.float64) @ w[2:].T.astype(np.float64)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-3)
    (found,) = program.launches
    assert isinstance(found, Matmul)
    assert found.sizes == (3, 30, 20, 16)
    assert found.lhs == BatchedMatrix(Pointer("argument", 0), "f16", 30, 480, True)
    assert found.rhs == BatchedMatrix(Pointer("argument", 1, 64), "f16", 16, 0, True)
    assert found.result == BatchedMatrix(Pointer("argument", 2), "f16", 20, 600)


def product(m: int | str, k: int, n: int, follows: str = "y = Relu (t)") -> IRModule:
    return onnx(
        f"""g (float[{m}, {k}] x, float[{k}, {n}] w) => (float[{m}, {n}] y) {{
        t = MatMul (x, w)
        {follows} }}"""
    )


@pytest.mark.parametrize(
    ("m", "k", "n", "precision", "is_taken"),
    [
        (512, 512, 512, "f32", True),
        ("n", 1024, 4096, "f32", True),
        (512, 512, 512, "f16", False),  # by warpgroups
        (512, 512, 514, "f16", True),  # rows that TMA cannot read
        (64, 64, 64, "f32", False),  # small
        (4, 8192, 8192, "f32", False),  # few rows
    ],
)
def test_auto_policy(
    m: int | str, k: int, n: int, precision: str, is_taken: bool
) -> None:
    module = product(m, k, n)
    model = compiled(module, library="auto", precision=precision)

    assert ("CublasLt" in rules_of(model)) == is_taken
    assert bool(products_of(model)) == is_taken


def test_auto_policy_needs_a_fused_epilogue() -> None:
    assert products_of(compiled(onnx(_GELU), library="auto")) == []


def test_by_default_no_library_is_called() -> None:
    model = relax_mlir.compile(product(512, 512, 512), target=TARGET, cache=False)

    assert isinstance(model, CudaExecutable)
    assert products_of(model) == []


def test_only_gpus_have_it() -> None:
    with pytest.raises(TargetError, match=r"library `auto`: expected a GPU as target"):
        relax_mlir.compile(product(8, 8, 8), library="auto")
    with pytest.raises(TargetError, match=r"unknown library `allways`.*`always`"):
        relax_mlir.compile(product(8, 8, 8), target=TARGET, library="allways")


def test_the_cache_knows_policies_apart(tmp_path: Path) -> None:
    rules: list[str] = []
    for policy in ("never", "always", "never"):
        made = relax_mlir.compile(
            product(9, 8, 8), target=TARGET, library=policy, cache=tmp_path
        )
        assert isinstance(made, CudaExecutable)
        rules += rules_of(made)

    assert [rule == "CublasLt" for rule in rules] == [False, True, False]


@pytest.mark.parametrize("command", ["compile", "explain"])
def test_commands_take_the_policy(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "product.mlir"
    product(20, 16, 20).save(path)
    out = ["-o", str(tmp_path / "m.rxm")] if command == "compile" else []
    options = [str(path), "--target", TARGET, "--library", "always", *out]

    assert main([command, *options]) == 0

    if command == "explain":
        assert "written by CublasLt" in capsys.readouterr().out
    else:
        made = relax_mlir.load(tmp_path / "m.rxm")
        assert isinstance(made, CudaExecutable)
        assert rules_of(made) == ["CublasLt"]


def test_explanations_name_the_rule() -> None:
    explanation = relax_mlir.explain(
        product(20, 16, 20), target=TARGET, library="always"
    )

    assert [kernel.choice.rule for kernel in explanation.kernels] == ["CublasLt"]


def test_the_pass_refuses_other_policies() -> None:
    with pytest.raises(PipelineError, match=r"`library`: expected .*, got `often`"):
        relax_mlir.opt(product(8, 8, 8), "schedule-apply-gpu{library=often}")
