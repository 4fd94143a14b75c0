"""Pattern matching of activation functions in vector code.

Operators and scripts write them as arithmetic; after fusion both are the same few
operations on one vector.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlir import ir

from relax_mlir.ir.traversal import walk
from relax_mlir.passes.gelu_pattern import ArithmeticNames, find_gelu
from relax_mlir.rewrite.patterns import erase_dead, replace
from relax_mlir.schedules import vector_math
from relax_mlir.schedules.vector_math.lanes import constant_lanes

__all__ = ["expand_activations"]

_NOTATION = ArithmeticNames(
    constant_lanes, "arith.addf", "arith.mulf", "arith.divf", "math.powf"
)
_PURE = ("arith.", "math.", "vector.broadcast")


@dataclass(frozen=True)
class _Activation:
    """A match: a function of ``x`` whose root operation is ``last``."""

    last: ir.OpView
    function: Callable[..., ir.Value]
    x: ir.Value


def expand_activations(root: ir.OpView, accepts: Callable[[ir.Type], bool]) -> None:
    """Replaces sigmoid, silu and both forms of gelu by polynomial approximations.

    Args:
        root: The root of the search.
        accepts: Whether a function supports values of a type.
    """
    blocks = []
    for op in [op for op in walk(root) if op.operation.name in _FINDERS]:
        is_taken = accepts(op.results[0].type)
        found = _FINDERS[op.operation.name](op) if is_taken else None
        if found is not None:
            blocks.append(found.last.operation.block)
            with ir.InsertionPoint(found.last), found.last.location:
                replacement = found.function(found.x)
            replace(found.last, replacement)
    for block in blocks:
        erase_dead(block, lambda op: op.name.startswith(_PURE))


def _find_sigmoid(exp: ir.OpView) -> _Activation | None:
    """Matches 1 / (1 + e**-x), and x times that (silu)."""
    negated = exp.operands[0].owner
    if isinstance(negated, ir.Block) or negated.name != "arith.negf":
        return None
    x = negated.operands[0]
    denominator = _only_user(exp, "arith.addf")
    if denominator is None or 1.0 not in map(constant_lanes, denominator.operands):
        return None
    quotient = _only_user(denominator, "arith.divf")
    if quotient is None or constant_lanes(quotient.operands[0]) != 1.0:
        return None
    product = _only_user(quotient, "arith.mulf")
    if product is not None and x in list(product.operands):
        return _Activation(product, vector_math.silu, x)
    return _Activation(quotient, vector_math.sigmoid, x)


def _only_user(op: ir.OpView, name: str) -> ir.OpView | None:
    """The only user of a result, if it is an operation of that name."""
    users = [use.owner for use in op.results[0].uses]
    return users[0] if len(users) == 1 and users[0].operation.name == name else None


def _find_gelu(op: ir.OpView) -> _Activation | None:
    is_tanh = op.operation.name == "math.tanh"
    found = find_gelu(op, is_tanh, _NOTATION)
    if found is None:
        return None
    function = vector_math.gelu_tanh if is_tanh else vector_math.gelu
    return _Activation(found.last, function, found.x)


_FINDERS: Mapping[str, Callable[[ir.OpView], _Activation | None]] = {
    "math.exp": _find_sigmoid,
    "math.erf": _find_gelu,
    "math.tanh": _find_gelu,
}
