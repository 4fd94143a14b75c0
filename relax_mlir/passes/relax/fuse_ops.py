"""``relax-fuse-ops``: operator fusion by op pattern kinds."""

from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.op_pattern import (
    OpPatternKind,
    ends_elementwise,
    op_pattern_of,
    stores_piecewise,
)
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.symbol_table import SymbolTable
from relax_mlir.ir.traversal import own_operations
from relax_mlir.ir.use_def import users_of
from relax_mlir.rewrite.functions import graph_functions, outline_calls
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.rewrite.patterns import Pass, erase_dead

__all__ = ["FuseOps"]

_CALLS = frozenset({CallTirOp.OPERATION_NAME, tensors.TUPLE_PACK})


@dataclass
class _Group:
    """The calls of one kernel, in order, and the highest op pattern kind among them."""

    calls: list[ir.OpView] = field(default_factory=list)
    kind: OpPatternKind = OpPatternKind.ELEMENTWISE


@dataclass(frozen=True)
class FuseOps(Pass):
    """Group calls of tensor programs into primitive functions, one kernel each.

    First, every contraction takes the elementwise calls that follow it as its epilogue, if
    they keep its shape and join again in one value; so does a reduction that ends in an
    elementwise statement, as softmax does. Then elementwise calls join the elementwise call
    or the reduction that reads them; a result that is stored piecewise or permuted, such as
    a concatenation, takes elementwise producers only. A value with users outside its group
    stays materialised, so that nothing is computed twice. In a pass context of level 0, no
    calls are grouped.

    Args:
        max_ops: most calls in one group.
    """

    max_ops: int = 256

    def run(self, module: IRModule) -> None:
        if PassContext.current().opt_level == 0:
            return
        programs = list(
            filter(function_attributes.is_defined_prim_func, module.func_ops())
        )
        kinds = {f.name.value: op_pattern_of(f) for f in programs}
        parts = frozenset(f.name.value for f in programs if stores_piecewise(f))
        rows = frozenset(f.name.value for f in programs if ends_elementwise(f))
        table = SymbolTable(module)
        for function in graph_functions(module):
            if function_attributes.is_primitive(function):
                continue
            for group in _Grouping(function, kinds, parts, rows, self.max_ops).groups():
                if len(group.calls) > 1:
                    names = [c.attributes["callee"].value for c in group.calls]
                    name = table.unique("_".join(["fused", *names])[:80])
                    outline_calls(module, group.calls, name)
            erase_dead(function.entry_block, lambda op: op.name in _CALLS)


class _Grouping:
    """Computes the fusion groups of one function.

    Args:
        kinds: op pattern kind by name of the tensor program.
        piecewise: names of programs that store their result piecewise or permuted.
        ends_elementwise: names of reductions that end in an elementwise statement.
        limit: most calls in one group.
    """

    def __init__(
        self,
        function: func.FuncOp,
        kinds: dict[str, OpPatternKind],
        piecewise: frozenset[str],
        ends_elementwise: frozenset[str],
        limit: int,
    ) -> None:
        block = function.entry_block
        self.calls = [o for o in own_operations(block) if isinstance(o, CallTirOp)]
        self.order = {call: number for number, call in enumerate(self.calls)}
        self.kinds = kinds
        self.piecewise, self.ends_elementwise = piecewise, ends_elementwise
        self.limit = limit
        self.group_of: dict[ir.OpView, _Group] = {}

    def groups(self) -> list[_Group]:
        """All groups, including those of a single call."""
        contractions = [
            c for c in self.calls if self._kind(c) is OpPatternKind.OUT_FUSABLE
        ]
        ends_elementwise = [
            c
            for c in self.calls
            if c.attributes["callee"].value in self.ends_elementwise
        ]
        found = [
            self._with_epilogue(anchor)
            for anchor in dict.fromkeys(contractions + ends_elementwise)
        ]
        for call in reversed(self.calls):
            if call not in self.group_of:
                found += self._fuse_into_consumer(call)
        return found

    def _kind(self, call: ir.OpView) -> OpPatternKind:
        return self.kinds.get(call.attributes["callee"].value, OpPatternKind.OPAQUE)

    def _with_epilogue(self, anchor: ir.OpView) -> _Group:
        """A contraction, or a reduction that ends elementwise, and its epilogue."""
        group = _Group([anchor], self._kind(anchor))
        self.group_of[anchor] = group
        last = anchor
        while True:
            following = self._epilogue_step(last)
            if following is None or len(group.calls) + len(following) > self.limit:
                return group
            for call in following:
                group.calls.append(call)
                self.group_of[call] = group
            last = following[-1]

    def _epilogue_step(self, call: ir.OpView) -> list[ir.OpView] | None:
        """The elementwise calls from ``call`` to its first post-dominator, or None."""
        shape = tensors.shape_of(call.results[0])
        taken: list[ir.OpView] = []
        frontier = set(users_of(call.results[0]))
        while frontier:
            first = min(frontier, key=lambda c: self.order.get(c, -1))
            if not self._keeps_shape(first, shape) or len(taken) >= _MAX_DETOUR:
                return None
            taken.append(first)
            frontier.remove(first)
            if not frontier:
                return taken
            frontier |= set(users_of(first.results[0]))
        return None

    def _keeps_shape(self, call: ir.OpView, shape: tuple[shapes.Dim, ...]) -> bool:
        if call not in self.order or call in self.group_of:
            return False
        is_elementwise = self._kind(call) <= OpPatternKind.BROADCAST
        return is_elementwise and tensors.shape_of(call.results[0]) == shape

    def _fuse_into_consumer(self, call: ir.OpView) -> list[_Group]:
        """Puts a call into the group of its consumer, or into a new one, which is returned."""
        kind = self._kind(call)
        group = self._consumer_group(call)
        if (
            group is not None
            and kind <= OpPatternKind.INJECTIVE
            and len(group.calls) < self.limit
        ):
            group.calls.insert(0, call)
            group.kind = max(group.kind, kind)
            self.group_of[call] = group
            return []
        self.group_of[call] = _Group([call], kind)
        return [self.group_of[call]]

    def _consumer_group(self, call: ir.OpView) -> _Group | None:
        """The only group that reads the result, if a producer may join it."""
        groups = [self.group_of.get(r) for r in users_of(call.results[0])]
        if not groups or groups[0] is None or any(g is not groups[0] for g in groups):
            return None
        # A producer can be inlined into each store, but piecewise stores into no consumer.
        is_piecewise = call.attributes["callee"].value in self.piecewise
        highest = OpPatternKind.BROADCAST if is_piecewise else OpPatternKind.REDUCTION
        return groups[0] if groups[0].kind <= highest else None


_MAX_DETOUR = 16  # calls between a value and its post-dominator
