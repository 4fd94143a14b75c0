"""Index checks of models for GPUs, with indices in device memory."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import IndexOutOfRangeError
from relax_mlir.runtime.cuda.executable import CudaExecutable
from tests.frontends.onnx.differential import parse
from tests.gpu.stub import TARGET
from tests.ptx_emulator import emulate


def test_indices_that_a_kernel_computes_are_checked() -> None:
    model = parse(
        "g (float[n, 3] x, int64[k] i) => (float[k, 3] y) "
        "{ j = Neg (i) [rows] y = Gather <axis = 0> (x, j) }",
        opset=21,
    )
    compiled = relax_mlir.compile(model, target=TARGET, checks="indices", cache=False)
    assert isinstance(compiled, CudaExecutable)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)

    (y,) = emulate(compiled, x, np.array([0, -4]))
    np.testing.assert_array_equal(y, x[[0, 4]])
    with pytest.raises(IndexOutOfRangeError, match=r"`rows`.*at \[1\].*-5 to 4, got 5"):
        emulate(compiled, x, np.array([0, -5]))
