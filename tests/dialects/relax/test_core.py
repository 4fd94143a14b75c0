"""Constants: inline values and keys of the constant pool."""

from collections.abc import Iterator

import numpy as np
import pytest
from mlir import ir
from mlir.ir import FloatAttr, RankedTensorType

from relax_mlir.dialects.ext import Operand, Result
from relax_mlir.dialects.relax.core import ConstantOp, Relax
from relax_mlir.errors import IRError
from relax_mlir.ir.context import new_context
from relax_mlir.ir.module import MAX_NESTING, IRModule


@pytest.fixture(autouse=True)
def place() -> Iterator[IRModule]:
    """An insertion point for operations."""
    with new_context(), ir.Location.unknown():
        module = IRModule.empty()
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.mlir.body):
        yield module


def constant(array: np.ndarray, pool: dict[str, np.ndarray], key: str) -> ConstantOp:
    op = ConstantOp.of(array, pool, key).owner
    assert isinstance(op, ConstantOp)
    return op


@pytest.mark.parametrize(
    "array",
    [
        np.array([2**63, 3], np.uint64),
        np.array([2**64 - 1], np.uint64),
        np.array(2**64 - 1, np.uint64),
        np.array([[2**63 + 1] * 3] * 2, np.uint64),
        np.array([0, 2**63 - 1], np.uint64),
        np.array([7, 7], np.uint64),
        np.array([200, 200, 200], np.uint8),
        np.array([-5, 7], np.int16),
        np.array([-(2**63)], np.int64),
        np.array([True, True]),
        np.array([False, True]),
        np.array([1.5, -np.inf], np.float64),
        np.array(-0.0, np.float32),
    ],
    ids=str,
)
def test_small_constants_are_inline(place: IRModule, array: np.ndarray) -> None:
    pool: dict[str, np.ndarray] = {}

    op = constant(array, pool, "x")
    again = IRModule.parse(f"func.func @f() {{ {op}\n return }}")

    read = again.func_op("f").entry_block.operations[0]
    assert isinstance(read, ConstantOp)
    for found in (op.array({}), read.array({})):
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()
    assert pool == {}


@pytest.mark.parametrize(
    "key", ["w", 'a"b', "a'b", "c\\d", "é/ü", "重み", "a\nb", "\\22", '">', "{([<"]
)
def test_keys_round_trip_through_text(place: IRModule, key: str) -> None:
    array = np.arange(100, dtype=np.float32)
    pool: dict[str, np.ndarray] = {}

    op = constant(array, pool, key)
    again = IRModule.parse(f"func.func @f() {{ {op}\n return }}")

    read = again.func_op("f").entry_block.operations[0]
    assert isinstance(read, ConstantOp)
    assert op.key == read.key == key
    assert read.array(pool) is array


def test_duplicate_keys_are_numbered(place: IRModule) -> None:
    pool = {"w": np.zeros(1), "w.1": np.zeros(1)}

    op = constant(np.arange(100), pool, "w")

    assert op.key == "w.2"
    assert op.array(pool)[99] == 99


def test_brackets_in_strings_and_comments_are_not_nesting() -> None:
    brackets = "([{<" * MAX_NESTING
    text = (
        f'module attributes {{relax.a = "{brackets}\\"{brackets}"}} {{}} // {brackets}'
    )

    assert "\\22" in str(IRModule.parse(text))
    with pytest.raises(IRError, match=f"nested deeper than {MAX_NESTING} levels"):
        IRModule.parse("module { " + "[" * (MAX_NESTING + 1))
    with pytest.raises(IRError, match="nested deeper"):
        IRModule.parse(f'"\n{brackets}"')


def test_attributes_are_not_named_as_the_range_of_a_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Relax, "operations", list(Relax.operations))

    with pytest.raises(TypeError, match="`BoundOp`: attribute `low`: expected another"):

        class BoundOp(Relax.Operation, name="zz_bound"):
            x: Operand[RankedTensorType]
            y: Result[RankedTensorType]
            low: FloatAttr
