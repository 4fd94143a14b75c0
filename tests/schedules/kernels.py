"""Kernel statements from text, and the elements that their accesses touch."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from mlir import ir

from relax_mlir.analysis.index_maps import IndexForm, TiledIndex, constant_of
from relax_mlir.schedules.builder import IndexLike
from relax_mlir.schedules.kernel_view import Access, Kernel, read_kernel
from tests.analysis.index_programs import ARITHMETIC

__all__ = ["buffers", "element_of", "kernel_in", "number", "offset_of", "row_major"]


@contextmanager
def buffers(*types: str) -> Iterator[list[ir.Value]]:
    """Values of these types; operations are emitted at the end of their function."""
    arguments = ", ".join(f"%a{n}: {type_}" for n, type_ in enumerate(types))
    with _function(f"func.func @f({arguments}) {{ return }}") as function:
        yield list(function.regions[0].blocks[0].arguments)


@contextmanager
def kernel_in(text: str) -> Iterator[Kernel]:
    """The kernel view of a function."""
    with _function(text) as function:
        yield read_kernel(function)  # pyright: ignore[reportArgumentType]


@contextmanager
def _function(text: str) -> Iterator[ir.OpView]:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        (function,) = module.body.operations
        last = list(function.regions[0].blocks[0].operations)[-1]
        with ir.InsertionPoint(last):
            yield function


def element_of(form: IndexForm, point: Sequence[int], sizes: Mapping[str, int]) -> int:
    """The value of an index form at a point; ``sizes`` by argument name."""
    if isinstance(form, TiledIndex):
        axis = point[form.axis]
        return axis % form.base if form.is_inner else axis // form.base
    place = form.constant + sum(f * point[a] for a, f in form.coefficients.items())
    by = getattr(form, "by", None)
    return place if by is None else place + sizes[str(by.get_name())]


def row_major(shape: Sequence[int]) -> list[int]:
    """Row-major strides of a shape, in elements."""
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]


def offset_of(access: Access, point: Sequence[int]) -> int:
    """The offset of the element of a row-major buffer of static shape that an access touches."""
    strides = row_major(list(access.buffer.type.shape))
    places = [element_of(form, point, {}) for form in access.forms]
    return sum(s * p for s, p in zip(strides, places, strict=True))


def number(extent: IndexLike, sizes: Mapping[ir.Value, int]) -> int:
    """The value of an emitted size, for known arguments, through casts."""
    if isinstance(extent, int):
        return extent
    if extent in sizes:
        return sizes[extent]
    known = constant_of(extent)
    if known is not None:
        return known
    name, *operands = extent.owner.name, *extent.owner.operands
    if name == "memref.dim":
        cast, place = operands
        shape = ir.MemRefType(cast.owner.operands[0].type).shape
        return shape[number(place, sizes)]
    sides = [number(operand, sizes) for operand in operands]
    if name == "arith.select":
        return sides[1] if sides[0] else sides[2]
    if name == "arith.cmpi":
        assert ir.IntegerAttr(extent.owner.attributes["predicate"]).value == 0
        return int(sides[0] == sides[1])
    assert min(sides) >= 0 or not name.endswith("ui"), "it would wrap around"
    return ARITHMETIC[name](*sides)
