"""``schedule-guard-divisions``: integer divisions trap on no operands."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.dialects.dtypes import element_of
from relax_mlir.indexing import constant_of
from relax_mlir.module import IRModule
from relax_mlir.rewriting import Pass, walk
from relax_mlir.schedules.emit import constant
from relax_mlir.schedules.emit import op as emit

__all__ = ["GuardDivisions"]

_SIGNED = frozenset(
    f"arith.{name}" for name in ("divsi", "remsi", "ceildivsi", "floordivsi")
)
_UNSIGNED = frozenset(f"arith.{name}" for name in ("divui", "remui", "ceildivui"))
_EQUAL = 0  # the predicate of arith.cmpi


@dataclass(frozen=True)
class GuardDivisions(Pass):
    """Divide by 1 where a division of integers would be undefined.

    That is a division by 0, and a signed one of the least number by -1. MLIR and LLVM
    leave their results open, and the process ends on machines that trap. It is also what
    lanes of a vector do that no element of a tensor stands in, or that take the other
    branch. Divisors that are surely neither stay as they are.
    """

    def run(self, module: IRModule) -> None:
        for op in list(walk(module.mlir.operation)):
            name = op.operation.name
            if name not in _SIGNED and name not in _UNSIGNED:
                continue
            dividend, divisor = op.operands
            excluded = _excluded(divisor)
            with ir.InsertionPoint(op), op.location:
                if 0 not in excluded:
                    divisor = _one_where(_is(divisor, 0), divisor)
                if name in _SIGNED and -1 not in excluded:
                    overflows = _overflows(dividend, divisor)
                    divisor = _one_where(overflows, divisor)
            op.operation.operands[1] = divisor


def _excluded(divisor: ir.Value) -> set[int]:
    """Which of 0 and -1 a divisor surely is not."""
    number = _number_of(divisor)
    if number is not None:
        return {0, -1} - {number}
    owner = divisor.owner
    if isinstance(owner, ir.Block):
        return set()
    if owner.name == "arith.maxsi":  # of a size
        least = [_number_of(v) for v in owner.operands]
        return {0, -1} if any(n is not None and n > 0 for n in least) else set()
    return _excluded_by_choices(divisor)


def _excluded_by_choices(divisor: ir.Value) -> set[int]:
    """What choices of another number in place of 0 or -1 leave out."""
    tested: list[tuple[ir.Value, int | None]] = []
    value = divisor
    while (
        not isinstance(owner := value.owner, ir.Block) and owner.name == "arith.select"
    ):
        condition, chosen, value = owner.operands
        test = condition.owner
        if isinstance(test, ir.Block) or test.name != "arith.cmpi":
            return set()
        if ir.IntegerAttr(test.attributes["predicate"]).value != _EQUAL:
            return set()
        if _number_of(chosen) in (None, 0, -1):
            return set()
        tested.append((test.operands[0], _number_of(test.operands[1])))
    return {n for number, n in tested if number == value and n in (0, -1)}


def _number_of(value: ir.Value) -> int | None:
    """The integer that a value, or each lane of it, is a constant of; None if none."""
    owner = value.owner
    if not isinstance(value.type, ir.VectorType) or isinstance(owner, ir.Block):
        return constant_of(value)
    if owner.name == "vector.broadcast":
        return constant_of(owner.operands[0])
    lanes = owner.attributes["value"] if owner.name == "arith.constant" else None
    is_splat = isinstance(lanes, ir.DenseIntElementsAttr) and lanes.is_splat
    return lanes.get_splat_value().value if is_splat else None


def _overflows(dividend: ir.Value, divisor: ir.Value) -> ir.Value:
    """Where the least number is divided by -1."""
    element = element_of(dividend.type)
    bits = 64 if isinstance(element, ir.IndexType) else element.width
    is_least = _is(dividend, -(1 << (bits - 1)))
    return emit("arith.andi", is_least.type, is_least, _is(divisor, -1))


def _is(value: ir.Value, number: int) -> ir.Value:
    predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _EQUAL)
    bit = ir.IntegerType.get_signless(1)
    type_ = value.type
    if isinstance(type_, ir.VectorType):
        bit = ir.VectorType.get(type_.shape, bit, scalable=type_.scalable_dims)
    other = _constant(number, type_)
    return emit("arith.cmpi", bit, value, other, predicate=predicate)


def _one_where(condition: ir.Value, divisor: ir.Value) -> ir.Value:
    one = _constant(1, divisor.type)
    return emit("arith.select", divisor.type, condition, one, divisor)


def _constant(number: int, type_: ir.Type) -> ir.Value:
    if not isinstance(type_, ir.VectorType):
        return constant(number, type_)
    value = ir.DenseElementsAttr.get_splat(
        type_, ir.IntegerAttr.get(type_.element_type, number)
    )
    return emit("arith.constant", type_, value=value)
