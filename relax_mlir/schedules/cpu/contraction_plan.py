"""Which kernels are contractions: sums of products, and maps of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.indexing import Linear, buffer_sizes
from relax_mlir.schedules.nest import Access, Kernel, Statement

__all__ = ["Factor", "Map", "Plan", "plan_contraction"]


@dataclass(frozen=True)
class Map:
    """A statement that runs on each result of the sum, its accesses in the sum's axes."""

    statement: Statement
    inputs: tuple[Access, ...]
    output: Access


@dataclass(frozen=True)
class Factor:
    """One of the two operands whose products are summed.

    Attributes:
        access: where it is read.
        extend: the operation that widens an element to the type of the sum; None if it
            is of that type.
    """

    access: Access
    extend: str | None = None

    @property
    def element(self) -> ir.Type:
        """The type of an element in memory."""
        return self.access.buffer.type.element_type


@dataclass(frozen=True)
class Plan:
    """How a kernel is a contraction.

    Attributes:
        anchor: the statement that sums; maps: what follows, element by element.
        rows_of, columns_of: the operand of the rows, and that of the columns.
        outer: axes of separate products; m, n, k: rows, columns, and what is summed.
        whole: whether the columns lie side by side in ``b`` too.
    """

    anchor: Statement
    rows_of: Factor
    columns_of: Factor
    outer: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    whole: bool
    maps: tuple[Map, ...] = ()

    @property
    def a(self) -> Access:
        """Where the rows' operand is read."""
        return self.rows_of.access

    @property
    def b(self) -> Access:
        """Where the columns' operand is read."""
        return self.columns_of.access

    @property
    def element(self) -> ir.Type:
        """The type of the sum."""
        return self.anchor.outputs[0].buffer.type.element_type


def plan_contraction(kernel: Kernel) -> Plan | None:
    """The plan of a kernel; None if it is no contraction in f32, f64 or i32."""
    if kernel.has_loops or not kernel.statements:
        return None
    anchor, *rest = kernel.statements
    factors = _factors(anchor)
    if factors is None or anchor.start is None or len(anchor.outputs) != 1:
        return None
    plan = _classify(anchor, *factors) or _classify(anchor, *reversed(factors))
    return None if plan is None else _with_maps(plan, rest, kernel)


_EXTENSIONS = ("arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp")
_SUMS = {"arith.addf": "arith.mulf", "arith.addi": "arith.muli"}


def _factors(anchor: Statement) -> tuple[Factor, Factor] | None:
    """The two reads whose products are summed."""
    if not anchor.is_reduction:
        return None
    total = anchor.yielded[0].owner
    if isinstance(total, ir.Block) or total.name not in _SUMS:
        return None
    out = list(anchor.body.arguments)[-1]
    terms = [v for v in total.operands if v != out]
    if len(terms) != 1 or isinstance(terms[0].owner, ir.Block):
        return None
    product = terms[0].owner
    if product.name != _SUMS[total.name] or str(out.type) not in ("f32", "f64", "i32"):
        return None
    first, second = (_factor(anchor, v) for v in product.operands)
    return None if first is None or second is None else (first, second)


def _factor(anchor: Statement, value: ir.Value) -> Factor | None:
    """An operand of the product, if it is read, and is or was an integer, if widened."""
    extend, owner = None, value.owner
    if not isinstance(owner, ir.Block) and owner.name in _EXTENSIONS:
        extend, value = owner.name, owner.operands[0]
    inputs = list(anchor.body.arguments)[: len(anchor.inputs)]
    if value not in inputs:
        return None
    return Factor(anchor.inputs[inputs.index(value)], extend)


def _classify(anchor: Statement, left: Factor, right: Factor) -> Plan | None:
    """Sort the axes, if the columns come from ``right``."""
    a, b = left.access, right.access
    out = anchor.outputs[0]
    spatial = [axis for form in out.forms for axis in _axes_by_stride(form)]
    if len(spatial) != len(set(spatial)) or len(spatial) != anchor.kinds.count("S"):
        return None
    columns = _column_axes(anchor, spatial, a, b)
    rest = [axis for axis in spatial if axis not in columns]
    rows = [axis for axis in rest if axis in a.axes and axis not in b.axes]
    summed = [i for i, kind in enumerate(anchor.kinds) if kind == "R"]
    # Without rows every column is read once: a panel would cost more than it saves, as in
    # a depthwise convolution.
    if not columns or not rows or not _sums_flat(anchor, a, summed):
        return None
    return Plan(
        anchor,
        left,
        right,
        outer=tuple(axis for axis in rest if axis not in rows),
        m=tuple(rows),
        n=tuple(columns),
        k=tuple(summed),
        whole=_is_flat(b, columns, anchor),
    )


