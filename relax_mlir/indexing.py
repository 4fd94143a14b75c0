"""Index expressions read back from the IR."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat, takewhile
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dim_bounds import is_known_le
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.traversal import own_operations

__all__ = [
    "SIZE_ARITHMETIC",
    "Form",
    "Linear",
    "Part",
    "Shifted",
    "buffer_sizes",
    "constant_of",
    "dims_in",
    "form_in",
    "is_size_arithmetic",
    "linear_in",
    "selected_divisor",
    "shifted_in",
    "size_by",
]


@dataclass(frozen=True)
class Linear:
    """``sum(coefficients[axis] * axis) + constant``.

    Attributes:
        coefficients: a nonzero factor per axis number.
        constant: what is added.
    """

    coefficients: Mapping[int, int]
    constant: int = 0

    @property
    def single_axis(self) -> int | None:
        """The axis, if the form is just that axis."""
        if self.constant == 0 and list(self.coefficients.values()) == [1]:
            return next(iter(self.coefficients))
        return None

    def plus(self, other: "Linear", factor: int = 1) -> "Linear":
        """``self + factor * other``."""
        total = dict(self.coefficients)
        for axis, value in other.coefficients.items():
            total[axis] = total.get(axis, 0) + factor * value
        kept = {axis: value for axis, value in total.items() if value}
        return Linear(kept, self.constant + factor * other.constant)

    def scaled(self, factor: int) -> "Linear":
        """``factor * self``."""
        return Linear({}, 0).plus(self, factor)


@dataclass(frozen=True)
class Part:
    """``axis // base``, or ``axis % base``: which block of an axis, or where in it.

    Attributes:
        axis: its number; base: how many points a block has.
        is_inner: whether it is the place in the block.
    """

    axis: int
    base: int
    is_inner: bool

    constant = 0
    single_axis = None

    @property
    def coefficients(self) -> Mapping[int, int]:
        """The axis, with no factor that would hold everywhere."""
        return {self.axis: 0}


@dataclass(frozen=True)
class Shifted:
    """A linear form behind a size that calls tell, such as that of what stands in front.

    Attributes:
        linear: without the size; by: the size.
    """

    linear: Linear
    by: ir.Value

    single_axis = None

    @property
    def coefficients(self) -> Mapping[int, int]:
        """As those of the linear form."""
        return self.linear.coefficients

    @property
    def constant(self) -> int:
        """What is added, beside the size."""
        return self.linear.constant


Form = Linear | Part | Shifted


def constant_of(value: ir.Value) -> int | None:
    """The integer that ``value`` is a constant of, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attr = owner.attributes["value"]
    return attr.value if isinstance(attr, ir.IntegerAttr) else None


def selected_divisor(value: ir.Value) -> ir.Value | None:
    """The divisor that a choice takes 1 in place of where it is 0, or None.

    ``nonzero_divisor`` of :mod:`relax_mlir.dialects.tir.scalars` makes such choices.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.select":
        return None
    condition, one, divisor = owner.operands
    test = condition.owner
    if constant_of(one) != 1 or isinstance(test, ir.Block) or test.name != "arith.cmpi":
        return None
    is_equal = ir.IntegerAttr(test.attributes["predicate"]).value == 0
    is_zero = constant_of(test.operands[1]) == 0
    return divisor if is_equal and is_zero and test.operands[0] == divisor else None


def linear_in(value: ir.Value, axes: Mapping[ir.Value, int]) -> Linear | None:
    """``value`` as a linear form of ``axes`` with constant coefficients, or None."""
    if value in axes:
        return Linear({axes[value]: 1})
    known = constant_of(value)
    if known is not None:
        return Linear({}, known)
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in _COMBINE:
        return None
    lhs, rhs = (linear_in(operand, axes) for operand in owner.operands)
    return None if lhs is None or rhs is None else _COMBINE[owner.name](lhs, rhs)


def form_in(value: ir.Value, axes: Mapping[ir.Value, int]) -> Form | None:
    """``value`` as a linear form, or as a part of one axis; None if it is neither."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name in _PARTS:
        axis, base = owner.operands
        size = constant_of(base)
        if axis not in axes or size is None or size < 1:
            return None
        return Part(axes[axis], size, _PARTS[owner.name])
    return linear_in(value, axes)


_PARTS = {"arith.divui": False, "arith.remui": True}


def shifted_in(
    value: ir.Value, axes: Mapping[ir.Value, int], sizes: Container[ir.Value]
) -> Shifted | None:
    """``value`` as the sum of a linear form and one of the sizes, or None."""
    if value in sizes:
        return Shifted(Linear({}), value)
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.addi":
        return None
    lhs, rhs = owner.operands
    for moving, size in ((lhs, rhs), (rhs, lhs)):
        linear = linear_in(moving, axes)
        if linear is not None and size in sizes:
            return Shifted(linear, size)
    return None


def _product(lhs: Linear, rhs: Linear) -> Linear | None:
    if not rhs.coefficients:
        return lhs.scaled(rhs.constant)
    return rhs.scaled(lhs.constant) if not lhs.coefficients else None


_COMBINE = {
    "arith.addi": lambda lhs, rhs: lhs.plus(rhs),
    "arith.subi": lambda lhs, rhs: lhs.plus(rhs, -1),
    "arith.muli": _product,
}


