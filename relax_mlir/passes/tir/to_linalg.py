"""``tir-to-linalg``: blocks of tensor programs as ``linalg.generic`` on memrefs."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir

from relax_mlir.analysis.index_maps import (
    IndexForm,
    OffsetIndex,
    TiledIndex,
    buffer_sizes,
    index_form,
    is_size_arithmetic,
    offset_index,
    size_expressions,
)
from relax_mlir.dialects.tir import AllocBufferOp, BlockOp, attribute_names
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.rewrite.patterns import Pass, clone, erase, has_uses, replace
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["ToLinalg"]

IndexLike: TypeAlias = int | ir.Value


@dataclass(frozen=True)
class ToLinalg(Pass):
    """Lower every block of a tensor program to linalg operations.

    linalg derives iteration domains from operand shapes: an operand that a block reads in part,
    or at an offset, is narrowed by a subview to the box that its indices reach; the offset of a
    result may be symbolic. An axis that no operand carries alone gets an operand of that size
    whose elements are never read. Non-affine indices stay as loads in the body; a block that
    stores at one becomes loops.
    """

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            if function_attributes.is_defined_prim_func(function):
                _hoist_sizes(function.regions[0].blocks[0])
                sizes = size_expressions(function)
                for op in list(own_operations(function.regions[0].blocks[0])):
                    _convert(op, sizes)


def _hoist_sizes(block: ir.Block) -> None:
    """Hoists size arithmetic to the top of the function, where every block can use it."""
    first: ir.OpView | None = None  # other operation
    known = set(block.arguments)
    for op in list(own_operations(block)):
        if not is_size_arithmetic(op) or not known.issuperset(op.operands):
            first = first or op
            continue
        known.update(op.results)
        if first is not None:
            op.operation.move_before(first.operation)


def _convert(op: ir.OpView, sizes: Container[ir.Value]) -> None:
    if isinstance(op, AllocBufferOp):
        with ir.InsertionPoint(op), op.location:
            dynamic = list(op.operands)
            alloc = ir.Operation.create(
                "memref.alloc",
                results=[_in_plain_memory(ir.MemRefType(op.buffer.type))],
                operands=dynamic,
                attributes={
                    "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(dynamic), 0])
                },
            )
        replace(op, alloc.results[0])
    elif isinstance(op, BlockOp) and not op.bindings:
        with ir.InsertionPoint(op), op.location:
            _convert_block(op, sizes)
        erase(op)


def _in_plain_memory(type_: ir.MemRefType) -> ir.MemRefType:
    """A type in the default memory space; CPUs have no other."""
    return ir.MemRefType.get(list(type_.shape), type_.element_type, type_.layout)


def _convert_block(op: BlockOp, sizes: Container[ir.Value]) -> None:
    extents = op.axis_extents()
    kinds = op.kinds.value
    spatial = [i for i, kind in enumerate(kinds) if kind == "S"]
    if any(extents[i] == 0 for i in spatial):
        return
    if op.has_init:
        _Region(op.init.blocks[0], extents, kinds, spatial, sizes).emit()
    if 0 not in extents:
        body = _Region(op.body.blocks[0], extents, kinds, range(len(kinds)), sizes)
        body.kept = {
            n: op.attributes[n] for n in op.attributes if n == attribute_names.PAD
        }
        body.emit()


@dataclass
class _Access:
    """An operand: the value that linalg sees, and its indexing map."""

    value: ir.Value
    map: ir.AffineMap


class _Region:
    """One region of a block and its lowering.

    Args:
        block: the region's block; its arguments are the axis variables.
        extents: size per axis; kinds: a letter per axis.
        only: the axes of the region's iteration domain.
        sizes: values that are sizes of the program.
    """

    def __init__(
        self,
        block: ir.Block,
        extents: Sequence[IndexLike],
        kinds: str,
        only: Sequence[int],
        sizes: Container[ir.Value],
    ) -> None:
        self.block = block
        self.sizes = sizes
        self.kinds = [kinds[i] for i in only]
        self.extents = [extents[i] for i in only]
        self.axes = {block.arguments[axis]: i for i, axis in enumerate(only)}
        self.ops = [
            op for op in own_operations(block) if op.operation.name != "gpu.yield"
        ]
        self.kept: dict[str, ir.Attribute] = {}  # attributes of the new operation

    def emit(self) -> None:
        stores = [op for op in self.ops if op.operation.name == "memref.store"]
        outputs = [self._written(s.operands[1], list(s.operands)[2:]) for s in stores]
        if any(o is None for o in outputs) or not stores:
            self._emit_loops()
            return
        self._emit_generic(stores, outputs)

    # Lowering to linalg.generic.

    def _emit_generic(self, stores: list[ir.OpView], outputs: list[_Access]) -> None:
        inputs: list[_Access] = []
        sources: dict[
            ir.Value, int
        ] = {}  # loaded value -> region argument, outputs from -1 down
        written = [
            (s.operands[1], [index_form(i, self.axes) for i in list(s.operands)[2:]])
            for s in stores
        ]
        seen: list[tuple[ir.Value, list[IndexForm | None]]] = []
        for op in self.ops:
            if op.operation.name != "memref.load":
                continue
            place = (
                op.operands[0],
                [index_form(i, self.axes) for i in list(op.operands)[1:]],
            )
            if place in written:
                sources[op.results[0]] = -1 - written.index(place)
                continue
            if place in seen:
                sources[op.results[0]] = seen.index(place)
                continue
            access = self._access(op.operands[0], list(op.operands)[1:])
            if access is not None:
                sources[op.results[0]] = len(inputs)
                seen.append(place)
                inputs.append(access)
        inputs += self._shape_only([a.map for a in (*inputs, *outputs)])
        self._create(inputs, outputs, stores, sources)

    def _create(
        self,
        inputs: list[_Access],
        outputs: list[_Access],
        stores: list[ir.OpView],
        sources: dict[ir.Value, int],
    ) -> None:
        names = {"S": "parallel", "R": "reduction"}
        iterators = [
            ir.Attribute.parse(f"#linalg.iterator_type<{names[k]}>") for k in self.kinds
        ]
        maps = [ir.AffineMapAttr.get(a.map) for a in (*inputs, *outputs)]
        generic = ir.Operation.create(
            "linalg.generic",
            operands=[a.value for a in (*inputs, *outputs)],
            attributes={
                "indexing_maps": ir.ArrayAttr.get(maps),
                "iterator_types": ir.ArrayAttr.get(iterators),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get(
                    [len(inputs), len(outputs)]
                ),
                **self.kept,
            },
            regions=1,
        )
        types = [ir.MemRefType(a.value.type).element_type for a in (*inputs, *outputs)]
        loc = ir.Location.current
        body = ir.Block.create_at_start(generic.regions[0], types, [loc] * len(types))
        with ir.InsertionPoint(body):
            mapping = self._axis_values()
            for value, source in sources.items():
                mapping[value] = body.arguments[
                    source if source >= 0 else len(inputs) - 1 - source
                ]
            for op in self.ops:
                if op.operation.name != "memref.store" and not any(
                    r in mapping for r in op.results
                ):
                    clone(op, mapping)
            yielded = [mapping.get(s.operands[0], s.operands[0]) for s in stores]
            ir.Operation.create("linalg.yield", operands=yielded)
        _erase_unused(body)

    def _axis_values(self) -> dict[ir.Value, ir.Value]:
        i64, index = ir.IntegerType.get_signless(64), ir.IndexType.get()
        return {
            variable: ir.Operation.create(
                "linalg.index",
                results=[index],
                attributes={"dim": ir.IntegerAttr.get(i64, axis)},
            ).results[0]
            for variable, axis in self.axes.items()
        }

    def _access(self, buffer: ir.Value, indices: Sequence[ir.Value]) -> _Access | None:
        """The buffer narrowed to the box that ``indices`` reach; None if they are not affine."""
        return self._narrowed(buffer, [index_form(i, self.axes) for i in indices])

    def _written(self, buffer: ir.Value, indices: Sequence[ir.Value]) -> _Access | None:
        """The same for a result, whose offset may be symbolic."""
        forms = [index_form(i, self.axes) for i in indices]
        if "R" not in self.kinds:
            forms = [
                offset_index(i, self.axes, self.sizes) if form is None else form
                for i, form in zip(indices, forms, strict=True)
            ]
        return self._narrowed(buffer, forms)

    def _narrowed(
        self, buffer: ir.Value, forms: Sequence[IndexForm | None]
    ) -> _Access | None:
        if any(f is None or any(c < 0 for c in f.coefficients.values()) for f in forms):
            return None
        if any(f.constant < 0 for f in forms):
            return None
        sizes = buffer_sizes(buffer)
        boxes = [self._box(f) for f in forms]
        whole = all(
            not isinstance(f, OffsetIndex)
            and f.constant == 0
            and f.coefficients
            and self._fills(box, size)
            for f, box, size in zip(forms, boxes, sizes, strict=True)
        )
        if not whole and any(isinstance(f, TiledIndex) for f in forms):
            return None
        kept = forms if whole else [f for f in forms if f.coefficients]
        value = buffer if whole else _subview(buffer, forms, boxes)
        return _Access(value, self._map(kept))

    def _fills(self, box: IndexLike | None, size: IndexLike | None) -> bool:
        """Whether the box is provably the whole dimension of the buffer."""
        return box is not None and size is not None and box == size

    def _box(self, form: IndexForm) -> IndexLike | None:
        """The number of elements that an index reaches, from its constant on; None if unknown."""
        if isinstance(form, TiledIndex):
            extent = self.extents[form.axis]
            if not isinstance(extent, int):
                return None
            return form.base if form.is_inner else -(-extent // form.base)
        size: IndexLike = 1 - sum(form.coefficients.values())
        for axis, factor in form.coefficients.items():
            size = _add(_multiply(self.extents[axis], factor), size)
        return size

    def _map(self, forms: Sequence[IndexForm]) -> ir.AffineMap:
        return ir.AffineMap.get(len(self.extents), 0, [_expression(f) for f in forms])

    def _shape_only(self, maps: Sequence[ir.AffineMap]) -> list[_Access]:
        """Operands that only provide the sizes of axes that no other operand carries alone."""
        carried = {str(r) for m in maps for r in m.results}
        missing = [i for i in range(len(self.extents)) if f"d{i}" not in carried]
        if not missing:
            return []
        dynamic = [
            self.extents[i] for i in missing if not isinstance(self.extents[i], int)
        ]
        shape = [
            e if isinstance(e, int) else ir.ShapedType.get_dynamic_size()
            for e in (self.extents[i] for i in missing)
        ]
        type_ = ir.MemRefType.get(shape, ir.IntegerType.get_signless(8))
        alloc = ir.Operation.create(
            "memref.alloca",
            results=[type_],
            operands=dynamic,
            attributes={
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(dynamic), 0]),
                "tir.shape_only": ir.UnitAttr.get(),
            },
        )
        return [
            _Access(alloc.results[0], self._map([AffineForm({i: 1}) for i in missing]))
        ]

    # Lowering to loops, for blocks that store at non-affine indices.

    def _emit_loops(self) -> None:
        mapping: dict[ir.Value, ir.Value] = {}
        zero, one = _constant(0), _constant(1)
        point = ir.InsertionPoint.current
        for variable, axis in self.axes.items():
            with point:
                extent = self.extents[axis]
                end = _constant(extent) if isinstance(extent, int) else extent
                loop = ir.Operation.create(
                    "scf.for",
                    operands=[zero, end, one],
                    attributes={
                        attribute_names.KIND: ir.StringAttr.get("serial"),
                        attribute_names.AXIS: ir.StringAttr.get(self.kinds[axis]),
                    },
                    regions=1,
                )
                block = ir.Block.create_at_start(
                    loop.regions[0], [ir.IndexType.get()], [ir.Location.current]
                )
                with ir.InsertionPoint(block):
                    end_op = ir.Operation.create("scf.yield")
            mapping[variable] = block.arguments[0]
            point = ir.InsertionPoint(end_op)
        with point:
            for op in self.ops:
                clone(op, mapping)


def _expression(form: IndexForm) -> ir.AffineExpr:
    if isinstance(form, TiledIndex):
        kind = ir.AffineModExpr if form.is_inner else ir.AffineFloorDivExpr
        base = ir.AffineConstantExpr.get(form.base)
        return kind.get(ir.AffineDimExpr.get(form.axis), base)
    expr = ir.AffineConstantExpr.get(0)
    for axis, factor in sorted(form.coefficients.items()):
        expr = expr + ir.AffineDimExpr.get(axis) * factor
    return expr


def _erase_unused(block: ir.Block) -> None:
    """Erases index arithmetic that indexing maps replace."""
    for op in reversed(list(own_operations(block))):
        if len(op.results) and not any(map(has_uses, op.results)):
            erase(op)


def _constant(value: int) -> ir.Value:
    index = ir.IndexType.get()
    attributes = {"value": ir.IntegerAttr.get(index, value)}
    return ir.Operation.create(
        "arith.constant", results=[index], attributes=attributes
    ).results[0]


def _arith(name: str, lhs: IndexLike, rhs: IndexLike) -> ir.Value:
    operands = [_constant(v) if isinstance(v, int) else v for v in (lhs, rhs)]
    return ir.Operation.create(
        name, results=[ir.IndexType.get()], operands=operands
    ).results[0]


def _add(lhs: IndexLike, rhs: IndexLike) -> IndexLike:
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs + rhs
    return lhs if rhs == 0 else _arith("arith.addi", lhs, rhs)


def _multiply(lhs: IndexLike, rhs: int) -> IndexLike:
    if isinstance(lhs, int):
        return lhs * rhs
    return lhs if rhs == 1 else _arith("arith.muli", lhs, rhs)


def _subview(
    buffer: ir.Value,
    forms: Sequence[AffineForm[int] | OffsetIndex],
    boxes: Sequence[IndexLike],
) -> ir.Value:
    """The box of ``buffer`` from the maps' constants on; dimensions of constant index dropped."""
    source = ir.MemRefType(buffer.type)
    strides, dynamic_strides = _row_major_strides(source)
    dynamic = ir.ShapedType.get_dynamic_size()
    begins = [_begin(f) for f in forms]
    moved = [begin for begin in begins if isinstance(begin, ir.Value)]
    offsets = [dynamic if isinstance(n, ir.Value) else n for n in begins]
    static_sizes = [b if isinstance(b, int) else dynamic for b in boxes]
    kept = [i for i, f in enumerate(forms) if f.coefficients]
    is_known = [
        n == 0 or (n != dynamic and not is_far)
        for n, is_far in zip(offsets, dynamic_strides, strict=True)
    ]
    steps = (n * step for n, step in zip(offsets, strides, strict=True) if n)
    offset = sum(steps) if all(is_known) else dynamic
    layout = ir.StridedLayoutAttr.get(
        offset, [dynamic if dynamic_strides[i] else strides[i] for i in kept]
    )
    type_ = ir.MemRefType.get(
        [static_sizes[i] for i in kept], source.element_type, layout
    )
    sizes = [b for b in boxes if not isinstance(b, int)]
    op = ir.Operation.create(
        "memref.subview",
        results=[type_],
        operands=[buffer, *moved, *sizes],
        attributes={
            "static_offsets": ir.DenseI64ArrayAttr.get(offsets),
            "static_sizes": ir.DenseI64ArrayAttr.get(static_sizes),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * len(forms)),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(
                [1, len(moved), len(sizes), 0]
            ),
            "tir.kept": ir.DenseI64ArrayAttr.get(kept),
        },
    )
    return op.results[0]


def _begin(form: AffineForm[int] | OffsetIndex) -> IndexLike:
    """The offset of an index's box."""
    return (
        _add(form.by, form.constant) if isinstance(form, OffsetIndex) else form.constant
    )


def _row_major_strides(type_: ir.MemRefType) -> tuple[list[int], list[bool]]:
    """Stride per dimension, and whether it is dynamic."""
    strides, unknown = [1], [False]
    for size in reversed(list(type_.shape)[1:]):
        strides.append(strides[-1] * max(size, 1))
        unknown.append(unknown[-1] or size < 0)
    return strides[::-1], unknown[::-1]
