"""Along which axis of a statement vectors cost least."""

from relax_mlir.schedules.nest import Statement

__all__ = ["lanes_of", "vector_axis"]


def vector_axis(statement: Statement, vector_bits: int) -> int | None:
    """The axis along which vectors cost least; None if scalars do."""
    lanes = lanes_of(statement, vector_bits)
    best, best_cost = None, float(lanes * len(statement.accesses))
    for axis in range(len(statement.kinds)):
        cost = _cost(statement, axis, lanes)
        if cost is not None and cost <= best_cost:
            best, best_cost = axis, cost
    return best


def lanes_of(statement: Statement, vector_bits: int) -> int:
    """How many points fit a vector, by the widest type that is read or written."""
    types = [a.buffer.type.element_type for a in statement.accesses]
    return vector_bits // max([32, *(t.width for t in types)])


def _cost(statement: Statement, axis: int, lanes: int) -> float | None:
    """Rough cost of one vector of points along ``axis``, in plain loads.

    None where it cannot be: results must lie side by side, or be one per vector.
    """
    out = [a.stride_of(axis) for a in statement.outputs]
    if out != ([1] if statement.kinds[axis] == "S" else [0]) * len(out):
        return None
    cost = 0.1 if statement.kinds[axis] == "R" else 0.0  # lanes combine at the end
    for access in statement.accesses:
        cost += _STRIDE_COSTS.get(access.stride_of(axis), 0.9 * lanes)
    extent = statement.extents[axis]
    if isinstance(extent, int):
        cost *= -(-extent // lanes) * lanes / max(1, extent)
    return cost


_STRIDE_COSTS = {0: 0.3, 1: 1.0, 2: 3.0}
