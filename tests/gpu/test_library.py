"""Products that cuBLASLt computes: which, how they are described, and what comes out."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule, lower
from relax_mlir.errors import DeviceError, EmulationError, ModelError, PassError
from relax_mlir.launch_plan import program_code, unpacked
from relax_mlir.runtime.cuda import cublaslt, shared_libraries
from relax_mlir.runtime.cuda.archive import Contents
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import Launch, Plan
from relax_mlir.runtime.cuda.pointers import Pointer
from relax_mlir.runtime.cuda.products import Matrix, Product
from relax_mlir.targets import TargetError
from relax_mlir.testing import env
from relax_mlir.tools.cli import main
from tests.gpu.emulated import emulated_program
from tests.gpu.library_calls import (
    calls_of,
    compiled,
    emulated,
    onnx,
    rules_of,
    told_by_doctor,
)
from tests.gpu.stub import TARGET, Emulation, Stub
from tests.gpu.test_gemm import layer
from tests.products import drawn, rounded

_BOUNDS = {"tf32": 1e-3}  # of the largest result, where factors are rounded when read


def products_of(model: CudaExecutable) -> list[Product]:
    return calls_of(model, Product)


@pytest.mark.parametrize("is_turned", [False, True])
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
    is_turned: bool,
    products: Stub,
    emulation: Emulation,
) -> None:
    module = layer(m, k, n, is_turned=is_turned)
    model = compiled(module, precision=precision)
    rows = 9 if isinstance(m, str) else m
    x, w, b = drawn(rows, k), drawn(*((n, k) if is_turned else (k, n))), drawn(n)

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
    expected = np.maximum(x.astype(np.float64) @ (w.T if is_turned else w) + b, 0)
    bound = _BOUNDS.get(precision, 1e-5) * max(1.0, float(expected.max()))
    np.testing.assert_allclose(y, expected, atol=bound, rtol=0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("follows", ["", "b", "relu", "b relu"])
def test_numbers_of_other_types(
    dtype: type, follows: str, products: Stub, emulation: Emulation
) -> None:
    """Halves go in and come out; the sum, the bias and what follows are rounded once."""
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
    """Axes that both operands walk through alike are one batch."""
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
    assert found.lhs == Matrix(Pointer("argument", 0), "f32", 20, 560)
    assert found.rhs == Matrix(Pointer("argument", 1), "f32", 11, 220)
    assert products.count("cublasLtMatmul") == 1
    np.testing.assert_allclose(y, x @ w, atol=1e-4, rtol=0)


def test_one_matrix_for_a_batch_of_columns(products: Stub) -> None:
    """A convolution of single points: its weights stay, its images are a batch."""
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
def test_others_are_left_to_kernels(text: str) -> None:
    model = compiled(onnx(text))

    assert products_of(model) == []
    assert "Library" not in rules_of(model)


_GELU = """g (float[300, 512] x, float[512, 520] w, float[520] b) => (float[300, 520] y) {
    t = MatMul (x, w)
    u = Add (t, b)
    s = Sigmoid (u)
    y = Mul (u, s) }"""


def test_what_the_library_does_not_do_is_a_launch(
    products: Stub, emulation: Emulation
) -> None:
    small = _GELU.replace("300", "30").replace("512", "16").replace("520", "20")
    module = onnx(small)
    model = compiled(module)
    x, w, b = drawn(30, 16), drawn(16, 20), drawn(20)

    (y,) = model(x, w, b)

    first, *rest = model.contents.plan.programs[0].launches
    assert isinstance(first, Product)
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


def test_turned_operands_and_parts_of_buffers() -> None:
    """The second program of the test of the pass."""
    path = Path(__file__).parents[1] / "ir/schedule/apply_gpu_library.mlir"
    text = path.read_text().split("// -----")[1]
    module = relax_mlir.opt(
        IRModule.parse(text), "schedule-apply-gpu{sm=90 library=always}"
    )
    x, w = (a.astype(np.float16) for a in (drawn(3, 16, 30), drawn(22, 16)))
    like = np.zeros((3, 30, 20), np.float16)

    (y,) = emulated_program(module, [x, w], [like], target=TARGET)
    program, _ = unpacked(program_code(lower(module, target=TARGET, to="ptx")))

    expected = x.swapaxes(1, 2).astype(np.float64) @ w[2:].T.astype(np.float64)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-3)
    (found,) = program.launches
    assert isinstance(found, Product)
    assert found.sizes == (3, 30, 20, 16)
    assert found.lhs == Matrix(Pointer("argument", 0), "f16", 30, 480, True)
    assert found.rhs == Matrix(Pointer("argument", 1, 64), "f16", 16, 0, True)
    assert found.result == Matrix(Pointer("argument", 2), "f16", 20, 600)


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
        (512, 512, 514, "f16", True),  # rows that the copy engine does not read
        (64, 64, 64, "f32", False),  # small
        (4, 8192, 8192, "f32", False),  # few rows
    ],
)
def test_where_it_gains(
    m: int | str, k: int, n: int, precision: str, is_taken: bool
) -> None:
    module = product(m, k, n)
    model = compiled(module, library="auto", precision=precision)

    assert ("Library" in rules_of(model)) == is_taken
    assert bool(products_of(model)) == is_taken


def test_it_gains_only_where_all_that_follows_is_done() -> None:
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

    assert [rule == "Library" for rule in rules] == [False, True, False]


def test_products_are_in_graphs_and_follow_the_arrays(products: Stub) -> None:
    """Two layers: the second product has the first one's result, and a bias."""
    module = onnx(
        """g (float[6, 8] x, float[8, 12] w, float[12] b, float[12, 4] v)
        => (float[6, 4] y) {
        t = MatMul (x, w)
        u = Add (t, b)
        r = Relu (u)
        y = MatMul (r, v) }"""
    )
    model = compiled(module)
    gpu = device(0)
    sets = [[drawn(6, 8), drawn(8, 12), drawn(12), drawn(12, 4)] for _ in range(2)]
    sets[1] = [a + 1 for a in sets[1]]
    on_gpu = [[DeviceArray.of(a, gpu) for a in arrays] for arrays in sets]
    outs = [DeviceArray.of(np.zeros((6, 4), np.float32), gpu) for _ in range(2)]

    for number in (0, 0, 1, 0, 1, 1):
        model(*on_gpu[number], out=[outs[number]])

    for (x, w, b, v), out in zip(sets, outs, strict=True):
        expected = np.maximum(x @ w + b, 0) @ v
        np.testing.assert_allclose(out.numpy(), expected, atol=1e-3, rtol=1e-5)
    assert products.count("cuGraphLaunch") == 4
    assert products.count("cublasLtMatmul") == 2 * 2 + 2 * 2  # as such, and captured
    assert products.count("cublasLtMatmulAlgoGetHeuristic") == 2


