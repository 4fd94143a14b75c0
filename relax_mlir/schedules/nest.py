"""A kernel as the rules see it: linalg statements with their domains and accesses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import func

from relax_mlir.indexing import Form, Linear, Part, Shifted, buffer_sizes
from relax_mlir.schedules.emit import Extent, add, div, index, is_one, multiply, op, rem
from relax_mlir.traversal import own_operations, walk

__all__ = [
    "Access",
    "Kernel",
    "Statement",
    "beyond_sizes",
    "collapse_axes",
    "point_count",
    "read_kernel",
    "statement_of",
]


_LOOKS_AT_POINTS = frozenset({"linalg.index", "memref.load", "scf.if"})


@dataclass(frozen=True)
class Access:
    """One operand of a statement.

    Attributes:
        buffer: the memref itself, subviews looked through.
        forms: per dimension of the buffer, its index.
    """

    buffer: ir.Value
    forms: tuple[Form, ...]

    @property
    def axes(self) -> set[int]:
        """The axes that some index depends on."""
        return {axis for form in self.forms for axis in form.coefficients}

    @property
    def told_axes(self) -> list[int | None]:
        """By dimension of more than one element: the axis that alone tells the index."""
        sizes = buffer_sizes(self.buffer)
        return [
            form.single_axis
            for form, size in zip(self.forms, sizes, strict=True)
            if size is None or not is_one(size)
        ]

    def stride_of(self, axis: int) -> int | None:
        """Elements between neighbours along ``axis``; None where it is not constant.

        0 if the operand does not depend on the axis.
        """
        if any(isinstance(f, Part) and f.axis == axis for f in self.forms):
            return None
        strides, _ = self.buffer.type.get_strides_and_offset()
        total = 0
        for form, stride in zip(self.forms, strides, strict=True):
            factor = form.coefficients.get(axis, 0)
            if factor and stride < 0:
                return None
            total += factor * stride
        return total

    def indices(self, points: Sequence[Extent]) -> list[ir.Value]:
        """Where the point of the domain is in the buffer."""
        where = []
        for form in self.forms:
            if isinstance(form, Part):
                take = rem if form.is_inner else div
                where.append(index(take(points[form.axis], form.base)))
                continue
            place: Extent = form.constant
            if isinstance(form, Shifted):
                place = add(form.by, place)
            for axis, factor in form.coefficients.items():
                place = add(multiply(points[axis], factor), place)
            where.append(index(place))
        return where


@dataclass(frozen=True)
class Statement:
    """One linalg.generic.

    Attributes:
        op: the operation; kinds: ``S`` or ``R`` per axis; extents: size per axis.
        inputs, outputs: its operands.
        start: the constant that the output holds before, for a reduction.
    """

    op: ir.OpView
    kinds: str
    extents: tuple[Extent, ...]
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
        """Whether the output holds 0 before, as that of a plain sum."""
        return self.start is not None and float(self.start.value) == 0

    @property
    def looks_at_points(self) -> bool:
        """Whether what the body does depends on where it is, beyond what it is given."""
        return any(o.operation.name in _LOOKS_AT_POINTS for o in walk(self.body))

    @property
    def accesses(self) -> tuple[Access, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def read_within(self) -> set[ir.Value]:
        """The buffers that the body reads by itself, where it computes; in branches too."""
        loads = (o for o in walk(self.body) if o.operation.name == "memref.load")
        return {o.operands[0] for o in loads}

    @property
    def yielded(self) -> list[ir.Value]:
        """The values that the body stores."""
        return list(list(own_operations(self.body))[-1].operands)


@dataclass
class Kernel:
    """A tensor program on the way to loops.

    Attributes:
        function: the program; statements: in order.
        temporaries: buffers that live inside it.
        has_loops: whether some block already is a loop nest that no rule understands.
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
        """The buffers that some statement writes: what others may read only afterwards."""
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
            kernel.statements.append(statement_of(operation, starts))
        elif name == "memref.alloc":
            kernel.temporaries.append(operation.results[0])
        elif name == "scf.for":
            kernel.has_loops = True
    kernel.has_loops |= bool(starts)
    return kernel


def beyond_sizes(operations: Sequence[ir.OpView]) -> list[ir.OpView]:
    """All operations but those that compute sizes; numbers of buffers are no sizes."""
    found: list[ir.OpView] = []
    computed: set[ir.Value] = set()
    for operation in operations:
        is_size = operation.operation.name.startswith("arith.")
        if not is_size or not computed.isdisjoint(operation.operation.operands):
            found.append(operation)
            computed.update(operation.operation.results)
    return found


def _constant_fill(op: ir.OpView) -> ir.Attribute | None:
    """The constant that a statement without inputs stores everywhere, if it does."""
    block = op.regions[0].blocks[0]
    stored = list(own_operations(block))[-1].operands[0].owner
    *inputs, _ = op.operands
    if not all(map(_is_shape_only, inputs)) or isinstance(stored, ir.Block):
        return None
    return stored.attributes["value"] if stored.name == "arith.constant" else None


