"""Every emitted barrier is necessary: the emulator detects the race without it."""

from collections.abc import Iterator

import numpy as np
import pytest
from mlir import ir

from relax_mlir import IRModule, import_onnx, lower
from relax_mlir.errors import EmulationError
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import erase
from relax_mlir.schedules.builder import index
from relax_mlir.schedules.gpu import gemm_wgmma
from tests.frontends.onnx.differential import parse
from tests.gpu.emulated import compiled, emulated
from tests.gpu.test_gemm import layer
from tests.ptx_emulator import emulate
from tests.schedules.low_precision import drawn

_TARGET, _DEVICE = "cuda:sm_80", "cuda:sm_90"  # which runs what is for the other
_ORDERS = 16  # in one, what is missing may not be missed


def softmax() -> IRModule:
    text = "g (float[3, 4096] x) => (float[3, 4096] y) { y = Softmax (x) }"
    return import_onnx(parse(text, opset=17))


def transposed() -> IRModule:
    text = "g (float[70, 90] x) => (float[90, 70] y) { y = Transpose (x) }"
    return import_onnx(parse(text, opset=17))


_KERNELS = {
    "rows": (softmax(), "f32"),
    "transpose": (transposed(), "f32"),
    "split column reduction": (layer(1, 512, 96, is_transposed=False), "f32"),
    "register staging": (layer(40, 50, 48, is_transposed=False), "f32"),
    "cp.async": (layer(64, 160, 64, is_transposed=False), "f16"),
}


def sides(module: IRModule) -> list[np.ndarray]:
    """The inputs of ``main``."""
    types = [ir.RankedTensorType(t) for t in module.func_op("main").type.inputs]
    return [drawn(*t.shape) for t in types]


def operations(module: IRModule, name: str) -> Iterator[ir.OpView]:
    return (o for o in walk(module.mlir.operation) if o.operation.name == name)


def is_right(module: IRModule, inputs: list[np.ndarray], expected: np.ndarray) -> bool:
    """Whether a module is correct under random schedules of its threads."""
    try:
        made = compiled(module, _DEVICE)
        results = [emulate(made, *inputs, seed=seed) for seed in range(_ORDERS)]
    except EmulationError:
        return False
    return all(np.array_equal(y, expected) for (y,) in results)


def check_all_needed(
    module: IRModule, inputs: list[np.ndarray], expected: np.ndarray, name: str
) -> None:
    """Checks that removing any operation of a name breaks the module."""
    count = len(list(operations(module, name)))
    assert count > 0
    for number in range(count):
        mutant = module.clone()
        erase(list(operations(mutant, name))[number])
        assert not is_right(mutant, inputs, expected), f"{name} {number}"


def check_all_waits_needed(
    module: IRModule, inputs: list[np.ndarray], expected: np.ndarray
) -> None:
    """Checks that allowing one more pending wgmma group breaks the module."""
    name = "nvvm.wgmma.wait.group.sync.aligned"
    for number in range(len(list(operations(module, name)))):
        mutant = module.clone()
        with mutant.context:
            raised(list(operations(mutant, name))[number], "group")
        assert not is_right(mutant, inputs, expected), f"wait {number}"


@pytest.mark.parametrize("name", _KERNELS)
def test_every_barrier_is_needed(name: str) -> None:
    module, precision = _KERNELS[name]
    loops = lower(module, target=_TARGET, to="loops", precision=precision)
    inputs = sides(module)
    (expected,) = emulated(loops, *inputs, target=_DEVICE)

    check_all_needed(loops, inputs, expected, "gpu.barrier")


Product = tuple[IRModule, list[np.ndarray], np.ndarray]


@pytest.fixture
def product(monkeypatch: pytest.MonkeyPatch) -> Product:
    """A wgmma GEMM with more K tiles than stages, and more tiles than blocks.

    Returns the module at `loops`, its inputs, and its outputs.
    """
    small = gemm_wgmma.GemmWgmmaConfiguration(128, 64, 64, stages=2, blocks=2)
    monkeypatch.setattr(gemm_wgmma, "_CONFIGURATIONS", (small,))
    module = layer(300, 272, 136, is_transposed=False)
    loops = lower(module, target="cuda:sm_90", to="loops", precision="f16")
    inputs = sides(module)
    (expected,) = emulated(loops, *inputs, target=_DEVICE)
    return loops, inputs, expected


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "name",
    [
        "gpu.barrier",
        "nvgpu.mbarrier.arrive",
        "nvgpu.mbarrier.arrive.expect_tx",
        "nvgpu.mbarrier.init",
        "nvgpu.mbarrier.try_wait.parity",
        "nvgpu.tma.async.load",
        "nvvm.bar.warp.sync",
        "nvvm.wgmma.commit.group.sync.aligned",
        "nvvm.wgmma.fence.aligned",
        "nvvm.wgmma.wait.group.sync.aligned",
    ],
)
def test_every_synchronization_is_needed(product: Product, name: str) -> None:
    check_all_needed(*product, name)


def raised(operation: ir.OpView, name: str) -> None:
    """Increments an integer attribute."""
    attribute = ir.IntegerAttr(operation.operation.attributes[name])
    more = ir.IntegerAttr.get(attribute.type, attribute.value + 1)
    operation.operation.attributes[name] = more


def test_stages_are_released_after_the_wgmma(product: Product) -> None:
    check_all_waits_needed(*product)


@pytest.mark.parametrize("operand", ["bytes", "arrivals"])
def test_mbarriers_count_arrivals_and_bytes(product: Product, operand: str) -> None:
    loops, inputs, expected = product
    name = {
        "bytes": "nvgpu.mbarrier.arrive.expect_tx",
        "arrivals": "nvgpu.mbarrier.init",
    }

    for number in range(len(list(operations(loops, name[operand])))):
        for more in (-1, 1):
            mutant = loops.clone()
            changed = list(operations(mutant, name[operand]))[number]
            constant = changed.operation.operands[1].owner
            with mutant.context, changed.location, ir.InsertionPoint(changed):
                value = ir.IntegerAttr(constant.attributes["value"]).value + more
                changed.operation.operands[1] = index(value)
            assert not is_right(mutant, inputs, expected), f"{operand} {number} {more}"


def test_async_copies_must_be_waited_for() -> None:
    module, precision = _KERNELS["cp.async"]
    loops = lower(module, target=_TARGET, to="loops", precision=precision)
    inputs = sides(module)
    (expected,) = emulated(loops, *inputs, target=_DEVICE)

    mutant = loops.clone()
    (wait,) = operations(mutant, "nvvm.cp.async.wait.group")
    with mutant.context:
        i32 = ir.IntegerType.get_signless(32)
        left = ir.IntegerAttr(wait.attributes["n"]).value + 1
        wait.attributes["n"] = ir.IntegerAttr.get(i32, left)

    assert not is_right(mutant, inputs, expected)
