"""Cost model of layout assignment: the cost of a program by the layout of its feature maps."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import affine_form
from relax_mlir.analysis.op_pattern import OpPatternKind, op_pattern_of
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import BlockOp
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.passes.tir.permute_buffers import may_permute
from relax_mlir.symbolic.affine_forms import AffineForm

__all__ = ["LayoutCosts", "estimated_elements", "layout_costs"]

_UNKNOWN = 56  # assumed value of a dynamic size

# Approximate cycles of one thread; only their ratios matter.
_PER_ELEMENT = 1.0  # of a transposing copy, strided on one side
_READ_STRIDED = 0.3  # per element of GEMM rows gathered from NCHW
_FEW_CHANNELS = 16  # fewer cost proportionally less
_PER_MULTIPLY_ADD = 1 / 32  # two vector FMAs of sixteen lanes per cycle
_IM2COL = 0.15  # share of the GEMM's time to pack windows into panels
_GATHERED = 5.0  # of the GEMM's time, for columns that are not contiguous
_WINDOW_STRIDED = 0.1  # per multiply-add of a depthwise window in NCHW


@dataclass(frozen=True)
class LayoutCosts:
    """The cost of a program as a function of its buffers' layouts (True: channels last).

    Attributes:
        kind: ``conv``, ``window``, ``elementwise`` or ``other``.
        elements: of each buffer, the result last.
        elementwise: inputs that are read elementwise with the result's indices.
        images: image inputs of a reduction over windows or channels.
        work: multiply-adds; strided_work: cost of reading images with channels first.
    """

    kind: str
    elements: Sequence[float]
    elementwise: frozenset[int] = frozenset()
    images: frozenset[int] = frozenset()
    work: float = 0.0
    strided_work: float = 0.0

    @property
    def epilogue(self) -> frozenset[int]:
        """Elementwise inputs of a contraction's epilogue, which must have the result's layout."""
        return self.elementwise if self.images else frozenset()

    def of(self, layouts: Sequence[bool]) -> float:
        """Cycles above those of the best layouts."""
        *inputs, out = layouts
        if self.kind == "other":
            pairs = zip(self.elements, layouts, strict=True)
            return _PER_ELEMENT * sum(count for count, layout in pairs if layout)
        mismatched = [self.elements[i] for i in self.elementwise if inputs[i] != out]
        total = _PER_ELEMENT * sum(mismatched)
        if self.images:
            read = any(inputs[i] for i in self.images)
            sum_of = self._conv if self.kind == "conv" else self._window
            total += sum_of(read, out)
        return total

    def _conv(self, read: bool, out: bool) -> float:
        if out:
            return 0.0 if read else self.strided_work
        return self.work * _PER_MULTIPLY_ADD * (_GATHERED if read else _IM2COL)

    def _window(self, read: bool, out: bool) -> float:
        if read != out:
            return self.work
        return 0.0 if out else self.work * _WINDOW_STRIDED


def layout_costs(function: func.FuncOp) -> LayoutCosts:
    """The costs of one program, derived from its blocks."""
    buffers = [a for a in function.arguments if isinstance(a.type, ir.MemRefType)]
    elements = [estimated_elements(ir.MemRefType(b.type).shape) for b in buffers]
    kind = op_pattern_of(function)
    if kind is OpPatternKind.OPAQUE or not may_permute(function):
        return LayoutCosts("other", elements)
    blocks = [o for o in own_operations(function.entry_block) if isinstance(o, BlockOp)]
    reductions = [b for b in blocks if "R" in b.kinds.value]
    elementwise = [b for b in blocks if b not in reductions]
    aligned = _aligned_inputs(elementwise, buffers)
    if not reductions or kind is OpPatternKind.REDUCTION:
        return LayoutCosts("elementwise", elements, aligned)
    reduction = _Reduction(reductions[0])
    read = reduction.images()
    images = frozenset(i for i, b in enumerate(buffers[:-1]) if b in read)
    if not images or not reduction.has_shared_weights:
        return LayoutCosts("other", elements)
    sizes = [(elements[i], ir.MemRefType(buffers[i].type).shape[1]) for i in images]
    return LayoutCosts(
        "window" if reduction.keeps_channels(read) else "conv",
        elements,
        aligned,
        images,
        work=estimated_elements(reductions[0].static_extents),
        strided_work=sum(n * _READ_STRIDED * _share(channels) for n, channels in sizes),
    )


def estimated_elements(sizes: Iterable[Dim]) -> float:
    """The number of elements or points, with an estimate for dynamic sizes."""
    known = (float(s) if isinstance(s, int) and s >= 0 else _UNKNOWN for s in sizes)
    return math.prod(known)


def _share(channels: int) -> float:
    return min(1.0, channels / _FEW_CHANNELS) if channels >= 0 else 1.0


def _aligned_inputs(
    blocks: Iterable[BlockOp], buffers: Sequence[ir.Value]
) -> frozenset[int]:
    """Inputs that elementwise blocks read with the index of the result in each dimension."""
    read: set[ir.Value] = set()
    across: set[ir.Value] = set()
    for block in blocks:
        axes = {a: i for i, a in enumerate(block.body.blocks[0].arguments)}
        operations = list(walk(block))
        stores = [o for o in operations if o.operation.name == "memref.store"]
        out = [affine_form(i, axes) for i in list(stores[-1].operands)[2:]]
        for load in operations:
            if load.operation.name == "memref.load":
                where = [affine_form(i, axes) for i in list(load.operands)[1:]]
                (read if _is_aligned(where, out) else across).add(load.operands[0])
    return frozenset(
        number
        for number, buffer in enumerate(buffers[:-1])
        if buffer in read - across
        and sum(size != 1 for size in ir.MemRefType(buffer.type).shape) > 1
    )


def _is_aligned(
    read: Sequence[AffineForm[int] | None], out: Sequence[AffineForm[int] | None]
) -> bool:
    return len(read) == len(out) and all(
        here is not None
        and there is not None
        and here.coefficients.keys() <= there.coefficients.keys()
        for here, there in zip(read, out, strict=True)
    )


class _Reduction:
    """The accesses of a reduction block.

    Attributes:
        out: index maps of the result.
        reads: the other buffers that are read, with their index maps.
    """

    def __init__(self, block: BlockOp) -> None:
        arguments = block.body.blocks[0].arguments
        axes = {a: i for i, a in enumerate(arguments)}
        kinds = block.kinds.value
        self._spatial = {i for i, kind in enumerate(kinds) if kind == "S"}
        operations = list(walk(block))
        stores = [o for o in operations if o.operation.name == "memref.store"]
        written = stores[-1].operands[1]
        self.out = [affine_form(i, axes) for i in list(stores[-1].operands)[2:]]
        self.reads = [
            (o.operands[0], [affine_form(i, axes) for i in list(o.operands)[1:]])
            for o in operations
            if o.operation.name == "memref.load" and o.operands[0] != written
        ]

    @property
    def has_shared_weights(self) -> bool:
        """Whether operands other than images do not depend on the batch index."""
        batch = self.out[0].coefficients.keys() if self.out[0] is not None else set()
        images = self.images()
        return all(
            form is not None and not form.coefficients.keys() & batch
            for buffer, forms in self.reads
            if buffer not in images
            for form in forms
        )

    def images(self) -> set[ir.Value]:
        """The image operands, indexed by the result's spatial axes after the channels."""
        return {
            buffer
            for buffer, forms in self.reads
            if len(forms) == len(self.out) > 2 and all(map(self._moves, forms[2:]))
        }

    def _moves(self, form: AffineForm[int] | None) -> bool:
        return form is not None and bool(form.coefficients.keys() & self._spatial)

    def keeps_channels(self, images: Container[ir.Value]) -> bool:
        """Whether channels are not reduced (depthwise convolution or pooling)."""
        read = [forms[1] for buffer, forms in self.reads if buffer in images]
        return all(form is not None and form == self.out[1] for form in read)
