"""Models that call cuBLASLt and cuDNN: compilation, emulation, and recorded calls."""

from typing import TypeVar

import numpy as np
import pytest

from relax_mlir import IRModule, import_onnx
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.cuda.plan import LibraryCall
from relax_mlir.tools.cli import main
from tests.frontends.onnx.differential import parse
from tests.gpu import emulated as emulated_models
from tests.gpu.stub import TARGET
from tests.ptx_emulator import emulate

Kind = TypeVar("Kind", bound=LibraryCall)


def onnx(text: str, **values: np.ndarray) -> IRModule:
    return import_onnx(parse(text, opset=17), values=values)


def compiled(
    module: IRModule, library: str = "always", precision: str = "f32"
) -> CudaExecutable:
    return emulated_models.compiled(
        module, TARGET, precision=precision, library=library
    )


def emulated(
    module: IRModule, *arrays: np.ndarray, precision: str = "f32"
) -> np.ndarray:
    (y,) = emulate(compiled(module, precision=precision), *arrays)
    return y


def calls_of(model: CudaExecutable, kind: type[Kind]) -> list[Kind]:
    """The matmul or convolution calls of a launch plan."""
    launches = [n for p in model.contents.plan.programs for n in p.launches]
    return [launch for launch in launches if isinstance(launch, kind)]


def rules_of(model: CudaExecutable) -> list[str]:
    return [kernel.rule for kernel in model.kernels]


def doctor_line(library: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The line of `relax-mlir doctor` about an optional library."""
    assert main(["doctor"]) == 0
    (line,) = (n for n in capsys.readouterr().out.splitlines() if library in n)
    return line
