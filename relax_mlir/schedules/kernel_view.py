"""View of a kernel for schedule rules: statements with iteration domains and index maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import (
    IndexForm,
    OffsetIndex,
    TiledIndex,
    buffer_sizes,
)
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.schedules.builder import (
    IndexLike,
    add,
    div,
    index,
    is_one,
    multiply,
    op,
    rem,
)
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "Access",
    "Kernel",
    "Statement",
    "collapse_axes",
    "point_count",
    "read_kernel",
    "read_statement",
    "without_size_arithmetic",
]


_LOOKS_AT_POINTS = frozenset({"linalg.index", "memref.load", "scf.if"})


@dataclass(frozen=True)
class Access:
    """An operand of a statement with its index map.

    Attributes:
        buffer: the memref, with subviews folded into the index map.
        forms: index map: the index of each dimension in terms of the axes.
    """

    buffer: ir.Value
    forms: tuple[IndexForm, ...]

    @property
    def axes(self) -> set[int]:
        """The axes that the index map depends on."""
        return {axis for form in self.forms for axis in form.coefficients}

    @property
    def indexed_axes(self) -> list[int | None]:
        """The single axis that indexes each dimension of size > 1; None for other maps."""
        sizes = buffer_sizes(self.buffer)
        return [
            form.single_variable
            for form, size in zip(self.forms, sizes, strict=True)
            if size is None or not is_one(size)
        ]

    def stride_of(self, axis: int) -> int | None:
        """Stride along ``axis`` in elements; None if it is not a constant.

        0 if the operand does not depend on the axis.
        """
        if any(isinstance(f, TiledIndex) and f.axis == axis for f in self.forms):
            return None
        strides, _ = self.buffer.type.get_strides_and_offset()
        total = 0
        for form, stride in zip(self.forms, strides, strict=True):
            coefficient = form.coefficients.get(axis, 0)
            if coefficient and stride < 0:
                return None
            total += coefficient * stride
        return total

    @property
    def is_affine(self) -> bool:
        """Whether every index is an affine form of the axes: none is tiled or has an offset."""
        return all(isinstance(form, AffineForm) for form in self.forms)

    def substituted(self, form_of: Callable[[int], AffineForm[int]]) -> Access:
        """The access, which :attr:`is_affine`, with a form substituted for each axis."""
        forms = [form for form in self.forms if isinstance(form, AffineForm)]
        assert len(forms) == len(self.forms), self.forms
        return Access(self.buffer, tuple(form.substituted(form_of) for form in forms))

    def indices(self, points: Sequence[IndexLike]) -> list[ir.Value]:
        """Apply the index map to a point of the iteration domain."""
        indices = []
        for form in self.forms:
            if isinstance(form, TiledIndex):
                take = rem if form.is_inner else div
                indices.append(index(take(points[form.axis], form.base)))
                continue
            position: IndexLike = form.constant
            if isinstance(form, OffsetIndex):
                position = add(form.by, position)
            for axis, coefficient in form.coefficients.items():
                position = add(multiply(points[axis], coefficient), position)
            indices.append(index(position))
        return indices


@dataclass(frozen=True)
class Statement:
    """A ``linalg.generic``.

    Attributes:
        op: the operation.
        kinds: iterator types, ``S`` (parallel) or ``R`` (reduction) per axis.
        extents: iteration domain: the size of each axis.
        inputs, outputs: operands.
        start: constant initial value of a reduction's accumulator, if known.
    """

    op: ir.OpView
    kinds: str
    extents: tuple[IndexLike, ...]
    inputs: tuple[Access, ...]
    outputs: tuple[Access, ...]
    start: ir.Attribute | None = None

    @property
    def body(self) -> ir.Block:
        return self.op.regions[0].blocks[0]

    @property
    def is_reduction(self) -> bool:
        return "R" in self.kinds

    @property
    def starts_from_zero(self) -> bool:
        """Whether the accumulator is initialized to 0."""
        return self.start is not None and float(self.start.value) == 0

    @property
    def depends_on_indices(self) -> bool:
        """Whether the body depends on more than its arguments: on indices, loads, branches."""
        return any(o.operation.name in _LOOKS_AT_POINTS for o in walk(self.body))

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def loaded_buffers(self) -> set[ir.Value]:
        """The buffers with a ``memref.load`` in the body, including nested regions."""
        loads = (o for o in walk(self.body) if o.operation.name == "memref.load")
        return {o.operands[0] for o in loads}

    @property
    def yielded(self) -> list[ir.Value]:
        """The values that the body stores."""
        return list(list(own_operations(self.body))[-1].operands)


@dataclass
class Kernel:
    """A tensor program at the linalg level.

    Attributes:
        function: the program; statements: in program order.
        temporaries: buffers allocated in the program.
        has_loops: whether it has loop nests beside linalg statements.
    """

    function: func.FuncOp
    statements: list[Statement] = field(default_factory=list)
    temporaries: list[ir.Value] = field(default_factory=list)
    has_loops: bool = False

    @property
    def block(self) -> ir.Block:
        return self.function.regions[0].blocks[0]

    @property
    def written(self) -> set[ir.Value]:
        """The buffers written by any statement."""
        return {access.buffer for s in self.statements for access in s.outputs}


def read_kernel(function: func.FuncOp) -> Kernel:
    """Read the statements of a function at the linalg level."""
    kernel = Kernel(function)
    starts: dict[ir.Value, tuple[ir.OpView, ir.Attribute]] = {}
    for operation in list(own_operations(kernel.block)):
        name = operation.operation.name
        if name == "linalg.generic":
            start = _constant_fill(operation)
            if start is not None:
                starts[list(operation.operands)[-1]] = (operation, start)
                continue
            kernel.statements.append(read_statement(operation, starts))
        elif name == "memref.alloc":
            kernel.temporaries.append(operation.results[0])
        elif name == "scf.for":
            kernel.has_loops = True
    kernel.has_loops |= bool(starts)
    return kernel


def without_size_arithmetic(operations: Sequence[ir.OpView]) -> list[ir.OpView]:
    """Drop the leading arithmetic on sizes; arithmetic on loaded values is kept."""
    kept_operations: list[ir.OpView] = []
    computed: set[ir.Value] = set()
    for operation in operations:
        is_size = operation.operation.name.startswith("arith.")
        if not is_size or not computed.isdisjoint(operation.operation.operands):
            kept_operations.append(operation)
            computed.update(operation.operation.results)
    return kept_operations


def _constant_fill(op: ir.OpView) -> ir.Attribute | None:
    """The constant of a statement that fills its output; None for other statements."""
    block = op.regions[0].blocks[0]
    stored = list(own_operations(block))[-1].operands[0].owner
    *inputs, _ = op.operands
    if not all(map(_is_shape_only, inputs)) or isinstance(stored, ir.Block):
        return None
    return stored.attributes["value"] if stored.name == "arith.constant" else None


def _is_shape_only(buffer: ir.Value) -> bool:
    """Whether an operand only gives sizes to the iteration domain."""
    owner = buffer.owner
    return not isinstance(owner, ir.Block) and "tir.shape_only" in owner.attributes


def read_statement(
    op: ir.OpView, starts: dict[ir.Value, tuple[ir.OpView, ir.Attribute]]
) -> Statement:
    """Read a ``linalg.generic``.

    Args:
        starts: fill operation and constant by buffer; the one of an accumulator is removed.
    """
    maps = [a.value for a in op.attributes["indexing_maps"]]
    kinds = "".join(
        "R" if "reduction" in str(k) else "S" for k in op.attributes["iterator_types"]
    )
    operands = list(op.operands)
    count = next(iter(op.attributes["operandSegmentSizes"]))
    forms = [[_form(r) for r in m.results] for m in maps]
    extents = tuple(_extent(operands, forms, axis) for axis in range(len(kinds)))
    accesses = [_access(v, f) for v, f in zip(operands, forms, strict=True)]
    start = None
    if "R" in kinds and operands[-1] in starts:
        start = starts.pop(operands[-1])[1]
    return Statement(
        op, kinds, extents, tuple(accesses[:count]), tuple(accesses[count:]), start
    )


def _access(buffer: ir.Value, forms: Sequence[IndexForm]) -> Access:
    """An access to the source of a subview, with the offsets in its index map."""
    owner = buffer.owner
    if isinstance(owner, ir.Block) or owner.name != "memref.subview":
        return Access(buffer, tuple(forms))
    buffer, *values = owner.operands
    offsets, kept = iter(values), list(owner.attributes["tir.kept"])
    whole: list[IndexForm] = []
    for position, begin in enumerate(owner.attributes["static_offsets"]):
        form = forms[kept.index(position)] if position in kept else AffineForm({})
        assert isinstance(form, AffineForm)  # tiled index maps have no subviews
        is_dynamic = begin == ir.ShapedType.get_dynamic_size()
        whole.append(
            OffsetIndex(form, next(offsets)) if is_dynamic else form.shifted(begin)
        )
    return Access(buffer, tuple(whole))


def _form(expr: ir.AffineExpr) -> IndexForm:
    if isinstance(expr, (ir.AffineFloorDivExpr, ir.AffineModExpr)):
        is_inner = isinstance(expr, ir.AffineModExpr)
        return TiledIndex(expr.lhs.position, expr.rhs.value, is_inner)
    return _linear_form(expr)


def _linear_form(expr: ir.AffineExpr) -> AffineForm[int]:
    if isinstance(expr, ir.AffineDimExpr):
        return AffineForm({expr.position: 1})
    if isinstance(expr, ir.AffineConstantExpr):
        return AffineForm({}, expr.value)
    lhs, rhs = _linear_form(expr.lhs), _linear_form(expr.rhs)
    total = lhs.times(rhs) if isinstance(expr, ir.AffineMulExpr) else lhs.plus(rhs)
    assert total is not None  # one operand of each product is constant
    return total


def _extent(
    operands: Sequence[ir.Value], forms: Sequence[Sequence[IndexForm]], axis: int
) -> IndexLike:
    """The size of an axis, from a dimension with this axis as its only index."""
    for buffer, indices in zip(operands, forms, strict=True):
        for position, form in enumerate(indices):
            if form.single_variable == axis:
                return _size_of(buffer, position)
    raise ValueError(f"axis {axis} has no size")


def _size_of(buffer: ir.Value, position: int) -> IndexLike:
    """The size of a dimension: an int, or the value of a dynamic size."""
    owner = buffer.owner
    if not isinstance(owner, ir.Block) and owner.name == "memref.subview":
        static = list(owner.attributes["static_sizes"])
        kept = list(owner.attributes["tir.kept"])[position]
        if static[kept] >= 0:
            return static[kept]
        _, offset_count, *_ = owner.attributes["operandSegmentSizes"]
        sizes = list(owner.operands)[1 + offset_count :]
        return sizes[sum(s < 0 for s in static[:kept])]
    known = buffer_sizes(buffer)[position]
    if known is not None:
        return known
    return op("memref.dim", ir.IndexType.get(), buffer, index(position))


def point_count(extents: Sequence[IndexLike]) -> int:
    """Estimated size of an iteration domain; dynamic sizes count as 64."""
    return math.prod(e if isinstance(e, int) else 64 for e in extents)


def collapse_axes(statement: Statement) -> Statement:
    """Collapse neighbouring parallel axes that are contiguous in every operand.

    The outer axis gets size 1, the inner one the product: past the end of a dimension of
    a row-major buffer the next row follows.
    """
    if statement.depends_on_indices:
        return statement
    extents = list(statement.extents)
    for axis in range(len(extents) - 1):
        pair = statement.kinds[axis : axis + 2]
        if pair == "SS" and all(
            _is_collapsible(a, axis, statement.extents) for a in statement.accesses
        ):
            extents[axis + 1] = multiply(extents[axis], extents[axis + 1])
            extents[axis] = 1
    return replace(statement, extents=tuple(extents))


def _is_collapsible(access: Access, axis: int, extents: Sequence[IndexLike]) -> bool:
    """Whether ``axis`` and the next one index neighbouring whole dimensions, or none."""
    if not access.axes & {axis, axis + 1}:
        return True
    singles = [form.single_variable for form in access.forms]
    if axis not in singles or axis + 1 not in singles:
        return False
    dim = singles.index(axis)
    if dim + 1 >= len(singles) or singles[dim + 1] != axis + 1:
        return False
    others = (*access.forms[:dim], *access.forms[dim + 2 :])
    if any(form.coefficients.keys() & {axis, axis + 1} for form in others):
        return False
    size = buffer_sizes(access.buffer)[dim + 1]
    return size is not None and size == extents[axis + 1]
