"""Recognition of PrimFuncs that are reshapes: row-major copies of the input."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim.bounds import assuming, bounds
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.objects.stmt.statements import BlockRealize, BufferStore, For, Stmt
from relax_mlir.symbolic.intervals import Range, single_value

__all__ = ["has_reshape_pattern"]


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Whether a PrimFunc copies its first buffer to its last in row-major order.

    Conservative: False if that cannot be proven.
    """
    buffers = [func.buffer_map.get(param) for param in func.params]
    if len(buffers) < 2:
        return False
    ranges = _Ranges()
    store = ranges.only_store(func.body)
    if store is None or not isinstance(store.value, BufferLoad):
        return False
    if store.buffer is not buffers[-1] or store.value.buffer is not buffers[0]:
        return False
    offsets = _FlatOffsets(ranges)
    load = store.value
    try:
        written = offsets.of(store.buffer, store.indices)
        return written == offsets.of(load.buffer, load.indices)
    except ValueError:
        return False


class _Ranges:
    """Extents of the loop and block variables of a nest; all ranges start at 0."""

    def __init__(self) -> None:
        self._extents: dict[int, PrimExpr] = {}
        self._keep_alive: list[prim.Var] = []  # objects whose `id()` is stored
        self._known: dict[prim.Var, Range] = {}

    def only_store(self, body: Stmt) -> BufferStore | None:
        """The single store of a nest without reductions and conditions; else None."""
        while not isinstance(body, BufferStore):
            if isinstance(body, For):
                self._add(body.loop_var, body.min, body.extent)
                body = body.body
            elif isinstance(body, BlockRealize) and body.block.init is None:
                for axis in body.block.iter_vars:
                    if axis.iter_type != prim.IterVar.DataPar:
                        return None
                    self._add(axis.var, axis.dom.min, axis.dom.extent)
                body = body.block.body
            else:
                return None
        return body

    def _add(self, var: prim.Var, start: PrimExpr, extent: PrimExpr) -> None:
        if isinstance(start, prim.IntImm) and start.value == 0:
            self._extents[id(var)] = extent
            self._keep_alive.append(var)
            if isinstance(extent, prim.IntImm):
                self._known[var] = 0, extent.value - 1

    def extent(self, expr: PrimExpr) -> PrimExpr | None:
        """The extent of a loop or block variable; None for other expressions."""
        return self._extents.get(id(expr))

    def simplified(self, expr: PrimExpr) -> PrimExpr:
        """Simplifies floordiv and floormod whose quotient is constant in the ranges."""
        extent = self.extent(expr)
        if isinstance(extent, prim.IntImm) and extent.value == 1:
            return prim.const(0, expr.dtype)
        children = [self.simplified(child) for child in expr.children()]
        if children and not isinstance(expr, BufferLoad):
            expr = expr.with_children(children)
        if isinstance(expr, (prim.FloorDiv, prim.FloorMod)):
            return self._simplified_division(expr)
        return expr

    def _simplified_division(self, expr: prim.FloorDiv | prim.FloorMod) -> PrimExpr:
        value, divisor = expr.children()
        extent = self.extent(value)
        if extent is not None and prim.structurally_equal(extent, divisor):
            number: int | None = 0
        else:
            number = self._quotient(value, divisor)
        if number is None:
            return expr
        quotient = prim.const(number, expr.dtype)
        if isinstance(expr, prim.FloorDiv):
            return quotient
        return value if number == 0 else value - quotient * divisor

    def _quotient(self, value: PrimExpr, divisor: PrimExpr) -> int | None:
        """The quotient by a positive constant, if it is the same everywhere."""
        if not isinstance(divisor, prim.IntImm) or divisor.value <= 0:
            return None
        with assuming(self._known):
            return single_value(bounds(prim.FloorDiv(value, divisor)))


class _FlatOffsets:
    """Flattened row-major offsets of buffer accesses, in a canonical form."""

    def __init__(self, ranges: _Ranges) -> None:
        self._ranges = ranges
        self._symbols = Symbols()
        self._loads: list[tuple[BufferLoad, prim.Var]] = []

    def of(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> object:
        """The row-major offset of one element.

        Raises:
            ValueError: an index is not a symbolic size expression.
        """
        offset: PrimExpr = prim.const(0, "int64")
        for size, index in zip(buffer.shape, indices, strict=True):
            # The only index of an axis of size 1 is 0, regardless of its expression.
            is_unit = isinstance(size, prim.IntImm) and size.value == 1
            plain = self._without_loads(prim.cast("int64", index))
            inner = (
                prim.const(0, "int64") if is_unit else self._ranges.simplified(plain)
            )
            offset = offset * prim.cast("int64", size) + inner
        return self._symbols.dim(offset)

    def _without_loads(self, expr: PrimExpr) -> PrimExpr:
        """Replaces each distinct buffer load in an index by a variable."""
        if isinstance(expr, BufferLoad):
            for known, var in self._loads:
                if prim.structurally_equal(known, expr):
                    return var
            self._loads.append((expr, prim.Var("element", expr.dtype)))
            return self._loads[-1][1]
        children = [self._without_loads(child) for child in expr.children()]
        return expr.with_children(children) if children else expr
