"""``main_shapes``: the shape function, which computes derived sizes from symbols."""

from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Index, emit_dim
from relax_mlir.schedules.builder import constant, index, op
from relax_mlir.symbolic.dims import Atom

__all__ = ["emit_shape_function"]

_LARGEST = 2.0**62  # below 2^63, with a margin for the rounding of the bound


def emit_shape_function(symbols: Sequence[str], derived: Sequence[Dim]) -> None:
    """Emits ``main_shapes(sizes)`` at the insertion point.

    ``sizes`` holds the symbols on entry; the function appends the derived sizes. One whose
    arithmetic may overflow becomes -1, which no array has: empty arrays may have any size, so
    that even valid calls pass sizes whose product overflows.
    """
    i64 = ir.IntegerType.get_signless(64)
    sizes_type = ir.MemRefType.get([len(symbols) + len(derived)], i64)
    function = func.FuncOp("main_shapes", ir.FunctionType.get([sizes_type], []))
    block = function.add_entry_block()
    (sizes,) = block.arguments
    with ir.InsertionPoint(block):
        loaded = [op("memref.load", i64, sizes, index(i)) for i in range(len(symbols))]
        known = {
            name: Index(op("arith.index_cast", ir.IndexType.get(), value))
            for name, value in zip(symbols, loaded, strict=True)
        }
        bounds = {
            name: op("arith.sitofp", ir.F64Type.get(), value)
            for name, value in zip(symbols, loaded, strict=True)
        }
        for place, dim in enumerate(derived, start=len(symbols)):
            value = op("arith.index_cast", i64, Index.value_of(emit_dim(dim, known)))
            checked = _or_minus_one(value, _emit_bound(dim, bounds))
            op("memref.store", None, checked, sizes, index(place))
        func.ReturnOp([])


def _or_minus_one(value: ir.Value, bound: ir.Value) -> ir.Value:
    """The value, or -1 if the bound does not rule out overflow."""
    less = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 4)  # ordered <
    i1 = ir.IntegerType.get_signless(1)
    largest = constant(_LARGEST, bound.type)
    fits = op("arith.cmpf", i1, bound, largest, predicate=less)
    return op("arith.select", value.type, fits, value, constant(-1, value.type))


def _emit_bound(dim: Dim, symbols: Mapping[str, ir.Value]) -> ir.Value:
    """An f64 upper bound of the magnitude of ``dim`` and of all its partial results."""
    f64 = ir.F64Type.get()
    if isinstance(dim, int):
        return constant(abs(dim), f64)
    total = constant(0, f64)
    for monomial, factor in dim.terms:
        term = constant(abs(factor), f64)
        for atom in monomial:
            term = op("arith.mulf", f64, term, _emit_atom_bound(atom, symbols))
        total = op("arith.addf", f64, total, term)
    return total


def _emit_atom_bound(atom: Atom, symbols: Mapping[str, ir.Value]) -> ir.Value:
    """The bound of an atom, at least 1, so that a zero hides no overflow of other factors."""
    f64 = ir.F64Type.get()
    bound = constant(1, f64)
    parts = [_emit_bound(arg, symbols) for arg in atom.args]
    for part in parts or [symbols[atom.text]]:
        bound = op("arith.maximumf", f64, bound, part)
    return bound
