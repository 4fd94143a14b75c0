"""Explicit read and write regions of blocks: those of ``T.reads`` and ``T.writes``.

They are stored only where they differ from the regions derived from the body, in the
attribute ``tir.touched`` of a block. It is a dictionary: ``reads`` and ``writes`` are lists of
pairs of a buffer and a box, ``counts`` the numbers of buffers that the body reads and writes,
``body`` a digest of the derived regions, if known. A buffer is ``r0`` (the first that the
body reads), ``w0`` (the first that it writes) or ``=A`` (one that it does not access, by
name). A box has the first index and the extent of each dimension, in terms of the axes and
the enclosing variables; no box means the derived one. Explicit regions are ignored if the
body has changed since (another digest).
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim.script_text import prim_expr_script
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.access_regions import access_regions
from relax_mlir.objects.stmt.buffer import Buffer, BufferRegion

__all__ = [
    "ExplicitRegions",
    "axis_name",
    "explicit_regions_attr",
    "forget_explicit_regions",
    "in_explicit_order",
    "overriding_regions",
    "region_text",
    "regions_digest",
    "restore_explicit_regions",
    "set_explicit_regions",
    "store_explicit_regions",
]

Box = list[list[str]]

_INFIX: Mapping[type, str] = {
    prim.Add: "+",
    prim.Sub: "-",
    prim.Mul: "*",
    prim.FloorDiv: "//",
    prim.FloorMod: "%",
}
_CALLS: Mapping[type, str] = {prim.Min: "min", prim.Max: "max"}
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: Mapping[str, Callable[[Any, Any], PrimExpr]] = {
    "min": prim.Min,
    "max": prim.Max,
}


def axis_name(number: int) -> str:
    """The name of an axis in the text of explicit regions."""
    return f"axis{number}"


def explicit_regions_attr(block: ir.Operation) -> dict[str, Any]:
    """The explicit regions of a block: its attribute as a dictionary."""
    if attribute_names.TOUCHED not in block.attributes:
        return {}
    return dict(from_attribute(block.attributes[attribute_names.TOUCHED]))


# Writing explicit regions.


@dataclass(frozen=True)
class ExplicitRegions:
    """The explicit regions that a script gives a block.

    Attributes:
        op: the block.
        depth: its nesting depth in blocks.
        axes: its iteration variables.
        regions: by ``reads`` and ``writes``.
        memrefs: the memref of each buffer, by the buffer's id.
    """

    op: ir.Operation
    depth: int
    axes: Sequence[IterVar]
    regions: Mapping[str, Sequence[BufferRegion]]
    memrefs: Mapping[int, ir.Value]


def forget_explicit_regions(block: ir.Operation, buffer: str) -> None:
    """Removes the explicit regions of a buffer that the body of a block does not access."""
    explicit = explicit_regions_attr(block)
    if not explicit:
        return
    for kind in ("reads", "writes"):
        if kind in explicit:
            explicit[kind] = [r for r in explicit[kind] if r[0] != f"={buffer}"]
    block.attributes[attribute_names.TOUCHED] = to_attribute(explicit)


def store_explicit_regions(
    explicit: Sequence[ExplicitRegions],
    blocks: Mapping[ir.Operation, statements.Block],
    buffers: Mapping[ir.Value, Buffer],
) -> None:
    """Stores explicit regions in blocks where they differ from the derived ones.

    Args:
        explicit: the explicit regions, by block.
        blocks: the blocks as read without explicit regions.
        buffers: the buffer of each memref.
    """
    for one in explicit:
        if one.op in blocks:
            # Without a textual form the derived regions are used.
            with contextlib.suppress(KeyError, ValueError):
                _store(one, blocks[one.op], buffers)


def _store(
    explicit: ExplicitRegions,
    block: statements.Block,
    buffers: Mapping[ir.Value, Buffer],
) -> None:
    derived = _derived(block)
    references = _buffer_references(derived)
    names = {id(axis.var): axis_name(n) for n, axis in enumerate(explicit.axes)}
    attribute: dict[str, Any] = {}
    for kind, regions in explicit.regions.items():
        accessed = [buffers[explicit.memrefs[id(r.buffer)]] for r in regions]
        ours = [
            (id(b), _canonical_text(r.region, explicit.axes))
            for b, r in zip(accessed, regions, strict=True)
        ]
        theirs = [
            (id(r.buffer), _canonical_text(r.region, block.iter_vars))
            for r in derived[kind]
        ]
        if ours != theirs:
            listed = [references.get(id(b), f"={b.name}") for b in accessed]
            boxes = [
                None
                if reference[0] == kind[0] and our == theirs[int(reference[1:])]
                else region_text(region.region, names)
                for region, reference, our in zip(regions, listed, ours, strict=True)
            ]
            attribute[kind] = list(zip(listed, boxes, strict=True))
    if attribute:
        attribute["counts"] = [len(derived["reads"]), len(derived["writes"])]
        attribute["body"] = regions_digest(block, derived)
        explicit.op.attributes[attribute_names.TOUCHED] = to_attribute(attribute)


def restore_explicit_regions(
    explicit: Sequence[ExplicitRegions],
    blocks: Mapping[ir.Operation, statements.Block],
    buffers: Mapping[ir.Value, Buffer],
) -> None:
    """Sets the explicit regions of blocks that were read from MLIR.

    The arguments are those of :func:`store_explicit_regions`.
    """
    for one in explicit:
        block = blocks.get(one.op)
        if block is None:
            continue
        axes = {a.var: b.var for a, b in zip(one.axes, block.iter_vars, strict=True)}
        for kind, regions in one.regions.items():
            found = []
            for region in regions:
                memref = one.memrefs.get(id(region.buffer))
                buffer = region.buffer if memref is None else buffers[memref]
                ranges = [_replaced(range_, axes) for range_ in region.region]
                found.append(BufferRegion(buffer, ranges))
            block.set_regions(kind, found)


def _replaced(range_: Range, values: Mapping[Var, PrimExpr]) -> Range:
    return Range.from_min_extent(
        prim.substitute(range_.min, values), prim.substitute(range_.extent, values)
    )


def _derived(block: statements.Block) -> dict[str, Sequence[BufferRegion]]:
    reads, writes = access_regions(block)
    return {"reads": reads, "writes": writes}


def _buffer_references(derived: Mapping[str, Sequence[BufferRegion]]) -> dict[int, str]:
    references: dict[int, str] = {}
    for kind in ("reads", "writes"):
        for number, region in enumerate(derived[kind]):
            references.setdefault(id(region.buffer), f"{kind[0]}{number}")
    return references


def _canonical_text(region: Sequence[Range], axes: Sequence[IterVar]) -> list[str]:
    """A box in canonical form: equal boxes have equal texts."""
    exprs = [part for range_ in region for part in (range_.min, range_.extent)]
    return [_text_of_size(_by_number(t, axes)) for t in exprs]


def _by_number(expr: PrimExpr, axes: Sequence[IterVar]) -> PrimExpr:
    numbered = {a.var: Var(axis_name(n), a.var.dtype) for n, a in enumerate(axes)}
    return prim.substitute(expr, numbered)


def _text_of_size(expr: Any) -> str:
    symbols, expr = Symbols(), prim.convert(expr)
    for part in prim.post_order(expr):
        if isinstance(part, Var):
            symbols.alias(part, part.name)
    try:
        return str(symbols.dim(expr))
    except ValueError:
        return prim_expr_script(expr)


def regions_digest(
    block: statements.Block, derived: Mapping[str, Sequence[BufferRegion]] | None = None
) -> str:
    """A digest of the regions derived from a block's body."""
    regions = derived or _derived(block)
    texts = [
        [_canonical_text(r.region, block.iter_vars) for r in regions[kind]]
        for kind in ("reads", "writes")
    ]
    return hashlib.sha256(str(texts).encode()).hexdigest()[:8]


