"""Propagation of output layouts of a PrimFunc to its blocks and input buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from relax_mlir.errors import IRError, MismatchError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.prim import PrimExpr, Var
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.objects.stmt.functor import post_order_visit, pre_order_visit
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm.tir.schedule.index_map import IndexMap

__all__ = ["suggest_layout_transforms"]

Suggestions: TypeAlias = dict[
    statements.Block, dict[statements.Block | Buffer, IndexMap]
]
# Spatial axis of the block that each index of an access uses; None for no spatial axis.
_AccessAxes: TypeAlias = tuple[int | None, ...]

_AFFINE = (prim.Add, prim.Sub, prim.Mul, prim.FloorDiv, prim.FloorMod, prim.Cast)


def suggest_layout_transforms(
    func: PrimFunc, write_buffer_transforms: Sequence[IndexMap | Callable[..., Any]]
) -> Suggestions:
    """Suggest index maps for the blocks and buffers of a PrimFunc, given its output layouts.

    The suggested block loops traverse the outputs in the order of their new layout. Blocks
    with nested blocks, and those with an index that uses several axes, are skipped.

    Args:
        func: the PrimFunc; the result refers to blocks and buffers of its body.
        write_buffer_transforms: new layouts of the outputs: an index map or a function for
            each of the last parameters.

    Returns:
        For each block, the index maps of its axes and of the buffers that it accesses.

    Raises:
        AssertionError: a layout is neither an index map nor a function.
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
        if not isinstance(node, statements.Block) or node.name_hint == "root":
            return isinstance(node, statements.Stmt)
        found = _suggested(node, maps)
        if found:
            suggestions[node] = found
        return False

    pre_order_visit(body, visit)
    return suggestions


def _index_dtype(buffers: Sequence[Buffer]) -> str:
    """The dtype of the buffer sizes of a PrimFunc."""
    sizes = [size for buffer in buffers for size in buffer.shape]
    return sizes[0].dtype if sizes else "int64"


def _index_map(transform: Any, dtype: str) -> IndexMap:
    if isinstance(transform, IndexMap):
        return transform
    if not callable(transform):
        raise MismatchError(
            f"output layouts: expected index maps or functions, got {short_repr(transform)}"
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
    block: statements.Block, maps: dict[int, IndexMap]
) -> dict[statements.Block | Buffer, IndexMap]:
    """The index maps of a block and its buffers; adds those of input buffers to ``maps``."""
    written = [region.buffer for region in block.writes]
    accesses = _accesses(block)
    if len(written) != 1 or accesses is None or id(written[0]) not in maps:
        return {}
    output, output_axes = written[0], accesses.get(id(written[0]))
    if output_axes is None or None in output_axes or not _is_in_order(output_axes):
        return {}
    output_map = maps[id(output)]
    block_axes = tuple(range(len(block.iter_vars)))
    block_map = _propagated(output_axes, output_map, block_axes)
    domains = [axis.dom for axis in block.iter_vars]
    if block_map is None or not _is_bijective(block_map, domains):
        return {}
    found: dict[statements.Block | Buffer, IndexMap] = {
        block: block_map,
        output: output_map,
    }
    for buffer in {id(r.buffer): r.buffer for r in block.reads}.values():
        axes = accesses.get(id(buffer))
        if axes is None or id(buffer) in maps or not _is_in_order(axes):
            continue
        input_map = _propagated(output_axes, output_map, axes)
        if input_map is not None:
            found[buffer] = maps[id(buffer)] = input_map
    return found


def _accesses(block: statements.Block) -> dict[int, _AccessAxes | None] | None:
    """The axes in each buffer's indices, by buffer id; None if blocks are nested.

    A buffer whose accesses differ has None.
    """
    spatial = {
        position: axis.var
        for position, axis in enumerate(block.iter_vars)
        if axis.iter_type == prim.IterVar.DataPar
    }
    found: dict[int, _AccessAxes | None] = {}
    inner: list[statements.Block] = []

    def visit(node: Any) -> None:
        if isinstance(node, statements.Block):
            inner.append(node)
        if isinstance(node, (BufferLoad, statements.BufferStore)):
            axes = _access_axes(node.indices, spatial)
            key = id(node.buffer)
            found[key] = axes if found.get(key, axes) == axes else None

    post_order_visit(block.body, visit)
    return None if inner else found


def _access_axes(
    indices: Sequence[PrimExpr], spatial: Mapping[int, Var]
) -> _AccessAxes | None:
    """The axis of each index; None if an index uses several, or is not affine."""
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


def _used(expr: PrimExpr, variables: Sequence[Var]) -> list[Var]:
    """The distinct ones of ``variables`` that occur in an expression."""
    found: dict[int, Var] = {}
    for node in prim.post_order(expr):
        if isinstance(node, Var) and any(node is var for var in variables):
            found[id(node)] = node
    return list(found.values())


def _is_affine(expr: PrimExpr, spatial: Sequence[Var]) -> bool:
    """Whether an index is quasi-affine in the spatial axes."""
    if isinstance(expr, Var) or not _used(expr, spatial):
        return True
    children = expr.children()
    if not isinstance(expr, _AFFINE) or "float" in expr.dtype:
        return False
    with_axes = [child for child in children if _used(child, spatial)]
    is_nonlinear = isinstance(expr, prim.Mul) and len(with_axes) > 1
    is_division = isinstance(expr, (prim.FloorDiv, prim.FloorMod))
    if is_nonlinear or (is_division and with_axes != [children[0]]):
        return False
    return all(_is_affine(child, spatial) for child in with_axes)


def _is_in_order(axes: _AccessAxes) -> bool:
    """Whether the indices of an access use the block axes in increasing order."""
    used = [axis for axis in axes if axis is not None]
    return all(a < b for a, b in pairwise(used))


def _propagated(
    source: _AccessAxes, index_map: IndexMap, target: _AccessAxes
) -> IndexMap | None:
    """Index map for an access with axes ``target``, from that of an access ``source``.

    Final indices that use only axes missing in ``target`` are dropped; axes missing in
    ``source`` keep their position. None if a final index mixes present and missing axes.
    """
    pairs = zip(source, index_map.initial_indices, strict=True)
    initial = [index for axis, index in pairs if axis in target]
    final: list[PrimExpr] = []
    for expr in index_map.final_indices:
        used = _used(expr, index_map.initial_indices)
        kept = [index for index in used if any(index is i for i in initial)]
        if kept and len(kept) != len(used):
            return None
        if kept:
            final.append(expr)
    for position, axis in enumerate(target):
        if axis is None or axis not in source:
            new = Var("d", index_map.initial_indices[0].dtype)
            initial.insert(position, new)
            final.insert(min(position, len(final)), new)
    return IndexMap(initial, final)


def _is_bijective(index_map: IndexMap, domains: Sequence[prim.Range]) -> bool:
    try:
        _, padding = index_map.non_surjective_inverse(domains)
    except ValueError:
        return False
    return isinstance(padding, prim.IntImm) and padding.value == 0
