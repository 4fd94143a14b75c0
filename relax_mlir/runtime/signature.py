"""What a compiled model takes and returns.

Imports nothing that compiles: files of models for GPUs carry this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relax_mlir.dialects import dims, symbols
from relax_mlir.dialects.constraints import Constraint
from relax_mlir.errors import CompileError

__all__ = [
    "AT_LEAST",
    "DERIVED",
    "EQUAL",
    "STATIC",
    "SYMBOL",
    "Parameter",
    "Signature",
    "Size",
]

Size = tuple[int, int]
"""A kind and its value."""

# Kinds of sizes: the value itself, the number of a symbol, or an index into the sizes
# that the shape function fills.
STATIC, SYMBOL, DERIVED = 0, 1, 2

# Relations of two sizes.
EQUAL, AT_LEAST = 0, 1


@dataclass(frozen=True)
class Parameter:
    """An input or output.

    Attributes:
        name: what the model calls it.
        dtype: its element type; empty if it is no tensor, or is known only when it runs.
        shape: its dimensions, symbolic ones as text.
    """

    name: str
    dtype: str
    shape: tuple[str, ...]

    def __str__(self) -> str:
        if not self.dtype:
            return f"{self.name}: ?"
        return f"{self.name}: {self.dtype}[{', '.join(self.shape)}]"


@dataclass(frozen=True)
class Signature:
    """What a compiled model takes and returns.

    Attributes:
        symbols: names of the symbolic sizes, in the order of the sizes array.
        derived: the expressions that the shape function appends to them.
        constraints: what must hold of the sizes of a call, as text.
        arena: bytes of scratch memory, as an expression.
        constants: keys of the weights, in the order of the code's arguments.
    """

    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    symbols: tuple[str, ...]
    derived: tuple[str, ...]
    constraints: tuple[str, ...]
    arena: str
    constants: tuple[str, ...]

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, p)) for p in (self.inputs, self.outputs))
        return f"({inputs}) -> ({outputs})"

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> "Signature":  # Any: JSON
        """A signature from its fields, as JSON holds them."""
        roles = {
            role: tuple(
                Parameter(p["name"], p["dtype"], tuple(p["shape"]))
                for p in fields[role]
            )
            for role in ("inputs", "outputs")
        }
        names = ("symbols", "derived", "constraints", "constants")
        lists = {name: tuple(fields[name]) for name in names}
        return Signature(**roles, **lists, arena=fields["arena"])

    def size(self, text: str) -> Size:
        """How the native runtime finds a size: constant, symbol or derived."""
        dim = symbols.parse(text)
        if isinstance(dim, int):
            return STATIC, dim
        if text in self.symbols:
            return SYMBOL, self.symbols.index(text)
        return DERIVED, len(self.symbols) + self.derived.index(text)

    def native(
        self, parameters: Sequence[Parameter]
    ) -> list[tuple[str, str, list[int]]]:
        """Parameters as the native runtime takes them."""
        return [
            (p.name, p.dtype, [n for text in p.shape for n in self.size(text)])
            for p in parameters
        ]

    def binders(self) -> list[int]:
        """Where each symbol gets its value, as the native runtime takes it.

        Raises:
            CompileError: no dimension of an input tells it.
        """
        found: dict[str, tuple[int, int, int, int]] = {}
        for number, parameter in enumerate(self.inputs):
            for axis, text in enumerate(parameter.shape):
                for symbol, factor, offset in _linear(text):
                    known = found.get(symbol)
                    if known is None or (factor, offset) == (1, 0) != known[2:]:
                        found[symbol] = (number, axis, factor, offset)
        missing = [name for name in self.symbols if name not in found]
        if missing:
            raise CompileError(
                f"`main`: size `{missing[0]}`: expected a dimension of an input to be it, or "
                f"a multiple plus a number, got {self}"
            )
        return [n for name in self.symbols for n in found[name]]

    def checks(self) -> list[int]:
        """The constraints, as the native runtime takes them."""
        numbers: list[int] = []
        for text in self.constraints:
            found = Constraint.parse(text)
            relation = EQUAL if found.relation == "==" else AT_LEAST
            lhs, rhs = self.size(str(found.lhs)), self.size(str(found.rhs))
            numbers += [*lhs, relation, *rhs]
        return numbers


def _linear(text: str) -> list[tuple[str, int, int]]:
    """``(n, 2, 1)`` of ``2*n + 1``; nothing of any other form."""
    dim = symbols.parse(text)
    names = symbols.symbols_of(dim)
    if len(names) != 1:
        return []
    factor, offset = dims.divide(dim, dims.symbol(names[0]))
    if not isinstance(factor, int) or not isinstance(offset, int) or factor < 1:
        return []
    return [(names[0], factor, offset)]
