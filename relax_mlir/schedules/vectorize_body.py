"""Clone the scalar body of a statement onto vectors.

The one place where scalar code becomes vector code: every rule calls it.
"""

from collections.abc import Callable, Mapping, Sequence

from mlir import ir

from relax_mlir.indexing import linear_in
from relax_mlir.schedules.emit import broadcast, constant, index, op, vector_type
from relax_mlir.traversal import own_operations, walk

__all__ = ["BodyCloner", "NotVectorizableError", "Relocate", "load", "store"]

# A buffer and indices in it -> the buffer that stands in for it, and the indices there.
Relocate = Callable[[ir.Value, list[ir.Value]], tuple[ir.Value, list[ir.Value]]]


class NotVectorizableError(Exception):
    """A body reads or branches in a way that differs from lane to lane."""


def load(
    buffer: ir.Value,
    where: Sequence[ir.Value],
    lanes: int,
    stride: int,
    mask: ir.Value | None,
) -> ir.Value:
    """Read ``lanes`` neighbours, or one element for all lanes if ``stride`` is 0."""
    element = buffer.type.element_type
    if lanes == 1 or stride == 0:
        return op("memref.load", element, buffer, *where)
    if stride == 2 and mask is None:
        return _load_every_second(buffer, where, lanes)
    if stride != 1:
        return _load_strided(buffer, where, lanes, stride, mask)
    type_ = vector_type(lanes, element)
    if mask is None:
        return op("vector.load", type_, buffer, *where)
    zero = broadcast(constant(0, element), lanes)
    return op("vector.maskedload", type_, buffer, *where, mask, zero)


def _load_every_second(
    buffer: ir.Value, where: Sequence[ir.Value], lanes: int
) -> ir.Value:
    """Two neighbouring vectors, of which the even lanes are kept."""
    element, i1 = buffer.type.element_type, ir.IntegerType.get_signless(1)
    type_ = vector_type(lanes, element)
    low = op("vector.load", type_, buffer, *where)
    # The last element of the second vector is not wanted, and may not exist.
    *leading, last = where
    second = op("arith.addi", ir.IndexType.get(), last, index(lanes))
    wanted = [ir.IntegerAttr.get(i1, lane < lanes - 1) for lane in range(lanes)]
    dense = ir.DenseElementsAttr.get(wanted, vector_type(lanes, i1))
    mask = op("arith.constant", vector_type(lanes, i1), value=dense)
    zero = broadcast(constant(0, element), lanes)
    high = op("vector.maskedload", type_, buffer, *leading, second, mask, zero)
    even = ir.DenseI64ArrayAttr.get(range(0, 2 * lanes, 2))
    return op("vector.shuffle", type_, low, high, mask=even)


def _load_strided(
    buffer: ir.Value,
    where: Sequence[ir.Value],
    lanes: int,
    stride: int,
    mask: ir.Value | None,
) -> ir.Value:
    element, index_type = buffer.type.element_type, ir.IndexType.get()
    offsets = ir.DenseElementsAttr.get(
        [ir.IntegerAttr.get(index_type, lane * stride) for lane in range(lanes)],
        vector_type(lanes, index_type),
    )
    steps = op("arith.constant", vector_type(lanes, index_type), value=offsets)
    i1 = ir.IntegerType.get_signless(1)
    mask = mask if mask is not None else broadcast(constant(1, i1), lanes)
    zero = broadcast(constant(0, element), lanes)
    return op(
        "vector.gather", vector_type(lanes, element), buffer, *where, steps, mask, zero
    )


def store(
    value: ir.Value,
    buffer: ir.Value,
    where: Sequence[ir.Value],
    lanes: int,
    mask: ir.Value | None,
) -> None:
    """Write ``lanes`` neighbours."""
    if lanes == 1:
        op("memref.store", None, value, buffer, *where)
        return
    if not isinstance(value.type, ir.VectorType):
        value = broadcast(value, lanes)
    if mask is None:
        op("vector.store", None, value, buffer, *where)
    else:
        op("vector.maskedstore", None, buffer, *where, mask, value)


