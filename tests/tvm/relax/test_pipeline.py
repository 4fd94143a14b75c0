"""Named pipelines, before the compiler or passed to it."""

from collections.abc import Iterator

import numpy as np
import pytest

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Var
from relax_mlir.runtime.ndarray import cpu
from relax_mlir.tvm import relax
from relax_mlir.tvm.relax import pipeline
from relax_mlir.tvm.relax.vm import VirtualMachine, build
from tests.tvm.relax.transform.graphs import op, program, tensor


@pytest.fixture
def named() -> Iterator[str]:
    yield "doubling"
    pipeline.PIPELINE_MAP.pop("doubling", None)


def _chain() -> IRModule:
    x = Var("x", tensor(3, 2))
    return program([x], op("exp", op("negative", x)))


@pytest.mark.parametrize("name", ["zero", "default_build"])
def test_modules_after_a_pipeline_compile_and_keep_their_values(name: str) -> None:
    lowered = relax.get_pipeline(name)(_chain())
    x = np.array([[0, 1], [2, 3], [4, 5]], np.float32)

    y = VirtualMachine(build(lowered), cpu())["main"](x)

    np.testing.assert_allclose(y.numpy(), np.exp(-x), rtol=1e-6)


def test_the_zero_pipeline_fuses() -> None:
    lowered = relax.get_pipeline()(_chain())

    assert len(lowered.functions) == 2


def test_the_default_pipeline_plans_memory() -> None:
    text = relax.get_default_pipeline("llvm")(_chain()).script()

    assert text.count("R.memory.alloc_storage") == 2
    assert text.count("R.memory.kill_storage") == 2


def test_the_compiler_takes_a_pipeline_by_name(named: str) -> None:
    seen = []

    @relax.register_pipeline(named)
    def doubling(count: int = 2) -> object:
        return lambda module: seen.append(count) or module

    build(_chain(), relax_pipeline=named)

    assert seen == [2]
    with pytest.raises(ValueError, match="the name is registered already"):
        relax.register_pipeline(named)


def test_an_unknown_pipeline_is_named() -> None:
    with pytest.raises(
        ValueError, match=r"unknown pipeline `zer`: .* Did you mean `zero`"
    ):
        relax.get_pipeline("zer")
