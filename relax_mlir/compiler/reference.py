"""Reference interpreter of Relax modules in numpy: the oracle of tests."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import ConstantOp, RelaxOperation, TupleGetItemOp
from relax_mlir.errors import RelaxError, UnsupportedError
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations

__all__ = ["evaluate", "run", "trace"]


def run(module: IRModule, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Interpret ``main``; returns its outputs.

    Raises:
        UnsupportedError: an operation has no numpy reference.
        ValueError: an input does not fit its parameter.
    """
    outputs: tuple[np.ndarray, ...] = ()
    for _, values in trace(module, *inputs):
        outputs = values
    return outputs


def trace(
    module: IRModule, *inputs: np.ndarray
) -> "Iterator[tuple[ir.OpView, tuple[np.ndarray, ...]]]":
    """Iterate over the operations of ``main`` with their results; the return comes last.

    Raises:
        ValueError: the number of inputs is wrong, or a shape does not match.
        UnsupportedError: an operation has no numpy reference.
        RelaxError: an operation rejects these values.
    """
    function = module.func_op("main")
    parameters = list(function.entry_block.arguments)
    if len(parameters) != len(inputs):
        raise ValueError(f"`main` takes {len(parameters)} inputs, got {len(inputs)}")
    sizes = _bind_sizes(parameters, inputs)
    values: dict[ir.Value, Any] = dict(zip(parameters, inputs, strict=True))
    for op in own_operations(function.entry_block):
        if op.operation.name == "func.return":
            yield op, tuple(values[v] for v in op.operands)
            return
        results = _evaluate_operation(module, op, values, sizes)
        values.update(zip(op.results, results, strict=True))
        yield op, tuple(results)


def _bind_sizes(
    parameters: Sequence[ir.Value], inputs: Sequence[np.ndarray]
) -> dict[str, int]:
    expected_dims: list[shapes.Dim] = []
    dims: list[int] = []
    for number, (parameter, array) in enumerate(zip(parameters, inputs, strict=True)):
        expected = tensors.shape_of(parameter)
        if len(expected) != array.ndim:
            raise ValueError(
                f"input {number}: expected rank {len(expected)}, got {array.ndim}"
            )
        expected_dims += expected
        dims += array.shape
    return {
        name: int(str(size))
        for name, size in shapes.bind_shape(expected_dims, dims).items()
    }


def _evaluate_operation(
    module: IRModule, op: ir.OpView, values: dict[ir.Value, Any], sizes: dict[str, int]
) -> list[Any]:
    name = op.operation.name
    if name == tensors.TUPLE_PACK:
        return [[values[v] for v in op.operands]]
    if isinstance(op, ConstantOp):
        return [op.array(module.constants)]
    if isinstance(op, TupleGetItemOp):
        return [values[op.operands[0]][op.python_attrs()["index"]]]
    if not isinstance(op, RelaxOperation) or not hasattr(op, "reference"):
        raise UnsupportedError(f"{op.location}: `{name}` has no numpy reference")
    return evaluate(op, [values[v] for v in op.operands], sizes)


def evaluate(
    op: RelaxOperation, operands: Sequence[Any], sizes: dict[str, int]
) -> list[Any]:
    """Evaluate the ``reference`` of one operation.

    Args:
        operands: arrays; a list of arrays for a tuple.
        sizes: values of the symbolic sizes in attributes.

    Raises:
        RelaxError: the ``reference`` failed.
    """
    attrs = {n: _concrete(v, sizes) for n, v in op.python_attrs().items()}
    try:
        with np.errstate(all="ignore"):  # IEEE 754 defaults, no warnings
            result = getattr(op, "reference")(*operands, **attrs)  # noqa: B009 - not in the base
    except RelaxError:
        raise
    except Exception as error:
        raise RelaxError(f"{op.location}: `{op.OPERATION_NAME}`: {error}") from error
    return list(result) if isinstance(result, tuple) else [result]


def _concrete(value: Any, sizes: dict[str, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_concrete(v, sizes) for v in value)
    return shapes.evaluate(value, sizes) if isinstance(value, shapes.Expr) else value
