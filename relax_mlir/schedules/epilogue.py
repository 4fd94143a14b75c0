"""Epilogues: elementwise statements on accumulators while these are in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.analysis.index_maps import buffer_sizes
from relax_mlir.schedules.builder import IndexLike
from relax_mlir.schedules.kernel_view import Access, Kernel, Statement
from relax_mlir.schedules.rule import NotApplicable, check_one_output
from relax_mlir.schedules.vectorize_body import (
    BodyVectorizer,
    Relocate,
    load_vector,
    store_vector,
)
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = [
    "ElementwiseStatement",
    "Epilogue",
    "is_contiguous",
    "match_elementwise",
    "match_epilogue",
]


@dataclass(frozen=True)
class ElementwiseStatement:
    """An elementwise statement of an epilogue, with index maps in the anchor's axes."""

    statement: Statement
    inputs: tuple[Access, ...]
    output: Access


@dataclass(frozen=True)
class Epilogue:
    """The epilogue of a reduction, for vectors of its accumulators.

    Attributes:
        anchor: the reduction; maps: the elementwise statements after it.
        columns: the contiguous axes of the result; lanes: per vector.
        relocate: substitutes scratch for a buffer and its indices.
    """

    anchor: Statement
    maps: Sequence[ElementwiseStatement]
    columns: Sequence[int]
    lanes: int
    relocate: Relocate = lambda buffer, indices: (buffer, indices)

    @property
    def accesses(self) -> list[Access]:
        """Memory accesses: the output, and the inputs that are not in registers."""
        results = [self.anchor.outputs[0], *(m.output for m in self.maps)]
        kept = {access.buffer for access in results[:-1]}
        read = [access for m in self.maps for access in m.inputs]
        return [results[-1], *(r for r in read if r.buffer not in kept)]

    def store(
        self, value: ir.Value, at: Mapping[int, IndexLike], mask: ir.Value | None
    ) -> None:
        """Apply the epilogue to a vector of accumulators, and store the result.

        Args:
            at: point of the first lane, by axis; missing axes are 0.
            mask: of the lanes to store; None for all.
        """
        points = [at.get(i, 0) for i in range(len(self.anchor.kinds))]
        out = self.anchor.outputs[0]
        produced = {out.buffer: value}
        for statement in self.maps:
            value = self._apply(statement, points, produced, mask)
            out = statement.output
            produced[out.buffer] = value
        buffer, indices = self.relocate(out.buffer, out.indices(points))
        store_vector(value, buffer, indices, self.lanes, mask)

    def _apply(
        self,
        elementwise: ElementwiseStatement,
        points: Sequence[IndexLike],
        produced: Mapping[ir.Value, ir.Value],
        mask: ir.Value | None,
    ) -> ir.Value:
        values: dict[ir.Value, ir.Value] = {}
        body = elementwise.statement.body
        for argument, access in zip(body.arguments, elementwise.inputs, strict=False):
            if access.buffer in produced:
                values[argument] = produced[access.buffer]
                continue
            is_vector = any(axis in access.axes for axis in self.columns)
            buffer, indices = self.relocate(access.buffer, access.indices(points))
            values[argument] = load_vector(
                buffer, indices, self.lanes, int(is_vector), mask if is_vector else None
            )
        (result,) = BodyVectorizer(body, [], None, self.lanes).run(values)
        return result


def match_epilogue(
    anchor: Statement,
    columns: Sequence[int],
    statements: Sequence[Statement],
    kernel: Kernel,
) -> tuple[ElementwiseStatement, ...]:
    """Match the statements after a reduction as its epilogue.

    Args:
        anchor: the reduction; columns: the contiguous axes of its result.

    Raises:
        NotApplicable: a statement is not elementwise, or an intermediate result is an output.
    """
    produced = {anchor.outputs[0].buffer: anchor.outputs[0]}
    maps: list[ElementwiseStatement] = []
    for statement in statements:
        elementwise = match_elementwise(anchor, columns, statement, produced)
        maps.append(elementwise)
        produced[elementwise.output.buffer] = elementwise.output
    outputs = (anchor.outputs[0], *(m.output for m in maps))
    *inner, last = (output.buffer in kernel.temporaries for output in outputs)
    if last or not all(inner):
        raise NotApplicable("it has an output besides that of the last statement")
    return tuple(maps)


def match_elementwise(
    anchor: Statement,
    columns: Sequence[int],
    statement: Statement,
    produced: Mapping[ir.Value, Access],
) -> ElementwiseStatement:
    """Match an elementwise statement of an epilogue.

    Results of the tile must be read at the same point, other operands be contiguous or
    constant along the columns.

    Args:
        produced: earlier results of the tile, with index maps in the anchor's axes.

    Raises:
        NotApplicable: the statement does not match.
    """
    if statement.is_reduction:
        raise NotApplicable("a reduction follows the first one")
    check_one_output(statement)
    if statement.depends_on_indices:
        raise NotApplicable("an elementwise statement depends on its indices")
    axes = _axis_map(statement, produced)
    if axes is None or not all(access.is_affine for access in statement.accesses):
        raise NotApplicable("an elementwise statement permutes the result")
    *inputs, output = (a.substituted(axes.__getitem__) for a in statement.accesses)
    if not all(
        access.buffer in produced or _is_vector_or_scalar(anchor, columns, access)
        for access in (*inputs, output)
    ):
        raise NotApplicable("the columns are not contiguous in an elementwise operand")
    return ElementwiseStatement(statement, tuple(inputs), output)


def _axis_map(
    statement: Statement, produced: Mapping[ir.Value, Access]
) -> dict[int, AffineForm[int]] | None:
    """The axes of an elementwise statement in those of the anchor; None if it permutes.

    Derived from the index maps of the results that it reads.
    """
    axes: dict[int, AffineForm[int]] = {}
    for access in statement.inputs:
        if access.buffer not in produced:
            continue
        for read, written in zip(
            access.forms, produced[access.buffer].forms, strict=True
        ):
            if read.coefficients or written.coefficients:
                if read.single_variable is None or written.constant:
                    return None
                assert isinstance(written, AffineForm)  # results have linear index maps
                if axes.setdefault(read.single_variable, written) != written:
                    return None
    return axes if len(axes) == len(statement.kinds) else None


def _is_vector_or_scalar(
    anchor: Statement, columns: Sequence[int], access: Access
) -> bool:
    """Whether an operand is contiguous along the columns, or independent of them."""
    depends = any(axis in access.axes for axis in columns)
    return not depends or is_contiguous(access, columns, anchor)


def is_contiguous(access: Access, group: Sequence[int], statement: Statement) -> bool:
    """Whether the axes of ``group``, collapsed in order, are contiguous in an access."""
    stride = 1
    for axis in reversed(group):
        extent = statement.extents[axis]
        if access.stride_of(axis) != stride or not isinstance(extent, int):
            return _are_trailing_dims(access, group, statement)
        stride *= extent
    return True


def _are_trailing_dims(
    access: Access, group: Sequence[int], statement: Statement
) -> bool:
    """Whether the axes of ``group`` are the trailing dimensions, whole and in order."""
    forms = access.forms[-len(group) :]
    sizes = buffer_sizes(access.buffer)[-len(group) :]
    if [f.single_variable for f in forms] != list(group):
        return False
    return all(
        size is not None and size == statement.extents[axis]
        for size, axis in list(zip(sizes, group, strict=True))[1:]
    )
