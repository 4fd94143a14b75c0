"""Matching of contractions (matmuls, convolutions) with their epilogue."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.analysis.contraction import (
    AxisRoles,
    MultiplyAccumulate,
    converted_source,
    is_sum,
)
from relax_mlir.analysis.index_maps import IndexForm, TiledIndex
from relax_mlir.schedules.epilogue import (
    ElementwiseStatement,
    is_contiguous,
    match_epilogue,
)
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement
from relax_mlir.schedules.rule import (
    NotApplicable,
    check_one_output,
    check_statements,
)

__all__ = [
    "ContractionOperand",
    "ContractionPlan",
    "contraction_operands",
    "plan_contraction",
    "plan_contraction_statement",
]


@dataclass(frozen=True)
class ContractionOperand:
    """An operand of a contraction.

    Attributes:
        access: its buffer and index map.
        extend: the operation that extends elements to the accumulator type, or None.
        edges: implicitly zero-padded dimensions of the buffer.
    """

    access: Access
    extend: str | None = None
    edges: frozenset[int] = frozenset()

    @property
    def padded_axes(self) -> set[int]:
        """The axes that index padded dimensions."""
        forms = self.access.forms
        return {axis for d in self.edges for axis in forms[d].coefficients}

    @property
    def element(self) -> ir.Type:
        """Element type in memory."""
        return self.access.buffer.type.element_type


@dataclass(frozen=True)
class ContractionPlan:
    """A kernel matched as a contraction, C[outer, m, n] = sum_k A[...] * B[...].

    Attributes:
        anchor: the reduction; maps: elementwise statements of the epilogue.
        lhs, rhs: the LHS, which has the axes M, and the RHS, which has N.
        outer: batch axes; m, n, k: the axes of M, N and K.
        is_rhs_contiguous: whether N is contiguous in the RHS.
        panel_width: columns per panel (NR) of a prepacked RHS; 0 for other layouts.
        vnni_factor: consecutive k that a prepacked RHS interleaves per column; else 1.
    """

    anchor: Statement
    lhs: ContractionOperand
    rhs: ContractionOperand
    outer: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    is_rhs_contiguous: bool
    panel_width: int = 0
    vnni_factor: int = 1
    maps: tuple[ElementwiseStatement, ...] = ()

    @property
    def a(self) -> Access:
        """Access of the LHS."""
        return self.lhs.access

    @property
    def b(self) -> Access:
        """Access of the RHS."""
        return self.rhs.access

    @property
    def element(self) -> ir.Type:
        """Type of the accumulator."""
        return self.anchor.outputs[0].buffer.type.element_type


def plan_contraction(kernel: Kernel) -> ContractionPlan:
    """Match a kernel as a contraction with an epilogue.

    Raises:
        NotApplicable: it is not a contraction in f32, f64 or i32.
    """
    check_statements(kernel)
    anchor, *rest = kernel.statements
    plan = plan_contraction_statement(anchor)
    return replace(plan, maps=match_epilogue(anchor, plan.n, rest, kernel))


def plan_contraction_statement(anchor: Statement) -> ContractionPlan:
    """Match one statement as a contraction without an epilogue.

    Raises:
        NotApplicable: it is not a contraction in f32, f64 or i32.
    """
    operands = contraction_operands(anchor)
    if anchor.start is None:
        raise NotApplicable("its accumulator is not initialized with a constant")
    check_one_output(anchor)
    return _classify(anchor, operands)


_EXTENSIONS = (
    *("arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp"),
    "arith.extf",
)


def contraction_operands(
    anchor: Statement,
) -> tuple[ContractionOperand, ContractionOperand]:
    """The two operands of a statement that accumulates products.

    Raises:
        NotApplicable: it is not such a reduction in f32, f64 or i32.
    """
    if not anchor.is_reduction or not is_sum(anchor.yielded[0]):
        raise NotApplicable("its first statement is not a sum reduction")
    accumulator = list(anchor.body.arguments)[-1]
    step = MultiplyAccumulate.of(anchor.yielded[0])
    if step is None or step.accumulator != accumulator:
        raise NotApplicable("its terms are not products")
    if str(accumulator.type) not in ("f32", "f64", "i32"):
        raise NotApplicable(
            f"its accumulator is {accumulator.type}, not f32, f64 or i32"
        )
    first, second = (_operand(anchor, v) for v in step.operands)
    if first is None or second is None:
        raise NotApplicable("an operand of its multiplication is computed, not loaded")
    return first, second


def _operand(anchor: Statement, value: ir.Value) -> ContractionOperand | None:
    """The input that a value is, directly or through an extension; None for others."""
    source, conversions = converted_source(value)
    inputs = list(anchor.body.arguments)[: len(anchor.inputs)]
    extend = next(iter(conversions), None)
    is_extended = len(conversions) < 2 and extend in (None, *_EXTENSIONS)
    if source not in inputs or not is_extended:
        return None
    return ContractionOperand(anchor.inputs[inputs.index(source)], extend)


def _classify(
    anchor: Statement, operands: tuple[ContractionOperand, ContractionOperand]
) -> ContractionPlan:
    """Classify the axes; the RHS is the operand that has the contiguous axes N."""
    out = anchor.outputs[0]
    spatial = [axis for form in out.forms for axis in _axes_by_stride(form)]
    if len(spatial) != len(set(spatial)) or len(spatial) != anchor.kinds.count("S"):
        raise NotApplicable("its result is not indexed by each parallel axis once")
    for lhs, rhs in (operands, operands[::-1]):
        roles = AxisRoles.of(anchor.kinds, lhs.access.axes, rhs.access.axes)
        n = _column_axes(anchor, spatial, roles)
        if n:
            return _with_columns(anchor, lhs, rhs, roles, spatial, n)
    raise NotApplicable("neither operand alone has N, the last axis of the result")


def _with_columns(
    anchor: Statement,
    lhs: ContractionOperand,
    rhs: ContractionOperand,
    roles: AxisRoles,
    spatial: Sequence[int],
    n: Sequence[int],
) -> ContractionPlan:
    """The plan for given axes of N, which belong to ``rhs``."""
    a, b = lhs.access, rhs.access
    rest = [axis for axis in spatial if axis not in n]
    m = [axis for axis in rest if axis in roles.m]
    k = _by_dimension(a, [i for i, kind in enumerate(anchor.kinds) if kind == "R"])
    # Without M each element of the RHS is read once, as in a depthwise convolution, and
    # packing it costs more than it saves.
    if not m:
        raise NotApplicable("it has no M: all axes of the LHS are in the RHS")
    if not all(axis in a.axes for axis in k):
        raise NotApplicable("an axis of K is not one of both operands")
    return ContractionPlan(
        anchor,
        lhs,
        rhs,
        outer=tuple(axis for axis in rest if axis not in m),
        m=tuple(m),
        n=tuple(n),
        k=tuple(k),
        is_rhs_contiguous=is_contiguous(b, n, anchor),
        panel_width=_panel_width(b, n),
        vnni_factor=_packed_vnni_factor(b, k),
    )


def _panel_width(access: Access, n: Sequence[int]) -> int:
    """Panel width of a prepacked operand; 0 for other layouts."""
    tiled = [f for f in access.forms if isinstance(f, TiledIndex) and f.is_inner]
    return next((f.base for f in tiled if [f.axis] == list(n)), 0)


def _packed_vnni_factor(access: Access, k: Sequence[int]) -> int:
    """VNNI factor of a prepacked operand; 1 for other layouts."""
    tiled = [f for f in access.forms if isinstance(f, TiledIndex) and f.is_inner]
    return next((f.base for f in tiled if f.axis in k), 1)


def _column_axes(
    anchor: Statement, spatial: Sequence[int], roles: AxisRoles
) -> list[int]:
    """The trailing, contiguous axes of the result that belong to N."""
    out = anchor.outputs[0]
    n_axes: list[int] = []
    for axis in reversed(spatial):
        group = [axis, *n_axes]
        fits = is_contiguous(out, group, anchor) if n_axes else out.stride_of(axis) == 1
        if axis not in roles.n or not fits:
            break
        n_axes = group
    return n_axes


def _axes_by_stride(form: IndexForm) -> list[int]:
    """The axes of an index map result by decreasing coefficient."""
    return sorted(form.coefficients, key=lambda axis: -form.coefficients[axis])


def _by_dimension(access: Access, axes: Sequence[int]) -> list[int]:
    """Sort axes by the dimension of an operand that they index, outermost first."""
    dimensions = {
        axis: number
        for number, form in enumerate(access.forms)
        for axis in form.coefficients
    }
    return sorted(axes, key=lambda axis: dimensions.get(axis, -1))
