"""Operator interface: test cases and ONNX import rules."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import DType, dtype, from_numpy
from relax_mlir.dialects.shapes import Dim

__all__ = [
    "Case",
    "EdgeCase",
    "IndexCase",
    "OnnxNode",
    "OnnxRule",
    "UseFunctionBodyError",
    "ValueNotKnownError",
    "find_onnx_rule",
    "onnx_operators",
    "onnx_rule",
]


class Case:
    """A test case of an operator, run at every level of the compiler.

    Args:
        *operands: a shape per operand; a list of shapes for a tuple operand. A shape
            may end in an element type: ``(2, 3, "int64")``.
        low, high: range of the random inputs; both bounds are inclusive for integers.
        **attrs: attributes of the operator, as Python values.
    """

    def __init__(
        self, *operands: Any, low: float = -2.0, high: float = 2.0, **attrs: Any
    ) -> None:  # Any: nested shapes
        self.operands = operands
        self.low, self.high = low, high
        self.attrs = attrs

    def __str__(self) -> str:
        attrs = ",".join(f"{k}={v}" for k, v in self.attrs.items())
        return f"{self.operands}{attrs}".replace(" ", "")

    def random_inputs(self, seed: int) -> list[Any]:
        """Random arrays, one per operand; a list of arrays for a tuple operand."""
        rng = np.random.default_rng(seed)
        return [
            [self._draw(rng, s) for s in shape]
            if isinstance(shape, list)
            else self._draw(rng, shape)
            for shape in self.operands
        ]

    def _draw(self, rng: np.random.Generator, spec: tuple[Any, ...]) -> np.ndarray:
        shape, type_ = _split_spec(spec)
        if type_.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if type_.is_integer:
            low = max(self.low, 0) if type_.kind == "u" else self.low
            return rng.integers(int(low), int(self.high) + 1, shape).astype(type_.numpy)
        return rng.uniform(self.low, self.high, shape).astype(type_.numpy)

    def operand_types(self) -> list[Any]:
        """Tensor types, one per operand; a list of types for a tuple operand."""
        return [
            [_type(s) for s in shape] if isinstance(shape, list) else _type(shape)
            for shape in self.operands
        ]


class IndexCase(Case):
    """A test case whose signed integers include the minimum and maximum of the type."""

    def __str__(self) -> str:
        return f"{super().__str__()}extremes"

    def _draw(self, rng: np.random.Generator, spec: tuple[Any, ...]) -> np.ndarray:
        array = super()._draw(rng, spec)
        if array.dtype.kind == "i":
            limits = np.iinfo(array.dtype)
            replaced = rng.random(array.shape) < 0.5
            array[replaced] = rng.choice([limits.min, limits.max], replaced.sum())
        return array


class EdgeCase(Case):
    """A test case whose floats include NaN, infinities and zeros of both signs."""

    def __str__(self) -> str:
        return f"{super().__str__()}edge"

    def _draw(self, rng: np.random.Generator, spec: tuple[Any, ...]) -> np.ndarray:
        array = super()._draw(rng, spec)
        if from_numpy(array.dtype).is_float:
            edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(array.dtype)
            replaced = rng.random(array.shape) < 0.5
            array[replaced] = rng.choice(edges, replaced.sum())
        return array


def _split_spec(spec: tuple[Any, ...]) -> tuple[tuple[int, ...], DType]:
    if spec and isinstance(spec[-1], str):
        return tuple(spec[:-1]), dtype(spec[-1])
    return tuple(spec), dtype("float32")


def _type(spec: tuple[Any, ...]) -> ir.RankedTensorType:
    return tensors.tensor_type(*_split_spec(spec))


class ValueNotKnownError(ValueError):
    """An operand whose value is needed at import time is computed at run time.

    Attributes:
        index: index of the operand.
        needs_shape_only: whether a static shape of the operand suffices, without its value.
    """

    def __init__(
        self, index: int, expected: str, *, needs_shape_only: bool = False
    ) -> None:
        """Format the message as ``input <index> <expected>``."""
        super().__init__(f"input {index} {expected}")
        self.index = index
        self.needs_shape_only = needs_shape_only


class UseFunctionBodyError(Exception):
    """Signals that a node is imported through the ONNX function body of its operator.

    Args:
        *dropped: attributes that are not passed to the function body, since their values
            are equivalent to the default.
    """

    def __init__(self, *dropped: str) -> None:
        super().__init__(*dropped)
        self.dropped = frozenset(dropped)


def _unknown(operand: int | ir.Value) -> np.ndarray | None:
    """Default lookup of a node without an importer: no value is known."""
    return None


def _no_constants(array: np.ndarray) -> ir.Value:
    raise ValueError("this node cannot create constants")


@dataclass
class OnnxNode:
    """An ONNX node, as passed to an import rule.

    Attributes:
        op_type: the operator's name.
        name: the node's name, or one derived from its first output.
        inputs: operands in order; None for an omitted optional one. A constant is
            inserted into the module when its operand is first read.
        attrs: attribute values: int, float, str, bytes, arrays, lists.
        opset: version of the operator's domain that the model imports.
        wanted: per output, whether it is used.
        constants: looks up the constant array of an operand, by index or value; None if
            it is not a constant.
        contents: looks up the elements of an integer operand, by index or value, as an
            object array of (symbolic) sizes; None if they are not known before run time.
        constant: creates a constant from an array.
    """

    op_type: str
    name: str
    inputs: Sequence[ir.Value | None]
    attrs: Mapping[str, Any]
    opset: int
    wanted: Sequence[bool] = (True,)
    constants: Callable[[int | ir.Value], np.ndarray | None] = field(default=_unknown)
    contents: Callable[[int | ir.Value], np.ndarray | None] = field(default=_unknown)
    constant: Callable[[np.ndarray], ir.Value] = field(default=_no_constants)

    def input(self, index: int) -> ir.Value:
        """The required operand ``index``.

        Raises:
            ValueError: the operand is missing.
        """
        value = self.optional(index)
        if value is None:
            raise ValueError(f"input {index} is missing")
        return value

    def optional(self, index: int) -> ir.Value | None:
        """Operand ``index``, or None if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def attr(self, name: str, default: Any = None) -> Any:
        """Attribute ``name``; it is required if ``default`` is None.

        Raises:
            ValueError: the attribute is missing and has no default.
        """
        if name in self.attrs:
            return self.attrs[name]
        if default is None:
            raise ValueError(f"attribute `{name}` is missing")
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """Attribute ``name``, a boolean stored as 0 or 1.

        Raises:
            ValueError: the attribute is neither 0 nor 1.
        """
        value = self.attrs.get(name, default)
        if value not in (0, 1):
            raise ValueError(f"attribute `{name}`: expected 0 or 1, got {value}")
        return bool(value)

    def one_of(self, name: str, known: Collection[str], default: str) -> str:
        """Attribute ``name``, one of the strings ``known``.

        Raises:
            ValueError: the attribute is another string.
        """
        value = self.attrs.get(name, default)
        if value not in known:
            raise ValueError(
                f"attribute `{name}`: expected {', '.join(sorted(known))}, got `{value}`"
            )
        return value

    def constant_or_none(self, index: int) -> np.ndarray | None:
        """The value of operand ``index``; None if omitted or computed at run time."""
        return self.constants(index) if index < len(self.inputs) else None

    def known(self, index: int) -> np.ndarray:
        """The constant value of operand ``index``.

        Raises:
            NotKnownError: the operand is computed at run time.
            ValueError: the operand is missing.
        """
        value = self.constant_or_none(index)
        if value is None:
            self.input(index)
            raise ValueNotKnownError(
                index, "must be a constant here, got a computed value"
            )
        return value

    def scalar(self, index: int) -> Any:  # Any: a number of the operand's type
        """The single element of constant operand ``index``, as a Python number.

        Raises:
            NotKnownError: the operand is computed at run time.
            ValueError: the operand is missing or has another number of elements.
        """
        value = self.known(index)
        if value.size != 1:
            raise ValueError(f"input {index}: expected one number, got {value.size}")
        return value.item()

    def dims(self, index: int) -> tuple[Dim, ...]:
        """The elements of a rank-1 (or 0) integer operand as sizes, possibly symbolic.

        Raises:
            NotKnownError: the elements are not known before run time.
            ValueError: the operand is missing or has another rank.
        """
        content = self.contents(index) if index < len(self.inputs) else None
        if (
            content is None
        ):  # `contents` skips constants that are long or of other types
            array = self.constant_or_none(index)
            content = array if array is not None and array.dtype.kind in "iu" else None
        if content is None:
            self.input(index)
            raise ValueNotKnownError(
                index, "must hold known sizes, got values computed at run time"
            )
        return tuple(_vector(index, content).tolist())

    def vector(self, index: int) -> np.ndarray:
        """The elements of a constant operand of rank 1 (or 0).

        Raises:
            NotKnownError: the operand is computed at run time.
            ValueError: the operand is missing or has another rank.
        """
        return _vector(index, self.known(index))

    def dim(self, index: int) -> Dim:
        """The element of a one-element integer operand as a size, possibly symbolic.

        Raises:
            NotKnownError: the element is not known before run time.
            ValueError: the operand is missing or has another number of elements.
        """
        found = self.dims(index)
        if len(found) != 1:
            raise ValueError(f"input {index}: expected one number, got {len(found)}")
        return found[0]


