"""Index expressions of loads and stores as affine and quasi-affine forms of block axes."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat, takewhile
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.ir.traversal import own_operations
from relax_mlir.symbolic.affine_forms import AffineForm
from relax_mlir.symbolic.bounds import is_known_le

__all__ = [
    "SIZE_ARITHMETIC",
    "IndexForm",
    "OffsetIndex",
    "TiledIndex",
    "affine_form",
    "buffer_sizes",
    "constant_of",
    "determine_axes",
    "index_form",
    "is_size_arithmetic",
    "offset_index",
    "selected_divisor",
    "size_expressions",
    "size_of_operation",
]


@dataclass(frozen=True)
class TiledIndex:
    """A tiled index: ``axis // base`` or ``axis % base``.

    Attributes:
        axis: the axis; base: the tile size.
        is_inner: whether it is ``axis % base``.
    """

    axis: int
    base: int
    is_inner: bool

    constant = 0
    single_variable = None

    @property
    def coefficients(self) -> Mapping[int, int]:
        """The axis, with coefficient 0, since none holds everywhere."""
        return {self.axis: 0}


@dataclass(frozen=True)
class OffsetIndex:
    """An affine form plus a symbolic size, as in a concatenation of tensors of symbolic sizes.

    Attributes:
        linear: the affine form; by: the size.
    """

    linear: AffineForm[int]
    by: ir.Value

    single_variable = None

    @property
    def coefficients(self) -> Mapping[int, int]:
        """Those of the affine form."""
        return self.linear.coefficients

    @property
    def constant(self) -> int:
        """The constant term, without the size."""
        return self.linear.constant


IndexForm = AffineForm[int] | TiledIndex | OffsetIndex


def constant_of(value: ir.Value) -> int | None:
    """The integer value of a constant, or None."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attr = owner.attributes["value"]
    return attr.value if isinstance(attr, ir.IntegerAttr) else None


def selected_divisor(value: ir.Value) -> ir.Value | None:
    """The divisor d in ``select(d == 0, 1, d)``, or None.

    ``nonzero_divisor`` of :mod:`relax_mlir.dialects.tir.scalars` emits such selects.
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


def affine_form(
    value: ir.Value, axes: Mapping[ir.Value, int]
) -> AffineForm[int] | None:
    """``value`` as an affine form of ``axes``, or None."""
    if value in axes:
        return AffineForm({axes[value]: 1})
    known = constant_of(value)
    if known is not None:
        return AffineForm({}, known)
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in _COMBINE:
        return None
    lhs, rhs = (affine_form(operand, axes) for operand in owner.operands)
    return None if lhs is None or rhs is None else _COMBINE[owner.name](lhs, rhs)


def index_form(value: ir.Value, axes: Mapping[ir.Value, int]) -> IndexForm | None:
    """``value`` as an affine form or a tiled index of one axis; None otherwise."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name in _DIVISIONS:
        axis, base = owner.operands
        size = constant_of(base)
        if axis not in axes or size is None or size < 1:
            return None
        return TiledIndex(axes[axis], size, _DIVISIONS[owner.name])
    return affine_form(value, axes)


# By operation, whether the result is a remainder; axes are not negative.
_DIVISIONS = {
    "arith.divui": False,
    "arith.floordivsi": False,
    "arith.remui": True,
}


def determine_axes(
    indices: Sequence[ir.Value], extents: Mapping[ir.Value, int]
) -> bool:
    """Whether indices provably differ wherever one of the axes does.

    Args:
        indices: of an element of a buffer.
        extents: the extent of each axis, which starts at 0; negative if it is dynamic.
    """
    axes = {axis: number for number, axis in enumerate(extents)}
    sizes = list(extents.values())

    def span_of(axis: int) -> int | None:
        return sizes[axis] - 1 if sizes[axis] >= 0 else None

    forms = [index_form(index, axes) for index in indices]
    tiles = {(f.axis, f.base, f.is_inner) for f in forms if isinstance(f, TiledIndex)}
    pending = {number for number, size in enumerate(sizes) if size != 1}
    pending -= {a for a, base, inner in tiles if (a, base, not inner) in tiles}
    remaining = [f for f in forms if isinstance(f, AffineForm)]
    while pending:
        for form in remaining:
            rest = form.restricted(pending.__contains__)
            if rest.coefficients and rest.determines_variables(span_of):
                pending -= rest.coefficients.keys()
                break
        else:
            return False
    return True


def offset_index(
    value: ir.Value, axes: Mapping[ir.Value, int], sizes: Container[ir.Value]
) -> OffsetIndex | None:
    """``value`` as an affine form plus one of the sizes, or None."""
    if value in sizes:
        return OffsetIndex(AffineForm({}), value)
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.addi":
        return None
    lhs, rhs = owner.operands
    for moving, size in ((lhs, rhs), (rhs, lhs)):
        linear = affine_form(moving, axes)
        if linear is not None and size in sizes:
            return OffsetIndex(linear, size)
    return None


_COMBINE = {
    "arith.addi": lambda lhs, rhs: lhs.plus(rhs),
    "arith.subi": lambda lhs, rhs: lhs.plus(rhs, -1),
    "arith.muli": lambda lhs, rhs: lhs.times(rhs),
}


_ALLOCATIONS = {"memref.alloc", "memref.alloca", "tir.alloc_buffer"}


def buffer_sizes(buffer: ir.Value) -> list[int | ir.Value | None]:
    """The size of each dimension: an int, the SSA value of a dynamic one, or None if unknown."""
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
    """The values of the dynamic sizes of a function's argument."""
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
    """Symbols, and the sizes computed from them at the top of a function."""
    leading = takewhile(is_size_arithmetic, own_operations(block))
    found: dict[Dim, ir.Value] = {}
    for value, dim in _dims(block, attrs, leading).items():
        if isinstance(dim, Expr):
            found.setdefault(dim, value)
    return found


def size_expressions(function: func.FuncOp) -> dict[ir.Value, Dim]:
    """The symbols of a tensor program, and values computed from them, as expressions."""
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
        size = size_of_operation(op.operation.name, [dims.get(v) for v in op.operands])
        if size is not None:
            dims[result] = size
    return dims


def size_of_operation(
    operation: str,
    operands: Sequence[Dim | None],
    is_size: Callable[[Dim], bool] | None = None,
) -> Dim | None:
    """The result of an operation on sizes or other integers, as an expression.

    Args:
        operation: its name.
        operands: its operands; None if unknown.
        is_size: whether an operand is non-negative; by default, whether that is provable.

    Returns:
        None if unknown: on operands that may be negative, unsigned operations and divisions
        that round towards zero differ from the operations on sizes.
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


# Operations on non-negative sizes, by name.
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
# Operations that differ from those above on negative operands.
_OF_SIZES_ONLY = frozenset(
    name
    for name in SIZE_ARITHMETIC
    if name in ("arith.divsi", "arith.remsi") or name.endswith("ui")
)
