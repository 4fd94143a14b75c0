"""Import and compilation are linear in the number of nodes."""

import sys
from collections.abc import Callable
from functools import partial

import onnx
import pytest

import relax_mlir
from benchmarks.compile_time import KINDS

_FEW, _MANY = 200, 800
_MOST = 4.6  # times the work for 4 times the nodes


@pytest.mark.sampled(2)
@pytest.mark.slow  # models of hundreds of nodes
@pytest.mark.parametrize("kind", KINDS)
def test_work_is_linear_in_the_number_of_nodes(kind: str) -> None:
    """Calls of functions are counted: unlike seconds, they are the same on all machines."""
    few, many = (count_calls(partial(_lowered, KINDS[kind](n))) for n in (_FEW, _MANY))

    assert few > _MANY
    assert many < _MOST * few


def _lowered(model: onnx.ModelProto) -> object:
    """Import and compile a model; only import one with stages."""
    module = relax_mlir.import_onnx(model)
    names = [o.operation.name for o in module.func_op("main").entry_block.operations]
    if "relax.extern_func" in names:
        return module
    return relax_mlir.lower(module, to="planned")


def count_calls(work: Callable[[], object]) -> int:
    """The number of calls of Python and C functions."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