def _column_axes(
    anchor: Statement, spatial: Sequence[int], a: Access, b: Access
) -> list[int]:
    """The last axes of the result that only ``b`` depends on; none if it is not the last."""
    out = anchor.outputs[0]
    found: list[int] = []
    for axis in reversed(spatial):
        group = [axis, *found]
        is_flat = _is_flat(out, group, anchor) if found else out.stride_of(axis) == 1
        if axis in a.axes or axis not in b.axes or not is_flat:
            break
        found = group
    return found


def _axes_by_stride(form: Linear) -> list[int]:
    """The axes of an index, the one that steps farthest first."""
    return sorted(form.coefficients, key=lambda axis: -form.coefficients[axis])


def _sums_flat(anchor: Statement, a: Access, summed: Sequence[int]) -> bool:
    """Whether one index can run through the whole sum in ``a``."""
    if not all(axis in a.axes for axis in summed):
        return False
    return len(summed) == 1 or _is_flat(a, summed, anchor)


def _is_flat(access: Access, group: Sequence[int], statement: Statement) -> bool:
    """Whether the axes of ``group`` are the last dimensions, whole and in order."""
    forms = access.forms[-len(group) :]
    sizes = buffer_sizes(access.buffer)[-len(group) :]
    if [f.single_axis for f in forms] != list(group):
        return False
    return all(
        size is not None and size == statement.extents[axis]
        for size, axis in list(zip(sizes, group, strict=True))[1:]
    )


def _with_maps(
    plan: Plan, statements: Sequence[Statement], kernel: Kernel
) -> Plan | None:
    """The plan with the statements after the sum, if they run on its tiles."""
    produced = {plan.anchor.outputs[0].buffer: plan.anchor.outputs[0]}
    maps: list[Map] = []
    for statement in statements:
        following = _map(plan, statement, produced)
        if following is None:
            return None
        maps.append(following)
        produced[following.output.buffer] = following.output
    outputs = (plan.anchor.outputs[0], *(m.output for m in maps))
    *inner, last = (output.buffer in kernel.temporaries for output in outputs)
    if last or not all(inner):
        return None
    return replace(plan, maps=tuple(maps))


_LOOKS_AT_POINTS = frozenset({"memref.load", "scf.if", "linalg.index"})


def _map(
    plan: Plan, statement: Statement, produced: Mapping[ir.Value, Access]
) -> Map | None:
    """A statement as a map: it reads the tile in place, and others flat or not at all."""
    if statement.is_reduction or len(statement.outputs) != 1:
        return None
    if any(o.operation.name in _LOOKS_AT_POINTS for o in statement.body.operations):
        return None
    axes = _axis_map(statement, produced)
    if axes is None:
        return None
    *inputs, output = (_renamed(access, axes) for access in statement.accesses)
    if not all(
        access.buffer in produced or _reads_flat(plan, access)
        for access in (*inputs, output)
    ):
        return None
    return Map(statement, tuple(inputs), output)


def _axis_map(
    statement: Statement, produced: Mapping[ir.Value, Access]
) -> dict[int, Linear] | None:
    """What every axis of a map is in the anchor's axes, from how it reads the tile."""
    axes: dict[int, Linear] = {}
    for access in statement.inputs:
        if access.buffer not in produced:
            continue
        for ours, theirs in zip(
            access.forms, produced[access.buffer].forms, strict=True
        ):
            if ours.coefficients or theirs.coefficients:
                if ours.single_axis is None or theirs.constant:
                    return None
                if axes.setdefault(ours.single_axis, theirs) != theirs:
                    return None
    return axes if len(axes) == len(statement.kinds) else None


def _renamed(access: Access, axes: Mapping[int, Linear]) -> Access:
    """An access in the anchor's axes."""
    forms = []
    for form in access.forms:
        total = Linear({}, form.constant)
        for axis, factor in form.coefficients.items():
            total = total.plus(axes[axis], factor)
        forms.append(total)
    return Access(access.buffer, tuple(forms))


def _reads_flat(plan: Plan, access: Access) -> bool:
    """Whether the columns of a tile are side by side in an operand, or all one element."""
    depends = any(axis in access.axes for axis in plan.n)
    return not depends or _is_flat(access, plan.n, plan.anchor)