def region_text(region: Sequence[Range], names: Mapping[int, str]) -> Box:
    """A box as text.

    Args:
        region: a range per dimension.
        names: of the axes, by the ids of their variables.

    Raises:
        ValueError: it has operations other than integer arithmetic.
    """
    return [[_text(r.min, names), _text(r.extent, names)] for r in region]


def _text(expr: PrimExpr, names: Mapping[int, str]) -> str:
    """An expression in infix notation.

    Raises:
        ValueError: it has operations other than integer arithmetic.
    """
    if isinstance(expr, prim.IntImm):
        return str(expr.value)
    if isinstance(expr, Var):
        name = names.get(id(expr), expr.name)
        if not name.isidentifier():
            raise ValueError(f"`{name}`: expected a name")
        return name
    if isinstance(expr, prim.Cast):
        return _text(expr.value, names)
    sides = [_text(child, names) for child in expr.children()]
    if type(expr) in _INFIX:
        return f"({f' {_INFIX[type(expr)]} '.join(sides)})"
    if type(expr) in _CALLS:
        return f"{_CALLS[type(expr)]}({', '.join(sides)})"
    raise ValueError(f"`{expr}`: expected arithmetic on integers")


# Reading explicit regions.


def set_explicit_regions(
    block: statements.Block,
    explicit: Mapping[str, Any],
    variables: Mapping[str, Var],
    buffers: Mapping[str, Buffer],
) -> None:
    """Replaces the derived regions of a block by its explicit ones.

    Args:
        block: the block, with derived regions.
        explicit: the value of the attribute.
        variables: the enclosing variables, by name.
        buffers: the visible buffers, by name.

    Raises:
        ValueError: the attribute is malformed.
    """
    derived = _derived(block)
    if "body" in explicit and explicit["body"] != regions_digest(block, derived):
        return
    known = {axis_name(n): axis.var for n, axis in enumerate(block.iter_vars)}
    visible = {**variables, **known}
    try:
        found = {
            kind: [
                _region(reference, box, derived, visible, buffers)
                for reference, box in listed
            ]
            for kind in ("reads", "writes")
            if (listed := explicit.get(kind)) is not None
        }
    except (KeyError, IndexError):  # unknown names, or other ranks
        return
    except TypeError as error:
        raise ValueError(
            f"`{attribute_names.TOUCHED}`: expected buffers and boxes"
        ) from error
    for kind, regions in found.items():
        block.set_regions(kind, regions)


