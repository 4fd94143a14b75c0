"""TIR statements as Python objects.

A module holds MLIR only: statements are read from it on access (``func.body``), and written
to it when a :class:`~relax_mlir.objects.stmt.prim_func.PrimFunc` is constructed from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import dtype_text, integer_of
from relax_mlir.objects.expr import Attrs
from relax_mlir.objects.prim import IterVar, Var
from relax_mlir.objects.prim.scripted import script_of, show_of
from relax_mlir.objects.stmt.buffer import (
    Buffer,
    BufferRegion,
    accessed_type,
    check_lanes,
)

__all__ = [
    "Allocate",
    "AllocateConst",
    "AssertStmt",
    "AttrStmt",
    "Block",
    "BlockRealize",
    "BufferRealize",
    "BufferStore",
    "DeclBuffer",
    "Evaluate",
    "For",
    "ForKind",
    "IfThenElse",
    "LetStmt",
    "MatchBufferRegion",
    "Regions",
    "SeqStmt",
    "Stmt",
    "While",
    "stmt_list",
    "stmt_seq",
]


Regions = tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]  # read, written

_DERIVED = "tir.script_parsing_detect_access"  # annotation with a mask; see ``Block``


class Stmt:
    """Base class of TIR statements."""

    span: object = None
    access_path: str | None = (
        None  # path from the root of the PrimFunc that it was read from
    )

    def __init__(self) -> None:
        raise TypeError("Stmt: expected a kind of statement, such as `tir.Evaluate`")

    def same_as(self, other: object) -> bool:
        """Whether it is the same object."""
        return self is other

    def script(self, *args: Any, **options: Any) -> str:
        """Its TVMScript."""
        return script_of(self, **options)

    def show(self, *args: Any, **options: Any) -> None:
        """Prints its TVMScript."""
        show_of(self, **options)

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return self.script()

    def encode_structure(self, encoder: Any) -> None:
        """Encodes its structure; see :mod:`relax_mlir.objects.compare.token_stream`."""
        from relax_mlir.objects.compare.token_stream import encode_statement

        encode_statement(encoder, self)


class ForKind(IntEnum):
    """The execution kind of a loop."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class For(Stmt):
    """A for loop.

    Attributes:
        loop_var: its variable, which runs over ``[min, min + extent)``.
        step: the increment; None for 1.
        kind: its execution kind.
        thread_binding: the bound thread axis of a ``THREAD_BINDING`` loop.
        annotations: attributes for schedules.
    """

    def __init__(
        self,
        loop_var: Var,
        min: Any,
        extent: Any,
        kind: int,
        body: Stmt,
        thread_binding: IterVar | None = None,
        annotations: Mapping[str, Any] | None = None,
        step: Any = None,
        span: object = None,
    ) -> None:
        self.loop_var = loop_var
        self.min = prim.cast(loop_var.dtype, min)
        self.extent = prim.cast(loop_var.dtype, extent)
        self.kind = ForKind(kind)
        self.body = body
        self.thread_binding = thread_binding
        self.annotations = Attrs(annotations or {})
        self.step = None if step is None else prim.cast(loop_var.dtype, step)


class While(Stmt):
    """``while condition: body``."""

    def __init__(self, condition: Any, body: Stmt, span: object = None) -> None:
        self.condition = prim.convert(condition)
        self.body = body


class IfThenElse(Stmt):
    """``if condition: then_case else: else_case``; ``else_case`` may be None."""

    def __init__(
        self,
        condition: Any,
        then_case: Stmt,
        else_case: Stmt | None = None,
        span: object = None,
    ) -> None:
        self.condition = prim.convert(condition)
        self.then_case = then_case
        self.else_case = else_case


class SeqStmt(Stmt):
    """A sequence of statements."""

    def __init__(self, seq: Sequence[Stmt], span: object = None) -> None:
        self.seq = tuple(seq)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)

    def __iter__(self) -> Iterator[Stmt]:
        return iter(self.seq)


class Evaluate(Stmt):
    """An expression evaluated for its side effects."""

    def __init__(self, value: Any, span: object = None) -> None:
        self.value = prim.convert(value)


