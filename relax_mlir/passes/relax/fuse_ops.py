"""``relax-fuse-ops``: which calls become one kernel."""

from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.kinds import Kind, kind_of
from relax_mlir.module import IRModule
from relax_mlir.passes.relax.legalize import SymbolTable
from relax_mlir.rewriting import Pass, erase_dead, replace

__all__ = ["FuseOps"]

_CALLS = frozenset({"relax.call_tir", "builtin.unrealized_conversion_cast"})


@dataclass
class _Group:
    """Calls that become one kernel; ``anchor`` is the one that is no map, if any."""

    calls: list[ir.OpView] = field(default_factory=list)
    kind: Kind = Kind.ELEMENTWISE
    anchor: ir.OpView | None = None


@dataclass(frozen=True)
class FuseOps(Pass):
    """Group calls of tensor programs into functions that become one kernel each.

    A map joins the map that reads it; a map joins the reduction whose input it is; the
    maps after a contraction join it. A value that is read outside its group stays a
    value, so nothing is computed twice.
    """

    max_ops: int = 256  # calls in one group

    def run(self, module: IRModule) -> None:
        kinds = {
            f.name.value: kind_of(f)
            for f in module.functions()
            if "tir.prim_func" in f.attributes and not f.is_external
        }
        table = SymbolTable(module)
        for function in module.functions():
            if "tir.prim_func" in function.attributes or function.is_external:
                continue
            if "relax.primitive" in function.attributes:
                continue
            for group in _find_groups(function, kinds, self.max_ops):
                if len(group.calls) > 1:
                    _outline(module, table, group)
            erase_dead(function.entry_block, lambda op: op.name in _CALLS)


def _find_groups(
    function: func.FuncOp, kinds: dict[str, Kind], limit: int
) -> list[_Group]:
    """Walk from the results back: a producer joins the one group that reads it."""
    calls = [
        o
        for o in function.entry_block.operations
        if o.operation.name == "relax.call_tir"
    ]
    groups: dict[ir.OpView, _Group] = {}
    ordered: list[_Group] = []
    for call in reversed(calls):
        kind = kinds.get(call.attributes["callee"].value, Kind.OPAQUE)
        group = _reader(call, groups)
        if (
            group is not None
            and len(group.calls) < limit
            and _may_join(call, kind, group)
        ):
            group.calls.insert(0, call)
            group.kind = max(group.kind, kind)
        else:
            group = _Group([call], kind)
            ordered.append(group)
        if kind >= Kind.REDUCTION:
            group.anchor = call
        groups[call] = group
    return ordered


def _reader(call: ir.OpView, groups: dict[ir.OpView, _Group]) -> _Group | None:
    """The one group that reads the result, or None if there is none or several."""
    found: _Group | None = None
    readers = _readers(call.results[0])
    for reader in readers:
        group = groups.get(reader)
        if group is None or (found is not None and group is not found):
            return None
        found = group
    return found


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


def _may_join(call: ir.OpView, kind: Kind, group: _Group) -> bool:
    if kind <= Kind.INJECTIVE:
        return group.kind <= Kind.INJECTIVE or (
            group.anchor is not None and _may_feed(call, group)
        )
    if kind is Kind.OUT_FUSABLE:
        # The maps after a contraction run on its tiles: they keep its shape.
        shape = tensors.shape_of(call.results[0])
        return (
            group.kind <= Kind.BROADCAST
            and group.anchor is None
            and all(tensors.shape_of(c.results[0]) == shape for c in group.calls)
        )
    return False


def _may_feed(call: ir.OpView, group: _Group) -> bool:
    """Whether a map may join a group that has an anchor.

    It may compute the input of a reduction, or an operand of the maps after a
    contraction where it costs as much as reading it.
    """
    readers = _readers(call.results[0])
    if group.anchor in readers:
        return group.kind is Kind.REDUCTION and len(readers) == 1
    if group.kind is Kind.REDUCTION:
        return all(r in group.calls for r in readers)
    shape = tensors.shape_of(group.anchor.results[0])
    return tensors.shape_of(call.results[0]) == shape


def _outline(module: IRModule, table: SymbolTable, group: _Group) -> None:
    """Move the calls into a private function, called where the last one stood."""
    last = group.calls[-1]
    inside = {c.results[0] for c in group.calls}
    inputs: list[ir.Value] = []
    for call in group.calls:
        for value in tensors.elements(call.operands[0]):
            if value not in inside and value not in inputs:
                inputs.append(value)
    names = [c.attributes["callee"].value for c in group.calls]
    name = table.unique("_".join(["fused", *names])[:80])
    signature = ir.FunctionType.get([v.type for v in inputs], [last.results[0].type])
    with ir.InsertionPoint.at_block_begin(module.mlir.body), last.location:
        function = func.FuncOp(name, signature, visibility="private")
        function.attributes["relax.primitive"] = ir.UnitAttr.get()
        block = function.add_entry_block()
        mapping = dict(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for call in group.calls:
                _clone_call(call, mapping)
            func.ReturnOp([mapping[last.results[0]]])
    with ir.InsertionPoint(last), last.location:
        result = func.CallOp([last.results[0].type], name, inputs).results[0]
    replace(last, result)


def _clone_call(call: ir.OpView, mapping: dict[ir.Value, ir.Value]) -> None:
    with call.location:
        arguments = [mapping[v] for v in tensors.elements(call.operands[0])]
        copy = call.operation.clone()
        copy.operands[0] = tensors.pack(arguments)
        copy.move_after(copy.operands[0].owner)
    mapping[call.results[0]] = copy.results[0]
