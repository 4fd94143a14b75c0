"""Signatures of compiled models: inputs, outputs, symbolic sizes and constraints.

Does not import the compiler: model files for GPUs bundle this module.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from relax_mlir.errors import CompileError
from relax_mlir.symbolic import dims, symbols
from relax_mlir.symbolic.constraints import Constraint

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
"""A kind and a value."""

# Kinds of sizes: the value is a constant, the index of a symbol, or an index into the sizes
# that the shape function computes.
STATIC, SYMBOL, DERIVED = 0, 1, 2

# Relations of two sizes.
EQUAL, AT_LEAST = 0, 1


@dataclass(frozen=True)
class Parameter:
    """An input or output.

    Attributes:
        name: in the model.
        dtype: its element type; empty for non-tensors, and if unknown at compile time.
        dims: its dimensions as text: numbers, symbols, or expressions of symbols.
    """

    name: str
    dtype: str
    dims: tuple[str, ...]

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Its dimensions: integers, and expressions of symbols as text."""
        return tuple(int(d) if d.isdecimal() else d for d in self.dims)

    def __str__(self) -> str:
        if not self.dtype:
            return f"{self.name}: ?"
        return f"{self.name}: {self.dtype}[{', '.join(self.dims)}]"


@dataclass(frozen=True)
class Signature:
    """The signature of a compiled model.

    Attributes:
        symbols: names of the symbolic sizes, in the order of the sizes array.
        derived: the expressions that the shape function appends to them.
        constraints: on the sizes of a call, as text.
        arena: size of the arena in bytes, as an expression.
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

    def to_fields(self) -> dict[str, Any]:  # Any: JSON
        """The signature in JSON form."""
        fields = asdict(self)
        for parameter in (*fields["inputs"], *fields["outputs"]):
            parameter["shape"] = parameter.pop("dims")
        return fields

    @staticmethod
    def from_fields(fields: Mapping[str, Any]) -> "Signature":  # Any: JSON
        """Inverse of :meth:`to_fields`."""
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
        """A size in the encoding of the native runtime: constant, symbol or derived."""
        dim = symbols.parse(text)
        if isinstance(dim, int):
            return STATIC, dim
        if text in self.symbols:
            return SYMBOL, self.symbols.index(text)
        return DERIVED, len(self.symbols) + self.derived.index(text)

    def native(
        self, parameters: Sequence[Parameter]
    ) -> list[tuple[str, str, list[int]]]:
        """Parameters in the encoding of the native runtime."""
        return [
            (p.name, p.dtype, [n for text in p.dims for n in self.size(text)])
            for p in parameters
        ]

    def binders(self) -> list[int]:
        """The input dimension that binds each symbol, in the native runtime's encoding.

        Raises:
            CompileError: no input dimension binds a symbol.
        """
        bound: dict[str, tuple[int, int, int, int]] = {}
        for number, parameter in enumerate(self.inputs):
            for axis, text in enumerate(parameter.dims):
                for symbol, factor, offset in _linear(text):
                    known = bound.get(symbol)
                    if known is None or (factor, offset) == (1, 0) != known[2:]:
                        bound[symbol] = (number, axis, factor, offset)
        missing = [name for name in self.symbols if name not in bound]
        if missing:
            raise CompileError(
                f"`main`: size `{missing[0]}`: expected an input dimension that is it, or a "
                f"multiple plus a constant, got {self}"
            )
        return [n for name in self.symbols for n in bound[name]]

    def checks(self) -> list[int]:
        """The constraints in the encoding of the native runtime."""
        numbers: list[int] = []
        for text in self.constraints:
            check = Constraint.parse(text)
            relation = EQUAL if check.relation == "==" else AT_LEAST
            lhs, rhs = self.size(str(check.lhs)), self.size(str(check.rhs))
            numbers += [*lhs, relation, *rhs]
        return numbers


def _linear(text: str) -> list[tuple[str, int, int]]:
    """``[(n, 2, 1)]`` for ``2*n + 1``; empty if not linear in one symbol."""
    dim = symbols.parse(text)
    names = symbols.symbols_of(dim)
    if len(names) != 1:
        return []
    factor, offset = dims.divide(dim, dims.symbol(names[0]))
    if not isinstance(factor, int) or not isinstance(offset, int) or factor < 1:
        return []
    return [(names[0], factor, offset)]