_ALLOCATIONS = {"memref.alloc", "memref.alloca", "tir.alloc_buffer"}


def buffer_sizes(buffer: ir.Value) -> list[int | ir.Value | None]:
    """Size per axis: an int, the value it was made from, or None where that is hidden."""
    owner = buffer.owner
    named: Iterator[ir.Value | None]
    if isinstance(owner, ir.Block):
        named = _argument_sizes(buffer)
    elif owner.operation.name in _ALLOCATIONS:
        named = iter(list(owner.operands))
    else:
        named = repeat(None)
    shape = ir.MemRefType(buffer.type).shape
    return [size if size >= 0 else next(named) for size in shape]


def _argument_sizes(argument: ir.Value) -> Iterator[ir.Value | None]:
    """The values that are the dynamic sizes of a function's argument, as they stand."""
    block: Any = argument.owner  # Any: the stubs take it for an operation
    attrs = list(block.owner.attributes["arg_attrs"])
    known: dict[Dim, ir.Value] | None = None
    for dim in tensors.python_value(
        attrs[ir.BlockArgument(argument).arg_number]["tir.shape"]
    ):
        if isinstance(dim, Expr):
            known = _known_sizes(block, attrs) if known is None else known
            yield known.get(dim)


def _known_sizes(
    block: ir.Block,
    attrs: Sequence[Any],  # Any: dictionaries
) -> dict[Dim, ir.Value]:
    """Symbols, and what is computed of them at the very beginning of a function."""
    leading = takewhile(is_size_arithmetic, own_operations(block))
    found: dict[Dim, ir.Value] = {}
    for value, dim in _dims(block, attrs, leading).items():
        if isinstance(dim, Expr):
            found.setdefault(dim, value)
    return found


def dims_in(function: func.FuncOp) -> dict[ir.Value, Dim]:
    """What the symbols of a tensor program, and values computed of them, are as sizes."""
    if "arg_attrs" not in function.attributes:
        return {}
    block = function.entry_block
    sizes = filter(is_size_arithmetic, own_operations(block))
    return _dims(block, list(function.attributes["arg_attrs"]), sizes)


def _dims(
    block: ir.Block,
    attrs: Sequence[Any],  # Any: dictionaries
    operations: Iterable[ir.OpView],
) -> dict[ir.Value, Dim]:
    dims: dict[ir.Value, Dim] = {
        value: shapes.symbol(a["tir.symbol"].value)
        for a, value in zip(attrs, block.arguments, strict=True)
        if "tir.symbol" in a
    }
    for op in operations:
        result = op.results[0]
        constant = constant_of(result)
        if constant is not None:
            dims[result] = constant
            continue
        size = size_by(op.operation.name, [dims.get(v) for v in op.operands])
        if size is not None:
            dims[result] = size
    return dims


def size_by(
    operation: str,
    operands: Sequence[Dim | None],
    is_size: Callable[[Dim], bool] | None = None,
) -> Dim | None:
    """What an operation computes of sizes, or of other integers.

    Args:
        operation: its name.
        operands: its operands; None for what is not known.
        is_size: whether an operand is 0 or more: by default, whether it is known to be.

    Returns:
        None if that is not known: of an operand that may be negative, operations on
        unsigned integers, and divisions that round towards 0, give something else.
    """
    known = [d for d in operands if d is not None]
    if operation not in SIZE_ARITHMETIC or len(known) < len(operands):
        return None
    if operation in _OF_SIZES_ONLY and not all(map(is_size or _is_size, known)):
        return None
    return SIZE_ARITHMETIC[operation](*known)


def _is_size(dim: Dim) -> bool:
    return is_known_le(0, dim)


def is_size_arithmetic(op: ir.OpView) -> bool:
    """Whether ``op`` computes a size from others."""
    if len(op.results) != 1 or not isinstance(op.results[0].type, ir.IndexType):
        return False
    return (
        op.operation.name in SIZE_ARITHMETIC or constant_of(op.results[0]) is not None
    )


# By the names of operations: sizes of sizes, which are not negative.
SIZE_ARITHMETIC: Mapping[str, Callable[..., Dim]] = {
    "arith.addi": lambda lhs, rhs: lhs + rhs,
    "arith.subi": lambda lhs, rhs: lhs - rhs,
    "arith.muli": lambda lhs, rhs: lhs * rhs,
    **dict.fromkeys(
        ("arith.divui", "arith.divsi", "arith.floordivsi"), shapes.floordiv
    ),
    **dict.fromkeys(("arith.ceildivui", "arith.ceildivsi"), shapes.ceildiv),
    **dict.fromkeys(("arith.remui", "arith.remsi"), shapes.mod),
    **dict.fromkeys(("arith.minui", "arith.minsi"), shapes.minimum),
    **dict.fromkeys(("arith.maxui", "arith.maxsi"), shapes.maximum),
    **dict.fromkeys(
        (
            *("arith.index_cast", "arith.index_castui", "arith.trunci"),
            *("arith.extsi", "arith.extui"),
        ),
        lambda size: size,
    ),
}
# Arithmetic that is not that of sizes where an operand is negative.
_OF_SIZES_ONLY = frozenset(
    name
    for name in SIZE_ARITHMETIC
    if name in ("arith.divsi", "arith.remsi") or name.endswith("ui")
)
