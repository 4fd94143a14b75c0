"""Matching of attention kernels: a matmul, row-wise statements, and a second matmul."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from relax_mlir.analysis.index_maps import IndexForm, buffer_sizes
from relax_mlir.ir.traversal import own_operations
from relax_mlir.schedules.builder import IndexLike
from relax_mlir.schedules.epilogue import (
    ElementwiseStatement,
    match_elementwise,
    match_epilogue,
)
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement
from relax_mlir.schedules.match_contraction import (
    ContractionPlan,
    plan_contraction_statement,
)
from relax_mlir.schedules.rule import NotApplicable, check_one_output, check_statements
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "AttentionPlan",
    "match_softmax_exponentials",
    "plan_attention",
    "row_scaled_input",
    "with_deferred_scaling",
    "writer_of",
]


@dataclass(frozen=True)
class AttentionPlan:
    """A kernel matched as attention.

    Temporaries have the dimensions of the scores: [heads..., queries, keys or 1].

    Attributes:
        scores: the first matmul with its epilogue; N is the keys, the last axis of M the
            queries. Other axes of M are heads that share keys (grouped-query attention).
        result: output of its epilogue, in the axes of the matmul.
        rows: the row-wise statements between the matmuls, such as a softmax.
        values: the second matmul, of the weights and the values, with its epilogue.
        extents: of heads and queries.
    """

    scores: ContractionPlan
    result: Access
    rows: tuple[Statement, ...]
    values: ContractionPlan
    extents: tuple[IndexLike, ...]

    @property
    def depth(self) -> int:
        """Number of head and query dimensions."""
        return len(self.extents)

    @property
    def keys(self) -> IndexLike:
        """Number of keys, the length of a row of scores."""
        return self.scores.anchor.extents[self.scores.n[0]]

    @property
    def temporaries(self) -> list[ir.Value]:
        """The buffers between the matmuls, in the order in which they are written."""
        return [self.result.buffer, *(s.outputs[0].buffer for s in self.rows)]

    @property
    def score_axes(self) -> list[int | None]:
        """The axes of heads and queries in the first matmul; None for dimensions of size 1."""
        return _leading_axes(self.result, self.depth)

    @property
    def value_axes(self) -> list[int | None]:
        """The axes of heads and queries in the second matmul; None for dimensions of size 1."""
        return _leading_axes(self.values.a, self.depth)


def plan_attention(kernel: Kernel) -> AttentionPlan:
    """Match a kernel as attention.

    Raises:
        NotApplicable: it is not attention, or its rows depend on each other.
    """
    check_statements(kernel)
    first, *rest = kernel.statements
    scores = plan_contraction_statement(first)
    number = _second_matmul(rest)
    between, second, after = rest[:number], rest[number], rest[number + 1 :]
    values = plan_contraction_statement(second)
    values = replace(values, maps=match_epilogue(second, values.n, after, kernel))
    maps, rows = _leading_maps(scores, between, [second, *after])
    if not any(statement.is_reduction for statement in rows):
        raise NotApplicable("it has no row reduction between its matmuls")
    result = maps[-1].output if maps else first.outputs[0]
    scores = replace(scores, maps=maps)
    _check_scores(scores, result)
    axes = _leading_axes(result, len(result.forms) - 1)
    extents = tuple(1 if axis is None else first.extents[axis] for axis in axes)
    values = _rows_last(values, len(extents))
    plan = AttentionPlan(scores, result, rows, values, extents)
    _check_operands(plan, kernel)
    for statement in rows:
        _check_row(plan, statement, kernel)
    _check_values(plan, kernel)
    return plan


def _second_matmul(statements: Sequence[Statement]) -> int:
    """Position of the only contraction among the statements after the first."""
    matmuls = [n for n, s in enumerate(statements) if _is_contraction(s)]
    if len(matmuls) != 1:
        raise NotApplicable(f"{len(matmuls)} matmuls follow the first, not one")
    return matmuls[0]


def _is_contraction(statement: Statement) -> bool:
    try:
        plan_contraction_statement(statement)
    except NotApplicable:
        return False
    return True


def _leading_maps(
    scores: ContractionPlan, between: Sequence[Statement], later: Sequence[Statement]
) -> tuple[tuple[ElementwiseStatement, ...], tuple[Statement, ...]]:
    """Split the statements into the epilogue of the first matmul and those after it."""
    produced = scores.anchor.outputs[0]
    maps: list[ElementwiseStatement] = []
    for number, statement in enumerate(between):
        known = {produced.buffer: produced}
        try:
            elementwise = match_elementwise(scores.anchor, scores.n, statement, known)
        except NotApplicable:
            break
        rest = [*between[number + 1 :], *later]
        if any(a.buffer == produced.buffer for s in rest for a in s.inputs):
            break
        maps.append(elementwise)
        produced = elementwise.output
    return tuple(maps), tuple(between[len(maps) :])


def _rows_last(values: ContractionPlan, depth: int) -> ContractionPlan:
    """Move the queries of the second matmul behind the heads that share values."""
    *_, row = _leading_axes(values.a, depth)
    others = tuple(axis for axis in values.m if axis != row)
    is_row = row is not None and len(others) < len(values.m)
    return replace(values, m=(*others, row)) if is_row else values


def _check_scores(scores: ContractionPlan, result: Access) -> None:
    """Check that scores are written as [heads..., queries, keys]."""
    *_, row, key = (form.single_variable for form in result.forms)
    *shared, last = scores.m
    if row != last or (key,) != scores.n:
        raise NotApplicable("its scores are not row-major in queries and keys")
    heads, extents = _leading_axes(result, len(result.forms) - 2), scores.anchor.extents
    others = (axis for axis in (*scores.outer, *shared) if extents[axis] != 1)
    if any(axis not in heads for axis in others):
        raise NotApplicable("its scores have axes that are not heads")


def _check_operands(plan: AttentionPlan, kernel: Kernel) -> None:
    """Check that queries, keys and values are unpacked arguments of f32 or f64."""
    for matmul in (plan.scores, plan.values):
        if str(matmul.element) not in ("f32", "f64"):
            raise NotApplicable(
                f"it accumulates in {matmul.element}, not in f32 or f64"
            )
        if matmul.panel_width or matmul.vnni_factor != 1:
            raise NotApplicable("its keys or values are packed in panels")
    if plan.values.a.buffer not in plan.temporaries:
        raise NotApplicable("the second matmul does not read results of the first")
    read = (plan.scores.a, plan.scores.b, plan.values.b)
    if any(access.buffer in kernel.temporaries for access in read):
        raise NotApplicable("its queries, keys or values are computed in the kernel")


def _check_row(plan: AttentionPlan, statement: Statement, kernel: Kernel) -> None:
    """Check that a statement between the matmuls works on single rows of scores."""
    check_one_output(statement)
    heads = statement.extents[: plan.depth]
    if "R" in statement.kinds[: plan.depth] or heads != plan.extents:
        raise NotApplicable("a statement between its matmuls is not row-wise")
    if statement.outputs[0].buffer not in kernel.temporaries:
        raise NotApplicable("it has an output between its matmuls")
    for access in statement.accesses:
        if access.buffer in kernel.temporaries:
            _check_in_row(plan, access, range(plan.depth))
    if statement.loaded_buffers.intersection(kernel.temporaries):
        raise NotApplicable("a statement between its matmuls has computed indices")


def _check_values(plan: AttentionPlan, kernel: Kernel) -> None:
    """Check that the second matmul contracts whole rows of scores."""
    values, axes = plan.values, plan.value_axes
    extents = values.anchor.extents
    key = values.a.forms[-1].single_variable
    *shared, last = values.m
    is_whole = last == axes[-1] and values.k == (key,)
    if len(axes) != plan.depth or len(values.a.forms) != plan.depth + 1 or not is_whole:
        raise NotApplicable("its second matmul does not contract whole rows of scores")
    if any(a not in axes and extents[a] != 1 for a in (*values.outer, *shared)):
        raise NotApplicable("its values have axes that are not heads")
    sizes = [1 if axis is None else extents[axis] for axis in axes]
    if (*sizes, extents[values.k[0]]) != (*plan.extents, plan.keys):
        raise NotApplicable("its second matmul reads a slice of the scores")
    inside = {values.anchor.outputs[0].buffer, *(m.output.buffer for m in values.maps)}
    for access in (a for m in values.maps for a in m.inputs):
        if access.buffer in kernel.temporaries and access.buffer not in inside:
            _check_in_row(plan, access, axes)


def _check_in_row(
    plan: AttentionPlan, access: Access, axes: Sequence[int | None]
) -> None:
    """Check that an access to a temporary stays in the row of its statement."""
    sizes = buffer_sizes(access.buffer)
    leading, rest = access.forms[: len(axes)], access.forms[len(axes) :]
    for axis, form, size in zip(axes, leading, sizes, strict=False):
        if form.single_variable != axis and not _is_unit_dim(form, size):
            raise NotApplicable("a statement reads a row of scores other than its own")
    is_row = len(leading) == len(axes) and len(rest) <= 1
    if not is_row or any(size not in (1, plan.keys) for size in sizes[len(axes) :]):
        raise NotApplicable(
            "the dimensions of a temporary differ from those of the scores"
        )
    if any(form.coefficients.keys() & set(axes) for form in rest):
        raise NotApplicable("the key index of a statement depends on the row")


def _is_unit_dim(form: IndexForm, size: IndexLike | None) -> bool:
    return form == AffineForm({}) and size == 1


def _leading_axes(access: Access, depth: int) -> list[int | None]:
    """The axes that index the leading dimensions; None for dimensions of size 1.

    Raises:
        NotApplicable: a dimension of size > 1 is not indexed by a single axis.
    """
    axes: list[int | None] = []
    sizes = buffer_sizes(access.buffer)
    for form, size in zip(access.forms[:depth], sizes, strict=False):
        if form.single_variable is None and not _is_unit_dim(form, size):
            raise NotApplicable(
                "a temporary is not indexed by the axes of heads and rows"
            )
        axes.append(form.single_variable)
    return axes


def with_deferred_scaling(plan: AttentionPlan) -> AttentionPlan:
    """Move the row scaling of a softmax into the epilogue of the second matmul.

    There it scales one accumulator per value column instead of one score per key, and is
    rounded once. It needs at least one key (else 1 / sum is infinite, and the result NaN)
    and unscaled weights of at most 1, as in a softmax: larger ones could overflow.
    """
    if not isinstance(plan.keys, int):
        return plan
    *rows, last = plan.rows or (None,)
    if last is None or not plan.values.anchor.starts_from_zero:
        return plan
    number = row_scaled_input(last, plan.depth)
    if number is None or last.outputs[0].buffer != plan.values.a.buffer:
        return plan
    if match_softmax_exponentials(last.inputs[number].buffer, rows) is None:
        return plan
    read = [a.buffer for m in plan.values.maps for a in m.inputs]
    if last.outputs[0].buffer in read:
        return plan
    out = plan.values.anchor.outputs[0]
    renamed = [
        out if n == number else _in_axes(access, plan.value_axes)
        for n, access in enumerate(last.inputs)
    ]
    scale = ElementwiseStatement(last, tuple(renamed), out)
    source = Access(last.inputs[number].buffer, plan.values.a.forms)
    values = replace(
        plan.values,
        lhs=replace(plan.values.lhs, access=source),
        maps=(scale, *plan.values.maps),
    )
    return replace(plan, rows=tuple(rows), values=values)


def match_softmax_exponentials(
    buffer: ir.Value, rows: Sequence[Statement]
) -> tuple[Statement, Statement] | None:
    """Match the statements of a buffer as exp(x - max x) of rows, as in a softmax.

    Returns:
        The statement of the exponentials, and that of the row maximum; None for other
        buffers, whose elements may exceed 1.
    """
    exponentials = writer_of(buffer, rows)
    if exponentials is None:
        return None
    exp = exponentials.yielded[0].owner
    if isinstance(exp, ir.Block) or exp.name != "math.exp":
        return None
    difference = exp.operands[0].owner
    if isinstance(difference, ir.Block) or difference.name != "arith.subf":
        return None
    inputs = list(exponentials.body.arguments)[: len(exponentials.inputs)]
    score, maximum = map(_strip_extension, difference.operands)
    if score not in inputs or maximum not in inputs:
        return None
    row = exponentials.inputs[inputs.index(score)].buffer
    reduction = writer_of(exponentials.inputs[inputs.index(maximum)].buffer, rows)
    if reduction is None or [a.buffer for a in reduction.inputs] != [row]:
        return None
    combiners = ("arith.maximumf", "arith.maxnumf")
    combined = reduction.yielded[0].owner
    is_maximum = not isinstance(combined, ir.Block) and combined.name in combiners
    return (exponentials, reduction) if is_maximum else None


def _strip_extension(value: ir.Value) -> ir.Value:
    """The operand of an ``arith.extf``; other values as they are."""
    owner = value.owner
    is_wide = not isinstance(owner, ir.Block) and owner.name == "arith.extf"
    return owner.operands[0] if is_wide else value


def writer_of(buffer: ir.Value, rows: Sequence[Statement]) -> Statement | None:
    """The statement that writes a buffer."""
    return next((s for s in rows if s.outputs[0].buffer == buffer), None)


def row_scaled_input(statement: Statement, depth: int) -> int | None:
    """The number of the input that a statement multiplies or divides by a scalar per row.

    None for other statements, and if the index map of the scalar is not affine.

    Args:
        statement: an elementwise statement; its axes from ``depth`` on are keys.
    """
    operation, *rest = own_operations(statement.body)
    out = statement.outputs[0]
    if len(rest) != 1 or len(statement.inputs) != 2 or len(out.forms) != depth + 1:
        return None
    inputs = list(statement.body.arguments)[:2]
    name, operands = operation.operation.name, list(operation.operands)
    if name not in ("arith.mulf", "arith.divf") or set(operands) != set(inputs):
        return None
    for number in (0,) if name == "arith.divf" else (0, 1):
        read = statement.inputs[inputs.index(operands[number])]
        other = statement.inputs[inputs.index(operands[1 - number])]
        if not other.is_affine or any(axis >= depth for axis in other.axes):
            continue
        if read.forms == out.forms and read.buffer.type == out.buffer.type:
            return inputs.index(operands[number])
    return None


def _in_axes(access: Access, axes: Sequence[int | None]) -> Access:
    """An access of a row-wise statement in the axes of the second matmul."""
    return access.substituted(
        lambda axis: AffineForm({} if (new := axes[axis]) is None else {new: 1})
    )