class BodyCloner:
    """Clones a body for ``lanes`` neighbouring points along one axis.

    Values that are the same in all lanes stay scalar. Index values keep the value of
    lane 0 and the step from lane to lane.

    Args:
        body: the block of a linalg operation.
        points: index value per axis, of lane 0.
        axis: the vector axis; None for one lane.
        lanes: how many points at once.
        mask: which lanes are real, or None for all.
        relocate: replaces a captured buffer by the one to read instead.
    """

    def __init__(
        self,
        body: ir.Block,
        points: Sequence[ir.Value],
        axis: int | None,
        lanes: int,
        mask: ir.Value | None = None,
        relocate: Relocate = lambda b, i: (b, i),
    ) -> None:
        self.body, self.points, self.axis, self.lanes = body, points, axis, lanes
        self.mask, self.relocate = mask, relocate
        self.values: dict[ir.Value, ir.Value] = {}
        self._lanes_disagree = False
        self.axes: dict[ir.Value, int] = {
            o.results[0]: o.attributes["dim"].value
            for o in walk(body)
            if o.operation.name == "linalg.index"
        }

    def run(self, arguments: Mapping[ir.Value, ir.Value]) -> list[ir.Value]:
        """Clone the body; the values that it yields.

        Args:
            arguments: what its arguments are, and other values of it that are known.
        """
        self.values.update(arguments)
        for operation in own_operations(self.body):
            if operation.operation.name == "linalg.yield":
                return [self._get(v) for v in operation.operands]
            if operation.results[0] not in arguments:
                self._clone(operation)
        raise ValueError("body has no terminator")

    def _get(self, value: ir.Value) -> ir.Value:
        return self.values.get(value, value)

    def _clone(self, operation: ir.OpView) -> None:
        name = operation.operation.name
        if name == "linalg.index":
            self.values[operation.results[0]] = self.points[
                operation.attributes["dim"].value
            ]
        elif name == "memref.load":
            self.values[operation.results[0]] = self._clone_load(operation, self.mask)
        elif name == "scf.if":
            self._clone_if(operation)
        elif isinstance(operation.results[0].type, ir.IndexType):
            self._clone_elementwise(operation, scalar=True)
        else:
            self._clone_elementwise(operation, scalar=False)

    def _clone_elementwise(self, operation: ir.OpView, scalar: bool) -> None:
        operands = [self._get(v) for v in operation.operands]
        if not scalar:
            operands = [self._lanes_of(v, self._get(v)) for v in operation.operands]
        is_vector = any(isinstance(v.type, ir.VectorType) for v in operands)
        type_ = operation.results[0].type
        if is_vector:
            operands = [
                v if isinstance(v.type, ir.VectorType) else broadcast(v, self.lanes)
                for v in operands
            ]
            type_ = vector_type(self.lanes, type_)
        self.values[operation.results[0]] = self.create(operation, type_, operands)

    def create(
        self, operation: ir.OpView, type_: ir.Type, operands: Sequence[ir.Value]
    ) -> ir.Value:
        """An operation of the body on other operands, which may be vectors."""
        attributes = {a: operation.attributes[a] for a in operation.attributes}
        created = ir.Operation.create(
            operation.operation.name,
            results=[type_],
            operands=operands,
            attributes=attributes,
        )
        return created.results[0]

    def _lanes_of(self, original: ir.Value, scalar: ir.Value) -> ir.Value:
        """An index used as a number: all its lanes, if they differ."""
        if not isinstance(original.type, ir.IndexType) or self.lanes == 1:
            return scalar
        step = self._step(original)
        if step == 0:
            return scalar
        type_ = vector_type(self.lanes, ir.IndexType.get())
        offsets = op("vector.step", type_)
        if step != 1:
            offsets = op(
                "arith.muli", type_, offsets, broadcast(index(step), self.lanes)
            )
        return op("arith.addi", type_, broadcast(scalar, self.lanes), offsets)

    def _step(self, value: ir.Value) -> int:
        """How much an index grows from lane to lane.

        Raises:
            NotVectorizableError: not by a constant.
        """
        if self.axis is None or self.lanes == 1:
            return 0
        form = linear_in(value, self.axes)
        if form is not None:
            return form.coefficients.get(self.axis, 0)
        if self._depends_on_lane(value):
            raise NotVectorizableError
        return 0

    def _depends_on_lane(self, value: ir.Value) -> bool:
        if value in self.axes:
            return self.axes[value] == self.axis
        if value in self.values and isinstance(self.values[value].type, ir.VectorType):
            return True
        owner = value.owner
        if isinstance(owner, ir.Block) or value not in self.values:
            return False
        form = linear_in(value, self.axes)
        if form is not None:
            return self.axis in form.coefficients
        return any(self._depends_on_lane(o) for o in owner.operands)

    def _clone_load(self, operation: ir.OpView, mask: ir.Value | None) -> ir.Value:
        indices = list(operation.operands)[1:]
        steps = [self._step(i) for i in indices]
        where = [self._get(i) for i in indices]
        if any(isinstance(w.type, ir.VectorType) for w in where):
            raise NotVectorizableError
        stride = self._stride(operation.operands[0], steps)
        if stride == 0 and self.lanes > 1 and self._lanes_disagree:
            raise NotVectorizableError  # no lane may want it, and the address be outside
        buffer, where = self.relocate(operation.operands[0], where)
        return load(buffer, where, self.lanes, stride, mask)

    @staticmethod
    def _stride(buffer: ir.Value, steps: Sequence[int]) -> int:
        strides, _ = buffer.type.get_strides_and_offset()
        total = 0
        for step, stride in zip(steps, strides, strict=True):
            if step and (stride < 0 or step < 0):
                raise NotVectorizableError
            total += step * stride if step else 0
        return total

    def _clone_if(self, operation: ir.OpView) -> None:
        condition = self._get(operation.operands[0])
        if isinstance(condition.type, ir.VectorType):
            self._clone_select(operation, condition)
            return
        # Lanes agree: keep the branch. Whether a side yields vectors is known only after
        # cloning it, so both do.
        is_wide = self.lanes > 1
        types = [
            vector_type(self.lanes, r.type) if is_wide else r.type
            for r in operation.results
        ]
        created = ir.Operation.create(
            "scf.if", results=types, operands=[condition], regions=2
        )
        for region, source in zip(created.regions, operation.regions, strict=True):
            block = ir.Block.create_at_start(region, [])
            with ir.InsertionPoint(block):
                values = self._clone_branch(source, self.mask)
                values = [
                    broadcast(v, self.lanes)
                    if is_wide and not isinstance(v.type, ir.VectorType)
                    else v
                    for v in values
                ]
                ir.Operation.create("scf.yield", operands=values)
        self.values.update(zip(operation.results, created.results, strict=True))

    def _clone_branch(self, region: ir.Region, mask: ir.Value | None) -> list[ir.Value]:
        outer, self.mask = self.mask, mask
        try:
            for inner in own_operations(region.blocks[0]):
                if inner.operation.name == "scf.yield":
                    return [self._get(v) for v in inner.operands]
                self._clone(inner)
        finally:
            self.mask = outer
        raise ValueError("branch has no terminator")

    def _clone_select(self, operation: ir.OpView, condition: ir.Value) -> None:
        """Lanes disagree: do both sides, reading under the mask, and select."""
        type_ = condition.type
        ones = broadcast(constant(1, ir.IntegerType.get_signless(1)), self.lanes)
        negated = op("arith.xori", type_, condition, ones)
        sides = []
        outer, self._lanes_disagree = self._lanes_disagree, True
        for region, mask in zip(operation.regions, (condition, negated), strict=True):
            both = (
                mask if self.mask is None else op("arith.andi", type_, mask, self.mask)
            )
            sides.append(self._clone_branch(region, both))
        self._lanes_disagree = outer
        for result, then, other in zip(operation.results, *sides, strict=True):
            then, other = (
                v if isinstance(v.type, ir.VectorType) else broadcast(v, self.lanes)
                for v in (then, other)
            )
            self.values[result] = op("arith.select", then.type, condition, then, other)
