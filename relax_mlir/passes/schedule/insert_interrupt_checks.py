"""``schedule-insert-interrupt-checks``: signal checks in long-running kernels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.schedules.builder import (
    TILE_COUNT,
    add,
    constant,
    for_loop,
    minimum,
    multiply,
    op,
    scf_if,
)
from relax_mlir.schedules.pointers import pointer_type

__all__ = ["InsertInterruptChecks"]

_FLAG = "relax_rt2_attention"
_CHECK = "relax_rt2_check_interrupt"

# In operations on scalars or full vectors; a core executes about 2 per nanosecond.
_UNCHECKED = 1 << 24  # most work without a check: about 10 ms
_SPACING = 1 << 14  # least work between checks, where a loop allows it
_DENSE = 1 << 10  # work of an iteration in which a check is free

_OPEN = 1 << 16  # assumed trip count of loops of unknown bounds
_VECTOR_BITS = 512
_DEPTH = 8  # maximum depth of analysed bound expressions

_COSTS = {
    "arith.constant": 0,
    "memref.reinterpret_cast": 0,
    "memref.view": 0,
    "memref.load": 2,
    "memref.store": 2,
    "vector.load": 2,
    "vector.store": 2,
    "vector.maskedload": 4,
    "vector.maskedstore": 4,
    "vector.gather": 16,
    "arith.divf": 4,
    "arith.remf": 16,
    "func.call": 32,
}
_MATH_COST = 16


@dataclass(frozen=True)
class InsertInterruptChecks(Pass):
    """Insert checks of the runtime's signal flag into long-running loops.

    A check is a load and a branch that is not taken. It is placed in the outermost loop whose
    iterations are provably short, if the loops around it may run long; several short iterations
    share one by strip-mining. Small kernels have none. A module that has checks already is left
    unchanged.
    """

    def run(self, module: IRModule) -> None:
        if any(f.name.value == _CHECK for f in module.func_ops()):
            return
        chosen = [
            (nest, length)
            for function in module.func_ops()
            if not function.is_external
            for nest, length in _choose(_nests(function.entry_block), is_outer=True)
        ]
        for nest, length in chosen:
            with ir.InsertionPoint(nest.operation), nest.operation.location:
                _insert(nest.operation, length)
        if chosen:
            _declare(module)


@dataclass(frozen=True)
class _Work:
    """Bounds of work, in operations.

    Attributes:
        least: lower bound; loops of unknown trip count run once.
        most: estimate; these loops have `_OPEN` iterations.
        open_most: upper bound; the outermost of them is endless.
    """

    least: float = 0
    most: float = 0
    open_most: float = 0

    def plus(self, other: "_Work") -> "_Work":
        return _Work(
            self.least + other.least,
            self.most + other.most,
            self.open_most + other.open_most,
        )


@dataclass(frozen=True)
class _Nest:
    """A loop, with the loops in its body.

    Attributes:
        operation: ``scf.for`` or ``scf.while``.
        trips: upper bound of the trip count; None if unknown.
        inner: loops in the body, including its branches.
        body: work of an iteration.
        whole: work of the loop.
    """

    operation: ir.OpView
    trips: int | None
    inner: "Sequence[_Nest]"
    body: _Work
    whole: _Work


def _choose(nests: Sequence[_Nest], is_outer: bool) -> Iterator[tuple[_Nest, int]]:
    """The loops that get a check, and the number of iterations that share one.

    Args:
        nests: loops of a block.
        is_outer: the block runs once, so that a loop of unknown length may be endless.
    """
    for nest in nests:
        if (nest.whole.open_most if is_outer else nest.whole.most) <= _UNCHECKED:
            continue
        stays_outer = is_outer and nest.trips == 1
        most = nest.body.open_most if stays_outer else nest.body.most
        if most > _UNCHECKED:
            yield from _choose(nest.inner, stays_outer)
        if most <= _UNCHECKED or nest.operation.operation.name == "scf.while":
            yield nest, _shared_iterations(nest.body.least, most)


def _shared_iterations(least: float, most: float) -> int:
    if least >= _DENSE:
        return 1
    wanted = math.ceil(_SPACING / max(1, least))
    return max(1, min(wanted, int(_UNCHECKED / max(1, most))))


def _nests(block: ir.Block) -> list[_Nest]:
    return _summary(block)[0]


def _summary(block: ir.Block) -> tuple[list[_Nest], _Work]:
    """The loops of a block, and its work."""
    nests: list[_Nest] = []
    total = _Work()
    for operation in own_operations(block):
        name = operation.operation.name
        if name in ("scf.for", "scf.while"):
            nests.append(_nest(operation, name, nests))
            total = total.plus(nests[-1].whole)
        elif len(operation.operation.regions):
            inner, work = _branches(operation)
            nests += inner
            total = total.plus(work)
        else:
            cost = _cost(operation, name)
            total = total.plus(_Work(cost, cost, cost))
    return nests, total


def _nest(loop: ir.OpView, name: str, before: Sequence[_Nest]) -> _Nest:
    """A loop; ``before`` are the previous loops of its block."""
    if name == "scf.while":
        inner, body = _branches(loop)
        return _Nest(loop, None, inner, body, _Work(0, math.inf, math.inf))
    inner, body = _summary(loop.operation.regions[0].blocks[0])
    trips, is_exact = _trips(loop)
    if trips is None:
        trips = _remainder_trips(loop, before)
    least = trips if is_exact and trips is not None else 1
    most = _open_trips(loop) if trips is None else trips
    if trips is None:
        open_most = math.inf
    else:
        open_most = body.open_most if trips == 1 else trips * body.most
    whole = _Work(least * body.least, most * body.most, open_most)
    return _Nest(loop, trips, inner, body, whole)


def _branches(operation: ir.OpView) -> tuple[list[_Nest], _Work]:
    """The loops in all regions, and the work of the most expensive region."""
    found = [
        _summary(b) for region in operation.operation.regions for b in region.blocks
    ]
    works = [work for _, work in found]
    most = _Work(
        0,
        max((w.most for w in works), default=0),
        max((w.open_most for w in works), default=0),
    )
    return [nest for nests, _ in found for nest in nests], most


def _trips(loop: ir.OpView) -> tuple[int | None, bool]:
    """An upper bound of the trip count, and whether it is exact."""
    begin, end, step = list(loop.operands)[:3]
    if TILE_COUNT in loop.operation.attributes:
        return ir.IntegerAttr(loop.operation.attributes[TILE_COUNT]).value, True
    difference = _difference_bound(end, begin)
    if difference is None:
        return None, False
    is_exact = constant_of(begin) is not None and constant_of(end) is not None
    return max(0, -(-difference // (constant_of(step) or 1))), is_exact


def _remainder_trips(loop: ir.OpView, before: Sequence[_Nest]) -> int | None:
    """The trip count of a remainder loop after a loop of larger steps."""
    begin, step = loop.operands[0], constant_of(loop.operands[2])
    for other in before:
        if other.operation.operation.name == "scf.for" and step is not None:
            _, end, length = list(other.operation.operands)[:3]
            whole = constant_of(length)
            if begin == end and whole is not None and whole > step:
                return -(-whole // step)
    return None


def _open_trips(loop: ir.OpView) -> int:
    return -(-_OPEN // (constant_of(loop.operands[2]) or 1))


def _difference_bound(
    value: ir.Value, begin: ir.Value | None, depth: int = _DEPTH
) -> int | None:
    """An upper bound of ``value - begin`` for non-negative values.

    Args:
        value: an ``index``; begin: another, or None for 0.
        depth: of the expressions to analyse.
    """
    if begin is not None and value == begin:
        return 0
    known = constant_of(value)
    if known is not None:
        return known - ((constant_of(begin) or 0) if begin is not None else 0)
    owner = value.owner
    if isinstance(owner, ir.Block) or depth == 0:
        return None
    return _bound_of_operation(owner, begin, depth - 1)


def _bound_of_operation(
    operation: ir.Operation, begin: ir.Value | None, depth: int
) -> int | None:
    def bound(number: int, begin: ir.Value | None) -> int | None:
        return _difference_bound(operation.operands[number], begin, depth)

    def of_sum(number: int) -> list[int]:
        parts = bound(number, begin), bound(1 - number, None)
        return [] if None in parts else [sum(p for p in parts if p is not None)]

    name = operation.name
    if name == "arith.addi":
        return min([*of_sum(0), *of_sum(1)], default=None)
    if name in ("arith.minsi", "arith.minui"):
        bounds = [bound(0, begin), bound(1, begin)]
        return min((b for b in bounds if b is not None), default=None)
    if name == "arith.subi":
        return bound(0, begin)
    if name == "arith.remui":
        return bound(1, None)
    return None


def _cost(operation: ir.OpView, name: str) -> int:
    known = _COSTS.get(name)
    cost = known if known is not None else 1
    if name.startswith("math."):
        cost = _MATH_COST
    values = list(operation.results) or list(operation.operands)
    return cost * _vectors(values[0].type) if values else cost


def _vectors(type_: ir.Type) -> int:
    """The number of full vectors, or scalars, in a value."""
    if not isinstance(type_, ir.VectorType):
        return 1
    width = getattr(type_.element_type, "width", 64)
    return max(1, -(-math.prod(type_.shape) * width // _VECTOR_BITS))


def _insert(loop: ir.OpView, length: int) -> None:
    """Inserts a check every ``length`` iterations."""
    if loop.operation.name == "scf.while":
        block = loop.operation.regions[1].blocks[0]
    elif length == 1:
        block = loop.operation.regions[0].blocks[0]
    else:
        block = _strip_mine(loop, length)
    with ir.InsertionPoint.at_block_begin(block):
        _emit_check()


def _strip_mine(loop: ir.OpView, length: int) -> ir.Block:
    """Strip-mines a loop by ``length`` iterations; returns the body of the outer loop."""
    begin, end, step, *carried = list(loop.operands)
    stride = multiply(step, length)

    def strip(first: ir.Value, *values: ir.Value) -> Sequence[ir.Value]:
        last = minimum(add(first, stride), end)
        ir.InsertionPoint.current.block.append(loop)
        for number, value in enumerate((first, last, step, *values)):
            loop.operands[number] = value
        return list(loop.results)

    outer = for_loop(begin, end, stride, strip, carried)
    block = loop.operation.block
    *_, terminator = own_operations(block)
    for old, new in zip(loop.results, outer, strict=True):
        old.replace_all_uses_except(new, terminator.operation)
    return block


def _emit_check() -> None:
    i1, i32, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 32, 64))
    name = ir.FlatSymbolRefAttr.get(_FLAG)
    address = op("llvm.mlir.addressof", pointer_type(), global_name=name)
    flag = op("llvm.load", i32, address, volatile_=ir.UnitAttr.get())
    is_raised = op(
        "arith.cmpi",
        i1,
        flag,
        constant(0, i32),
        predicate=ir.IntegerAttr.get(i64, 1),  # not equal
    )

    def check() -> tuple[()]:
        func.CallOp([], _CHECK, [])
        return ()

    scf_if(is_raised, [], check)


def _declare(module: IRModule) -> None:
    i32 = ir.IntegerType.get_signless(32)
    with ir.InsertionPoint.at_block_begin(module.mlir.body), ir.Location.unknown():
        ir.Operation.create(
            "llvm.mlir.global",
            attributes={
                "sym_name": ir.StringAttr.get(_FLAG),
                "global_type": ir.TypeAttr.get(i32),
                "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
            },
            regions=1,
        )
        check = func.FuncOp(_CHECK, ir.FunctionType.get([], []), visibility="private")
        attributes = [ir.StringAttr.get(name) for name in ("cold", "nounwind")]
        check.attributes["passthrough"] = ir.ArrayAttr.get(attributes)
