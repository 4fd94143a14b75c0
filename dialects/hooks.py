"""What an operator may define beside its IR: test cases and ONNX rules."""

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
    "LeftToBodyError",
    "NotKnownError",
    "OnnxNode",
    "OnnxRule",
    "find_onnx_rule",
    "onnx_operators",
    "onnx_rule",
]


class Case:
    """Shapes and attributes on which an operator is tested at every level.

    Args:
        *operands: a shape per operand; a list of shapes for a tuple operand. A shape
            may end in an element type: ``(2, 3, "int64")``.
        low, high: range of the random inputs, both inclusive for integers.
        **attrs: the attributes, as Python values.
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
        """Arrays for every operand; a list of arrays for a tuple operand."""
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
        """Tensor types for every operand; a list of types for a tuple operand."""
        return [
            [_type(s) for s in shape] if isinstance(shape, list) else _type(shape)
            for shape in self.operands
        ]


class IndexCase(Case):
    """Random inputs, and among their signed integers the extremes of their type."""

    def __str__(self) -> str:
        return f"{super().__str__()}extremes"

    def _draw(self, rng: np.random.Generator, spec: tuple[Any, ...]) -> np.ndarray:
        array = super()._draw(rng, spec)
        if array.dtype.kind == "i":
            limits = np.iinfo(array.dtype)
            chosen = rng.random(array.shape) < 0.5
            array[chosen] = rng.choice([limits.min, limits.max], chosen.sum())
        return array


class EdgeCase(Case):
    """Random inputs, and among their floats NaN, infinities and zeros of both signs."""

    def __str__(self) -> str:
        return f"{super().__str__()}edge"

    def _draw(self, rng: np.random.Generator, spec: tuple[Any, ...]) -> np.ndarray:
        array = super()._draw(rng, spec)
        if from_numpy(array.dtype).is_float:
            edges = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(array.dtype)
            chosen = rng.random(array.shape) < 0.5
            array[chosen] = rng.choice(edges, chosen.sum())
        return array


def _split_spec(spec: tuple[Any, ...]) -> tuple[tuple[int, ...], DType]:
    if spec and isinstance(spec[-1], str):
        return tuple(spec[:-1]), dtype(spec[-1])
    return tuple(spec), dtype("float32")


def _type(spec: tuple[Any, ...]) -> ir.RankedTensorType:
    return tensors.tensor_type(*_split_spec(spec))


class NotKnownError(ValueError):
    """An operand is computed at run time, and its value is needed before.

    Attributes:
        index: of the operand.
        is_of_sizes: whether its sizes are enough, as numbers.
    """

    def __init__(self, index: int, expected: str, *, is_of_sizes: bool = False) -> None:
        """Say what is expected of the operand."""
        super().__init__(f"input {index} {expected}")
        self.index = index
        self.is_of_sizes = is_of_sizes


class LeftToBodyError(Exception):
    """A rule leaves a node to the function that the standard defines its operator by.

    Args:
        *dropped: attributes that the function does not get, for their values mean the default.
    """

    def __init__(self, *dropped: str) -> None:
        super().__init__(*dropped)
        self.dropped = frozenset(dropped)


def _unknown(operand: int | ir.Value) -> np.ndarray | None:
    """Stands for an importer that knows no values."""
    return None


def _no_constants(array: np.ndarray) -> ir.Value:
    raise ValueError("this node cannot make constants")


@dataclass
class OnnxNode:
    """One node of an ONNX graph as a rule sees it.

    Attributes:
        op_type: the operator's name.
        name: the node's name, or one made up from its first output.
        inputs: operands in order; None where an optional one is left out. A constant
            enters the module when its operand is first read.
        attrs: attribute values: int, float, str, bytes, arrays, lists.
        opset: version of the operator's domain that the model imports.
        wanted: per output, whether anything reads it.
        constants: finds the array behind an operand, by index or value, where known.
        contents: finds the elements of an integer operand, by index or value, as an
            object array of sizes, where they are known before the model runs.
        constant: makes a constant from an array.
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
        """Operand ``index``.

        Raises:
            ValueError: it is missing.
        """
        value = self.optional(index)
        if value is None:
            raise ValueError(f"input {index} is missing")
        return value

    def optional(self, index: int) -> ir.Value | None:
        """Operand ``index``, or None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def attr(self, name: str, default: Any = None) -> Any:
        """Attribute ``name``; without a default it is required.

        Raises:
            ValueError: the attribute is missing and has no default.
        """
        if name in self.attrs:
            return self.attrs[name]
        if default is None:
            raise ValueError(f"attribute `{name}` is missing")
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """Attribute ``name``, which is 0 or 1.

        Raises:
            ValueError: it is another number.
        """
        value = self.attrs.get(name, default)
        if value not in (0, 1):
            raise ValueError(f"attribute `{name}`: expected 0 or 1, got {value}")
        return bool(value)

    def one_of(self, name: str, known: Collection[str], default: str) -> str:
        """Attribute ``name``, which is one of a few words.

        Raises:
            ValueError: it is another.
        """
        value = self.attrs.get(name, default)
        if value not in known:
            raise ValueError(
                f"attribute `{name}`: expected {', '.join(sorted(known))}, got `{value}`"
            )
        return value

    def constant_or_none(self, index: int) -> np.ndarray | None:
        """The value of operand ``index``; None if left out or computed at run time."""
        return self.constants(index) if index < len(self.inputs) else None

    def known(self, index: int) -> np.ndarray:
        """The constant value of operand ``index``.

        Raises:
            NotKnownError: it is computed at run time.
            ValueError: it is missing.
        """
        value = self.constant_or_none(index)
        if value is None:
            self.input(index)
            raise NotKnownError(index, "must be a constant here, got a computed value")
        return value

    def scalar(self, index: int) -> Any:  # Any: a number of the operand's type
        """The only element of constant operand ``index``, as a Python number.

        Raises:
            NotKnownError: it is computed at run time.
            ValueError: it is missing, or has another number of elements.
        """
        value = self.known(index)
        if value.size != 1:
            raise ValueError(f"input {index}: expected one number, got {value.size}")
        return value.item()

    def dims(self, index: int) -> tuple[Dim, ...]:
        """The sizes that a rank-1 (or 0) integer operand holds, symbolic ones included.

        Raises:
            NotKnownError: they are not known before the model runs.
            ValueError: the operand is missing, or has another rank.
        """
        content = self.contents(index) if index < len(self.inputs) else None
        if content is None:  # a constant may be long, or of another type
            array = self.constant_or_none(index)
            content = array if array is not None and array.dtype.kind in "iu" else None
        if content is None:
            self.input(index)
            raise NotKnownError(
                index, "must hold known sizes, got values computed at run time"
            )
        return tuple(_vector(index, content).tolist())

    def vector(self, index: int) -> np.ndarray:
        """The elements of a constant operand of rank 1 (or 0).

        Raises:
            NotKnownError: it is computed at run time.
            ValueError: it is missing, or has another rank.
        """
        return _vector(index, self.known(index))

    def dim(self, index: int) -> Dim:
        """The size that an integer operand of one element holds, a symbolic one included.

        Raises:
            NotKnownError: it is not known before the model runs.
            ValueError: the operand is missing, or has another number of elements.
        """
        found = self.dims(index)
        if len(found) != 1:
            raise ValueError(f"input {index}: expected one number, got {len(found)}")
        return found[0]


def _vector(index: int, array: np.ndarray) -> np.ndarray:
    """The elements of operand ``index``.

    Raises:
        ValueError: it has a rank above 1.
    """
    if array.ndim > 1:
        raise ValueError(f"input {index}: expected rank 1, got {array.ndim}")
    return array.reshape(-1)


OnnxRule = Callable[[OnnxNode], Any]

_RULES: dict[str, dict[int, OnnxRule]] = {}


def onnx_rule(name: str, *, since: int) -> Callable[[OnnxRule], OnnxRule]:
    """Register how ONNX operator ``name`` (``domain::name`` outside ai.onnx) is imported.

    In a class it stands below ``@staticmethod``.

    A rule returns a value, or a list of them where the node has several outputs (None, or
    nothing, for those that ``wanted`` does not ask for). An array stands for a constant.
    It raises ``ValueError`` for a node that is wrong, ``NotImplementedError`` for one that
    is not supported; the importer adds where that is. ``LeftToBodyError`` leaves a node,
    of which nothing is built yet, to the body that the standard gives for its operator.

    Args:
        name: the operator.
        since: the first opset this rule is for; a later rule takes over at its own.

    Raises:
        ValueError: two rules claim the same version.
    """

    def register(rule: OnnxRule) -> OnnxRule:
        versions = _RULES.setdefault(name, {})
        if since in versions:
            raise ValueError(f"two rules for ONNX `{name}` since opset {since}")
        versions[since] = rule
        return rule

    return register


def find_onnx_rule(name: str, opset: int) -> OnnxRule | None:
    """The newest rule for ``name`` that is not newer than ``opset``."""
    versions = _RULES.get(name, {})
    known = sorted(versions)
    index = bisect_right(known, opset)
    return versions[known[index - 1]] if index else None


def rule_modules() -> set[str]:
    """The modules that define how operators are imported."""
    rules = (rule for versions in _RULES.values() for rule in versions.values())
    return {getattr(rule, "__self__", rule).__module__ for rule in rules}


def onnx_operators() -> dict[str, tuple[int, ...]]:
    """Every operator with a rule, and the opsets at which its rules start."""
    return {name: tuple(sorted(versions)) for name, versions in sorted(_RULES.items())}