def _is_shape_only(buffer: ir.Value) -> bool:
    """Whether an operand has a size but no elements that anyone reads."""
    owner = buffer.owner
    return not isinstance(owner, ir.Block) and "tir.shape_only" in owner.attributes


def statement_of(
    op: ir.OpView, starts: dict[ir.Value, tuple[ir.OpView, ir.Attribute]]
) -> Statement:
    """A ``linalg.generic`` as a statement.

    Args:
        starts: constants that buffers hold before, and what stores them; takes what it uses.
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


def _access(buffer: ir.Value, forms: Sequence[Form]) -> Access:
    """The access of the buffer behind a subview."""
    owner = buffer.owner
    if isinstance(owner, ir.Block) or owner.name != "memref.subview":
        return Access(buffer, tuple(forms))
    buffer, *values = owner.operands
    moved, kept = iter(values), list(owner.attributes["tir.kept"])
    whole: list[Form] = []
    for position, begin in enumerate(owner.attributes["static_offsets"]):
        form = forms[kept.index(position)] if position in kept else Linear({})
        assert isinstance(form, Linear)  # what is read by parts is read whole
        is_open = begin == ir.ShapedType.get_dynamic_size()
        whole.append(
            Shifted(form, next(moved)) if is_open else form.plus(Linear({}, begin))
        )
    return Access(buffer, tuple(whole))


def _form(expr: ir.AffineExpr) -> Form:
    if isinstance(expr, (ir.AffineFloorDivExpr, ir.AffineModExpr)):
        is_inner = isinstance(expr, ir.AffineModExpr)
        return Part(expr.lhs.position, expr.rhs.value, is_inner)
    return _linear_form(expr)


def _linear_form(expr: ir.AffineExpr) -> Linear:
    if isinstance(expr, ir.AffineDimExpr):
        return Linear({expr.position: 1})
    if isinstance(expr, ir.AffineConstantExpr):
        return Linear({}, expr.value)
    both = expr
    lhs, rhs = _linear_form(both.lhs), _linear_form(both.rhs)
    if isinstance(expr, ir.AffineMulExpr):
        return (
            lhs.scaled(rhs.constant)
            if not rhs.coefficients
            else rhs.scaled(lhs.constant)
        )
    return lhs.plus(rhs)


def _extent(
    operands: Sequence[ir.Value], forms: Sequence[Sequence[Form]], axis: int
) -> Extent:
    """The size of an axis, from an operand that it indexes alone."""
    for buffer, indices in zip(operands, forms, strict=True):
        for position, form in enumerate(indices):
            if form.single_axis == axis:
                return _size_of(buffer, position)
    raise ValueError(f"axis {axis} has no size")


def _size_of(buffer: ir.Value, position: int) -> Extent:
    """The size of one dimension: an int, or the value that it was made from."""
    owner = buffer.owner
    if not isinstance(owner, ir.Block) and owner.name == "memref.subview":
        static = list(owner.attributes["static_sizes"])
        kept = list(owner.attributes["tir.kept"])[position]
        if static[kept] >= 0:
            return static[kept]
        _, moved, *_ = owner.attributes["operandSegmentSizes"]
        sizes = list(owner.operands)[1 + moved :]
        return sizes[sum(s < 0 for s in static[:kept])]
    known = buffer_sizes(buffer)[position]
    if known is not None:
        return known
    return op("memref.dim", ir.IndexType.get(), buffer, index(position))


def point_count(extents: Sequence[Extent]) -> int:
    """How many points a domain has; 64 stands for a size known only at run time."""
    return math.prod(e if isinstance(e, int) else 64 for e in extents)


def collapse_axes(statement: Statement) -> Statement:
    """Merge neighbouring spatial axes that every operand walks through as one.

    The outer axis gets size 1 and the inner one the product: an index past the end of the
    last dimension of a row-major buffer is the next row.
    """
    if statement.looks_at_points:
        return statement
    extents = list(statement.extents)
    for axis in range(len(extents) - 1):
        pair = statement.kinds[axis : axis + 2]
        if pair == "SS" and all(
            _walks_as_one(a, axis, statement.extents) for a in statement.accesses
        ):
            extents[axis + 1] = multiply(extents[axis], extents[axis + 1])
            extents[axis] = 1
    return replace(statement, extents=tuple(extents))


def _walks_as_one(access: Access, axis: int, extents: Sequence[Extent]) -> bool:
    if not access.axes & {axis, axis + 1}:
        return True
    singles = [form.single_axis for form in access.forms]
    if axis not in singles or axis + 1 not in singles:
        return False
    place = singles.index(axis)
    if place + 1 >= len(singles) or singles[place + 1] != axis + 1:
        return False
    others = (*access.forms[:place], *access.forms[place + 2 :])
    if any(form.coefficients.keys() & {axis, axis + 1} for form in others):
        return False
    size = buffer_sizes(access.buffer)[place + 1]
    return size is not None and size == extents[axis + 1]
