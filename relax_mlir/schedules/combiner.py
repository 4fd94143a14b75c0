"""Combiners of reductions, read from the body of a linalg operation."""

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.builder import op

__all__ = ["Combiner", "combiner_of"]

_INFINITY = float("inf")

# By operation: the kind of ``vector.reduction``, and the identity element as a function of
# the width of the type in bits.
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
# Combiners of i1 that act on the bytes 0 and 1 in the same way.
_BOOLEAN_COMBINERS = frozenset(
    {"arith.maxui", "arith.minui", "arith.ori", "arith.andi"}
)
_NOT_EQUAL = 1  # arith.cmpi predicate


@dataclass(frozen=True)
class Combiner:
    """An associative and commutative combiner of a reduction.

    Attributes:
        name: the operation; kind: its name in ``vector.reduction``.
        identity: the identity element.
    """

    name: str
    kind: str
    identity: float

    def lanes_of(self, vector: ir.Value) -> ir.Value:
        """Horizontal reduction of a vector's lanes, in any order."""
        element = vector.type.element_type
        attributes = {"kind": ir.Attribute.parse(f"#vector.kind<{self.kind}>")}
        if isinstance(element, ir.FloatType):
            attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc>")
        return op("vector.reduction", element, vector, **attributes)

    def combine(self, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        """Combine two elements or vectors."""
        return op(self.name, lhs.type, lhs, rhs)


def combiner_of(argument: ir.Value, result: ir.Value) -> Combiner | None:
    """Read the combiner of a body from its accumulator and its yielded value.

    Booleans are stored as bytes 0 and 1, which bodies convert from and to i1; the
    combiner of the bits also serves for the bytes.

    Args:
        argument: the accumulator; result: the value that the body yields for it.

    Returns:
        None if the reduction may depend on the order of its elements.
    """
    stored = result.type
    if _owner_name(result) == "arith.extui":
        (result,) = result.owner.operands
        boolean = _boolean_of(argument)
        if boolean is None or _owner_name(result) not in _BOOLEAN_COMBINERS:
            return None
        argument = boolean
    name = _owner_name(result)
    if name not in _COMBINERS or len(list(argument.uses)) != 1:
        return None
    if argument not in list(result.owner.operands):
        return None
    kind, identity_of = _COMBINERS[name]
    return Combiner(name, kind, _signless(identity_of(_bits(result.type)), stored))


def _boolean_of(byte: ir.Value) -> ir.Value | None:
    """The comparison ``byte != 0``, if it is the only use of a byte."""
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
    """Convert an unsigned integer to the signed one of the same bits, as attributes need."""
    if not isinstance(type_, ir.IntegerType) or number < 1 << (type_.width - 1):
        return number
    return number - (1 << type_.width)