def test_sizes_are_described_when_they_are_known(products: Stub) -> None:
    model = compiled(product("n", 16, 20))
    w = drawn(16, 20)

    for rows in (3, 40, 3, 0):
        x = drawn(rows, 16)
        (y,) = model(x, w)
        np.testing.assert_allclose(y, np.maximum(x @ w, 0), atol=1e-4, rtol=0)

    assert products.count("cublasLtMatmulAlgoGetHeuristic") == 2
    assert products.count("cublasLtMatmul") == 3


def test_parts_of_rows(products: Stub, emulation: Emulation) -> None:
    module = onnx(
        """g (float[10, 21] x, float[7, 12] w) => (float[10, 12] y) {
        a, b, c = Split <axis = 1> (x)
        y = MatMul (b, w) }"""
    )
    model = compiled(module)
    x, w = drawn(10, 21), drawn(7, 12)

    (y,) = model(x, w)

    np.testing.assert_allclose(y, x[:, 7:14] @ w, atol=1e-4, rtol=0)


def test_each_device_has_its_own(products: Stub) -> None:
    products.device(count=2)
    model = compiled(product(20, 16, 20))
    arrays = drawn(20, 16), drawn(16, 20)

    results = [model.on(ordinal)(*arrays)[0] for ordinal in (0, 1)]

    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(
        results[0], np.maximum(arrays[0] @ arrays[1], 0), atol=1e-4
    )
    devices = device(0), device(1)
    handles = {shared_libraries.handle(cublaslt.library(gpu), gpu) for gpu in devices}
    assert len(handles) == 2


def test_kernels_are_measured(products: Stub) -> None:
    model = compiled(product(20, 16, 20))

    profile = model.profile(drawn(20, 16), drawn(16, 20))

    assert [kernel.rule for kernel in profile.kernels] == ["Library"]
    assert (profile.durations_ns > 0).all()


def test_everything_is_given_back(products: Stub) -> None:
    before = products.used_bytes
    model = compiled(product(20, 16, 20))
    model(drawn(20, 16), drawn(16, 20))
    assert products.used_bytes - before >= 32 << 20  # the library's workspace

    del model

    assert products.used_bytes == before
    for kind in ("MatmulDesc", "MatrixLayout", "MatmulPreference"):
        made, gone = (
            products.count(f"cublasLt{kind}{what}") for what in ("Create", "Destroy")
        )
        assert made == gone > 0


_OPEN = "g (float[n, 16] x, float[16, 20] w) => (float[n, 20] y) { y = MatMul(x, w) }"


