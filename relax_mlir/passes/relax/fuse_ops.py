"""``relax-fuse-ops``: which calls become one kernel."""

from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.graphs import outline_calls
from relax_mlir.kinds import Kind, ends_in_map, kind_of, writes_in_parts
from relax_mlir.module import IRModule
from relax_mlir.pass_context import PassContext
from relax_mlir.passes.relax.fuse_dataflow import fuse_by_post_dominators
from relax_mlir.passes.relax.legalize import SymbolTable
from relax_mlir.rewriting import Pass, erase_dead
from relax_mlir.traversal import own_operations

__all__ = ["FuseOps"]

_CALLS = frozenset({"relax.call_tir", "builtin.unrealized_conversion_cast"})


@dataclass
class _Group:
    """Calls that become one kernel, in order; ``kind`` is the highest of theirs."""

    calls: list[ir.OpView] = field(default_factory=list)
    kind: Kind = Kind.ELEMENTWISE


@dataclass(frozen=True)
class FuseOps(Pass):
    """Group calls of tensor programs into functions that become one kernel each.

    First, every contraction takes the maps after it, as long as they keep its shape and
    end in one value; so does what sums and then maps, as a softmax. Then maps join the
    map, or the reduction, that reads them; a result written in parts, as by a
    concatenation, is joined by elementwise maps alone. A value that is read outside its
    group stays a value, so nothing is computed twice.

    Args:
        max_ops: calls in one group.
        by_post_dominators: group the bindings of dataflow blocks as TVM does, by what
            their programs say of themselves in ``op_pattern``.
        level: 0 fuses nothing; by default, the level of the pass context.
        lift_constants: whether constants become parameters of these functions.
    """

    max_ops: int = 256
    by_post_dominators: bool = False
    level: int = -1
    lift_constants: bool = True

    def run(self, module: IRModule) -> None:
        context = PassContext.current()
        if (context.opt_level if self.level < 0 else self.level) == 0:
            return
        if self.by_post_dominators:
            limit = context.config.get("relax.FuseOps.max_depth", self.max_ops)
            fuse_by_post_dominators(
                module, int(limit), lift_constants=self.lift_constants
            )
        else:
            self._fuse_maps(module)

    def _fuse_maps(self, module: IRModule) -> None:
        programs = [
            f
            for f in module.func_ops()
            if "tir.prim_func" in f.attributes and not f.is_external
        ]
        kinds = {f.name.value: kind_of(f) for f in programs}
        parts = frozenset(f.name.value for f in programs if writes_in_parts(f))
        rows = frozenset(f.name.value for f in programs if ends_in_map(f))
        table = SymbolTable(module)
        for function in module.func_ops():
            is_program = "tir.prim_func" in function.attributes or function.is_external
            if is_program or "relax.primitive" in function.attributes:
                continue
            for group in _Grouping(function, kinds, parts, rows, self.max_ops).groups():
                if len(group.calls) > 1:
                    names = [c.attributes["callee"].value for c in group.calls]
                    name = table.unique("_".join(["fused", *names])[:80])
                    outline_calls(module, group.calls, name)
            erase_dead(function.entry_block, lambda op: op.name in _CALLS)


class _Grouping:
    """Finds the groups of one function.

    Args:
        kinds: by name of the tensor program.
        parts: names of programs that write their result in parts.
        rows: of programs that sum, and write their result by a map.
        limit: calls in one group.
    """

    def __init__(
        self,
        function: func.FuncOp,
        kinds: dict[str, Kind],
        parts: frozenset[str],
        rows: frozenset[str],
        limit: int,
    ) -> None:
        block = function.entry_block
        self.calls = [
            o for o in own_operations(block) if o.operation.name == "relax.call_tir"
        ]
        self.order = {call: number for number, call in enumerate(self.calls)}
        self.kinds = kinds
        self.parts, self.rows = parts, rows
        self.limit = limit
        self.group_of: dict[ir.OpView, _Group] = {}

    def groups(self) -> list[_Group]:
        """All groups, single calls too."""
        products = [c for c in self.calls if self._kind(c) is Kind.OUT_FUSABLE]
        rows = [c for c in self.calls if c.attributes["callee"].value in self.rows]
        found = [
            self._with_epilogue(anchor) for anchor in dict.fromkeys(products + rows)
        ]
        for call in reversed(self.calls):
            if call not in self.group_of:
                found += self._join_reader(call)
        return found

    def _kind(self, call: ir.OpView) -> Kind:
        return self.kinds.get(call.attributes["callee"].value, Kind.OPAQUE)

    def _with_epilogue(self, anchor: ir.OpView) -> _Group:
        """A contraction, or what ends in a map, and the maps that follow it."""
        group = _Group([anchor], self._kind(anchor))
        self.group_of[anchor] = group
        last = anchor
        while True:
            following = self._maps_after(last)
            if following is None or len(group.calls) + len(following) > self.limit:
                return group
            for call in following:
                group.calls.append(call)
                self.group_of[call] = group
            last = following[-1]

    def _maps_after(self, call: ir.OpView) -> list[ir.OpView] | None:
        """The maps from ``call`` to the first that all of its readers lead to."""
        shape = tensors.shape_of(call.results[0])
        taken: list[ir.OpView] = []
        open_ = set(_readers(call.results[0]))
        while open_:
            first = min(open_, key=lambda c: self.order.get(c, -1))
            if not self._keeps_shape(first, shape) or len(taken) >= _MAX_DETOUR:
                return None
            taken.append(first)
            open_.remove(first)
            if not open_:
                return taken
            open_ |= set(_readers(first.results[0]))
        return None

    def _keeps_shape(self, call: ir.OpView, shape: tuple[shapes.Dim, ...]) -> bool:
        if call not in self.order or call in self.group_of:
            return False
        is_map = self._kind(call) <= Kind.BROADCAST
        return is_map and tensors.shape_of(call.results[0]) == shape

    def _join_reader(self, call: ir.OpView) -> list[_Group]:
        """Put a call into the group that reads it, or into a new one, which is returned."""
        kind = self._kind(call)
        group = self._reader_group(call)
        if (
            group is not None
            and kind <= Kind.INJECTIVE
            and len(group.calls) < self.limit
        ):
            group.calls.insert(0, call)
            group.kind = max(group.kind, kind)
            self.group_of[call] = group
            return []
        self.group_of[call] = _Group([call], kind)
        return [self.group_of[call]]

    def _reader_group(self, call: ir.OpView) -> _Group | None:
        """The one group that reads the result, if maps may join it."""
        groups = [self.group_of.get(r) for r in _readers(call.results[0])]
        if not groups or groups[0] is None or any(g is not groups[0] for g in groups):
            return None
        # Maps are written into the parts, but parts cannot be written into what reads them.
        is_parts = call.attributes["callee"].value in self.parts
        highest = Kind.BROADCAST if is_parts else Kind.REDUCTION
        return groups[0] if groups[0].kind <= highest else None


_MAX_DETOUR = 16  # maps between a value and the map where its readers meet


def _readers(value: ir.Value) -> list[ir.OpView]:
    """What reads a value, the packing of arguments looked through."""
    readers: list[ir.OpView] = []
    for use in value.uses:
        owner = use.owner
        if owner.operation.name == "builtin.unrealized_conversion_cast":
            readers += _readers(owner.operation.results[0])
        else:
            readers.append(owner)
    return readers
