"""Whole models on a GPU, and every kernel of the networks at its full size."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from mlir import ir

import relax_mlir
from benchmarks.networks import network
from models import bert, gpt2, lstm, mlp, unet
from models.half import to_float16
from relax_mlir import IRModule, lower
from relax_mlir.compiler.tuning.tasks import TuningTask, tuning_tasks
from relax_mlir.testing import assert_same_numbers
from tests.gpu.emulated import emulated, emulated_program
from tests.ptx_emulator.memory import poison

_TARGET = "cuda:sm_90"
_BLOCKS = 1  # of a grid that is emulated, beside its first and last
_RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(np.float32)


def rules_of(module: IRModule) -> Counter[str]:
    attributes = (f.attributes for f in module.func_ops())
    found = (a["tir.rule"] for a in attributes if "tir.rule" in a)
    return Counter(ir.StringAttr(rule).value for rule in found)


_SMALL: dict[str, Any] = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 100}
_IDS, _MASK = _RNG.integers(0, 100, (2, 24)), np.ones((2, 24), np.int64)
_MASK[1, 20:] = 0

_MODELS = {
    "mlp": (mlp.build(4), [floats(4, 784)]),
    "bert": (
        bert.build(**_SMALL, seq=24, batch=2),
        [_IDS, _MASK, np.zeros_like(_IDS)],
    ),
    "bert, open sizes": (bert.build(**_SMALL), [_IDS, _MASK, np.zeros_like(_IDS)]),
    "gpt2": (gpt2.build(16, **_SMALL), [_IDS[:1, :16]]),
    "gpt2, a token": (
        gpt2.build(1, 15, **_SMALL),
        [_IDS[:1, :1], *(floats(1, 4, 15, 16) for _ in range(4))],
    ),
    "lstm": (lstm.build(seq=6, width=16, hidden=24), [floats(6, 1, 16)]),
    "gru": (lstm.build("GRU", seq=6, width=16, hidden=24), [floats(6, 1, 16)]),
    "unet": (unet.build(width=4, size=16), [floats(1, 3, 16, 16)]),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("precision", "name"),
    [
        pytest.param(precision, name, marks=[pytest.mark.every_case] * is_rare)
        for precision in ("f32", "f16")
        for name in _MODELS
        # That of halves has the same kernels.
        for is_rare in [name == "unet" and precision == "f32"]
    ],
)
def test_models(name: str, precision: str) -> None:
    model, inputs = _MODELS[name]
    module = relax_mlir.import_onnx(model)
    loops = lower(module, target=_TARGET, to="loops", precision=precision)

    actual = emulated(loops, *inputs, target=_TARGET)

    expected = relax_mlir.compile(module)(*inputs)
    for ours, theirs in zip(actual, expected, strict=True):
        tolerance = 2e-5 if precision == "f32" else 2e-2
        assert_same_numbers(ours, theirs, tolerance=tolerance)


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("bert, open sizes", {"AttentionWgmma": 1}),
        ("gpt2", {"Attention": 1}),
        ("gpt2, a token", {"Attention": 1}),
        ("unet", {}),
    ],
)
def test_half_precision_models(name: str, rules: dict[str, int]) -> None:
    """Values between matmuls stay in f32, though the model rounds them."""
    model, inputs = _MODELS[name]
    narrow = [a.astype(np.float16) if a.dtype == np.float32 else a for a in inputs]
    loops = lower(relax_mlir.import_onnx(to_float16(model)), target=_TARGET, to="loops")

    actual = emulated(loops, *narrow, target=_TARGET)

    expected = relax_mlir.compile(relax_mlir.import_onnx(model))(*inputs)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == np.float16
        assert_same_numbers(ours.astype(np.float32), theirs, tolerance=2e-2)
    found = rules_of(loops)
    assert {rule: found[rule] for rule in rules} == rules


# Networks whose kernels are like those of others are in `make every-case` alone.
_FEW = ("resnet50", "squeezenet", "mobilenet_v2", "bert_base", "gru")
_MORE = (
    *("densenet121", "vgg19", "shufflenet", "inception_v1", "alexnet", "unet"),
    *("gpt2_prefill", "gpt2_decode", "lstm"),
)
_NETWORKS = [
    *_FEW,
    *(pytest.param(name, marks=pytest.mark.every_case) for name in _MORE),
]


@pytest.mark.parametrize("name", _NETWORKS)
def test_no_kernel_falls_back(name: str) -> None:
    module = relax_mlir.import_onnx(network(name).entry.build())
    loops = lower(module, target=_TARGET, to="loops")
    assert rules_of(loops)["Fallback"] == 0


# The others are in ONNX's suite, which runs the whole of them: `make onnx-suite-gpu`.
_AT_FULL_SIZE = [
    "bert_base",
    *(
        pytest.param(name, marks=pytest.mark.every_case)
        for name in (
            *("mobilenet_v2", "shufflenet", "unet", "gpt2_prefill"),
            *("gpt2_decode", "gru", "lstm"),
        )
    ),
]


@pytest.mark.every_case
@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", _AT_FULL_SIZE)
def test_kernels_at_full_size(name: str) -> None:
    module = relax_mlir.import_onnx(network(name).entry.build())
    planned = lower(module, target=_TARGET, to="planned")
    for task in tuning_tasks([planned], {}):
        check_blocks(task)


def check_blocks(task: TuningTask) -> None:
    """Checks some blocks of a kernel against the CPU."""
    name = task.name
    symbol = task.unit.symbol
    loops = lower(IRModule.parse(task.unit.text), target=_TARGET, to="loops")
    body = loops.func_op(symbol).entry_block
    launches = [o for o in body.operations if o.operation.name == "gpu.launch"]
    expected = task.arrays()
    relax_mlir.compile(IRModule.parse(task.unit.text))[symbol](*expected)
    inputs = task.arrays()[: -task.outputs]
    like = expected[-task.outputs :]
    blank = [poison(a.size, a.dtype).reshape(a.shape) for a in like]

    is_whole = len(launches) > 1
    most = None if is_whole else _BLOCKS
    outputs = emulated_program(
        loops, inputs, like, task.sizes, target=_TARGET, max_blocks=most
    )

    for ours, theirs, before in zip(outputs, like, blank, strict=True):
        written = _bytes(ours) != _bytes(before)
        where = written.any(axis=1)
        assert where.all() if is_whole else where.any(), name
        assert_same_numbers(
            ours.reshape(-1)[where],
            theirs.reshape(-1)[where],
            tolerance=2e-5,
            where=name,
        )


def _bytes(array: np.ndarray) -> np.ndarray:
    """Size of an element type."""
    return array.reshape(-1).view(np.uint8).reshape(array.size, -1)