def test_products_of_the_last_sizes_are_kept(products: Stub) -> None:
    model, w = compiled(onnx(_OPEN)), drawn(16, 20)

    for n in (*range(1, 13), *range(5, 13), 1):
        x = drawn(n, 16)
        np.testing.assert_allclose(model(x, w)[0], x @ w, rtol=1e-4, atol=1e-5)

    made, gone = (
        products.count(f"cublasLtMatmulDesc{what}") for what in ("Create", "Destroy")
    )
    assert (made, gone) == (13, 5)  # of 12 sizes, and of the first once more


def test_captured_products_outlive_those_of_other_sizes(products: Stub) -> None:
    model, w = compiled(onnx(_OPEN)), drawn(16, 20)
    x = drawn(20, 16)
    given, weights = (DeviceArray.of(array, device(0)) for array in (x, w))
    step = model.captured(given, weights)

    for n in range(1, 13):
        model(drawn(n, 16), w)
        given.write(x + n)
        (y,) = step()
        np.testing.assert_allclose(y.numpy(), (x + n) @ w, rtol=1e-4, atol=1e-4)

    # Captured again when what the library has made for it may have gone: five times.
    assert products.count("cuGraphInstantiateWithFlags") == 1 + 5


@pytest.mark.parametrize(
    "name", ["MatmulDescCreate", "MatmulAlgoGetHeuristic", "Matmul"]
)
def test_what_the_library_refuses_names_the_kernel(name: str, products: Stub) -> None:
    model = compiled(product(20, 16, 20))
    arrays = drawn(20, 16), drawn(16, 20)
    products.fail(f"cublasLt{name}", 15)

    with pytest.raises(
        DeviceError,
        match=rf"kernel `.*matmul.*`: product of 1x20x20x16 terms: cublasLt{name}: "
        r"CUBLAS_STATUS_NOT_SUPPORTED \(15\)",
    ):
        model(*arrays)

    (y,) = model(*arrays)
    np.testing.assert_allclose(y, np.maximum(arrays[0] @ arrays[1], 0), atol=1e-4)


def test_without_the_library_the_message_says_what_to_do(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cublaslt, "LIBRARIES", {13: "libno_such_library.so.13"})
    model = compiled(product(20, 16, 20))

    with pytest.raises(
        DeviceError,
        match=r"cuBLASLt, which models call that were compiled so, cannot be loaded: libno_such_library.*"
        r'`pip install nvidia-cublas`.*`library="never"`',
    ):
        model(drawn(20, 16), drawn(16, 20))


def test_a_library_newer_than_the_driver_is_passed_over(
    products: Stub, cublaslt_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cublaslt, "LIBRARIES", {14: str(cublaslt_library), 12: "libnone.so.12"}
    )

    with pytest.raises(DeviceError, match=r"libnone\.so\.12"):
        cublaslt.library(device(0))


