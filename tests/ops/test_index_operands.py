"""Every index operand declares its range, and runtime checks enforce it."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import relax_mlir
from relax_mlir.dialects.index_ranges import IndexRange
from relax_mlir.dialects.op_interface import Case
from relax_mlir.dialects.relax import relax_ops
from relax_mlir.dialects.relax.core import RelaxOperation
from relax_mlir.errors import IndexOutOfRangeError
from relax_mlir.testing import case_module, flat_inputs

# Operands that are integers in all cases, and no indices.
_NUMBERS = {
    **{f"bitwise_{n}": {"x1", "x2", "x"} for n in ("and", "not", "or", "xor")},
    "check_indices": {"indices"},  # which checks them itself
    "count_ngrams": {"x", "pool"},  # items, which are compared
    "dequantize_linear": {"x", "zero_point"},
    "left_shift": {"x1", "x2"},
    "quantize_linear": {"zero_point"},
    "right_shift": {"x1", "x2"},
}


def _element_types(spec: object) -> Iterator[str]:
    """The element types of an operand of a test case."""
    if isinstance(spec, list):
        for part in spec:
            yield from _element_types(part)
    elif isinstance(spec, tuple):
        yield spec[-1] if spec and isinstance(spec[-1], str) else "float32"


def _integer_operands(op: type[RelaxOperation]) -> set[str]:
    """The operands that are integers in all test cases."""
    found: dict[str, set[str]] = {}
    for case in op.cases:
        for name, spec in zip(op.operand_fields, case.operands, strict=False):
            found.setdefault(name, set()).update(_element_types(spec))
    return {
        name
        for name, types in found.items()
        if types and all(t.startswith(("int", "uint")) for t in types - {"bool"})
        and types != {"bool"}
    }  # fmt: skip


_SLOW = {"nn_gru", "nn_lstm", "nn_rnn", "roi_align", "vision_roi_align"}
_SLOW |= {"cache_update", "vision_roi_pool"}


def test_every_integer_operand_is_declared() -> None:
    """A new operator declares its index operands, or is in the list above."""
    for op in relax_ops():
        numbers = _NUMBERS.get(op.SHORT_NAME, set())
        missing = _integer_operands(op) - op.index_operands.keys() - numbers
        assert not missing, f"{op.OPERATION_NAME}: index_operands lacks {missing}"


def test_declarations_name_operands() -> None:
    described = [op for op in relax_ops() if op.index_operands]

    assert len(described) >= 18
    for op in described:
        assert op.index_operands.keys() <= op.operand_fields.keys(), op
        assert all(d.out_of_range for d in op.index_operands.values())


def _checked_cases() -> Iterator[object]:
    """For every index operand with a range, its first test case that is not empty."""
    for op in relax_ops():
        for name, operand in op.index_operands.items():
            for case in op.cases:
                place = list(op.operand_fields).index(name)
                inputs = case.random_inputs(seed=0)
                if len(inputs) <= place or not np.size(inputs[place]):
                    continue
                if _range(op, case, name) is not None:
                    label = f"{op.SHORT_NAME}-{name}"
                    column = operand.column
                    marks = [pytest.mark.slow] if op.SHORT_NAME in _SLOW else []
                    yield pytest.param(op, case, name, column, id=label, marks=marks)
                    break


def _range(
    op: type[RelaxOperation], case: Case, name: str
) -> IndexRange | Sequence[IndexRange] | None:
    module = case_module(op, case)
    (made,) = (o for o in module.func_op("main").entry_block if isinstance(o, op))
    with module.context:
        types = [
            o.type if not isinstance(o, list) else tuple(e.type for e in o)
            for o in made.unpacked_operands()
        ]
        return op.index_operands[name].ranges(*types, **made.python_attrs())


@pytest.mark.parametrize(("op", "case", "name", "column"), list(_checked_cases()))
def test_indices_are_checked(
    op: type[RelaxOperation], case: Case, name: str, column: int | None
) -> None:
    """The bounds of the range are accepted; one below and one above are rejected."""
    module = case_module(op, case)
    found = _range(op, case, name)
    allowed = found[0] if isinstance(found, Sequence) else found
    assert allowed is not None
    limit = int(str(allowed.limits[0]))
    least = -limit if allowed.least is None else allowed.least
    compiled = relax_mlir.compile(module, checks="indices")
    place = list(op.operand_fields).index(name)

    for index in (least, limit - 1):
        compiled(*_inputs(case, place, index, column))
    for index in (least - 1, limit):
        with pytest.raises(IndexOutOfRangeError, match=f"{name}.*got {index}$"):
            compiled(*_inputs(case, place, index, column))


def _inputs(case: Case, place: int, index: int, column: int | None) -> list[np.ndarray]:
    """The inputs of a test case, with all indices replaced by one."""
    inputs = case.random_inputs(seed=0)
    given = inputs[place][0] if isinstance(inputs[place], list) else inputs[place]
    if column is not None:
        given[..., column] = index
    else:
        given[...] = index
    if isinstance(inputs[place], list):
        for other in inputs[place][1:]:
            other[...] = 0
    return flat_inputs(inputs)
