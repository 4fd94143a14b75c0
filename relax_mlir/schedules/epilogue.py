"""What follows a sum and runs on its results while they are in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from relax_mlir.indexing import Linear, buffer_sizes
from relax_mlir.schedules.emit import Extent
from relax_mlir.schedules.nest import Access, Kernel, Statement
from relax_mlir.schedules.rule import Refusal, check_one_output
from relax_mlir.schedules.vectorize_body import BodyCloner, Relocate, load, store

__all__ = ["Epilogue", "Map", "is_flat", "map_after", "maps_after"]


@dataclass(frozen=True)
class Map:
    """A statement that runs on each result of the sum, its accesses in the sum's axes."""

    statement: Statement
    inputs: tuple[Access, ...]
    output: Access


@dataclass(frozen=True)
class Epilogue:
    """The maps after a sum, for vectors of its results.

    Attributes:
        anchor: the statement that sums; maps: what follows.
        columns: the axes that lie side by side in the result; lanes: of a vector.
        relocate: replaces a buffer and the indices in it by what stands in for them.
    """

    anchor: Statement
    maps: Sequence[Map]
    columns: Sequence[int]
    lanes: int
    relocate: Relocate = lambda buffer, where: (buffer, where)

    @property
    def accesses(self) -> list[Access]:
        """What is read and written, but for results that stay in registers."""
        results = [self.anchor.outputs[0], *(m.output for m in self.maps)]
        kept = {access.buffer for access in results[:-1]}
        read = [access for m in self.maps for access in m.inputs]
        return [results[-1], *(r for r in read if r.buffer not in kept)]

    def store(
        self, value: ir.Value, at: Mapping[int, Extent], mask: ir.Value | None
    ) -> None:
        """Run the maps on one vector of results, and write what comes out.

        Args:
            at: the point of its first lane; axes that are missing are 0.
        """
        points = [at.get(i, 0) for i in range(len(self.anchor.kinds))]
        out = self.anchor.outputs[0]
        produced = {out.buffer: value}
        for following in self.maps:
            value = self._map(following, points, produced, mask)
            out = following.output
            produced[out.buffer] = value
        buffer, where = self.relocate(out.buffer, out.indices(points))
        store(value, buffer, where, self.lanes, mask)

    def _map(
        self,
        following: Map,
        points: Sequence[Extent],
        produced: Mapping[ir.Value, ir.Value],
        mask: ir.Value | None,
    ) -> ir.Value:
        values: dict[ir.Value, ir.Value] = {}
        body = following.statement.body
        for argument, access in zip(body.arguments, following.inputs, strict=False):
            if access.buffer in produced:
                values[argument] = produced[access.buffer]
                continue
            is_row = any(axis in access.axes for axis in self.columns)
            buffer, where = self.relocate(access.buffer, access.indices(points))
            values[argument] = load(
                buffer, where, self.lanes, int(is_row), mask if is_row else None
            )
        (result,) = BodyCloner(body, [], None, self.lanes).run(values)
        return result


def maps_after(
    anchor: Statement,
    columns: Sequence[int],
    statements: Sequence[Statement],
    kernel: Kernel,
) -> tuple[Map, ...]:
    """The statements after a sum as maps.

    Raises:
        Refusal: one is none, or more than the last result is kept.
    """
    produced = {anchor.outputs[0].buffer: anchor.outputs[0]}
    maps: list[Map] = []
    for statement in statements:
        following = map_after(anchor, columns, statement, produced)
        maps.append(following)
        produced[following.output.buffer] = following.output
    outputs = (anchor.outputs[0], *(m.output for m in maps))
    *inner, last = (output.buffer in kernel.temporaries for output in outputs)
    if last or not all(inner):
        raise Refusal("a result is kept beside that of the last statement")
    return tuple(maps)


def map_after(
    anchor: Statement,
    columns: Sequence[int],
    statement: Statement,
    produced: Mapping[ir.Value, Access],
) -> Map:
    """A statement as a map: it reads the tile in place, and others flat or not at all.

    Args:
        produced: what it may read of the sum and the maps before it, in the sum's axes.

    Raises:
        Refusal: it is none.
    """
    if statement.is_reduction:
        raise Refusal("a sum follows the first")
    check_one_output(statement)
    if statement.looks_at_points:
        raise Refusal("what follows the sum depends on where it is")
    forms = [form for access in statement.accesses for form in access.forms]
    axes = _axis_map(statement, produced)
    if axes is None or not all(isinstance(form, Linear) for form in forms):
        raise Refusal("what follows the sum does not read its results in place")
    *inputs, output = (_renamed(access, axes) for access in statement.accesses)
    if not all(
        access.buffer in produced or _reads_flat(anchor, columns, access)
        for access in (*inputs, output)
    ):
        raise Refusal("the columns do not lie side by side in what follows the sum")
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
                assert isinstance(theirs, Linear)  # results are written in order
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


def _reads_flat(anchor: Statement, columns: Sequence[int], access: Access) -> bool:
    """Whether the columns of a tile are side by side in an operand, or all one element."""
    depends = any(axis in access.axes for axis in columns)
    return not depends or is_flat(access, columns, anchor)


def is_flat(access: Access, group: Sequence[int], statement: Statement) -> bool:
    """Whether neighbours along the axes of ``group``, in order, lie side by side."""
    step = 1
    for axis in reversed(group):
        extent = statement.extents[axis]
        if access.stride_of(axis) != step or not isinstance(extent, int):
            return _is_last(access, group, statement)
        step *= extent
    return True


def _is_last(access: Access, group: Sequence[int], statement: Statement) -> bool:
    """Whether the axes of ``group`` are the last dimensions, whole and in order."""
    forms = access.forms[-len(group) :]
    sizes = buffer_sizes(access.buffer)[-len(group) :]
    if [f.single_axis for f in forms] != list(group):
        return False
    return all(
        size is not None and size == statement.extents[axis]
        for size, axis in list(zip(sizes, group, strict=True))[1:]
    )
