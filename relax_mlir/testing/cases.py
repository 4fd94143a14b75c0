"""Modules of operator test cases, and comparison of results."""

import itertools
from functools import lru_cache
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation, TupleGetItemOp
from relax_mlir.ir.context import new_context
from relax_mlir.ir.module import IRModule

__all__ = ["assert_same_numbers", "case_module", "flat_inputs", "flat_results"]


_MODULES_PER_CONTEXT = 64  # a context frees its uniqued attributes only with itself
_created = itertools.count()


@lru_cache(maxsize=1)
def _context(number: int, operators: int) -> ir.Context:
    """A context for a number of modules; a new one if operators were added."""
    return new_context()


def case_module(op: type[RelaxOperation], case: Case) -> IRModule:
    """A module whose ``main`` is one operation.

    Modules share contexts, which are expensive to create, so threads must not use two of
    them at once.
    """
    number = next(_created) // _MODULES_PER_CONTEXT
    module = IRModule.empty(_context(number, len(relax_ops())))
    with module.context, ir.Location.unknown(), ir.InsertionPoint(module.mlir.body):
        groups = case.operand_types()
        flat = [t for g in groups for t in (g if isinstance(g, list) else [g])]
        main = func.FuncOp("main", ir.FunctionType.get(flat, []))
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            arguments = iter(block.arguments)
            operands = [
                [next(arguments) for _ in g] if isinstance(g, list) else next(arguments)
                for g in groups
            ]
            results = flat_results(op(*operands, **case.attrs))
            func.ReturnOp(results)
        signature = ir.FunctionType.get(flat, [r.type for r in results])
        main.attributes["function_type"] = ir.TypeAttr.get(signature)
    module.verify()
    return module


def flat_results(op: RelaxOperation | ir.Operation) -> list[ir.Value]:
    """The results of an operation, with tuples flattened."""
    flat: list[ir.Value] = []
    for result in op.results:
        count = result.type.num_types if isinstance(result.type, ir.TupleType) else 0
        flat += [TupleGetItemOp(result, index=i).result for i in range(count)]
        flat += [] if count else [result]
    return flat


def flat_inputs(inputs: list[Any]) -> list[np.ndarray]:
    """The arrays of a case, in the order of ``main``'s parameters."""
    return [a for g in inputs for a in (g if isinstance(g, list) else [g])]


def assert_same_numbers(
    actual: np.ndarray, expected: np.ndarray, *, tolerance: float, where: str = ""
) -> None:
    """Assert equal shape and type, and values within ``tolerance`` of the expected scale.

    Integers and booleans must be equal; NaNs and infinities must have the same positions.
    f16 and bf16 also tolerate their rounding errors.

    Raises:
        AssertionError: the arrays differ; the message has the position and the error.
    """
    assert actual.shape == expected.shape, (
        f"{where}: shape {actual.shape}, not {expected.shape}"
    )
    assert actual.dtype == expected.dtype, (
        f"{where}: type {actual.dtype}, not {expected.dtype}"
    )
    if expected.dtype.kind not in "fV":
        assert np.array_equal(actual, expected), (
            f"{where}: {_first_difference(actual, expected)}"
        )
        return
    wide_a, wide_e = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wide_e)
    same = np.array_equal(wide_a[~finite], wide_e[~finite], equal_nan=True)
    assert same, f"{where}: {_first_difference(wide_a, wide_e)}"
    if not finite.any():
        return
    scale = max(1e-30, float(np.abs(wide_e[finite]).max()))
    rounding = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(expected.dtype.name, 0.0)
    error = float(np.abs(wide_a[finite] - wide_e[finite]).max()) / scale
    limit = max(tolerance, rounding)
    assert error <= limit, (
        f"{where}: error {error:.3g} of scale {scale:.3g}, over {limit:.3g}"
    )


def _first_difference(actual: np.ndarray, expected: np.ndarray) -> str:
    differs = ~((actual == expected) | ((actual != actual) & (expected != expected)))
    position = tuple(int(i) for i in np.argwhere(differs)[0])
    return f"at {position}: {actual[position]}, not {expected[position]}"
