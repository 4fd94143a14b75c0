"""GPU rules take extents from the program, not from buffer shapes; see the CPU test."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from relax_mlir import IRModule
from relax_mlir.tvm.tir import PrimFunc
from tests.gpu.emulated import compiled
from tests.helpers.programs import called
from tests.ptx_emulator import emulate
from tests.schedules.slices import at_point, at_points, check_slice, slices_of
from tests.schedules.test_sliced_operands import (
    NETWORKS,
    Network,
    attention,
    convolution,
    matmul,
    transposed_matmul,
    unary,
)
from tests.tvm.tir.schedule import bound_programs

_TARGET = "cuda:sm_90"
_OFFSETS = ((0, 8), (8, 8), (3, 5))


@dataclass(frozen=True)
class BoundProgram(Network):
    """A PrimFunc whose loops are bound to thread axes.

    Attributes:
        program: the PrimFunc; its last buffer is the result.
    """

    program: PrimFunc | None = None

    def module(self) -> IRModule:
        assert self.program is not None
        return called(self.program)


def bound(program: PrimFunc, *inputs: tuple[int, ...]) -> Network:
    return BoundProgram("ThreadBound", "", inputs, program=program)


_OWN = {
    "bound loops": bound(bound_programs.tiled, (37, 21), (21, 19)),
    "bound sums": bound(bound_programs.row_sums, (5, 77)),
    "statements": unary("PerStatement", "Softmax<axis = 0>(x)", (20, 24), "20,24"),
    "wgmma": transposed_matmul("GemmWgmma", 64, 72, 64, "float16"),
    "wgmma of columns": matmul("GemmWgmma", 64, 72, 64, kind="float16"),
    "mma": transposed_matmul("GemmMmaSync", 20, 40, 24, "float16"),
    "gemv": matmul("Gemv", 1, 40, 64),
    "transposed gemv": transposed_matmul("Gemv", 1, 40, 64),
    "simt": matmul("GemmSimt", 40, 24, 40),
    "3x3 convolution": convolution("GemmSimt", 9, 8, 16, 3, 1),
    "attention": attention(2, 40, 40, 32),
    "f16 attention": replace(
        attention(2, 64, 72, 64, "float16"), rule="AttentionWgmma"
    ),
    "rows": unary("RowReduction", "Softmax(x)", (5, 70), "5,70"),
    "columns": unary(
        "ColumnReduction", "ReduceMax<axes = [0], keepdims = 0>(x)", (40, 24), "24"
    ),
    "transpose": unary("Transpose", "Transpose(x)", (40, 36), "36,40"),
    "library matmul": transposed_matmul("CublasLt", 20, 24, 32),
    "library convolution": convolution("Cudnn", 9, 8, 16, 3, 1),
}
_SHARED = ("layer norm", "concatenation", "depthwise", "sum")
_NETWORKS = {**_OWN, **{name: NETWORKS[name] for name in _SHARED}}


def run(
    library: str, module: IRModule, arrays: Sequence[np.ndarray]
) -> tuple[np.ndarray, set[str]]:
    made = compiled(module, _TARGET, library=library)
    return emulate(made, *arrays)[0], {kernel.rule for kernel in made.kernels}


def tolerance_of(network: Network) -> float:
    # Halves are rounded once more where tiles are cut in another way.
    return 4e-3 if "float16" in network.dtypes else 1e-4


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "point"), at_points(_NETWORKS))
def test_every_tensor_may_be_a_slice(name: str, point: str, every_case: bool) -> None:
    network = _NETWORKS[name]
    library = "always" if network.rule in ("CublasLt", "Cudnn") else "never"
    arrays, on_gpu = network.arrays(), partial(run, library)
    expected, whole = on_gpu(network.module(), arrays)
    made, rest = at_point(network.module(), _TARGET, point, library=library)
    if name in _OWN:
        assert network.rule in whole

    for where in slices_of(made, _OFFSETS, every=every_case):
        bound = tolerance_of(network)
        check_slice(made.clone(), where, rest, arrays, expected, on_gpu, bound)


@pytest.mark.parametrize("name", ["wgmma of columns", "f16 attention"])
def test_slices_that_do_not_begin_at_multiples_of_16_bytes(name: str) -> None:
    """TMA cannot read them; the emulator rejects such boxes."""
    network = _OWN[name]
    arrays, on_gpu = network.arrays(), partial(run, "never")
    expected, _ = on_gpu(network.module(), arrays)
    made, rest = at_point(network.module(), _TARGET, "planned")
    inner = arrays[0].ndim - 1
    found = [s for s in slices_of(made, [(3, 5)]) if s.axis == inner]

    for where in found[: len(arrays)]:
        bound = tolerance_of(network)
        check_slice(made.clone(), where, rest, arrays, expected, on_gpu, bound)


@pytest.mark.parametrize("name", ["gemv", "bound sums"])
def test_an_input_that_is_a_slice(name: str) -> None:
    network = _OWN[name]
    arrays, on_gpu = network.arrays(), partial(run, "never")
    expected, _ = on_gpu(network.module(), arrays)
    made, rest = at_point(network.module(), _TARGET, "planned")
    where = slices_of(made, [(0, 8)])[0]

    rules = check_slice(made, where, rest, arrays, expected, on_gpu, 1e-4)

    assert network.rule in rules
