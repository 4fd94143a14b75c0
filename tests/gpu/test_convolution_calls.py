"""cuDNN convolutions in models: CUDA graphs, devices, workspace, and errors."""

from pathlib import Path

import numpy as np
import pytest

from relax_mlir.compiler import reference
from relax_mlir.errors import DeviceError
from relax_mlir.runtime.cuda import cublaslt, cudnn
from relax_mlir.runtime.cuda.arrays import DeviceArray
from relax_mlir.runtime.cuda.conv_descriptors import Convolution
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.libraries import Libraries
from relax_mlir.runtime.cuda.matmul_descriptors import Matmul
from relax_mlir.runtime.cuda.shared_libraries import handle
from relax_mlir.tvm.testing import env
from tests.gpu.example import run_where_little_is
from tests.gpu.library_calls import compiled, doctor_line, onnx
from tests.gpu.stub import Emulation, Stub
from tests.gpu.test_library_convolution import convolution, residual_network
from tests.schedules.low_precision import drawn

_FIRST_PLAN = 16  # of the descriptors of a layer in f32, which are finished one by one


def test_both_libraries_share_a_workspace(convolutions: Stub) -> None:
    gpu = device(0)
    libraries = Libraries(gpu)

    with gpu.current():
        of_products = libraries.cublaslt().workspace
        workspace = libraries.cudnn().workspace

        assert workspace.at_least(of_products.size_bytes) is of_products
        more = workspace.at_least(of_products.size_bytes + 1)
        assert more.size_bytes == 2 * of_products.size_bytes
        assert of_products.address  # graphs know it
        libraries.close()
    assert not of_products.address
    assert not more.address


def test_all_resources_are_released(convolutions: Stub, emulation: Emulation) -> None:
    module = residual_network()
    before = convolutions.used_bytes
    model = compiled(module)
    model(drawn(2, 3, 24, 24))
    kinds = {type(n) for p in model.contents.plan.programs for n in p.launches}
    assert kinds >= {Convolution, Matmul}

    del model

    assert convolutions.used_bytes == before
    made, gone = (
        convolutions.count(f"cudnnBackend{what}Descriptor")
        for what in ("Create", "Destroy")
    )
    assert made == gone > 0


def test_convolutions_are_captured_in_graphs(
    convolutions: Stub, emulation: Emulation
) -> None:
    """Two layers: the second reads the first one's result, and a residual."""
    module = onnx(
        """g (float[2, 4, 9, 9] x, float[6, 4, 3, 3] w, float[6] b, float[5, 6, 3, 3] v,
        float[2, 5, 5, 5] r) => (float[2, 5, 5, 5] y) {
        c = Conv (x, w, b)
        t = Relu (c)
        d = Conv (t, v)
        y = Add (d, r) }"""
    )
    model = compiled(module)
    gpu = device(0)
    shapes = (2, 4, 9, 9), (6, 4, 3, 3), (6,), (5, 6, 3, 3), (2, 5, 5, 5)
    sets = [[drawn(*shape, seed=seed) for shape in shapes] for seed in range(2)]
    on_gpu = [[DeviceArray.of(a, gpu) for a in arrays] for arrays in sets]
    outs = [DeviceArray.of(np.zeros(shapes[-1], np.float32), gpu) for _ in range(2)]

    for number in (0, 0, 1, 0, 1, 1):
        model(*on_gpu[number], out=[outs[number]])

    for arrays, out in zip(sets, outs, strict=True):
        (expected,) = reference.run(module, *arrays)
        np.testing.assert_allclose(out.numpy(), expected, atol=1e-3, rtol=1e-4)
    assert convolutions.count("cuGraphLaunch") == 4
    # As such, and captured.
    assert convolutions.count("cudnnBackendExecute") == 2 * 2 + 2 * 2


def test_each_device_has_its_own(convolutions: Stub) -> None:
    convolutions.device(count=2)
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)

    results = [model.on(ordinal)(*arrays)[0] for ordinal in (0, 1)]

    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(
        results[0], reference.run(module, *arrays)[0], atol=1e-4, rtol=0
    )
    devices = device(0), device(1)
    handles = {handle(cudnn.library(gpu), gpu) for gpu in devices}
    assert len(handles) == 2


