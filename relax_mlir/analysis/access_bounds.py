"""Access bounds: size constraints under which a tensor program stays in bounds."""

import itertools
from collections.abc import Sequence
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import (
    constant_of,
    size_expressions,
    size_of_operation,
)
from relax_mlir.analysis.prim_func_verifier import argument_shape
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, attribute_names
from relax_mlir.ir.function_attributes import location_of
from relax_mlir.ir.traversal import own_operations
from relax_mlir.symbolic.bounds import is_known_le
from relax_mlir.symbolic.constraints import Constraint
from relax_mlir.symbolic.monomials import Atom, terms_of

__all__ = ["required_sizes"]

_ACCESSES = {"memref.load": 1, "memref.store": 2}  # operands before the indices


def required_sizes(program: func.FuncOp) -> tuple[Constraint, ...]:
    """The constraints on a program's symbols without which it accesses memory out of bounds.

    An access counts if its index is monotonic in the variables of the loops around it,
    so that its range is exact. Accesses under branches are skipped, and so are indices
    that are loaded from memory, or not monotonic: an inexact bound would reject valid sizes.
    A constraint applies whenever the loops run at least once.

    Raises:
        ValueError: an access is out of bounds for all sizes.
    """
    analysis = _Accesses(program)
    analysis.visit(program.entry_block)
    return tuple(analysis.found)


