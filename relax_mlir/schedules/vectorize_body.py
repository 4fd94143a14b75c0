"""Vectorization of the scalar body of a linalg statement; used by all schedule rules."""

from collections.abc import Callable, Mapping, Sequence

from mlir import ir

from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.schedules.builder import broadcast, constant, index, op, vector_type

__all__ = [
    "BodyVectorizer",
    "NotVectorizableError",
    "Relocate",
    "load_vector",
    "store_vector",
]

# Maps a buffer and indices to the buffer that replaces it, and the indices in that.
Relocate = Callable[[ir.Value, list[ir.Value]], tuple[ir.Value, list[ir.Value]]]


class NotVectorizableError(Exception):
    """A load or a branch of a body diverges between lanes in an unsupported way."""


def load_vector(
    buffer: ir.Value,
    indices: Sequence[ir.Value],
    lanes: int,
    stride: int,
    mask: ir.Value | None,
) -> ir.Value:
    """Load ``lanes`` elements a stride apart; one scalar if ``stride`` is 0."""
    element = buffer.type.element_type
    if lanes == 1 or stride == 0:
        return op("memref.load", element, buffer, *indices)
    if stride == 2 and mask is None:
        return _load_every_second(buffer, indices, lanes)
    if stride != 1:
        return _load_strided(buffer, indices, lanes, stride, mask)
    type_ = vector_type(lanes, element)
    if mask is None:
        return op("vector.load", type_, buffer, *indices)
    zero = broadcast(constant(0, element), lanes)
    return op("vector.maskedload", type_, buffer, *indices, mask, zero)


def _load_every_second(
    buffer: ir.Value, indices: Sequence[ir.Value], lanes: int
) -> ir.Value:
    """Load of stride 2: two contiguous loads, and a shuffle of the even lanes."""
    element, i1 = buffer.type.element_type, ir.IntegerType.get_signless(1)
    type_ = vector_type(lanes, element)
    low = op("vector.load", type_, buffer, *indices)
    # The last element of the second vector is unused and may be out of bounds.
    *leading, last = indices
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
    indices: Sequence[ir.Value],
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
        "vector.gather",
        vector_type(lanes, element),
        buffer,
        *indices,
        steps,
        mask,
        zero,
    )


def store_vector(
    value: ir.Value,
    buffer: ir.Value,
    indices: Sequence[ir.Value],
    lanes: int,
    mask: ir.Value | None,
) -> None:
    """Store ``lanes`` contiguous elements; scalars are broadcast."""
    if lanes == 1:
        op("memref.store", None, value, buffer, *indices)
        return
    if not isinstance(value.type, ir.VectorType):
        value = broadcast(value, lanes)
    if mask is None:
        op("vector.store", None, value, buffer, *indices)
    else:
        op("vector.maskedstore", None, buffer, *indices, mask, value)


class BodyVectorizer:
    """Clones a body for ``lanes`` consecutive points along one axis.

    Uniform values stay scalar. Index values are represented by their value in lane 0 and
    a constant step between lanes.

    Args:
        body: block of a linalg operation.
        points: index of lane 0 along each axis.
        axis: the vector axis; None for one lane.
        lanes: points per vector.
        mask: active lanes; None for all.
        relocate: substitutes scratch for a captured buffer.
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
        self._is_divergent = False
        self.axes: dict[ir.Value, int] = {
            o.results[0]: o.attributes["dim"].value
            for o in walk(body)
            if o.operation.name == "linalg.index"
        }

    def run(self, arguments: Mapping[ir.Value, ir.Value]) -> list[ir.Value]:
        """Clone the body, and return the yielded values.

        Args:
            arguments: substitutes of block arguments, and of other values of the body.
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
        """Clone an operation with other operands and another result type."""
        attributes = {a: operation.attributes[a] for a in operation.attributes}
        created = ir.Operation.create(
            operation.operation.name,
            results=[type_],
            operands=operands,
            attributes=attributes,
        )
        return created.results[0]

    def _lanes_of(self, original: ir.Value, scalar: ir.Value) -> ir.Value:
        """Materialize an index that is used as data: as a vector unless it is uniform."""
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
        """The constant step of an index between lanes.

        Raises:
            NotVectorizableError: the step is not constant.
        """
        if self.axis is None or self.lanes == 1:
            return 0
        form = affine_form(value, self.axes)
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
        form = affine_form(value, self.axes)
        if form is not None:
            return self.axis in form.coefficients
        return any(self._depends_on_lane(o) for o in owner.operands)

    def _clone_load(self, operation: ir.OpView, mask: ir.Value | None) -> ir.Value:
        scalar_indices = list(operation.operands)[1:]
        steps = [self._step(i) for i in scalar_indices]
        indices = [self._get(i) for i in scalar_indices]
        if any(isinstance(w.type, ir.VectorType) for w in indices):
            raise NotVectorizableError
        stride = self._stride(operation.operands[0], steps)
        if stride == 0 and self.lanes > 1 and self._is_divergent:
            raise NotVectorizableError  # out of bounds if no lane takes the branch
        buffer, indices = self.relocate(operation.operands[0], indices)
        return load_vector(buffer, indices, self.lanes, stride, mask)

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
        # The condition is uniform: keep the branch. Both sides yield vectors, as it is
        # unknown before cloning whether one of them needs to.
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
        """If-conversion of a divergent branch: both sides with masked loads, and a select."""
        type_ = condition.type
        ones = broadcast(constant(1, ir.IntegerType.get_signless(1)), self.lanes)
        negated = op("arith.xori", type_, condition, ones)
        sides = []
        outer, self._is_divergent = self._is_divergent, True
        for region, mask in zip(operation.regions, (condition, negated), strict=True):
            both = (
                mask if self.mask is None else op("arith.andi", type_, mask, self.mask)
            )
            sides.append(self._clone_branch(region, both))
        self._is_divergent = outer
        for result, then, other in zip(operation.results, *sides, strict=True):
            then, other = (
                v if isinstance(v.type, ir.VectorType) else broadcast(v, self.lanes)
                for v in (then, other)
            )
            self.values[result] = op("arith.select", then.type, condition, then, other)