def _region(
    reference: str,
    box: Sequence[Sequence[str]] | None,
    derived: Mapping[str, Sequence[BufferRegion]],
    variables: Mapping[str, Var],
    buffers: Mapping[str, Buffer],
) -> BufferRegion:
    if reference.startswith("="):
        buffer = buffers[reference[1:]]
    else:
        kind, number = _parse_reference(reference)
        region = derived["reads" if kind == "r" else "writes"][number]
        if box is None:
            return region
        buffer = region.buffer
    if len(box or ()) != len(buffer.shape):
        raise KeyError(reference)  # a buffer of the same name
    ranges = [
        Range.from_min_extent(*(_sized(_read(t, variables), size) for t in pair))
        for pair, size in zip(box or (), buffer.shape, strict=True)
    ]
    return BufferRegion(buffer, ranges)


def _sized(expr: Any, size: PrimExpr) -> PrimExpr:
    return prim.const(expr, size.dtype) if isinstance(expr, int) else expr


def _parse_reference(reference: str) -> tuple[str, int]:
    """Parses ``r0`` or ``w0``: the kind and the number of a buffer."""
    kind, number = reference[:1], reference[1:]
    if kind not in ("r", "w") or not number.isdecimal():
        raise ValueError(f"`{reference}`: expected a buffer, as `r0`")
    return kind, int(number)


def _read(text: str, variables: Mapping[str, Var]) -> Any:
    try:
        return _parse_expr(ast.parse(text, mode="eval").body, variables)
    except (SyntaxError, RecursionError, MemoryError, ArithmeticError) as error:
        raise _no_arithmetic(text) from error


def _no_arithmetic(text: str) -> ValueError:
    return ValueError(f"`{text[:60]}`: expected arithmetic on integers")


def _parse_expr(node: ast.expr, variables: Mapping[str, Var]) -> Any:
    """The expression of a text; a Python number if it has no variables."""
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.Name(name):
            return variables[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -_parse_expr(operand, variables)
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATORS:
            sides = (_parse_expr(left, variables), _parse_expr(right, variables))
            return _OPERATORS[type(operation)](*sides)
        case ast.Call(ast.Name(name), [left, right]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](
                _parse_expr(left, variables), _parse_expr(right, variables)
            )
    raise _no_arithmetic(ast.unparse(node))


def overriding_regions(
    block: statements.Block,
) -> tuple[Sequence[BufferRegion], Sequence[BufferRegion]] | None:
    """The regions of a block if they differ from the derived ones, else None."""
    if not block.has_explicit_regions:
        return None
    derived = access_regions(block)
    explicit = (block.reads, block.writes)
    texts = [
        [
            [
                (id(r.buffer), _canonical_text(r.region, block.iter_vars))
                for r in regions
            ]
            for regions in both
        ]
        for both in (derived, explicit)
    ]
    return None if texts[0] == texts[1] else explicit


# Explicit regions in schedules.


def in_explicit_order(
    explicit: Mapping[str, Any],
    kind: str,
    read: Sequence[Any],
    written: Sequence[Any],
) -> list[Any]:
    """The buffers that a block reads or writes, in the order of its explicit regions.

    Args:
        explicit: the value of the attribute.
        kind: ``reads`` or ``writes``.
        read, written: the buffers in the order of the body's accesses.
    """
    derived = read if kind == "reads" else written
    listed = explicit.get(kind)
    if listed is None:
        return list(derived)
    if tuple(explicit["counts"]) != (len(read), len(written)):
        return list(derived)
    tables = {"r": read, "w": written}
    places = [
        _parse_reference(reference)
        for reference, _ in listed
        if not reference.startswith("=")
    ]
    if any(number >= len(tables[kind]) for kind, number in places):
        return list(derived)
    return [tables[kind][number] for kind, number in places]
