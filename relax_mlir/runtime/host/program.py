"""Host programs: functions of instructions over numbered registers, as plain data.

A host program is the part of a module that is not machine code: checks, control flow, and
calls. It stays data from the compiler to the file and back; :mod:`.interpreter` runs it
without generating Python code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.runtime.container import COMPILE_AGAIN
from relax_mlir.runtime.elements import element_type

__all__ = [
    "FORMAT",
    "OPCODES",
    "Block",
    "HostFunction",
    "HostProgram",
    "Instruction",
    "Literal",
    "Opcode",
]

FORMAT = 1
"""Version of the instruction set; files of other versions are rejected."""

_NAMED_LITERALS = ("tensor", "segment", "program", "function")
_MAX_NESTING = 100


@dataclass(frozen=True)
class Opcode:
    """The signature of an instruction.

    Attributes:
        operands: minimum and maximum number of operands; None for no maximum.
        immediates: a validator for each.
        results: number of results; None for any number.
        blocks: number of nested blocks.
        is_size_check: whether the results are sizes, some of which may be omitted.
    """

    operands: tuple[int, int | None]
    immediates: tuple[Callable[[Any], bool], ...] = ()
    results: int | None = 1
    blocks: int = 0
    is_size_check: bool = False


@dataclass(frozen=True)
class Instruction:
    """An instruction of a host function.

    Attributes:
        opcode: a key of :data:`OPCODES`.
        results: registers that it writes; None for an unused size.
        operands: registers that it reads.
        immediates: constants that are part of the instruction.
        blocks: nested blocks, for control flow.
    """

    opcode: str
    results: tuple[int | None, ...] = ()
    operands: tuple[int, ...] = ()
    immediates: tuple[Any, ...] = ()  # Any: JSON
    blocks: tuple[Block, ...] = ()

    def to_json(self) -> list[Any]:
        """The JSON form."""
        fields = map(list, (self.results, self.operands, self.immediates))
        return [self.opcode, *fields, *(b.to_json() for b in self.blocks)]

    @staticmethod
    def from_json(fields: Any, depth: int = 0) -> Instruction:
        """Inverse of :meth:`to_json`.

        Raises:
            ValueError: it is not an instruction, or violates the signature of its opcode.
        """
        if not isinstance(fields, list) or len(fields) < 4:
            raise ValueError(f"expected an instruction, got {fields!r:.60}")
        opcode, results, operands, immediates, *blocks = fields
        known = OPCODES.get(opcode) if isinstance(opcode, str) else None
        if known is None:
            raise ValueError(f"expected a known opcode, got {opcode!r:.60}")
        for listed in (results, operands, immediates):
            if not isinstance(listed, list):
                raise ValueError(f"`{opcode}`: expected a list, got {listed!r:.60}")
        if depth >= _MAX_NESTING:
            raise ValueError(f"expected at most {_MAX_NESTING} nested blocks, got more")
        nested = tuple(Block.from_json(b, depth + 1) for b in blocks)
        instruction = Instruction(
            opcode, tuple(results), tuple(operands), tuple(immediates), nested
        )
        instruction._check_form(known)
        return instruction

    def _check_form(self, known: Opcode) -> None:
        least, most = known.operands
        self._check_count("operands", len(self.operands), least, most)
        if known.results is not None:
            count = known.results
            self._check_count("results", len(self.results), count, count)
        self._check_count("blocks", len(self.blocks), known.blocks, known.blocks)
        count = len(known.immediates)
        self._check_count("immediates", len(self.immediates), count, count)
        pairs = zip(self.immediates, known.immediates, strict=True)
        for value, is_valid in pairs:
            if not is_valid(value):
                raise ValueError(
                    f"`{self.opcode}`: expected another immediate, got {value!r:.60}"
                )
        if None in self.results and not known.is_size_check:
            raise ValueError(f"`{self.opcode}`: expected registers to write, got None")
        self._check_sizes(known)

    def _check_sizes(self, known: Opcode) -> None:
        """Check that a size check has no results, or one per size."""
        if not known.is_size_check or not self.results:
            return
        sizes = self.immediates[0]
        rank = 1  # of a number
        if self.opcode != "check_number":
            rank = len(sizes or ()) if self.opcode == "check_tensor" else max(sizes, 0)
        self._check_count("results", len(self.results), rank, rank)

    def _check_count(self, what: str, got: int, least: int, most: int | None) -> None:
        if got < least or (most is not None and got > most):
            expected = str(least) if most == least else f"{least} to {most or 'any'}"
            raise ValueError(f"`{self.opcode}`: expected {expected} {what}, got {got}")


@dataclass(frozen=True)
class Block:
    """A sequence of instructions that yields a value.

    Attributes:
        body: the instructions, in order.
        result: the register of the value.
    """

    body: tuple[Instruction, ...]
    result: int

    def to_json(self) -> list[Any]:
        """The JSON form."""
        return [[i.to_json() for i in self.body], self.result]

    @staticmethod
    def from_json(fields: Any, depth: int = 0) -> Block:
        """Inverse of :meth:`to_json`.

        Raises:
            ValueError: it is not a block.
        """
        is_pair = isinstance(fields, list) and len(fields) == 2
        if not is_pair or not isinstance(fields[0], list):
            raise ValueError(f"expected a block, got {fields!r:.60}")
        return Block(
            tuple(Instruction.from_json(i, depth) for i in fields[0]), fields[1]
        )

    def instructions(self) -> Iterator[Instruction]:
        """All instructions, including nested blocks."""
        for instruction in self.body:
            yield instruction
            for block in instruction.blocks:
                yield from block.instructions()


@dataclass(frozen=True)
class Literal:
    """The initial value of a register.

    Attributes:
        kind: ``value``, or the kind of object that ``value`` names: ``tensor``,
            ``segment``, ``program`` or ``function``.
        value: None, a boolean, a number or a string.
    """

    kind: str
    value: Any

    @staticmethod
    def from_json(fields: Any) -> Literal:
        """A literal from its JSON form.

        Raises:
            ValueError: it is not a literal.
        """
        if isinstance(fields, list) and len(fields) == 2:
            kind, value = fields
            if kind == "value" and _is_scalar(value):
                return Literal(kind, value)
            if kind in _NAMED_LITERALS and isinstance(value, str):
                return Literal(kind, value)
        raise ValueError(f"expected a literal, got {fields!r:.60}")


@dataclass(frozen=True)
class HostFunction:
    """A function of the host interpreter.

    Registers are numbered: parameters, captured values, literals, then results.

    Attributes:
        params: names of the parameters.
        captured: number of values captured from the enclosing function.
        literals: constant initial values of registers.
        block: the body.
        names: of registers, for listings; may be partial.
    """

    params: tuple[str, ...]
    captured: int
    literals: tuple[Literal, ...]
    block: Block
    names: Mapping[int, str] = field(default_factory=dict)

    @property
    def first_result(self) -> int:
        """The first result register."""
        return len(self.params) + self.captured + len(self.literals)

    @property
    def register_count(self) -> int:
        """Upper bound of the number of registers."""
        written = sum(len(i.results) for i in self.block.instructions())
        return self.first_result + written

    def literal(self, register: int) -> Literal | None:
        """The literal of a register; None for other registers."""
        number = register - len(self.params) - self.captured
        return self.literals[number] if 0 <= number < len(self.literals) else None

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "params": list(self.params),
            "captured": self.captured,
            "literals": [[v.kind, v.value] for v in self.literals],
            "block": self.block.to_json(),
            "names": {str(number): name for number, name in self.names.items()},
        }

    @staticmethod
    def from_json(fields: Any) -> HostFunction:
        """Inverse of :meth:`to_json`.

        Raises:
            ValueError: it is not a function, or an instruction violates its signature.
        """
        names = {"params", "captured", "literals", "block", "names"}
        if not isinstance(fields, dict) or set(fields) != names:
            raise ValueError(f"expected a host function, got {fields!r:.60}")
        params, captured = fields["params"], fields["captured"]
        if not _are_strings(params):
            raise ValueError(f"expected names of parameters, got {params!r:.60}")
        if not _is_count(captured):
            raise ValueError(
                f"expected a count of captured values, got {short_repr(captured)}"
            )
        if not isinstance(fields["literals"], list):
            raise ValueError(f"expected literals, got {fields['literals']!r:.60}")
        return HostFunction(
            tuple(params),
            captured,
            tuple(map(Literal.from_json, fields["literals"])),
            Block.from_json(fields["block"]),
            _register_names(fields["names"]),
        )


def _register_names(names: Any) -> dict[int, str]:
    is_map = isinstance(names, dict) and all(
        k.isdecimal() and k.isascii() and len(k) < 8 and isinstance(v, str)
        for k, v in names.items()
    )
    if not is_map:
        raise ValueError(f"expected names of registers, got {names!r:.60}")
    return {int(number): name for number, name in names.items()}


@dataclass(frozen=True)
class HostProgram:
    """The hosted functions of a module.

    Attributes:
        functions: by name.
    """

    functions: Mapping[str, HostFunction] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        functions = {name: f.to_json() for name, f in self.functions.items()}
        return {"format": FORMAT, "functions": functions}

    @staticmethod
    def from_json(fields: Any) -> HostProgram:
        """Inverse of :meth:`to_json`.

        Raises:
            ValueError: it is not a program of this version, or an instruction violates its
                signature.
        """
        if not isinstance(fields, dict) or not isinstance(
            fields.get("functions"), dict
        ):
            raise ValueError(f"expected a host program, got {fields!r:.60}")
        if fields.get("format") != FORMAT:
            raise ValueError(
                f"host program: expected format {FORMAT}, got {fields.get('format')!r}. "
                + COMPILE_AGAIN
            )
        functions = fields["functions"].items()
        return HostProgram({n: _named_function(n, f) for n, f in functions})


def _named_function(name: str, fields: Any) -> HostFunction:
    try:
        return HostFunction.from_json(fields)
    except ValueError as error:
        raise ValueError(f"host function `{name}`: {error}") from error


# Validators of immediates.


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_rank(value: Any) -> bool:
    return type(value) is int and value >= -1


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _are_sizes(value: Any) -> bool:
    """The shape of a tensor, with None for unknown sizes; None for any rank."""
    if value is None:
        return True
    return isinstance(value, list) and all(v is None or _is_count(v) for v in value)


def _are_argument_indices(value: Any) -> bool:
    """Indices of arguments, -1 for none."""
    return isinstance(value, list) and all(map(_is_rank, value))


def _is_number_type(value: Any) -> bool:
    try:
        element_type(value)
    except (TypeError, ValueError):
        return False
    return True


OPCODES: Mapping[str, Opcode] = {
    # Checks; those of tensors and shapes return sizes.
    "check_tensor": Opcode(
        (1, 1), (_are_sizes, _is_string, _is_string), None, is_size_check=True
    ),
    "check_shape": Opcode((1, 1), (_is_rank, _is_string), None, is_size_check=True),
    "check_number": Opcode((1, 1), (_is_string, _is_string), None, is_size_check=True),
    "check_function": Opcode((1, 1), (_is_string,), 0),
    "check_tuple": Opcode((1, 1), (_is_count, _is_string), 0),
    "check_size": Opcode((2, 2), (_is_string, _is_string), 0),
    "require": Opcode((1, 1), (_is_string,), 0),
    # Values.
    "copy": Opcode((1, 1)),
    "item": Opcode((1, 1), (_is_count,)),
    "dim": Opcode((1, 1), (_is_count,)),
    "tuple": Opcode((0, None)),
    "shape": Opcode((0, None)),
    # Control flow and calls. The first operand of a call is the callee.
    "if": Opcode((1, 1), blocks=2),
    "call": Opcode((1, None)),
    "call_spread": Opcode((2, 2)),
    "call_segment": Opcode((0, None), (_is_string,), None),
    "call_packed": Opcode((0, None), (_is_string,)),
    "call_python": Opcode((2, 2)),
    "call_destinations": Opcode((4, 4), (_are_argument_indices,)),
    "packed": Opcode((0, 0), (_is_string,)),
    "closure": Opcode((0, None), (_is_string,)),
    # Scalars.
    "cast": Opcode((1, 1), (_is_number_type,)),
    **dict.fromkeys(("not", "abs"), Opcode((1, 1))),
    **dict.fromkeys(
        (
            *("add", "subtract", "multiply", "truncdiv", "truncmod", "floordiv"),
            *("floormod", "minimum", "maximum", "equal", "not_equal", "less"),
            *("less_equal", "greater", "greater_equal", "shift_left", "shift_right"),
            *("bitwise_and", "bitwise_or", "bitwise_xor"),
        ),
        Opcode((2, 2)),
    ),
    # Host functions on arbitrary values.
    **{
        name: Opcode(counts)
        for name, counts in {
            "bind_arguments": (2, 2),
            "print_values": (1, None),
            "assert_true": (2, None),
            "nonzero": (1, 1),
            "unique": (5, 6),
            "scalar": (1, 1),
            "shape_of": (1, 1),
            "size_of": (1, 1),
            "tensor_to_shape": (1, 1),
            "shape_to_tensor": (1, 1),
            "empty": (2, 2),
            "alloc_tensor": (3, 4),
            "alloc_storage": (4, 4),
            "alloc_vm_storage": (3, 4),
            "tensor_in": (4, 5),
            "view": (4, 4),
            "shape_i": (2, 2),
            "stride_i": (2, 2),
            "byte_offset": (1, 1),
            "ndim": (1, 1),
            "dtype_code": (1, 1),
            "dtype_bits": (1, 1),
            "dtype_lanes": (1, 1),
        }.items()
    },
}
