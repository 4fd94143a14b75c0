"""``tir-join-maps``: small maps that do not need each other become one program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, TupleGetItemOp
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.indexing import linear_in
from relax_mlir.module import IRModule
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.passes.tir.nests import is_scheduled
from relax_mlir.passes.tir.permute_buffers import may_permute
from relax_mlir.passes.tir.program_copies import ProgramCopies
from relax_mlir.rewriting import Pass, clone, erase, walk

__all__ = ["JoinMaps"]

_MOST = 8  # maps that are one; the time to compile a program grows with what it has
# What may stand between calls that are joined: it computes nothing.
_NEUTRAL = ("builtin.unrealized_conversion_cast", "relax.constant", "relax.reshape")


@dataclass(frozen=True)
class JoinMaps(Pass):
    """Make one program of small maps whose calls follow each other.

    None of them reads a result of another. The program has the blocks of all, and a result
    for each: a GPU runs them side by side, in one launch instead of several that leave it
    without work.

    Args:
        max_elements: of a result; larger ones keep a device busy by themselves.
    """

    max_elements: int = 1 << 18

    def run(self, module: IRModule) -> None:
        copies = ProgramCopies(module)
        maps = {name: p for name, p in copies.programs.items() if _is_map(p)}
        joined: dict[tuple[str, ...], str] = {}
        for function in copies.functions():
            for calls in self._groups(maps.keys(), function):
                names = tuple(call.attributes["callee"].value for call in calls)
                if names not in joined:
                    joined[names] = _program_of([maps[n] for n in names], copies)
                _call(joined[names], calls)
        copies.drop_unread()

    def _groups(
        self, maps: AbstractSet[str], function: func.FuncOp
    ) -> list[list[CallTirOp]]:
        """Calls that may be one, two or more each."""
        found: list[list[CallTirOp]] = []
        calls: list[CallTirOp] = []
        derived: set[ir.Value] = set()
        for op in function.entry_block.operations:
            operation = op.operation
            is_map = isinstance(op, CallTirOp) and self._is_small_map(maps, op)
            reads = not derived.isdisjoint(operation.operands)
            is_between = is_map or operation.name in _NEUTRAL
            if reads or len(calls) == _MOST or not is_between:
                found.append(calls)
                calls, derived = [], set()
            if isinstance(op, CallTirOp) and is_map:
                calls.append(op)
                derived.add(op.result)
        return [calls for calls in (*found, calls) if len(calls) > 1]

    def _is_small_map(self, maps: AbstractSet[str], call: CallTirOp) -> bool:
        type_ = call.result.type
        if call.attributes["callee"].value not in maps:
            return False
        is_known = isinstance(type_, ir.RankedTensorType) and type_.has_static_shape
        return is_known and math.prod(type_.shape) <= self.max_elements


def _is_map(program: func.FuncOp) -> bool:
    """Whether all that a program does is to write each element of one result, of buffers."""
    arguments = list(program.entry_block.arguments)
    is_plain = all(isinstance(a.type, ir.MemRefType) for a in arguments)
    if (
        not arguments
        or not is_plain
        or is_scheduled(program)
        or not may_permute(program)
    ):
        return False
    *operations, _ = program.entry_block.operations
    blocks = [o for o in operations if isinstance(o, BlockOp)]
    if len(blocks) < len(operations) or any("R" in b.kinds.value for b in blocks):
        return False
    written = [o for o in walk(program) if o.operation.name == "memref.store"]
    uses = [use.owner.operation.name for use in arguments[-1].uses]
    is_written_alone = set(uses) == {"memref.store"} and len(written) == len(uses)
    return is_written_alone and all(map(_runs_along, blocks))


def _runs_along(block: BlockOp) -> bool:
    """Whether what is written side by side is read so, if it depends on the place at all.

    A rule that turns squares in shared memory takes others.
    """
    axes = {a: i for i, a in enumerate(block.body.blocks[0].arguments)}
    operations = list(walk(block))
    stores = [o for o in operations if o.operation.name == "memref.store"]
    if len(stores) != 1:
        return False
    *_, last = list(stores[0].operands)[2:] or [None]
    for load in (o for o in operations if o.operation.name == "memref.load"):
        *others, _ = list(load.operands)[1:] or [None]
        forms = [linear_in(i, axes) for i in others if i is not None]
        if any(f is None or axes.get(last) in f.coefficients for f in forms):
            return False
    return True


def _call(name: str, calls: Sequence[CallTirOp]) -> None:
    """Call one program where the last of some calls stood, in place of all."""
    given = [value for call in calls for value in tensors.elements(call.args)]
    types = [call.result.type for call in calls]
    with ir.InsertionPoint(calls[-1]), calls[-1].location:
        made = CallTirOp(
            given,
            callee=name,
            sizes=tensors.shape_attr(()),
            results=[ir.TupleType.get_tuple(types)],
        )
        for number, call in enumerate(calls):
            part = TupleGetItemOp(made.result, index=number).result
            call.result.replace_all_uses_with(part)
    for call in calls:
        erase(call)


def _program_of(programs: Sequence[func.FuncOp], copies: ProgramCopies) -> str:
    """A program that does what several do; its name."""
    first = programs[0]
    names = "_".join(program.name.value for program in programs)
    name = copies.fresh_name(f"joined_{names}"[:80])
    inputs = [list(p.entry_block.arguments)[:-1] for p in programs]
    results = [p.entry_block.arguments[-1] for p in programs]
    types = [a.type for a in (*chain.from_iterable(inputs), *results)]
    with ir.InsertionPoint(first), first.location:
        made = func.FuncOp(name, ir.FunctionType.get(types, []))
        made.attributes["tir.prim_func"] = ir.UnitAttr.get()
        made.attributes["tir.num_outputs"] = to_attribute(len(results))
        block = made.add_entry_block()
        given = iter(block.arguments)
        of_inputs = [list(islice(given, len(own))) for own in inputs]
        with ir.InsertionPoint(block):
            for program, own, result in zip(programs, of_inputs, given, strict=True):
                mapping = dict(
                    zip(program.entry_block.arguments, [*own, result], strict=True)
                )
                *operations, _ = program.entry_block.operations
                for operation in operations:
                    clone(operation, mapping)
            func.ReturnOp([])
    return name
