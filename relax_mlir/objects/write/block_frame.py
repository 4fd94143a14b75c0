"""Builder of TIR blocks, as context managers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.tir import BlockOp, attribute_names
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects import prim
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, Var
from relax_mlir.objects.prim.simplify import simplify
from relax_mlir.objects.stmt.buffer import BufferRegion
from relax_mlir.objects.stmt.explicit_regions import ExplicitRegions
from relax_mlir.objects.write.init_region import make_visible
from relax_mlir.objects.write.scope import VisibleNames

if TYPE_CHECKING:
    from relax_mlir.objects.write.prim_func_builder import PrimFuncFrame

__all__ = ["AXIS_KINDS", "BlockFrame"]

AXIS_KINDS: Mapping[str, int] = {
    "S": IterVar.DataPar,
    "R": IterVar.CommReduce,
    "O": IterVar.Opaque,
    "C": IterVar.Ordered,
}


class BlockFrame:
    """A block under construction: axes, predicate and annotations, then the body.

    Attributes:
        axes: its iteration variables so far.
        name: its name.
    """

    def __init__(self, writer: PrimFuncFrame, name: str) -> None:
        self.name = name
        self.axes: list[IterVar] = []
        self.values: list[PrimExpr] = []
        self.kinds = ""
        self.annotations: dict[str, Any] = {}
        self.predicate: PrimExpr | None = None
        self._writer = writer
        self._op: ir.Operation | None = None
        self._guard: ir.Block | None = None
        self._known: VisibleNames | None = None  # names visible before the body
        self.deferred: list[Callable[[], Any]] = []  # writes that begin the body
        self._explicit_regions: dict[str, Sequence[BufferRegion]] = {}

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
        self._record_explicit_regions()
        assert self._known is not None
        writer.exprs.restore(self._known)
        writer.points.pop()
        if self._guard is not None:
            writer.end(self._guard, "scf.yield")
            writer.points.pop()

    def axis(
        self, kind: str, dom: Any, value: Any, name: str = "", dtype: Any = None
    ) -> Var:
        """Adds an axis.

        Args:
            kind: ``S`` spatial, ``R`` reduction, ``O`` opaque or ``C`` ordered.
            dom: its extent, (begin, end), or :class:`~prim.Range`.
            value: its binding, in terms of the enclosing loops.

        Raises:
            ValueError: the body has begun.
        """
        bound = prim.convert(value)
        range_ = _domain(dom)
        type_ = str(dtype or _wider(range_.extent.dtype, bound.dtype))
        var = Var(name or f"v{len(self.axes)}", type_)
        self.bind(IterVar(range_, var, AXIS_KINDS[kind]), kind, bound)
        return var

    def bind(self, axis: IterVar, kind: str, value: Any) -> None:
        """Adds an existing iteration variable as an axis; see :meth:`axis`."""
        self.check_body_not_begun(f"axis `{axis.var.name}`")
        self.axes.append(axis)
        self.values.append(prim.convert(value))
        self.kinds += kind

    def check_body_not_begun(self, what: str) -> None:
        """Checks that the body has not begun.

        Raises:
            ValueError: the body of the block has begun.
        """
        if self._op is not None:
            raise ValueError(
                f"{what}: expected it before the first statement of block `{self.name}`"
            )

    def where(self, predicate: Any) -> None:
        """Sets the predicate of the block instance."""
        self.check_body_not_begun("`T.where`")
        self.predicate = prim.cast("bool", predicate)

    def touch(self, kind: str, regions: Sequence[BufferRegion]) -> None:
        """Sets explicit read or write regions.

        Args:
            kind: ``reads`` or ``writes``.
            regions: all regions of that kind.
        """
        self._explicit_regions[kind] = regions

    def _record_explicit_regions(self) -> None:
        if not self._explicit_regions or self._op is None:
            return
        depth, memrefs = len(self._writer.frames), dict(self._writer.exprs.buffers)
        self._writer.explicit_regions.append(
            ExplicitRegions(self._op, depth, self.axes, self._explicit_regions, memrefs)
        )

    def annotate(self, annotations: Mapping[str, Any]) -> None:
        """Adds annotations for schedules."""
        self.annotations.update(annotations)
        if self._op is not None:
            with self._writer.module.context:
                self._op.attributes[attribute_names.ANNOTATIONS] = to_attribute(
                    self.annotations
                )

    @contextmanager
    def init(self) -> Iterator[None]:
        """The initialization of a reduction."""
        writer = self._writer
        with writer.here():
            pass
        assert self._op is not None
        index = [ir.IndexType.get(writer.module.context)] * len(self.axes)
        old = [writer.exprs.vars[id(a.var)] for a in self.axes]
        with writer.inside(self._op.regions[0], index) as block:
            self._define(block)
            yield
            with writer.module.context, ir.Location.unknown():
                make_visible(block, self._op, self.name)
            writer.end(block, "gpu.yield")
        for axis, value in zip(self.axes, old, strict=True):
            writer.exprs.define(axis.var, value)

    def takes_addresses(self) -> bool:
        """Whether the body, without nested blocks, takes the address of a buffer."""
        return self._op is not None and _takes_addresses(self._op)

    def begin(self) -> None:
        """Creates the operation, once the axes are known."""
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
        self._known = writer.exprs.visible_names()
        self._define(block)

    def _begin_guard(self, predicate: PrimExpr) -> None:
        writer = self._writer
        with writer.here():
            value = writer.exprs.value(predicate)
            op = ir.Operation.create(
                "scf.if",
                operands=[value],
                attributes={attribute_names.WHERE: ir.UnitAttr.get()},
                regions=2,
            )
            self._guard = ir.Block.create_at_start(op.regions[0], [])
        writer.points.append(ir.InsertionPoint(self._guard))

    def _define(self, block: ir.Block) -> None:
        for axis, value in zip(self.axes, block.arguments, strict=True):
            self._writer.exprs.define(axis.var, value)

    def _create(self) -> ir.Operation:
        exprs = self._writer.exprs
        extents = [a.dom.extent for a in self.axes]
        static = [e.value if isinstance(e, prim.IntImm) else -1 for e in extents]
        dynamic = [exprs.index(e) for e in extents if not isinstance(e, prim.IntImm)]
        bindings = [exprs.index(v) for v in self.values]
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
                **self._attributes(),
            },
            regions=2,
        )

    def _attributes(self) -> dict[str, ir.Attribute]:
        symbols = self._writer.params.symbols
        names = [a.var.name for a in self.axes]
        attributes: dict[str, ir.Attribute] = {
            attribute_names.AXIS_NAMES: to_attribute(names)
        }
        types = [a.var.dtype for a in self.axes]
        if any(t != "int32" for t in types):
            attributes[attribute_names.AXIS_DTYPES] = to_attribute(types)
        starts = symbols.dims([a.dom.min for a in self.axes])
        if any(s != 0 for s in starts):
            attributes[attribute_names.AXIS_STARTS] = tensors.shape_attr(starts)
        if self.annotations:
            attributes[attribute_names.ANNOTATIONS] = to_attribute(self.annotations)
        return attributes


def _domain(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (tuple, list)):
        range_ = Range(*dom)
        return Range.from_min_extent(range_.min, simplify(range_.extent))
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
