"""Every barrier that rules write is needed, and the emulator sees when it is missing."""

from collections.abc import Iterator

import numpy as np
import pytest
from mlir import ir

from relax_mlir import IRModule, import_onnx, lower
from relax_mlir.emulator import EmulationError, emulate
from relax_mlir.rewriting import erase, walk
from tests.frontends.differential import parse
from tests.gpu.test_gemm import layer
from tests.products import drawn

_TARGET = "cuda:sm_90"


def softmax() -> IRModule:
    text = "g (float[3, 4096] x) => (float[3, 4096] y) { y = Softmax (x) }"
    return import_onnx(parse(text, opset=17))


def turned() -> IRModule:
    text = "g (float[70, 90] x) => (float[90, 70] y) { y = Transpose (x) }"
    return import_onnx(parse(text, opset=17))


_KERNELS = {
    "rows": (softmax(), "f32"),
    "squares": (turned(), "f32"),
    "slices of sums": (layer(1, 512, 96, is_turned=False), "f32"),
    "slices that wait in registers": (layer(40, 50, 48, is_turned=False), "f32"),
    "slices that are copied": (layer(64, 160, 64, is_turned=False), "f16"),
}


def sides(module: IRModule) -> list[np.ndarray]:
    """Inputs of ``main``."""
    types = [ir.RankedTensorType(t) for t in module.func_op("main").type.inputs]
    return [drawn(*t.shape) for t in types]


def operations(module: IRModule, name: str) -> Iterator[ir.OpView]:
    return (o for o in walk(module.mlir.operation) if o.operation.name == name)


def is_right(module: IRModule, inputs: list[np.ndarray], expected: np.ndarray) -> bool:
    try:
        (y,) = emulate(module, *inputs)
    except EmulationError:
        return False
    return np.array_equal(y, expected)


@pytest.mark.parametrize("name", _KERNELS)
def test_no_barrier_can_be_missing(name: str) -> None:
    module, precision = _KERNELS[name]
    loops = lower(module, target=_TARGET, to="loops", precision=precision)
    inputs = sides(module)
    (expected,) = emulate(loops, *inputs)
    count = len(list(operations(loops, "gpu.barrier")))

    assert count > 0
    for number in range(count):
        mutant = loops.clone()
        erase(list(operations(mutant, "gpu.barrier"))[number])
        assert not is_right(mutant, inputs, expected), f"barrier {number}"


def test_copies_must_be_waited_for() -> None:
    module, precision = _KERNELS["slices that are copied"]
    loops = lower(module, target=_TARGET, to="loops", precision=precision)
    inputs = sides(module)
    (expected,) = emulate(loops, *inputs)

    mutant = loops.clone()
    (wait,) = operations(mutant, "nvvm.cp.async.wait.group")
    with mutant.context:
        i32 = ir.IntegerType.get_signless(32)
        left = ir.IntegerAttr(wait.attributes["n"]).value + 1
        wait.attributes["n"] = ir.IntegerAttr.get(i32, left)

    assert not is_right(mutant, inputs, expected)
