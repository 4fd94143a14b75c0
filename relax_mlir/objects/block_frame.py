"""Blocks of tensor programs while they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import BlockOp, marks
from relax_mlir.objects import prim
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.buffer import BufferRegion
from relax_mlir.objects.init_region import make_visible
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.said_regions import SaidRegions
from relax_mlir.objects.simplify import simplify
from relax_mlir.objects.term_scope import Known
from relax_mlir.traversal import own_operations

if TYPE_CHECKING:
    from relax_mlir.objects.open_program import OpenProgram

__all__ = ["AXIS_KINDS", "BlockFrame"]

AXIS_KINDS: Mapping[str, int] = {
    "S": IterVar.DataPar,
    "R": IterVar.CommReduce,
    "O": IterVar.Opaque,
    "C": IterVar.Ordered,
}


class BlockFrame:
    """A block that is being written: axes, predicate and annotations, then its body.

    Attributes:
        axes: its axes so far.
        name: its name.
    """

    def __init__(self, writer: OpenProgram, name: str) -> None:
        self.name = name
        self.axes: list[IterVar] = []
        self.values: list[PrimExpr] = []
        self.kinds = ""
        self.annotations: dict[str, Any] = {}
        self.predicate: PrimExpr | None = None
        self._writer = writer
        self._op: ir.Operation | None = None
        self._guard: ir.Block | None = None
        self._known: Known | None = None  # when the body began
        self.deferred: list[Callable[[], Any]] = []  # what the body begins with
        self._said: dict[str, Sequence[BufferRegion]] = {}

    def __enter__(self) -> BlockFrame:  # noqa: PYI034 (Self is of Python 3.11)
        with self._writer.here():
            pass
        self._writer.pending = self
        self._writer.frames.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        writer = self._writer
        writer.frames.pop()
        if error[0] is not None:
            writer.pending = None
            return
        with writer.here():
            ir.Operation.create("gpu.yield")
        self._keep_said()
        assert self._known is not None
        writer.terms.leave(self._known)
        writer.points.pop()
        if self._guard is not None:
            writer.end(self._guard, "scf.yield")
            writer.points.pop()

    def axis(
        self, kind: str, dom: Any, value: Any, name: str = "", dtype: Any = None
    ) -> Var:
        """A new axis.

        Args:
            kind: ``S`` spatial, ``R`` reduce, ``O`` opaque or ``C`` ordered.
            dom: its extent, or begin and end, or a :class:`~prim.Range`.
            value: what it is here, in terms of the loops around.

        Raises:
            ValueError: the body has begun.
        """
        bound = prim.convert(value)
        run = _domain(dom)
        type_ = str(dtype or _wider(run.extent.dtype, bound.dtype))
        var = Var(name or f"v{len(self.axes)}", type_)
        self.bind(IterVar(run, var, AXIS_KINDS[kind]), kind, bound)
        return var

    def bind(self, axis: IterVar, kind: str, value: Any) -> None:
        """A new axis that is there already; see :meth:`axis`."""
        self.check_open(f"axis `{axis.var.name}`")
        self.axes.append(axis)
        self.values.append(prim.convert(value))
        self.kinds += kind

    def check_open(self, what: str) -> None:
        """Refuse what comes too late.

        Raises:
            ValueError: the body of the block has begun.
        """
        if self._op is not None:
            raise ValueError(
                f"{what}: expected it before the first statement of block `{self.name}`"
            )

    def where(self, predicate: Any) -> None:
        """Leave out points where ``predicate`` does not hold."""
        self.check_open("`T.where`")
        self.predicate = prim.cast("bool", predicate)

    def touch(self, kind: str, regions: Sequence[BufferRegion]) -> None:
        """Say what the block reads or writes, where the body does not tell it.

        Args:
            kind: ``reads`` or ``writes``.
            regions: all that it reads, or all that it writes.
        """
        self._said[kind] = regions

    def _keep_said(self) -> None:
        if not self._said or self._op is None:
            return
        depth, known = len(self._writer.frames), dict(self._writer.terms.buffers)
        self._writer.said.append(
            SaidRegions(self._op, depth, self.axes, self._said, known)
        )

    def annotate(self, annotations: Mapping[str, Any]) -> None:
        """Say more of the block, for schedules."""
        self.annotations.update(annotations)
        if self._op is not None:
            with self._writer.module.context:
                self._op.attributes[marks.ANNOTATIONS] = to_attribute(self.annotations)

    @contextmanager
    def init(self) -> Iterator[None]:
        """What comes before the first point of the reduce axes."""
        writer = self._writer
        with writer.here():
            pass
        assert self._op is not None
        index = [ir.IndexType.get(writer.module.context)] * len(self.axes)
        old = [writer.terms.vars[id(a.var)] for a in self.axes]
        with writer.inside(self._op.regions[0], index) as block:
            self._define(block)
            yield
            with writer.module.context, ir.Location.unknown():
                make_visible(block, self._op, self.name)
            writer.end(block, "gpu.yield")
        for axis, value in zip(self.axes, old, strict=True):
            writer.terms.define(axis.var, value)

    def takes_addresses(self) -> bool:
        """Whether the body takes the address of a buffer, but for blocks in it."""
        return self._op is not None and _takes_addresses(self._op)

    def begin(self) -> None:
        """Write the operation; its axes are known."""
        writer = self._writer
        if self.predicate is not None:
            self._begin_guard(self.predicate)
        with writer.here():
            self._op = self._create()
            region = self._op.regions[1]
            types = [ir.IndexType.get()] * len(self.axes)
            locations = [ir.Location.unknown()] * len(types)
            block = ir.Block.create_at_start(region, types, locations)
        writer.points.append(ir.InsertionPoint(block))
        self._known = writer.terms.known()
        self._define(block)

    def _begin_guard(self, predicate: PrimExpr) -> None:
        writer = self._writer
        with writer.here():
            value = writer.terms.value(predicate)
            op = ir.Operation.create(
                "scf.if",
                operands=[value],
                attributes={marks.WHERE: ir.UnitAttr.get()},
                regions=2,
            )
            self._guard = ir.Block.create_at_start(op.regions[0], [])
        writer.points.append(ir.InsertionPoint(self._guard))

    def _define(self, block: ir.Block) -> None:
        for axis, value in zip(self.axes, block.arguments, strict=True):
            self._writer.terms.define(axis.var, value)

    def _create(self) -> ir.Operation:
        terms = self._writer.terms
        extents = [a.dom.extent for a in self.axes]
        static = [e.value if isinstance(e, prim.IntImm) else -1 for e in extents]
        dynamic = [terms.index(e) for e in extents if not isinstance(e, prim.IntImm)]
        bindings = [terms.index(v) for v in self.values]
        return ir.Operation.create(
            BlockOp.OPERATION_NAME,
            operands=[*dynamic, *bindings],
            attributes={
                "name": ir.StringAttr.get(self.name),
                "kinds": ir.StringAttr.get(self.kinds),
                "static_extents": ir.DenseI64ArrayAttr.get(static),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get(
                    [len(dynamic), len(bindings)]
                ),
                **self._marks(),
            },
            regions=2,
        )

    def _marks(self) -> dict[str, ir.Attribute]:
        symbols = self._writer.params.symbols
        called = [a.var.name for a in self.axes]
        found: dict[str, ir.Attribute] = {marks.AXIS_NAMES: to_attribute(called)}
        types = [a.var.dtype for a in self.axes]
        if any(t != "int32" for t in types):
            found[marks.AXIS_DTYPES] = to_attribute(types)
        starts = symbols.dims([a.dom.min for a in self.axes])
        if any(s != 0 for s in starts):
            found[marks.AXIS_STARTS] = tensors.shape_attr(starts)
        if self.annotations:
            found[marks.ANNOTATIONS] = to_attribute(self.annotations)
        return found


def _domain(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (tuple, list)):
        run = Range(*dom)
        return Range.from_min_extent(run.min, simplify(run.extent))
    return Range.from_min_extent(0, dom)


def _wider(a: str, b: str) -> str:
    return "int64" if "int64" in (a, b) else a


def _takes_addresses(root: ir.Operation) -> bool:
    for region in root.regions:
        for block in region.blocks:
            for op in own_operations(block):
                if op.operation.name == "tir.address":
                    return True
                if not isinstance(op, BlockOp) and _takes_addresses(op.operation):
                    return True
    return False
