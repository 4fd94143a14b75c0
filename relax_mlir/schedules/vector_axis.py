"""Choice of the axis along which a statement is vectorized."""

from relax_mlir.schedules.kernel_view import Statement

__all__ = ["lane_count", "vector_axis"]


def vector_axis(statement: Statement, vector_bits: int) -> int | None:
    """The cheapest vector axis by a cost model; None if scalar code is cheaper."""
    lanes = lane_count(statement, vector_bits)
    best, best_cost = None, float(lanes * len(statement.accesses))
    for axis in range(len(statement.kinds)):
        cost = _cost(statement, axis, lanes)
        if cost is not None and cost <= best_cost:
            best, best_cost = axis, cost
    return best


def lane_count(statement: Statement, vector_bits: int) -> int:
    """Lanes of a vector, by the widest element type of the operands."""
    types = [a.buffer.type.element_type for a in statement.accesses]
    return vector_bits // max([32, *(t.width for t in types)])


def _cost(statement: Statement, axis: int, lanes: int) -> float | None:
    """Estimated cost of one vector of points along ``axis``, in contiguous loads.

    None where outputs are neither contiguous along a parallel axis, nor accumulated
    along a reduction axis.
    """
    out = [a.stride_of(axis) for a in statement.outputs]
    if out != ([1] if statement.kinds[axis] == "S" else [0]) * len(out):
        return None
    cost = 0.1 if statement.kinds[axis] == "R" else 0.0  # final horizontal reduction
    for access in statement.accesses:
        cost += _STRIDE_COSTS.get(access.stride_of(axis), 0.9 * lanes)
    extent = statement.extents[axis]
    if isinstance(extent, int):
        cost *= -(-extent // lanes) * lanes / max(1, extent)
    return cost


_STRIDE_COSTS = {0: 0.3, 1: 1.0, 2: 3.0}
