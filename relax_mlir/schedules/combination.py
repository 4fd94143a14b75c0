"""How the lanes of a reduction combine into one value."""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import op

__all__ = ["Combination", "combination"]

_INFINITY = float("inf")

# By the operation that combines: the kind of ``vector.reduction``, and what changes
# nothing, from the bits of the type.
_COMBINERS: dict[str, tuple[str, Callable[[int], float]]] = {
    "arith.addf": ("add", lambda bits: 0.0),
    "arith.mulf": ("mul", lambda bits: 1.0),
    "arith.maximumf": ("maximumf", lambda bits: -_INFINITY),
    "arith.minimumf": ("minimumf", lambda bits: _INFINITY),
    "arith.addi": ("add", lambda bits: 0),
    "arith.muli": ("mul", lambda bits: 1),
    "arith.maxsi": ("maxsi", lambda bits: -(1 << (bits - 1))),
    "arith.minsi": ("minsi", lambda bits: (1 << (bits - 1)) - 1),
    "arith.maxui": ("maxui", lambda bits: 0),
    "arith.minui": ("minui", lambda bits: (1 << bits) - 1),
    "arith.ori": ("or", lambda bits: 0),
    "arith.andi": ("and", lambda bits: (1 << bits) - 1),
}
# Those that combine 0 and 1 in a wider type as they do in one bit.
_OF_TRUTHS = frozenset({"arith.maxui", "arith.minui", "arith.ori", "arith.andi"})
_NOT_EQUAL = 1  # of arith.cmpi's predicates


@dataclass(frozen=True)
class Combination:
    """An operation that may take the elements of a reduction in any order.

    Attributes:
        name: the operation; kind: what ``vector.reduction`` calls it.
        identity: the element that changes nothing.
    """

    name: str
    kind: str
    identity: float

    def lanes_of(self, vector: ir.Value) -> ir.Value:
        """The lanes of a vector as one element, in any order."""
        element = vector.type.element_type
        attributes = {"kind": ir.Attribute.parse(f"#vector.kind<{self.kind}>")}
        if isinstance(element, ir.FloatType):
            attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc>")
        return op("vector.reduction", element, vector, **attributes)

    def of_two(self, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        """Two elements as one."""
        return op(self.name, lhs.type, lhs, rhs)


def combination(argument: ir.Value, result: ir.Value) -> Combination | None:
    """How a body combines ``argument``, the value so far, with an element to ``result``.

    Truths are bytes of 0 or 1 that a body reads and writes as one bit; they combine as
    the bits do.

    Returns:
        None where the order may matter.
    """
    stored = result.type
    if _owner_name(result) == "arith.extui":
        (result,) = result.owner.operands
        truth = _truth_of(argument)
        if truth is None or _owner_name(result) not in _OF_TRUTHS:
            return None
        argument = truth
    name = _owner_name(result)
    if name not in _COMBINERS or len(list(argument.uses)) != 1:
        return None
    if argument not in list(result.owner.operands):
        return None
    kind, identity_of = _COMBINERS[name]
    return Combination(name, kind, _signless(identity_of(_bits(result.type)), stored))


def _truth_of(byte: ir.Value) -> ir.Value | None:
    """The one bit that a body reads a byte as: whether it is not 0."""
    readers = [use.owner for use in byte.uses]
    if len(readers) != 1 or readers[0].operation.name != "arith.cmpi":
        return None
    compare = readers[0]
    zero = compare.operands[1].owner
    if isinstance(zero, ir.Block) or zero.name != "arith.constant":
        return None
    is_not_zero = compare.attributes["predicate"].value == _NOT_EQUAL
    is_not_zero &= zero.attributes["value"].value == 0
    return compare.results[0] if is_not_zero else None


def _owner_name(value: ir.Value) -> str:
    return "" if isinstance(value.owner, ir.Block) else value.owner.name


def _bits(type_: ir.Type) -> int:
    return type_.width


def _signless(number: float, type_: ir.Type) -> float:
    """A number as constants of a type take it: of two numbers with its bits the signed one."""
    if not isinstance(type_, ir.IntegerType) or number < 1 << (type_.width - 1):
        return number
    return number - (1 << type_.width)
