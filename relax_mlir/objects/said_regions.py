"""What a block reads and writes, where a script or a schedule says more than its body.

The attribute ``tir.touched`` of a block holds a dictionary: under ``reads`` and ``writes``
a list of pairs, under ``counts`` how many buffers the body reads and writes, and under
``body`` a digest of what is derived, where that is known. The first of a pair is a buffer: ``r0`` the first one that the body reads, ``w0`` the first one
that it writes, ``=A`` one that it does not touch. The second is a box: the first index and
the extent in each dimension, in terms of the axes and of variables around; or nothing where
it is what is derived. What is said of another body than this does not hold.
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

from relax_mlir.dialects.tir import marks
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.objects.buffer import Buffer, BufferRegion
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim_text import text_of
from relax_mlir.objects.regions import access_regions
from relax_mlir.objects.sizes import Symbols

__all__ = [
    "SaidRegions",
    "axis_name",
    "box_of",
    "digest_of",
    "in_said_order",
    "keep",
    "own_regions",
    "restore",
    "said_of",
    "say_regions",
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
    """What an axis is called in what is said of regions."""
    return f"axis{number}"


def said_of(block: ir.Operation) -> dict[str, Any]:
    """What is said of a block, by ``reads`` and ``writes``."""
    if marks.TOUCHED not in block.attributes:
        return {}
    return dict(from_attribute(block.attributes[marks.TOUCHED]))


# saying


@dataclass(frozen=True)
class SaidRegions:
    """What a script said of a block that it wrote.

    Attributes:
        op: the block.
        depth: in how many blocks it stands.
        axes: those of the block.
        regions: for ``reads``, for ``writes``, or for both.
        memrefs: what the buffers in those are, by their ids.
    """

    op: ir.Operation
    depth: int
    axes: Sequence[IterVar]
    regions: Mapping[str, Sequence[BufferRegion]]
    memrefs: Mapping[int, ir.Value]


def keep(
    said: Sequence[SaidRegions],
    blocks: Mapping[ir.Operation, stmt.Block],
    buffers: Mapping[ir.Value, Buffer],
) -> None:
    """Write to blocks what is said of them, where it is not what is derived anyway.

    Args:
        said: of which blocks what is said.
        blocks: the blocks as they are read without it.
        buffers: what each memref was read as.
    """
    for one in said:
        if one.op in blocks:
            # What is no arithmetic has no text; it is derived then.
            with contextlib.suppress(KeyError, ValueError):
                _keep(one, blocks[one.op], buffers)


def _keep(
    said: SaidRegions, block: stmt.Block, buffers: Mapping[ir.Value, Buffer]
) -> None:
    derived = _derived(block)
    places = _places(derived)
    names = {id(axis.var): axis_name(n) for n, axis in enumerate(said.axes)}
    found: dict[str, Any] = {}
    for kind, regions in said.regions.items():
        seen = [buffers[said.memrefs[id(r.buffer)]] for r in regions]
        ours = [
            (id(b), _spelled(r.region, said.axes))
            for b, r in zip(seen, regions, strict=True)
        ]
        theirs = [
            (id(r.buffer), _spelled(r.region, block.iter_vars)) for r in derived[kind]
        ]
        if ours != theirs:
            listed = [places.get(id(b), f"={b.name}") for b in seen]
            boxes = [
                None
                if place[0] == kind[0] and our == theirs[int(place[1:])]
                else box_of(region.region, names)
                for region, place, our in zip(regions, listed, ours, strict=True)
            ]
            found[kind] = list(zip(listed, boxes, strict=True))
    if found:
        found["counts"] = [len(derived["reads"]), len(derived["writes"])]
        found["body"] = digest_of(block, derived)
        said.op.attributes[marks.TOUCHED] = to_attribute(found)


def restore(
    said: Sequence[SaidRegions],
    blocks: Mapping[ir.Operation, stmt.Block],
    buffers: Mapping[ir.Value, Buffer],
) -> None:
    """Give blocks that were read the regions that they said, as :func:`keep` does."""
    for one in said:
        block = blocks.get(one.op)
        if block is None:
            continue
        axes = {a.var: b.var for a, b in zip(one.axes, block.iter_vars, strict=True)}
        for kind, regions in one.regions.items():
            found = []
            for region in regions:
                memref = one.memrefs.get(id(region.buffer))
                buffer = region.buffer if memref is None else buffers[memref]
                runs = [_replaced(run, axes) for run in region.region]
                found.append(BufferRegion(buffer, runs))
            block.say(kind, found)


def _replaced(run: Range, values: Mapping[Var, PrimExpr]) -> Range:
    return Range.from_min_extent(
        prim.substitute(run.min, values), prim.substitute(run.extent, values)
    )


def _derived(block: stmt.Block) -> dict[str, Sequence[BufferRegion]]:
    reads, writes = access_regions(block)
    return {"reads": reads, "writes": writes}


def _places(derived: Mapping[str, Sequence[BufferRegion]]) -> dict[int, str]:
    found: dict[int, str] = {}
    for kind in ("reads", "writes"):
        for number, region in enumerate(derived[kind]):
            found.setdefault(id(region.buffer), f"{kind[0]}{number}")
    return found


def _spelled(region: Sequence[Range], axes: Sequence[IterVar]) -> list[str]:
    """A box in a form in which equal ones are equal texts."""
    terms = [part for run in region for part in (run.min, run.extent)]
    return [_text_of_size(_by_number(t, axes)) for t in terms]


def _by_number(term: PrimExpr, axes: Sequence[IterVar]) -> PrimExpr:
    numbered = {a.var: Var(axis_name(n), a.var.dtype) for n, a in enumerate(axes)}
    return prim.substitute(term, numbered)


def _text_of_size(term: Any) -> str:
    symbols, term = Symbols(), prim.convert(term)
    for part in prim.post_order(term):
        if isinstance(part, Var):
            symbols.alias(part, part.name)
    try:
        return str(symbols.dim(term))
    except ValueError:
        return text_of(term)


def digest_of(
    block: stmt.Block, derived: Mapping[str, Sequence[BufferRegion]] | None = None
) -> str:
    """A short text that is another one where the body of a block tells something else."""
    found = derived or _derived(block)
    spelled = [
        [_spelled(r.region, block.iter_vars) for r in found[kind]]
        for kind in ("reads", "writes")
    ]
    return hashlib.sha256(str(spelled).encode()).hexdigest()[:8]


def box_of(region: Sequence[Range], names: Mapping[int, str]) -> Box:
    """A box as texts.

    Args:
        region: a run per dimension.
        names: of axes, by the ids of their variables.

    Raises:
        ValueError: there is more in it than arithmetic on integers.
    """
    return [[_text(r.min, names), _text(r.extent, names)] for r in region]


def _text(term: PrimExpr, names: Mapping[int, str]) -> str:
    """A term in infix form.

    Raises:
        ValueError: there is more in it than arithmetic on integers.
    """
    if isinstance(term, prim.IntImm):
        return str(term.value)
    if isinstance(term, Var):
        name = names.get(id(term), term.name)
        if not name.isidentifier():
            raise ValueError(f"`{name}`: expected a name")
        return name
    if isinstance(term, prim.Cast):
        return _text(term.value, names)
    sides = [_text(child, names) for child in term.children()]
    if type(term) in _INFIX:
        return f"({f' {_INFIX[type(term)]} '.join(sides)})"
    if type(term) in _CALLS:
        return f"{_CALLS[type(term)]}({', '.join(sides)})"
    raise ValueError(f"`{term}`: expected arithmetic on integers")


# reading


def say_regions(
    block: stmt.Block,
    said: Mapping[str, Any],
    variables: Mapping[str, Var],
    buffers: Mapping[str, Buffer],
) -> None:
    """Give a block the regions that are said of it in place of those derived.

    Args:
        block: as its body tells.
        said: what the attribute holds.
        variables: those around it, by name.
        buffers: those that it may see, by name.

    Raises:
        ValueError: it is not of the form above.
    """
    derived = _derived(block)
    if "body" in said and said["body"] != digest_of(block, derived):
        return
    known = {axis_name(n): axis.var for n, axis in enumerate(block.iter_vars)}
    seen = {**variables, **known}
    try:
        found = {
            kind: [_region(place, box, derived, seen, buffers) for place, box in listed]
            for kind in ("reads", "writes")
            if (listed := said.get(kind)) is not None
        }
    except (KeyError, IndexError):  # names that stand for nothing here
        return
    except TypeError as error:
        raise ValueError(f"`{marks.TOUCHED}`: expected buffers and boxes") from error
    for kind, regions in found.items():
        block.say(kind, regions)


def _region(
    place: str,
    box: Sequence[Sequence[str]] | None,
    derived: Mapping[str, Sequence[BufferRegion]],
    variables: Mapping[str, Var],
    buffers: Mapping[str, Buffer],
) -> BufferRegion:
    if place.startswith("="):
        buffer = buffers[place[1:]]
    else:
        kind, number = _numbered(place)
        region = derived["reads" if kind == "r" else "writes"][number]
        if box is None:
            return region
        buffer = region.buffer
    runs = [
        Range.from_min_extent(*(_sized(_read(t, variables), size) for t in pair))
        for pair, size in zip(box or (), buffer.shape, strict=True)
    ]
    return BufferRegion(buffer, runs)


def _sized(term: Any, size: PrimExpr) -> PrimExpr:
    return prim.const(term, size.dtype) if isinstance(term, int) else term


def _numbered(place: str) -> tuple[str, int]:
    """Whether a buffer is one of those that are read or written, and which one."""
    kind, number = place[:1], place[1:]
    if kind not in ("r", "w") or not number.isdecimal():
        raise ValueError(f"`{place}`: expected a buffer, as `r0`")
    return kind, int(number)


def _read(text: str, variables: Mapping[str, Var]) -> Any:
    try:
        return _term(ast.parse(text, mode="eval").body, variables)
    except (SyntaxError, RecursionError, MemoryError, ArithmeticError) as error:
        raise _no_arithmetic(text) from error


def _no_arithmetic(text: str) -> ValueError:
    return ValueError(f"`{text[:60]}`: expected arithmetic on integers")


def _term(node: ast.expr, variables: Mapping[str, Var]) -> Any:
    """The term that a text spells; a number if it mentions no variable."""
    match node:
        case ast.Constant(int(value)):
            return value
        case ast.Name(name):
            return variables[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -_term(operand, variables)
        case ast.BinOp(left, operation, right) if type(operation) in _OPERATORS:
            sides = (_term(left, variables), _term(right, variables))
            return _OPERATORS[type(operation)](*sides)
        case ast.Call(ast.Name(name), [left, right]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_term(left, variables), _term(right, variables))
    raise _no_arithmetic(ast.unparse(node))


def own_regions(
    block: stmt.Block,
) -> tuple[Sequence[BufferRegion], Sequence[BufferRegion]] | None:
    """What is said of a block, or None where it is what its body tells anyway."""
    if not block.says_regions:
        return None
    derived = access_regions(block)
    said = (block.reads, block.writes)
    spelled = [
        [
            [(id(r.buffer), _spelled(r.region, block.iter_vars)) for r in regions]
            for regions in both
        ]
        for both in (derived, said)
    ]
    return None if spelled[0] == spelled[1] else said


# schedules


def in_said_order(
    said: Mapping[str, Any],
    kind: str,
    read: Sequence[Any],
    written: Sequence[Any],
) -> list[Any]:
    """The buffers that a block reads or writes, in the order in which it says them.

    Args:
        said: what the attribute holds.
        kind: ``reads`` or ``writes``.
        read, written: the buffers, in the order in which the body mentions them.
    """
    derived = read if kind == "reads" else written
    listed = said.get(kind)
    if listed is None:
        return list(derived)
    if tuple(said["counts"]) != (len(read), len(written)):
        return list(derived)
    tables = {"r": read, "w": written}
    places = [_numbered(place) for place, _ in listed if not place.startswith("=")]
    if any(number >= len(tables[kind]) for kind, number in places):
        return list(derived)
    return [tables[kind][number] for kind, number in places]
