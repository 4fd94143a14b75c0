"""Whether a tensor program only gives its input another shape."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.objects import prim
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.stmt import BlockRealize, BufferStore, For, Stmt

__all__ = ["has_reshape_pattern"]


def has_reshape_pattern(func: PrimFunc) -> bool:
    """Whether a tensor program copies its first buffer to its last in row-major order.

    What cannot be proven is no reshape.
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
    places = _Places(ranges)
    try:
        written = places.of(store.buffer, store.indices)
        return written == places.of(store.value.buffer, store.value.indices)
    except ValueError:
        return False


class _Ranges:
    """How far the variables of a nest of loops and blocks run, all from 0."""

    def __init__(self) -> None:
        self._extents: dict[int, PrimExpr] = {}
        self._kept: list[prim.Var] = []  # an id is of use only while its object lives

    def only_store(self, body: Stmt) -> BufferStore | None:
        """The only statement in a nest without reductions and conditions."""
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
            self._kept.append(var)

    def extent(self, term: PrimExpr) -> PrimExpr | None:
        """How many values a variable takes, where that is known."""
        return self._extents.get(id(term))

    def simplified(self, term: PrimExpr) -> PrimExpr:
        """A term without quotients and remainders that the ranges tell."""
        extent = self.extent(term)
        if isinstance(extent, prim.IntImm) and extent.value == 1:
            return prim.const(0, term.dtype)
        children = [self.simplified(child) for child in term.children()]
        if children and not isinstance(term, BufferLoad):
            term = term.with_children(children)
        if isinstance(term, (prim.FloorDiv, prim.FloorMod)):
            return self._divided(term)
        return term

    def _divided(self, term: prim.FloorDiv | prim.FloorMod) -> PrimExpr:
        value, divisor = term.children()
        extent = self.extent(value)
        if extent is not None and prim.structurally_equal(extent, divisor):
            bounds: tuple[int, int] | None = (0, 0)
        else:
            bounds = self._quotients(value, divisor)
        if bounds is None or bounds[0] != bounds[1]:
            return term
        quotient = prim.const(bounds[0], term.dtype)
        if isinstance(term, prim.FloorDiv):
            return quotient
        return value if bounds[0] == 0 else value - quotient * divisor

    def _quotients(self, value: PrimExpr, divisor: PrimExpr) -> tuple[int, int] | None:
        bounds = self._bounds(value)
        if bounds is None or not isinstance(divisor, prim.IntImm) or divisor.value <= 0:
            return None
        return bounds[0] // divisor.value, bounds[1] // divisor.value

    def _bounds(self, term: PrimExpr) -> tuple[int, int] | None:
        """The least and the greatest value of a term."""
        if isinstance(term, prim.IntImm):
            return term.value, term.value
        extent = self.extent(term)
        if isinstance(extent, prim.IntImm):
            return 0, extent.value - 1
        children = [self._bounds(child) for child in term.children()]
        known = [bounds for bounds in children if bounds is not None]
        if len(known) < 2 or len(known) < len(children):
            return None
        (a, b), (c, d) = known
        if isinstance(term, prim.Add):
            return a + c, b + d
        if isinstance(term, prim.Sub):
            return a - d, b - c
        if isinstance(term, prim.Mul):
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        if isinstance(term, prim.FloorDiv) and c == d and c > 0:
            return a // c, b // c
        if isinstance(term, prim.FloorMod) and c == d and c > 0:
            return 0, c - 1
        return None


class _Places:
    """Row-major places in buffers, in a form that is equal for what is equal."""

    def __init__(self, ranges: _Ranges) -> None:
        self._ranges = ranges
        self._symbols = Symbols()
        self._loads: list[tuple[BufferLoad, prim.Var]] = []

    def of(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> object:
        """The place of one element.

        Raises:
            ValueError: an index is no size.
        """
        place: PrimExpr = prim.const(0, "int64")
        for size, index in zip(buffer.shape, indices, strict=True):
            # A size that is 1 has one index, whatever is written.
            is_unit = isinstance(size, prim.IntImm) and size.value == 1
            plain = self._without_loads(prim.cast("int64", index))
            inner = (
                prim.const(0, "int64") if is_unit else self._ranges.simplified(plain)
            )
            place = place * prim.cast("int64", size) + inner
        return self._symbols.dim(place)

    def _without_loads(self, term: PrimExpr) -> PrimExpr:
        """A term with a variable in place of each element that it reads."""
        if isinstance(term, BufferLoad):
            for known, var in self._loads:
                if prim.structurally_equal(known, term):
                    return var
            self._loads.append((term, prim.Var("element", term.dtype)))
            return self._loads[-1][1]
        children = [self._without_loads(child) for child in term.children()]
        return term.with_children(children) if children else term