def test_kernels_are_profiled(convolutions: Stub) -> None:
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)

    profile = model.profile(*arrays)

    assert [kernel.rule for kernel in profile.kernels] == ["Cudnn"]
    assert (profile.durations_ns > 0).all()


@pytest.mark.parametrize("name", ["Finalize", "GetAttribute", "Execute"])
def test_library_errors_name_the_kernel(name: str, convolutions: Stub) -> None:
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)
    convolutions.fail(f"cudnnBackend{name}", 3000)

    with pytest.raises(
        DeviceError,
        match=r"kernel `.*conv2d.*`: convolution of 2x8x9x9 by 12x8x3x3: "
        rf"cudnnBackend{name}: CUDNN_STATUS_NOT_SUPPORTED \(3000\)",
    ):
        model(*arrays)

    (y,) = model(*arrays)
    np.testing.assert_allclose(
        y, reference.run(module, *arrays)[0], atol=1e-4, rtol=1e-5
    )


def test_without_an_engine_the_message_says_what_to_do(convolutions: Stub) -> None:
    module, arrays = convolution("plain", "y = Relu (c)")
    model = compiled(module)
    convolutions.fail("cudnnBackendFinalize", 3000, nth=_FIRST_PLAN)

    with pytest.raises(
        DeviceError,
        match=r"cuDNN 9\.28\.0 has no engine for it: .*CUDNN_STATUS_NOT_SUPPORTED.*"
        r'Hint: compile the model with `library="never"`',
    ):
        model(*arrays)


def test_without_the_library_the_message_says_what_to_do(
    products: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cudnn, "LIBRARIES", {13: "libno_such_library.so.9"})
    module, arrays = convolution("plain")

    with pytest.raises(
        DeviceError,
        match=r"cuDNN, which the model calls, cannot be loaded: "
        r"libno_such_library.*`pip install nvidia-cudnn-cu13` or "
        r'`pip install nvidia-cudnn-cu12`.*`library="never"`',
    ):
        compiled(module)(*arrays)


def test_libraries_for_newer_drivers_are_skipped(
    convolutions: Stub, cudnn_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(device(0).driver), "version", (12, 9))
    monkeypatch.setattr(cudnn, "LIBRARIES", {12: str(cudnn_library)})

    with pytest.raises(
        DeviceError, match=r"built for CUDA 13, the driver is of CUDA 12"
    ):
        cudnn.library(device(0))


def test_cublaslt_is_loaded_before_cudnn(
    convolutions: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cublaslt, "LIBRARIES", {13: "libno_such_library.so.13"})

    with pytest.raises(
        DeviceError, match=r"cuDNN, which .*: cuBLASLt, .*libno_such_library"
    ):
        cudnn.library(device(0))


def test_files_run_without_the_compiler(
    library: Path,
    cublaslt_library: Path,
    cudnn_library: Path,
    poor: Path,
    tmp_path: Path,
) -> None:
    module, _ = convolution("plain", "y = Relu (c)")
    path = tmp_path / "model.rxm"
    compiled(module).save(path)
    code = f"""
import sys
sys.path.insert(0, {str(path)!r})
import numpy as np
from relax_mlir.runtime.cuda import cublaslt, cudnn, driver
from relax_mlir.runtime.cuda.loading import load
driver.LIBRARY = {str(library)!r}
cublaslt.LIBRARIES = {{13: {str(cublaslt_library)!r}}}
cudnn.LIBRARIES = {{13: {str(cudnn_library)!r}}}
x, w, b = (np.ones(n, np.float32) for n in ((2, 8, 9, 9), (12, 8, 3, 3), (12,)))
(y,) = load({str(path)!r})(x, w, b)
assert (y == 73).all()
assert cudnn.__file__.startswith({str(path)!r})
"""
    run_where_little_is(poor, code)


def test_the_doctor_finds_it(
    convolutions: Stub, cudnn_library: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = doctor_line("cudnn", capsys)

    assert line.startswith("ok")
    assert line.endswith(f"9.28.0, {cudnn_library}")
    assert env.has_cudnn()


def test_the_doctor_says_that_it_is_not_there(
    products: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cudnn, "LIBRARIES", {13: "libno_such_library.so.9"})

    line = doctor_line("cudnn", capsys)

    assert "none: cuDNN, which the model calls" in line
    assert "libno_such_library" in line
    assert not env.has_cudnn()
