"""Binding of symbolic sizes to the shapes of a call's inputs, in Python.

``native/executable.cc`` is the counterpart for CPUs, with the same error messages. Does not
import the compiler: model files for GPUs bundle this module.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from relax_mlir.runtime.elements import element_type
from relax_mlir.runtime.signature import DERIVED, STATIC, SYMBOL, Parameter, Signature
from relax_mlir.symbolic import symbols
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["SizeBinder"]

_LIMIT = 1 << 62  # maximum of any size, and of bytes

Shape = tuple[int, ...]


class _Binder(NamedTuple):
    """The input dimension that binds a symbol: its size is factor * symbol + offset."""

    argument: int
    dim: int
    factor: int
    offset: int


class SizeBinder:
    """Binds the symbolic sizes of calls, and checks shapes against them.

    Raises:
        CompileError: no input dimension binds a symbol.
    """

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        numbers = signature.binders()
        self._binders = [
            _Binder(*numbers[n : n + 4]) for n in range(0, len(numbers), 4)
        ]
        self._checks = [Constraint.parse(text) for text in signature.constraints]
        texts = {
            text
            for parameter in (*signature.inputs, *signature.outputs)
            for text in parameter.dims
        }
        self._dims = {text: symbols.parse(text) for text in (*texts, signature.arena)}

    def bind(self, shapes: Sequence[Shape]) -> dict[str, int]:
        """The symbolic sizes of a call with inputs of these shapes.

        Raises:
            ValueError: a rank or dimension is wrong, or a constraint is violated; the
                message names input and dimension.
        """
        inputs = self._signature.inputs
        for number, (parameter, shape) in enumerate(zip(inputs, shapes, strict=True)):
            if len(shape) != len(parameter.dims):
                raise ValueError(
                    f"{self._where(number)}: expected rank {len(parameter.dims)}, got "
                    f"{len(shape)}"
                )
        names = self._signature.symbols
        values = {
            name: self._solve(binder, shapes)
            for name, binder in zip(names, self._binders, strict=True)
        }
        # Derived sizes last: their arithmetic may rely on the other checks.
        for is_derived in (False, True):
            for number, shape in enumerate(shapes):
                self._check_dims(number, inputs[number], shape, values, is_derived)
        for check in self._checks:
            self._check(check, values)
        return values

    def output_shapes(self, values: Mapping[str, int]) -> list[Shape]:
        """The shapes of the outputs.

        Raises:
            ValueError: a size is negative, or too large for any memory.
        """
        return [self._output_shape(p, values) for p in self._signature.outputs]

    def check_output(
        self, number: int, shape: Sequence[int], values: Mapping[str, int]
    ) -> None:
        """Check the shape of an array for an output.

        Raises:
            ValueError: its rank or a dimension is wrong.
        """
        parameter = self._signature.outputs[number]
        argument = len(self._signature.inputs) + number
        if len(shape) != len(parameter.dims):
            raise ValueError(
                f"{self._where(argument)}: expected rank {len(parameter.dims)}, got "
                f"{len(shape)}"
            )
        for is_derived in (False, True):
            self._check_dims(argument, parameter, shape, values, is_derived)

    def arena_bytes(self, values: Mapping[str, int]) -> int:
        """Size of the arena of a call, in bytes."""
        return self._value(self._signature.arena, values)

    def _output_shape(self, parameter: Parameter, values: Mapping[str, int]) -> Shape:
        shape = tuple(self._value(text, values) for text in parameter.dims)
        size_bytes = math.prod(shape) * element_type(parameter.dtype).itemsize
        if any(n < 0 for n in shape) or size_bytes >= _LIMIT:
            shown = "(" + ", ".join(map(str, shape)) + ")"
            raise ValueError(
                f"`main`: output `{parameter.name}`: the shape {shown} is negative or too "
                "large"
            )
        return shape

    def _value(self, text: str, values: Mapping[str, int]) -> int:
        return symbols.evaluate(self._dims[text], values)

    def _where(self, argument: int) -> str:
        inputs, outputs = self._signature.inputs, self._signature.outputs
        if argument < len(inputs):
            return f"`main`: argument {argument} `{inputs[argument].name}`"
        number = argument - len(inputs)
        return f"`main`: output {number} `{outputs[number].name}`"

    def _solve(self, binder: _Binder, shapes: Sequence[Shape]) -> int:
        """The value of a symbol."""
        got = shapes[binder.argument][binder.dim]
        value, rest = divmod(got - binder.offset, binder.factor)
        if value < 0 or rest:
            text = self._signature.inputs[binder.argument].dims[binder.dim]
            raise ValueError(
                f"{self._where(binder.argument)}: dimension {binder.dim}: expected "
                f"`{text}`, got {got}"
            )
        return value

    def _check_dims(
        self,
        argument: int,
        parameter: Parameter,
        shape: Sequence[int],
        values: Mapping[str, int],
        is_derived: bool,
    ) -> None:
        for dim, (text, got) in enumerate(zip(parameter.dims, shape, strict=True)):
            kind, number = self._signature.size(text)
            if (kind == DERIVED) != is_derived:
                continue
            expected = self._value(text, values)
            if got == expected:
                continue
            name = "" if kind == STATIC else f" (`{text}`)"
            reason = ""
            if kind == SYMBOL:
                binder = self._binders[number]
                source = self._signature.inputs[binder.argument].name
                reason = f" (bound by argument `{source}` dimension {binder.dim})"
            raise ValueError(
                f"{self._where(argument)}: dimension {dim}{name}: expected "
                f"{expected}{reason}, got {got}"
            )

    def _check(self, check: Constraint, values: Mapping[str, int]) -> None:
        lhs, rhs = (symbols.evaluate(d, values) for d in (check.lhs, check.rhs))
        if lhs == rhs if check.relation == "==" else lhs >= rhs:
            return
        described = [
            str(d) if isinstance(d, int) else f"`{d}`" for d in (check.lhs, check.rhs)
        ]
        relation = "to be" if check.relation == "==" else "to be at least"
        raise ValueError(
            f"`main`: sizes do not fit: expected {described[0]} {relation} "
            f"{described[1]}, got {lhs} and {rhs}{self._origins(check, values)}"
        )

    def _origins(self, check: Constraint, values: Mapping[str, int]) -> str:
        """Text that names the dimensions that bind the symbols of a constraint."""
        mentioned = {s for d in (check.lhs, check.rhs) for s in symbols.symbols_of(d)}
        origins = [
            f"`{name}` is {values[name]} by dimension {binder.dim} of argument "
            f"{binder.argument} `{self._signature.inputs[binder.argument].name}`"
            for name, binder in zip(self._signature.symbols, self._binders, strict=True)
            if name in mentioned
        ]
        return f", where {' and '.join(origins)}" if origins else ""