class BufferStore(Stmt):
    """``buffer[indices] = value``."""

    def __init__(
        self,
        buffer: Buffer,
        value: Any,
        indices: Sequence[Any],
        predicate: Any = None,
        span: object = None,
    ) -> None:
        if len(indices) != buffer.ndim:
            raise ValueError(
                f"buffer `{buffer.name}`: expected {buffer.ndim} indices, "
                f"got {len(indices)}"
            )
        self.buffer = buffer
        self.indices = tuple(map(prim.convert, indices))
        self.value = prim.cast(accessed_type(buffer, self.indices), value)
        self.predicate = None if predicate is None else prim.convert(predicate)
        if self.predicate is not None:
            dtype = self.value.dtype
            check_lanes(self.predicate, dtype, "value dtype", "store a value")


class LetStmt(Stmt):
    """``body`` with ``var`` bound to ``value``."""

    def __init__(self, var: Var, value: Any, body: Stmt, span: object = None) -> None:
        self.var, self.value, self.body = var, prim.convert(value), body


class AssertStmt(Stmt):
    """``assert condition, message``, followed by ``body``."""

    def __init__(
        self, condition: Any, message: Any, body: Stmt, span: object = None
    ) -> None:
        self.condition = prim.convert(condition)
        self.message = prim.convert(message)
        self.body = body


class AttrStmt(Stmt):
    """``body`` with an attribute on a node."""

    def __init__(
        self, node: Any, attr_key: str, value: Any, body: Stmt, span: object = None
    ) -> None:
        is_number = isinstance(node, (bool, int, float, str))
        self.node = prim.convert(node) if is_number else node
        self.attr_key = attr_key
        self.value, self.body = prim.convert(value), body


class BufferRealize(Stmt):
    """``body`` with a region of a buffer allocated.

    Attributes:
        bounds: a range per dimension.
        condition: whether the region is allocated.
    """

    def __init__(
        self,
        buffer: Buffer,
        bounds: Sequence[Any],
        condition: Any,
        body: Stmt,
        span: object = None,
    ) -> None:
        self.region = BufferRegion(buffer, bounds)
        self.condition, self.body = prim.cast("bool", condition), body

    @property
    def buffer(self) -> Buffer:
        """The allocated buffer."""
        return self.region.buffer

    @property
    def bounds(self) -> tuple[prim.Range, ...]:
        """The allocated region."""
        return self.region.region


class Allocate(Stmt):
    """``body`` with memory allocated to a pointer.

    Attributes:
        buffer_var: the pointer variable.
        extents: the shape.
        condition: whether memory is allocated.
    """

    def __init__(
        self,
        buffer_var: Var,
        dtype: str,
        extents: Sequence[Any],
        condition: Any,
        body: Stmt,
        annotations: Mapping[str, Any] | None = None,
        span: object = None,
    ) -> None:
        self.buffer_var, self.dtype = buffer_var, dtype_text(dtype, "`dtype`")
        self.extents = tuple(map(prim.convert, extents))
        self.condition, self.body = prim.convert(condition), body
        self.annotations = Attrs(annotations or {})


class AllocateConst(Stmt):
    """``body`` with constant data bound to a pointer.

    Attributes:
        buffer_var: the pointer variable.
        extents: the shape.
        data: the constants, as an array of this shape.
    """

    def __init__(
        self,
        buffer_var: Var,
        dtype: str,
        extents: Sequence[Any],
        data_or_idx: Any,
        body: Stmt,
        annotations: Mapping[str, Any] | None = None,
        span: object = None,
    ) -> None:
        self.buffer_var, self.dtype = buffer_var, dtype_text(dtype, "`dtype`")
        self.extents = tuple(map(prim.convert, extents))
        is_tensor = hasattr(data_or_idx, "numpy")
        values = data_or_idx.numpy() if is_tensor else data_or_idx
        where = "AllocateConst: `extents`"
        shape = [integer_of(e, where) for e in extents]
        try:
            self.data = np.asarray(values, self.dtype).reshape(shape)
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(
                f"AllocateConst: `data_or_idx`: expected an array of {shape} and "
                f"{self.dtype}, got {short_repr(values)}"
            ) from error
        self.body, self.annotations = body, Attrs(annotations or {})


class DeclBuffer(Stmt):
    """``body`` with a buffer declared on existing memory."""

    def __init__(self, buffer: Buffer, body: Stmt, span: object = None) -> None:
        self.buffer, self.body = buffer, body


