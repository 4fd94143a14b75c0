"""Kernel calls between guard pages, for tests; see ``runtime/native/guard.h``."""

from collections.abc import Sequence
from itertools import count

from mlir import ir
from mlir.dialects import func

from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.rewrite.patterns import erase
from relax_mlir.schedules.builder import (
    IndexLike,
    constant,
    multiply,
    op,
    product,
    reinterpret,
)
from relax_mlir.schedules.flat_buffers import buffer_extents
from relax_mlir.schedules.pointers import (
    alloca,
    memref_of,
    pointer_type,
    store_element,
    to_i64,
)

__all__ = ["GuardedCalls", "guard_scratch"]

_CALL = "relax_rt2_guarded_call"
_SCRATCH = "relax_rt2_guarded_scratch"
_FIELDS = 3  # of a relax_rt2_guarded_buffer
_KINDS = {"relax.input": 0, "relax.output": 1, "relax.constant": 2, "relax.arena": 3}
_VIEWS = ("memref.view", "memref.reinterpret_cast", "memref.cast")


class GuardedCalls:
    """Calls of kernels from ``main`` through the runtime's guard-page wrapper.

    Args:
        main: the function, before it is lowered.
        outputs: number of output buffers, which are the last ones, by kernel.
    """

    def __init__(self, main: func.FuncOp, outputs: dict[str, int]) -> None:
        calls = [o for o in walk(main) if o.operation.name == "func.call"]
        attrs = [ir.DictAttr(a) for a in main.attributes["arg_attrs"]]
        self.outputs = outputs
        self.origins = [[_origin(b, attrs) for b in _buffers_of(c)] for c in calls]
        self.numbers = count()
        most = max(map(len, self.origins), default=0)
        self.most = _FIELDS * most

    def begin(self) -> None:
        """Allocates space for the extents of a call's buffers, at the insertion point."""
        self.extents = alloca(self.most, _i64())

    def call(
        self,
        callee: str,
        buffers: Sequence[ir.Value],
        arguments: Sequence[ir.Value],
    ) -> None:
        """Emits the call of the next kernel.

        Args:
            callee: its name; buffers: its arguments, as memrefs.
            arguments: arrays of buffers and sizes, and the context.
        """
        number = next(self.numbers)
        for place, (buffer, origin) in enumerate(
            zip(buffers, self.origins[number], strict=True)
        ):
            fields = [_bytes_of(buffer), *origin]
            for field, value in enumerate(fields):
                where = place * _FIELDS + field
                store_element(to_i64(value), self.extents, where)
        kernel = op(
            "func.constant",
            ir.FunctionType.get([pointer_type()] * 3, []),
            value=ir.FlatSymbolRefAttr.get(callee),
        )
        counts = [len(buffers), self.outputs.get(callee, 0), number]
        numbers = [constant(n, _i64()) for n in counts]
        func.CallOp([], _CALL, [kernel, *arguments, self.extents, *numbers])

    @staticmethod
    def declare(top: ir.Block) -> None:
        """Declare the runtime's function."""
        p, i64 = pointer_type(), _i64()
        kernel = ir.FunctionType.get([p, p, p], [])
        with ir.InsertionPoint.at_block_begin(top):
            signature = ir.FunctionType.get([kernel, p, p, p, p, i64, i64, i64], [])
            func.FuncOp(_CALL, signature, visibility="private")


def guard_scratch(loop: ir.OpView, top: ir.Block) -> None:
    """Replaces the allocations of a tile by scratch buffers between guard pages."""
    numbers = count()
    for operation in list(own_operations(loop.regions[0].blocks[0])):
        if operation.operation.name == "memref.alloc":
            _guard_allocation(operation, next(numbers))
    is_declared = any(
        isinstance(o, func.FuncOp) and o.name.value == _SCRATCH
        for o in own_operations(top)
    )
    if next(numbers) and not is_declared:
        p, i64 = pointer_type(), _i64()
        with ir.InsertionPoint.at_block_begin(top):
            func.FuncOp(
                _SCRATCH, ir.FunctionType.get([i64, i64], [p]), visibility="private"
            )


def _guard_allocation(operation: ir.OpView, number: int) -> None:
    with ir.InsertionPoint(operation), operation.location:
        type_ = ir.MemRefType(operation.results[0].type)
        dynamic = iter(list(operation.operands))
        shape = [size if size >= 0 else next(dynamic) for size in type_.shape]
        arguments = [constant(number, _i64()), to_i64(_bytes(type_, shape))]
        pointer = func.CallOp([pointer_type()], _SCRATCH, arguments).results[0]
        base = memref_of(pointer, ir.MemRefType.get([1], type_.element_type))
        view = reinterpret(base, type_, shape)
    operation.results[0].replace_all_uses_with(view)
    erase(operation)


def _buffers_of(call: ir.OpView) -> list[ir.Value]:
    return [v for v in call.operands if isinstance(v.type, ir.MemRefType)]


def _origin(buffer: ir.Value, attrs: Sequence[ir.DictAttr]) -> tuple[int, int]:
    """The kind of a buffer of ``main``, and its number among those of the kind."""
    while not isinstance(buffer.owner, ir.Block):
        assert buffer.owner.name in _VIEWS, buffer.owner.name
        buffer = buffer.owner.operands[0]
    number = ir.BlockArgument(buffer).arg_number
    role = next(r for r in _KINDS if r in attrs[number])
    return _KINDS[role], sum(role in attr for attr in attrs[:number])


def _bytes_of(buffer: ir.Value) -> IndexLike:
    while not isinstance(buffer.owner, ir.Block) and buffer.owner.name == "memref.cast":
        buffer = buffer.owner.operands[0]  # the source may have static sizes
    return _bytes(ir.MemRefType(buffer.type), buffer_extents(buffer))


def _bytes(type_: ir.MemRefType, shape: Sequence[IndexLike]) -> IndexLike:
    return multiply(product(shape), -(-type_.element_type.width // 8))


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)
