"""cuBLASLt matmuls in models: CUDA graphs, devices, workspace, and errors."""

from pathlib import Path

import numpy as np
import pytest

from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda import cublaslt, shared_libraries
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.tvm.testing import env
from tests.gpu.example import run_where_little_is
from tests.gpu.library_calls import compiled, doctor_line, onnx
from tests.gpu.stub import Emulation, Stub
from tests.gpu.test_library import product
from tests.schedules.low_precision import drawn


def test_matmuls_are_captured_in_graphs(products: Stub) -> None:
    """Two layers: the second matmul reads the first one's result, and a bias."""
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


def test_kernels_are_profiled(products: Stub) -> None:
    model = compiled(product(20, 16, 20))

    profile = model.profile(drawn(20, 16), drawn(16, 20))

    assert [kernel.rule for kernel in profile.kernels] == ["CublasLt"]
    assert (profile.durations_ns > 0).all()


def test_all_resources_are_released(products: Stub) -> None:
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


def test_matmul_plans_are_cached(products: Stub) -> None:
    model, w = compiled(onnx(_OPEN)), drawn(16, 20)

    for n in (*range(1, 13), *range(5, 13), 1):
        x = drawn(n, 16)
        np.testing.assert_allclose(model(x, w)[0], x @ w, rtol=1e-4, atol=1e-5)

    made, gone = (
        products.count(f"cublasLtMatmulDesc{what}") for what in ("Create", "Destroy")
    )
    assert (made, gone) == (13, 5)  # of 12 sizes, and of the first once more


def test_evicted_matmul_plans_are_captured_again(products: Stub) -> None:
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
def test_library_errors_name_the_kernel(name: str, products: Stub) -> None:
    model = compiled(product(20, 16, 20))
    arrays = drawn(20, 16), drawn(16, 20)
    products.fail(f"cublasLt{name}", 15)

    with pytest.raises(
        DeviceError,
        match=rf"kernel `.*matmul.*`: matmul of 1x20x20x16: cublasLt{name}: "
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
        match=r"cuBLASLt, which the model calls, cannot be loaded: libno_such_library.*"
        r'`pip install nvidia-cublas`.*`library="never"`',
    ):
        model(drawn(20, 16), drawn(16, 20))


def test_libraries_for_newer_drivers_are_skipped(
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
    """The package is found by its metadata, without importing it."""

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


def test_files_run_without_the_compiler(
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
    run_where_little_is(poor, code)


def test_the_doctor_finds_it(
    products: Stub, cublaslt_library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = doctor_line("cublaslt", capsys)

    assert line.startswith("ok")
    assert line.endswith(f"13.1.0, {cublaslt_library}")
    assert env.has_cublas()


def test_the_doctor_says_that_it_is_not_there(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cublaslt, "LIBRARIES", {13: "libno_such_library.so.13"})

    line = doctor_line("cublaslt", capsys)

    assert "none: cuBLASLt, which the model calls" in line
    assert "libno_such_library" in line
    assert not env.has_cublas()
