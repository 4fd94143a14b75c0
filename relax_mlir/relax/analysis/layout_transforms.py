"""How blocks and inputs of a tensor program fit outputs that are laid out anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from relax_mlir.errors import IRError, MismatchError, shown
from relax_mlir.objects import prim, stmt
from relax_mlir.objects.buffer import Buffer, BufferLoad
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt_functor import post_order_visit, pre_order_visit
from relax_mlir.tir.schedule.index_map import IndexMap

__all__ = ["suggest_layout_transforms"]

Suggestions: TypeAlias = dict[stmt.Block, dict[stmt.Block | Buffer, IndexMap]]
# The number of the axis that each index of an access is made of; None: no spatial axis.
_Layout: TypeAlias = tuple[int | None, ...]

_AFFINE = (prim.Add, prim.Sub, prim.Mul, prim.FloorDiv, prim.FloorMod, prim.Cast)


def suggest_layout_transforms(
    func: PrimFunc, write_buffer_transforms: Sequence[IndexMap | Callable[..., Any]]
) -> Suggestions:
    """Maps for the blocks and inputs of a program, so that outputs are written in order.

    Blocks are left out whose accesses are not made of one axis an index each, or that hold
    others.

    Args:
        func: the program; its body is what the result mentions.
        write_buffer_transforms: how its outputs are to be laid out: a map or a function for
            each of the last parameters.

    Returns:
        For each block the map of its axes, and those of the buffers that it accesses.

    Raises:
        AssertionError: a layout is neither a map nor a function.
        IRError: the layouts do not fit the parameters.
    """
    if len(write_buffer_transforms) == 0:
        return {}
    reader, body = func.read()
    count = len(write_buffer_transforms)
    if count > len(reader.params):
        raise IRError(
            "Incompatible PrimFunc and write_transformations: expected at most one layout "
            f"per parameter, got {count} for {len(reader.params)} parameters"
        )
    dtype = _index_dtype(list(reader.buffer_map.values()))
    maps: dict[int, IndexMap] = {}
    last = reader.params[len(reader.params) - count :]
    for param, transform in zip(last, write_buffer_transforms, strict=True):
        buffer = reader.buffer_map[param]
        maps[id(buffer)] = _checked(_index_map(transform, dtype), buffer)
    suggestions: Suggestions = {}

    def visit(node: Any) -> bool:
        if not isinstance(node, stmt.Block) or node.name_hint == "root":
            return isinstance(node, stmt.Stmt)
        found = _suggested(node, maps)
        if found:
            suggestions[node] = found
        return False

    pre_order_visit(body, visit)
    return suggestions


def _index_dtype(buffers: Sequence[Buffer]) -> str:
    """The type of the sizes of a program."""
    sizes = [size for buffer in buffers for size in buffer.shape]
    return sizes[0].dtype if sizes else "int64"


def _index_map(transform: Any, dtype: str) -> IndexMap:
    if isinstance(transform, IndexMap):
        return transform
    if not callable(transform):
        raise MismatchError(
            f"layouts of outputs: expected index maps or functions, got {shown(transform)}"
        )
    return IndexMap.from_func(transform, index_dtype=dtype)


def _checked(index_map: IndexMap, buffer: Buffer) -> IndexMap:
    if len(index_map.initial_indices) != buffer.ndim:
        raise IRError(
            f"Mismatch between output buffer shape and index map: buffer `{buffer.name}` "
            f"has {buffer.ndim} dimensions, got {index_map}"
        )
    return index_map


def _suggested(
    block: stmt.Block, maps: dict[int, IndexMap]
) -> dict[stmt.Block | Buffer, IndexMap]:
    """The maps of a block and its buffers; learns those of buffers that it reads."""
    written = [region.buffer for region in block.writes]
    layouts = _layouts(block)
    if len(written) != 1 or layouts is None or id(written[0]) not in maps:
        return {}
    output, source = written[0], layouts.get(id(written[0]))
    if source is None or None in source or not _is_in_order(source):
        return {}
    own = _inferred(source, maps[id(output)], tuple(range(len(block.iter_vars))))
    if own is None or not _is_bijective(own, [axis.dom for axis in block.iter_vars]):
        return {}
    found: dict[stmt.Block | Buffer, IndexMap] = {block: own, output: maps[id(output)]}
    for buffer in {id(r.buffer): r.buffer for r in block.reads}.values():
        layout = layouts.get(id(buffer))
        if layout is None or id(buffer) in maps or not _is_in_order(layout):
            continue
        made = _inferred(source, maps[id(output)], layout)
        if made is not None:
            found[buffer] = maps[id(buffer)] = made
    return found


def _layouts(block: stmt.Block) -> dict[int, _Layout | None] | None:
    """How a block accesses each buffer, by its id; None if it holds other blocks.

    Accesses of one buffer that differ have no layout.
    """
    spatial = {
        number: axis.var
        for number, axis in enumerate(block.iter_vars)
        if axis.iter_type == prim.IterVar.DataPar
    }
    found: dict[int, _Layout | None] = {}
    inner: list[stmt.Block] = []

    def visit(node: Any) -> None:
        if isinstance(node, stmt.Block):
            inner.append(node)
        if isinstance(node, (BufferLoad, stmt.BufferStore)):
            layout = _layout(node.indices, spatial)
            key = id(node.buffer)
            found[key] = layout if found.get(key, layout) == layout else None

    post_order_visit(block.body, visit)
    return None if inner else found


def _layout(indices: Sequence[PrimExpr], spatial: Mapping[int, Var]) -> _Layout | None:
    axes: list[int | None] = []
    variables = list(spatial.values())
    for index in indices:
        used = _used(index, variables)
        if len(used) > 1 or not _is_affine(index, variables):
            return None
        axes.append(
            next((n for n, v in spatial.items() if used and v is used[0]), None)
        )
    return tuple(axes)


def _used(term: PrimExpr, variables: Sequence[Var]) -> list[Var]:
    """The variables in a term, each once."""
    found: dict[int, Var] = {}
    for part in prim.post_order(term):
        if isinstance(part, Var) and any(part is var for var in variables):
            found[id(part)] = part
    return list(found.values())


def _is_affine(term: PrimExpr, spatial: Sequence[Var]) -> bool:
    """Whether an axis is scaled, split and shifted alone."""
    if isinstance(term, Var) or not _used(term, spatial):
        return True
    children = term.children()
    if not isinstance(term, _AFFINE) or "float" in term.dtype:
        return False
    with_axes = [child for child in children if _used(child, spatial)]
    is_product = isinstance(term, prim.Mul) and len(with_axes) > 1
    is_quotient = isinstance(term, (prim.FloorDiv, prim.FloorMod))
    if is_product or (is_quotient and with_axes != [children[0]]):
        return False
    return all(_is_affine(child, spatial) for child in with_axes)


def _is_in_order(layout: _Layout) -> bool:
    """Whether the indices of an access follow the axes of the block."""
    numbers = [number for number in layout if number is not None]
    return all(a < b for a, b in pairwise(numbers))


def _inferred(source: _Layout, index_map: IndexMap, target: _Layout) -> IndexMap | None:
    """The map of what has the axes ``target``, given that of what has ``source``.

    Indices of axes that the target lacks go away; axes that the source lacks stay where
    they are among the others. None if an index is made of axes of both kinds.
    """
    pairs = zip(source, index_map.initial_indices, strict=True)
    initial = [place for axis, place in pairs if axis in target]
    final: list[PrimExpr] = []
    for term in index_map.final_indices:
        places = _used(term, index_map.initial_indices)
        kept = [place for place in places if any(place is i for i in initial)]
        if kept and len(kept) != len(places):
            return None
        if kept:
            final.append(term)
    for number, axis in enumerate(target):
        if axis is None or axis not in source:
            new = Var("d", index_map.initial_indices[0].dtype)
            initial.insert(number, new)
            final.insert(min(number, len(final)), new)
    return IndexMap(initial, final)


def _is_bijective(index_map: IndexMap, domains: Sequence[prim.Range]) -> bool:
    try:
        _, padding = index_map.non_surjective_inverse(domains)
    except ValueError:
        return False
    return isinstance(padding, prim.IntImm) and padding.value == 0
