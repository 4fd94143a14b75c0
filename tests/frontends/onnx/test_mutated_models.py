"""Damaged models that can be imported compile, run and compute correct values."""

import math

import numpy as np
import pytest
from mlir import ir

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.compiler import reference
from relax_mlir.compiler.differential_check import random_inputs, relative_difference
from relax_mlir.dialects import shapes, tensors
from relax_mlir.errors import RelaxError
from tests.frontends.onnx import mutations

# 500 models in all; CI runs a part.
CHUNKS = [pytest.param(i, marks=() if i < 4 else pytest.mark.slow) for i in range(20)]
_MOST_BYTES = 1 << 26  # that a test allocates for one value
_SIZES = {"batch": 2, "seq": 3, "n": 3, "h": 7, "w": 6}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("chunk", CHUNKS)
def test_mutated_models_compute_or_are_rejected(chunk: int) -> None:
    models = mutations.base_models()
    ran = 0
    for seed in range(10_000 + 25 * chunk, 10_000 + 25 * chunk + 25):
        rng = np.random.default_rng(seed)
        model = mutations.mutated_model(rng, models[seed % len(models)], most=1)
        try:
            module = relax_mlir.import_onnx(model)
            exe = relax_mlir.compile(module)
        except RelaxError:
            continue
        if isinstance(exe, relax_mlir.Executable) and _is_small(module):
            _compare(exe, module, seed)
            ran += 1
    assert ran >= 3


def _is_small(module: IRModule) -> bool:
    """Whether no value takes more memory than a test should."""
    block = module.func_op("main").entry_block
    values = [*block.arguments, *(r for op in block.operations for r in op.results)]
    return all(
        _bits(value) <= 8 * _MOST_BYTES
        for value in values
        if isinstance(value.type, ir.RankedTensorType)
    )


def _bits(value: ir.Value) -> int:
    dims = [
        shapes.evaluate(d, dict.fromkeys(shapes.symbols_of(d), 3))
        for d in tensors.shape_of(value)
    ]
    return math.prod(dims) * tensors.dtype_of(value).bits


def _compare(exe: relax_mlir.Executable, module: IRModule, seed: int) -> None:
    """The compiled model and the numpy references agree, or both reject the sizes."""
    inputs = random_inputs(module, sizes=_SIZES)
    try:
        ours = exe(*inputs)
    except ValueError:
        return
    with np.errstate(all="ignore"):
        theirs = reference.run(module, *inputs)
    for number, (got, expected) in enumerate(zip(ours, theirs, strict=True)):
        assert relative_difference(got, expected) < 1e-5, (
            f"seed {seed}, output {number}"
        )
