"""``tir-fuse-horizontal``: horizontal fusion of small independent elementwise programs."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeAlias

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import affine_form, is_size_arithmetic
from relax_mlir.analysis.prim_func_verifier import argument_shape, argument_symbols
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import CallTirOp, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import BlockOp, attribute_names
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.passes.main_signature import size_argument
from relax_mlir.passes.tir.loop_nests import is_scheduled
from relax_mlir.passes.tir.permute_buffers import may_permute
from relax_mlir.passes.tir.prim_func_copies import PrimFuncCopies
from relax_mlir.rewrite.patterns import Pass, clone, erase
from relax_mlir.schedules.kernel_view import point_count
from relax_mlir.symbolic.symbols import substitute

__all__ = ["FuseHorizontal"]

_MOST = 8  # programs per fusion; compile time grows with the number of blocks
# Operations without a kernel, which are allowed between fused calls.
_NEUTRAL = (tensors.TUPLE_PACK, "relax.constant", "relax.reshape")

_Numbers: TypeAlias = tuple[int, ...]  # of sizes
_Key: TypeAlias = tuple[str, _Numbers]  # a program, and the indices of its sizes


@dataclass(frozen=True)
class FuseHorizontal(Pass):
    """Merge consecutive calls of small independent elementwise programs into one program.

    No call reads the result of another. The program has the blocks of all, and a result for
    each: a GPU runs them side by side in one launch, rather than in several that underuse it.

    Args:
        max_elements: of a result; larger ones fill a device by themselves. Symbolic sizes
            count as 64.
    """

    max_elements: int = 1 << 18

    def run(self, module: IRModule) -> None:
        copies = PrimFuncCopies(module)
        elementwise = {
            name: p for name, p in copies.programs.items() if _is_elementwise(p)
        }
        fused: dict[tuple[_Key, ...], str] = {}
        for function in copies.functions():
            for calls in self._groups(elementwise.keys(), function):
                sizes, key = _shared_sizes(calls)
                if key not in fused:
                    programs = [(elementwise[name], numbers) for name, numbers in key]
                    fused[key] = _program_of(programs, len(sizes), copies)
                _call(fused[key], calls, sizes)
        copies.erase_dead()

    def _groups(
        self, elementwise: AbstractSet[str], function: func.FuncOp
    ) -> list[list[CallTirOp]]:
        """Groups of at least two calls that can be fused."""
        found: list[list[CallTirOp]] = []
        calls: list[CallTirOp] = []
        derived: set[ir.Value] = set()
        for op in own_operations(function.entry_block):
            operation = op.operation
            is_candidate = isinstance(op, CallTirOp) and self._is_candidate(
                elementwise, op
            )
            reads = not derived.isdisjoint(operation.operands)
            is_between = is_candidate or operation.name in _NEUTRAL
            if reads or len(calls) == _MOST or not is_between:
                found.append(calls)
                calls, derived = [], set()
            if isinstance(op, CallTirOp) and is_candidate:
                calls.append(op)
                derived.add(op.result)
        return [calls for calls in (*found, calls) if len(calls) > 1]

    def _is_candidate(self, elementwise: AbstractSet[str], call: CallTirOp) -> bool:
        if call.attributes["callee"].value not in elementwise:
            return False
        is_one = isinstance(call.result.type, ir.RankedTensorType)
        return (
            is_one and point_count(tensors.shape_of(call.result)) <= self.max_elements
        )


def _shared_sizes(calls: Sequence[CallTirOp]) -> tuple[list[Dim], tuple[_Key, ...]]:
    """The distinct sizes of some calls, and their programs with the indices of their sizes."""
    numbers: dict[Dim, int] = {}
    keys: list[_Key] = []
    for call in calls:
        sizes = tensors.python_value(call.attributes["sizes"])
        own = tuple(numbers.setdefault(size, len(numbers)) for size in sizes)
        keys.append((call.attributes["callee"].value, own))
    return list(numbers), tuple(keys)


def _buffers(program: func.FuncOp) -> list[ir.Value]:
    """The buffer arguments of a program; sizes follow them."""
    return [
        a for a in program.entry_block.arguments if isinstance(a.type, ir.MemRefType)
    ]


def _is_elementwise(program: func.FuncOp) -> bool:
    """Whether a program only writes each element of one result, from buffers."""
    buffers, count = _buffers(program), len(argument_symbols(program))
    is_plain = len(buffers) + count == len(program.entry_block.arguments)
    if not buffers or not is_plain or is_scheduled(program) or not may_permute(program):
        return False
    *operations, _ = own_operations(program.entry_block)
    blocks = [o for o in operations if not is_size_arithmetic(o)]
    if any(not isinstance(b, BlockOp) or "R" in b.kinds.value for b in blocks):
        return False
    written = [o for o in walk(program) if o.operation.name == "memref.store"]
    uses = [use.owner.operation.name for use in buffers[-1].uses]
    is_write_only = set(uses) == {"memref.store"} and len(written) == len(uses)
    return is_write_only and all(map(_is_coalesced, blocks))


def _is_coalesced(block: BlockOp) -> bool:
    """Whether loads that depend on the innermost stored axis are contiguous along it.

    Transposes have a schedule rule of their own, through shared memory.
    """
    axes = {a: i for i, a in enumerate(block.body.blocks[0].arguments)}
    operations = list(walk(block))
    stores = [o for o in operations if o.operation.name == "memref.store"]
    if len(stores) != 1:
        return False
    *_, last = list(stores[0].operands)[2:] or [None]
    for load in (o for o in operations if o.operation.name == "memref.load"):
        *others, _ = list(load.operands)[1:] or [None]
        maps = [affine_form(i, axes) for i in others if i is not None]
        if any(f is None or axes.get(last) in f.coefficients for f in maps):
            return False
    return True


def _call(name: str, calls: Sequence[CallTirOp], sizes: Sequence[Dim]) -> None:
    """Replaces calls by one call of the fused program, in place of the last."""
    given = [value for call in calls for value in tensors.tuple_elements(call.args)]
    types = [call.result.type for call in calls]
    with ir.InsertionPoint(calls[-1]), calls[-1].location:
        made = CallTirOp(
            given,
            callee=name,
            sizes=tensors.shape_attr(sizes),
            results=[ir.TupleType.get_tuple(types)],
        )
        for number, call in enumerate(calls):
            part = TupleGetItemOp(made.result, index=number).result
            call.result.replace_all_uses_with(part)
    for call in calls:
        erase(call)


def _program_of(
    programs: Sequence[tuple[func.FuncOp, _Numbers]], count: int, copies: PrimFuncCopies
) -> str:
    """Builds the program that concatenates several; returns its name.

    Args:
        programs: each with the indices of its sizes; count: number of distinct sizes.
    """
    first, _ = programs[0]
    names = "_".join(program.name.value for program, _ in programs)
    name = copies.fresh_name(f"joined_{names}"[:80])
    inputs = [_buffers(program)[:-1] for program, _ in programs]
    results = [_buffers(program)[-1] for program, _ in programs]
    types = [a.type for a in (*chain.from_iterable(inputs), *results)]
    types += [ir.IndexType.get()] * count
    with ir.InsertionPoint(first), first.location:
        made = func.FuncOp(name, ir.FunctionType.get(types, []))
        made.attributes[attribute_names.PRIM_FUNC] = ir.UnitAttr.get()
        made.attributes["tir.num_outputs"] = to_attribute(len(results))
        if count:
            made.attributes["arg_attrs"] = _argument_attributes(programs, count)
        block = made.add_entry_block()
        given = iter(block.arguments)
        of_inputs = [list(islice(given, len(own))) for own in inputs]
        of_results, sizes = list(islice(given, len(results))), list(given)
        parts = zip(programs, of_inputs, of_results, strict=True)
        with ir.InsertionPoint(block):
            later: list[tuple[ir.OpView, dict[ir.Value, ir.Value]]] = []
            for (program, numbers), own, result in parts:
                theirs = [*own, result, *(sizes[number] for number in numbers)]
                mapping = dict(zip(program.entry_block.arguments, theirs, strict=True))
                *operations, _ = own_operations(program.entry_block)
                for operation in operations:
                    if isinstance(operation, BlockOp):
                        later.append((operation, mapping))
                    else:
                        clone(operation, mapping)
            for operation, mapping in later:  # after all size arithmetic
                clone(operation, mapping)
            func.ReturnOp([])
    return name


def _argument_attributes(
    programs: Sequence[tuple[func.FuncOp, _Numbers]], count: int
) -> ir.ArrayAttr:
    """The shapes of the fused program's buffers in terms of its size arguments."""
    symbols = [f"s{number}" for number in range(count)]
    inputs: list[ir.Attribute] = []
    results: list[ir.Attribute] = []
    for program, numbers in programs:
        named = zip(argument_symbols(program).values(), numbers, strict=True)
        renamed = {name: shapes.symbol(symbols[number]) for name, number in named}
        *own, result = (
            tensors.shape_attr(
                [substitute(d, renamed) for d in argument_shape(program, n)]
            )
            for n in range(len(_buffers(program)))
        )
        inputs += own
        results.append(result)
    arrays = [ir.DictAttr.get({"tir.shape": shape}) for shape in (*inputs, *results)]
    return ir.ArrayAttr.get([*arrays, *(size_argument(name)[1] for name in symbols)])
