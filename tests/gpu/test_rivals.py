"""Library baselines of kernels, in the smoke run of a model file."""

import re
from pathlib import Path

import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.runtime.cuda import cublaslt, cudnn
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.library_baselines import LibraryBaselines
from relax_mlir.runtime.cuda.smoke_run import main as try_file
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.symbolic.convolution_shapes import ConvolutionShape
from tests.gpu.library_calls import compiled, onnx
from tests.gpu.stub import Emulation, Stub
from tests.schedules.low_precision import drawn


def network() -> IRModule:
    """A padded convolution and a matmul."""
    text = """g (float[2, 4, 6, 6] x, float[8, 4, 3, 3] w, float[288, 10] v)
        => (float[2, 10] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        r = Relu (c)
        f = Flatten (r)
        y = MatMul (f, v) }"""
    weights = {"w": drawn(8, 4, 3, 3), "v": drawn(288, 10)}
    return onnx(text, **weights)


@pytest.fixture
def file(emulation: Emulation, tmp_path: Path) -> Path:
    module = network()
    model = compiled(module, library="never")
    model.save(tmp_path / "model.rxm")
    return tmp_path / "model.rxm"


def test_baselines_of_kernels(
    convolutions: Stub, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert try_file(["trial", str(file), "--calls", "3"]) == 0

    shown = capsys.readouterr().out
    assert re.search(r"conv2d.*TFLOP/s.*, \d+\.\d\d of cuDNN\n", shown)
    assert re.search(r"matmul.*TFLOP/s.*, \d+\.\d\d of cuBLASLt\n", shown)
    assert convolutions.count("cudnnBackendExecute") == 5
    assert convolutions.count("cublasLtMatmul") == 5
    assert "not compared" not in shown


def test_without_the_libraries_the_reason_is_told(
    stub: Stub,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cublaslt, "LIBRARIES", {13: "libno_such_library.so.13"})
    monkeypatch.setattr(cudnn, "LIBRARIES", {13: "libno_such_library.so.9"})

    assert try_file(["trial", str(file), "--calls", "1"]) == 0

    shown = capsys.readouterr().out
    assert "not compared: cuDNN, which the model calls" in shown
    assert "not compared: cuBLASLt, which the model calls" in shown
    assert " of cuDNN\n" not in shown


def test_library_calls_have_no_baseline(
    convolutions: Stub,
) -> None:
    model = compiled(network())
    rivals = LibraryBaselines(device(0))

    assert {k.rule for k in model.kernels} >= {"CublasLt", "Cudnn"}
    assert [rivals.of(kernel) for kernel in model.kernels] == [None] * len(
        model.kernels
    )


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("rule", ["GemmSimt", "GemmWgmma"])
def test_elements_of_all_types(element: str, rule: str, convolutions: Stub) -> None:
    shape = ConvolutionShape(
        *(4, 6, 1),
        *((5, 5), (3, 3), (3, 3)),
        *((1, 1), (1, 1), (0, 0)),
        *((100, 25, 5, 1), (54, 9, 3, 1)),
        channels_last=False,
    )
    kernels = (
        KernelCall("product", rule, product=(2, 8, 16, 24, element)),
        KernelCall("convolution", rule, convolution=(2, shape, element)),
    )
    rivals = LibraryBaselines(device(0))

    found = [rivals.of(kernel) for kernel in kernels]

    assert [rival and rival.name for rival in found] == ["cuBLASLt", "cuDNN"]
    for rival in found:
        assert rival is not None
        rival.start()
    assert convolutions.count("cudnnBackendExecute") == 1
    assert convolutions.count("cublasLtMatmul") == 1
    rivals.close()
    assert rivals.missing == []


def test_what_a_kernel_convolves_is_in_its_file(file: Path) -> None:
    """Padding is a separate kernel here, so images are larger than the model's."""
    pad, convolution, *_ = relax_mlir.load(file).kernels

    assert pad.convolution is None
    assert convolution.convolution is not None
    images, shape, element = convolution.convolution
    assert (images, element) == (2, "f32")
    assert (shape.channels, shape.filters, shape.groups) == (4, 8, 1)
    assert (shape.image, shape.result, shape.pads) == ((8, 8), (6, 6), (0, 0))
    shape.check()
    assert all(k.convolution is None for k in relax_mlir.load(file).kernels[2:])


def test_pads_of_a_kernel_are_those_of_what_it_convolves() -> None:
    """The second of two layers, whose images are intermediate tensors."""
    text = """g (float[2, 4, 6, 6] x, float[8, 4, 3, 3] w, float[8, 8, 3, 3] v)
        => (float[2, 8, 6, 6] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w)
        r = Relu (c)
        y = Conv <pads = [1, 1, 1, 1]> (r, v) }"""
    weights = {"w": drawn(8, 4, 3, 3), "v": drawn(8, 8, 3, 3)}
    model = compiled(onnx(text, **weights), library="never")

    found = [k.convolution for k in model.kernels if k.convolution is not None]

    assert [shape.pads for _, shape, _ in found][-1] == (1, 1)
