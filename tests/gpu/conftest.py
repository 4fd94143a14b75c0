"""Fixtures of the GPU runtime tests: an in-process stub of NVIDIA's driver."""

import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import relax_mlir
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.cuda import cublaslt, cudnn, driver
from relax_mlir.runtime.cuda.devices import device
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.memory import release_completed
from tests.gpu.example import TEXT
from tests.gpu.stub import TARGET, Emulation, Stub, build, build_library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (`cc`) for the stub driver")
    return build(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def _loaded(library: Path) -> Stub:
    return Stub(library)


@pytest.fixture
def stub(
    library: Path, _loaded: Stub, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stub]:
    """The stub driver; exceptions of its kernels fail the test."""
    monkeypatch.setattr(driver, "LIBRARY", str(library))
    _loaded.reset()
    gc.collect()  # models of earlier tests,
    gc.collect()  # those that they had inside, and
    release_completed(device(0))  # what they have left in its queues
    _loaded.reset()
    yield _loaded
    if _loaded.errors:
        raise _loaded.errors[0]


@pytest.fixture(scope="session")
def cublaslt_library(library: Path) -> Path:
    return build_library("cublaslt", library)


@pytest.fixture(scope="session")
def cudnn_library(library: Path) -> Path:
    return build_library("cudnn", library)


@pytest.fixture
def products(
    stub: Stub, cublaslt_library: Path, monkeypatch: pytest.MonkeyPatch
) -> Stub:
    """The stub driver with a cuBLASLt stub."""
    monkeypatch.setattr(cublaslt, "LIBRARIES", {13: str(cublaslt_library)})
    return stub


@pytest.fixture
def convolutions(
    products: Stub, cudnn_library: Path, monkeypatch: pytest.MonkeyPatch
) -> Stub:
    """The stub driver with cuBLASLt and cuDNN stubs."""
    monkeypatch.setattr(cudnn, "LIBRARIES", {13: str(cudnn_library)})
    return products


@pytest.fixture
def emulation(stub: Stub) -> Emulation:
    """The stub driver with emulated kernels."""
    made = Emulation(stub)
    stub.on_launch(made.run)
    return made


@pytest.fixture(scope="session")
def compiled_example(tmp_path_factory: pytest.TempPathFactory) -> CudaExecutable:
    """The model of `tests.gpu.example`."""
    cache = tmp_path_factory.mktemp("cache")
    made = relax_mlir.compile(IRModule.parse(TEXT), target=TARGET, cache=cache)
    assert isinstance(made, CudaExecutable)
    return made


@pytest.fixture
def model(compiled_example: CudaExecutable, emulation: Emulation) -> CudaExecutable:
    """The example model, not loaded."""
    return CudaExecutable(compiled_example.contents)


@pytest.fixture
def poor(tmp_path: Path) -> Path:
    """A folder of modules that hide everything but Python and numpy."""
    for name in ("mlir", "tvm_ffi", "tvm_ffi_orcjit", "ml_dtypes", "onnx", "rich"):
        (tmp_path / "poor" / name).mkdir(parents=True)
        module = tmp_path / "poor" / name / "__init__.py"
        module.write_text(f"raise ImportError('no module `{name}` here')\n")
    return tmp_path / "poor"