class MatchBufferRegion:
    """A buffer of a block that is a view of a region of another buffer."""

    def __init__(self, buffer: Buffer, source: BufferRegion) -> None:
        self.buffer, self.source = buffer, source


class Block(Stmt):
    """A unit of computation over iteration variables.

    Attributes:
        iter_vars: its iteration variables (axes).
        name_hint: its name.
        body: its statement.
        init: the initialization of a reduction, before the first step; or None.
        alloc_buffers: the buffers allocated in it.
        match_buffers: views of regions of other buffers.
        annotations: attributes for schedules. The annotation
            ``tir.script_parsing_detect_access`` is a mask of the regions to derive from the
            body even if they are given: 1 reads, 2 writes.
        has_explicit_regions: whether read or write regions are explicit rather than derived.
    """

    def __init__(
        self,
        iter_vars: Sequence[IterVar],
        reads: Sequence[BufferRegion] | None,
        writes: Sequence[BufferRegion] | None,
        name_hint: str,
        body: Stmt,
        init: Stmt | None = None,
        alloc_buffers: Sequence[Buffer] | None = None,
        match_buffers: Sequence[MatchBufferRegion] | None = None,
        annotations: Mapping[str, Any] | None = None,
        span: object = None,
    ) -> None:
        self.iter_vars = tuple(iter_vars)
        kept = dict(annotations or {})
        derived = int(kept.pop(_DERIVED, 0))
        self._reads = None if derived & 1 else reads
        self._writes = None if derived & 2 else writes
        self.has_explicit_regions = self._reads is not None or self._writes is not None
        self.name_hint = name_hint
        self.body, self.init = body, init
        self.alloc_buffers = tuple(alloc_buffers or ())
        self.match_buffers = tuple(match_buffers or ())
        self.annotations = Attrs(kept)

    def set_regions(self, kind: str, regions: Sequence[BufferRegion]) -> None:
        """Sets its ``reads`` or ``writes``, replacing the derived ones."""
        if kind == "reads":
            self._reads = regions
        else:
            self._writes = regions
        self.has_explicit_regions = True

    @property
    def reads(self) -> tuple[BufferRegion, ...]:
        """The regions that it reads."""
        return self.regions()[0] if self._reads is None else tuple(self._reads)

    @property
    def writes(self) -> tuple[BufferRegion, ...]:
        """The regions that it writes."""
        return self.regions()[1] if self._writes is None else tuple(self._writes)

    def regions(self, nested: dict[int, Regions] | None = None) -> Regions:
        """The regions that it reads and writes: those that it declares, or derived ones.

        Args:
            nested: cache of the regions of the blocks inside it, by id.
        """
        from relax_mlir.objects.stmt.access_regions import access_regions

        reads, writes = self._reads, self._writes
        if reads is None or writes is None:
            derived = access_regions(self, nested)
            reads = derived[0] if reads is None else reads
            writes = derived[1] if writes is None else writes
        return tuple(reads), tuple(writes)


class BlockRealize(Stmt):
    """The instantiation of a block with values of its axes.

    Attributes:
        iter_values: the values of its iteration variables.
        predicate: whether the instance executes.
    """

    def __init__(
        self,
        iter_values: Sequence[Any],
        predicate: Any,
        block: Block,
        span: object = None,
    ) -> None:
        self.iter_values = tuple(map(prim.convert, iter_values))
        self.predicate = prim.convert(predicate)
        self.block = block

    @property
    def always_runs(self) -> bool:
        """Whether the predicate is the constant true."""
        return isinstance(self.predicate, prim.IntImm) and self.predicate.value != 0


def stmt_list(node: Stmt) -> list[Stmt]:
    """The statements of a sequence; a single statement as a list of one."""
    return list(node.seq) if isinstance(node, SeqStmt) else [node]


def stmt_seq(*statements: Any) -> Stmt:
    """A flattened sequence of statements; a single statement is returned as is."""
    flat: list[Stmt] = []
    for statement in statements:
        stmt = statement if isinstance(statement, Stmt) else Evaluate(statement)
        flat += stmt.seq if isinstance(stmt, SeqStmt) else [stmt]
    return flat[0] if len(flat) == 1 else SeqStmt(flat)