def _vector(index: int, array: np.ndarray) -> np.ndarray:
    """The elements of operand ``index``, flattened.

    Raises:
        ValueError: its rank is above 1.
    """
    if array.ndim > 1:
        raise ValueError(f"input {index}: expected rank 1, got {array.ndim}")
    return array.reshape(-1)


OnnxRule = Callable[[OnnxNode], Any]

_RULES: dict[str, dict[int, OnnxRule]] = {}


def onnx_rule(name: str, *, since: int) -> Callable[[OnnxRule], OnnxRule]:
    """Decorator that registers an import rule of an ONNX operator.

    In a class it goes below ``@staticmethod``.

    A rule returns a value, or a list of values for a node with several outputs (None, or
    a shorter list, for unused outputs). An array is imported as a constant. A rule raises
    ``ValueError`` for an invalid node and ``NotImplementedError`` for an unsupported one;
    the importer adds the location. ``UseFunctionBodyError``, raised before anything is built,
    imports the node through the function body in the ONNX standard.

    Args:
        name: the operator, as ``domain::name`` outside of ai.onnx.
        since: the first opset of this rule; it applies up to the ``since`` of the next one.

    Raises:
        ValueError: two rules are registered for the same version.
    """

    def register(rule: OnnxRule) -> OnnxRule:
        versions = _RULES.setdefault(name, {})
        if since in versions:
            raise ValueError(f"two rules for ONNX `{name}` since opset {since}")
        versions[since] = rule
        return rule

    return register


def find_onnx_rule(name: str, opset: int) -> OnnxRule | None:
    """The rule for ``name`` with the greatest ``since`` up to ``opset``, or None."""
    versions = _RULES.get(name, {})
    opsets = sorted(versions)
    index = bisect_right(opsets, opset)
    return versions[opsets[index - 1]] if index else None


def rule_modules() -> set[str]:
    """Names of the modules that define import rules."""
    rules = (rule for versions in _RULES.values() for rule in versions.values())
    return {getattr(rule, "__self__", rule).__module__ for rule in rules}


def onnx_operators() -> dict[str, tuple[int, ...]]:
    """Maps every operator with a rule to the opsets at which its rules start."""
    return {name: tuple(sorted(versions)) for name, versions in sorted(_RULES.items())}