class _Accesses:
    """Collects the constraints of one program.

    Attributes:
        found: the constraints that are not certain, in order.
    """

    def __init__(self, program: func.FuncOp) -> None:
        self.found: dict[Constraint, None] = {}
        self._dims: dict[ir.Value, Dim] = size_expressions(program)
        self._extents: dict[str, Dim] = {}  # of loops, by the symbol of the variable
        self._shapes: dict[ir.Value, Sequence[Dim]] = {
            argument: argument_shape(program, number)
            for number, argument in enumerate(program.entry_block.arguments)
            if isinstance(argument.type, ir.MemRefType)
        }
        sizes = [*self._dims.values(), *itertools.chain(*self._shapes.values())]
        self._taken = {name for size in sizes for name in shapes.symbols_of(size)}

    def visit(self, block: ir.Block) -> None:
        """Visits the accesses of a block and of its loops."""
        for op in own_operations(block):
            name = op.operation.name
            if name in _ACCESSES:
                self._access(op, _ACCESSES[name])
            elif name == "scf.for":
                self._loop(op)
            elif isinstance(op, BlockOp):
                self._block(op)
            elif isinstance(op, AllocBufferOp):
                self._shapes[op.buffer] = tensors.python_value(op.shape)
            elif len(op.results) == 1:
                self._arithmetic(op)

    def _arithmetic(self, op: ir.OpView) -> None:
        """Records the value of an index or size as an expression."""
        result = op.results[0]
        known = constant_of(result)
        if known is not None:
            self._dims[result] = known
            return
        operands = [self._dims.get(v) for v in op.operands]
        size = size_of_operation(op.operation.name, operands, self._is_size)
        if size is not None:
            self._dims[result] = size

    def _is_size(self, dim: Dim) -> bool:
        """Whether an index is provably non-negative."""
        span = self._span(dim)
        return span is not None and is_known_le(0, span[0])

    def _loop(self, op: ir.OpView) -> None:
        start, stop, step = (self._dims.get(v) for v in list(op.operands)[:3])
        body = op.regions[0].blocks[0]
        if start is not None and stop is not None and step == 1:
            extent = stop - start
            if is_known_le(extent, 0):
                return
            self._dims[body.arguments[0]] = start + self._axis(extent)
        self.visit(body)

    def _block(self, op: BlockOp) -> None:
        extents = [self._dims.get(v) for v in op.extents]
        dynamic = iter(extents)
        static: Any = op.static_extents  # Any: the stubs know no arrays
        sizes = [size if size >= 0 else next(dynamic) for size in static]
        bound = zip((self._dims.get(v) for v in op.bindings), sizes, strict=False)
        values = [value if self._covers(value, size) else None for value, size in bound]
        if not values and attribute_names.AXIS_STARTS not in op.attributes:
            if any(size is not None and is_known_le(size, 0) for size in sizes):
                return
            values = [None if size is None else self._axis(size) for size in sizes]
        for region in op.regions:
            for block in region.blocks:
                pairs = zip(block.arguments, values, strict=False)
                self._dims.update((a, v) for a, v in pairs if v is not None)
                self.visit(block)

    def _covers(self, value: Dim | None, size: Dim | None) -> bool:
        """Whether a block's axis covers its whole extent, so that no predicate bounds it."""
        span = None if size is None else self._span(value)
        return span is not None and span[0] == 0 and span[1] + 1 == size

    def _axis(self, extent: Dim) -> Dim:
        """A fresh symbol for the variable of a loop from 0."""
        names = (f"axis.{number}" for number in itertools.count(len(self._extents)))
        name = next(n for n in names if n not in self._taken)
        self._taken.add(name)
        self._extents[name] = extent
        return shapes.symbol(name)

    def _access(self, op: ir.OpView, first: int) -> None:
        operands = list(op.operands)
        shape = self._shapes.get(operands[first - 1])
        if shape is None:
            return
        for number, (index, size) in enumerate(
            zip(operands[first:], shape, strict=True)
        ):
            span = self._span(self._dims.get(index))
            if span is None:
                continue
            low, high = span
            for needed in (Constraint(low, ">=", 0), Constraint(size, ">=", high + 1)):
                if needed.is_impossible:
                    raise ValueError(
                        f"{location_of(op)}: `{op.operation.name}`: index {number}: expected "
                        f"0 to {size - 1}, got {low} to {high}"
                    )
                if not needed.is_certain:
                    self.found[needed] = None

    def _span(self, index: Dim | None) -> tuple[Dim, Dim] | None:
        """The least and greatest value of a monotonic index; None for others."""
        if index is None:
            return None
        least: dict[str, Dim] = {}
        greatest: dict[str, Dim] = {}
        for name in self._axes_in(index):
            last = self._extents[name] - 1
            direction = self._direction(index, name)
            if not direction or self._axes_in(last):
                return None
            least[name], greatest[name] = (0, last) if direction > 0 else (last, 0)
        return shapes.substitute(index, least), shapes.substitute(index, greatest)

    def _direction(self, index: Dim, name: str) -> int | None:
        """1 if an index increases with a loop variable, -1 if it decreases, 0 if independent."""
        found: set[int | None] = set()
        for monomial, factor in terms_of(index):
            moving = [a for a in monomial if name in _symbols_of(a)]
            if not moving:
                continue
            others = [a for a in monomial if a not in moving]
            if len(moving) > 1 or not all(map(self._is_factor, others)):
                return None
            own = self._direction_of(moving[0], name)
            found.add(own if own is None or factor > 0 else -own)
        return found.pop() if len(found) == 1 else None if found else 0

    def _direction_of(self, atom: Atom, name: str) -> int | None:
        """The direction of one factor: that of its operands for a quotient or minimum."""
        if atom.op == "symbol":
            return 1
        moving = atom.args
        if atom.op == "floordiv":
            moving, (divisor,) = atom.args[:1], atom.args[1:]
            if self._axes_in(divisor) or not is_known_le(0, divisor):
                return None
        found = {self._direction(argument, name) for argument in moving} - {0}
        return found.pop() if len(found) == 1 else None

    def _is_factor(self, atom: Atom) -> bool:
        """Whether an atom has no loop variable and is non-negative."""
        has_axis = any(name in self._extents for name in _symbols_of(atom))
        return not has_axis and is_known_le(0, Expr.of({(atom,): 1}))

    def _axes_in(self, dim: Dim) -> list[str]:
        """The loop variables in an expression."""
        return [name for name in shapes.symbols_of(dim) if name in self._extents]


def _symbols_of(atom: Atom) -> list[str]:
    if atom.op == "symbol":
        return [atom.text]
    return [name for dim in atom.args for name in shapes.symbols_of(dim)]