def test_packages_of_pip_are_looked_through(
    products: Stub, cublaslt_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package is found by its list of files, and is not imported."""

    class File:
        name = "libno_loader_finds.so.13"

        def locate(self) -> Path:
            return cublaslt_library

    def files(package: str) -> list[File]:
        return {"nvidia-cublas": [File()]}[package]

    monkeypatch.setattr(cublaslt, "LIBRARIES", {13: File.name})
    monkeypatch.setattr(shared_libraries.metadata, "files", files)

    assert cublaslt.library(device(0)).path == str(cublaslt_library)
    assert cublaslt.library(device(0)).version == "13.1.0"


def test_a_file_runs_where_the_compiler_is_not(
    library: Path, cublaslt_library: Path, poor: Path, tmp_path: Path
) -> None:
    model = compiled(product(20, 16, 20))
    path = tmp_path / "model.rxm"
    model.save(path)
    code = f"""
import sys
sys.path.insert(0, {str(path)!r})
import numpy as np
from relax_mlir.runtime.cuda import cublaslt, driver
from relax_mlir.runtime.cuda.loading import load
driver.LIBRARY = {str(library)!r}
cublaslt.LIBRARIES = {{13: {str(cublaslt_library)!r}}}
x, w = np.ones((20, 16), np.float32), np.ones((16, 20), np.float32)
(y,) = load({str(path)!r})(x, w)
assert (y == 16).all()
assert cublaslt.__file__.startswith({str(path)!r})
"""
    environment = {**os.environ, "PYTHONPATH": str(poor)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_doctor_finds_it(
    products: Stub, cublaslt_library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = told_by_doctor("cublaslt", capsys)

    assert line.startswith("ok")
    assert line.endswith(f"13.1.0, {cublaslt_library}")
    assert env.has_cublas()


def test_the_doctor_says_that_it_is_not_there(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cublaslt, "LIBRARIES", {13: "libno_such_library.so.13"})

    line = told_by_doctor("cublaslt", capsys)

    assert "none: cuBLASLt, which models call" in line
    assert "libno_such_library" in line
    assert not env.has_cublas()


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
        assert "written by Library" in capsys.readouterr().out
    else:
        made = relax_mlir.load(tmp_path / "m.rxm")
        assert isinstance(made, CudaExecutable)
        assert rules_of(made) == ["Library"]


def damaged(model: CudaExecutable, **changed: object) -> Contents:
    """The same, with another product."""
    (program,) = model.contents.plan.programs
    (found,) = program.launches
    assert isinstance(found, Product)
    program = replace(program, launches=(replace(found, **changed),))
    plan = Plan((program,), model.contents.plan.steps)
    return replace(model.contents, plan=plan)


_LHS = Matrix(Pointer("argument", 0), "f32", 16)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"sizes": (1, 20, 20)}, r"a product of 3 sizes"),
        ({"sizes": (1, 20, "k", 16)}, r"unknown size `k`"),
        ({"sizes": (1, 20, 20.5, 16)}, r"expected a text, got 20\.5"),
        ({"activation": "gelu"}, r"unknown kind: .*activation 'gelu'"),
        ({"tf32": 1}, r"unknown kind: tf32 1"),
        ({"lhs": replace(_LHS, element="i8")}, r"matrix of an unknown kind: `i8`"),
        ({"lhs": replace(_LHS, element="f16")}, r"matrices that do not fit"),
        ({"lhs": replace(_LHS, is_turned=3)}, r"unknown kind: `f32`, turned 3"),
        ({"bias": Pointer("argument", 9)}, r"argument 9: there are 3"),
        ({"bias": Pointer("arena", 0)}, r"expected memory of argument, scratch"),
    ],
)
def test_damaged_plans_are_refused(
    changed: dict[str, object], problem: str, tmp_path: Path
) -> None:
    model = CudaExecutable(damaged(compiled(product(20, 16, 20)), **changed))
    model.save(tmp_path / "model.rxm")

    with pytest.raises(ModelError, match=problem):
        relax_mlir.load(tmp_path / "model.rxm")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"sizes": (1, 21, 20, 16)}, r"1344 bytes at 0 of input 0, which has 1280"),
        ({"sizes": (1, 20, 20, 0)}, r"a product of 1x20x20x0"),
        ({"sizes": (1, 20, -1, 16)}, r"a product of 1x20x-1x16"),
        ({"lhs": replace(_LHS, leading=-16)}, r"a product of 1x20x20x16"),
        ({"lhs": replace(_LHS, leading=15)}, r"rows of 16 elements, 15 apart"),
        ({"sizes": (2, 20, 20, 16), "lhs": replace(_LHS, step=1)}, r"of input 0"),
        ({"bias": Pointer("argument", 2, 1560)}, r"80 bytes at 1560 of output 0"),
    ],
)
def test_products_stay_in_their_memory(
    changed: dict[str, object], problem: str, products: Stub
) -> None:
    model = CudaExecutable(damaged(compiled(product(20, 16, 20)), **changed))

    with pytest.raises(ModelError, match=problem):
        model(drawn(20, 16), drawn(16, 20))


_BY_HAND = """
func.func @k(%x: memref<64xf32>, %y: memref<64xf32>)
    attributes {{tir.prim_func, tir.rule = "ByHand"}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %n = arith.constant {rows} : index
  "tir.library_product"(%x, %x, %{result}, %c1, %n, %c8, %c8, %c8, %c8, %{leading},
      %c0, %c0, %c0) {{
    activation = "none", tf32 = false, turned = [false, false],
    operandSegmentSizes = array<i32: 1, 1, 1, 4, 3, 3, 0>
  }} : (memref<64xf32>, memref<64xf32>, memref<64xf32>, index, index, index, index, index,
        index, index, index, index, index) -> ()
  return
}}
"""


@pytest.mark.parametrize(
    ("rows", "result", "leading", "problem"),
    [
        (9, "y", "c8", r"element 71 of an array of 64"),
        (8, "x", "c8", r"a result lies in an operand"),
        (8, "y", "c1", r"two results lie at one place"),
    ],
)
def test_the_emulator_tells_what_a_product_must_not_do(
    rows: int, result: str, leading: str, problem: str
) -> None:
    text = _BY_HAND.format(rows=rows, result=result, leading=leading)
    module, x = IRModule.parse(text), drawn(64)

    with pytest.raises(EmulationError, match=problem):
        emulated_program(module, [x], [x], target=TARGET)


def test_explanations_name_the_rule() -> None:
    told = relax_mlir.explain(product(20, 16, 20), target=TARGET, library="always")

    assert [kernel.choice.rule for kernel in told.kernels] == ["Library"]


def test_the_pass_refuses_other_policies() -> None:
    with pytest.raises(PassError, match=r"unknown policy `often` of libraries"):
        relax_mlir.opt(product(8, 8, 8), "schedule-apply-gpu{library=often}")
