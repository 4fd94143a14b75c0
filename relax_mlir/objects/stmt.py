"""The statements of tensor programs as Python objects.

A program holds MLIR alone: these are read from it where somebody looks (``func.body``),
and written to it where a :class:`~relax_mlir.objects.PrimFunc` is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import dtype_text, integer_of
from relax_mlir.objects.buffer import Buffer, BufferRegion, accessed_type, check_lanes
from relax_mlir.objects.expr import Attrs
from relax_mlir.objects.prim import IterVar, Var
from relax_mlir.objects.prim.scripted import script_of, show_of

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
    "SeqStmt",
    "Stmt",
    "While",
    "stmt_list",
    "stmt_seq",
]


_DERIVED = "tir.script_parsing_detect_access"  # an annotation; see ``Block``


class Stmt:
    """A statement of a tensor program."""

    span: object = None
    place: str | None = None  # in its program, where it was read from one

    def __init__(self) -> None:
        raise TypeError("Stmt: expected a kind of statement, such as `tir.Evaluate`")

    def same_as(self, other: object) -> bool:
        """Whether it is the same object."""
        return self is other

    def script(self, *args: Any, **options: Any) -> str:
        """Its text as a script."""
        return script_of(self, **options)

    def show(self, *args: Any, **options: Any) -> None:
        """Print its text."""
        show_of(self, **options)

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return self.script()

    def spell(self, spelling: Any) -> None:
        """Its structure; see :mod:`.structure`."""
        from relax_mlir.objects.stmt_spelling import spell_statement

        spell_statement(spelling, self)


class ForKind(IntEnum):
    """How the steps of a loop run."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class For(Stmt):
    """A loop.

    Attributes:
        loop_var: its variable, from ``min`` on, below ``min + extent``.
        step: how far a step goes; None for 1.
        kind: how the steps run.
        thread_binding: the thread axis, where it is bound to one.
        annotations: what schedules say of it.
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
    """``if condition: then_case else: else_case``; without the latter, None."""

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
    """Statements one after the other."""

    def __init__(self, seq: Sequence[Stmt], span: object = None) -> None:
        self.seq = tuple(seq)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)

    def __iter__(self) -> Iterator[Stmt]:
        return iter(self.seq)


class Evaluate(Stmt):
    """A scalar that is computed for what else that does."""

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
    """``body`` with ``var`` standing for ``value``."""

    def __init__(self, var: Var, value: Any, body: Stmt, span: object = None) -> None:
        self.var, self.value, self.body = var, prim.convert(value), body


class AssertStmt(Stmt):
    """``assert condition, message``, and what follows."""

    def __init__(
        self, condition: Any, message: Any, body: Stmt, span: object = None
    ) -> None:
        self.condition = prim.convert(condition)
        self.message = prim.convert(message)
        self.body = body


class AttrStmt(Stmt):
    """``body`` with something said of it."""

    def __init__(
        self, node: Any, attr_key: str, value: Any, body: Stmt, span: object = None
    ) -> None:
        is_number = isinstance(node, (bool, int, float, str))
        self.node = prim.convert(node) if is_number else node
        self.attr_key = attr_key
        self.value, self.body = prim.convert(value), body


class BufferRealize(Stmt):
    """``body`` with a box of a buffer that is memory there.

    Attributes:
        bounds: a run per dimension.
        condition: whether it is.
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
        """The buffer."""
        return self.region.buffer

    @property
    def bounds(self) -> tuple[prim.Range, ...]:
        """The box of it."""
        return self.region.region


class Allocate(Stmt):
    """Memory for ``body``, of which a pointer is known.

    Attributes:
        buffer_var: the pointer.
        extents: sizes.
        condition: whether there is any.
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
    """Memory for ``body`` that holds constants, of which a pointer is known.

    Attributes:
        buffer_var: the pointer.
        extents: sizes.
        data: the constants, as an array of these sizes.
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
                f"{self.dtype}, got {shown(values)}"
            ) from error
        self.body, self.annotations = body, Attrs(annotations or {})


class DeclBuffer(Stmt):
    """``body`` with a buffer in memory that is there already."""

    def __init__(self, buffer: Buffer, body: Stmt, span: object = None) -> None:
        self.buffer, self.body = buffer, body


class MatchBufferRegion:
    """A buffer of a block that is a box of another one."""

    def __init__(self, buffer: Buffer, source: BufferRegion) -> None:
        self.buffer, self.source = buffer, source


class Block(Stmt):
    """A unit of computation over axes.

    Attributes:
        iter_vars: its axes.
        name_hint: its name.
        body: what it does at one point.
        init: what comes before the first point of the reduce axes, or None.
        alloc_buffers: the buffers that live inside it.
        match_buffers: its names for boxes of others.
        annotations: what schedules say of it; but for the one that tells what is derived
            whatever is given: 1 what it reads, 2 what it writes, 3 both.
        says_regions: whether what it reads and writes is said, not derived.
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
        self.says_regions = self._reads is not None or self._writes is not None
        self.name_hint = name_hint
        self.body, self.init = body, init
        self.alloc_buffers = tuple(alloc_buffers or ())
        self.match_buffers = tuple(match_buffers or ())
        self.annotations = Attrs(kept)

    def say(self, kind: str, regions: Sequence[BufferRegion]) -> None:
        """Give what it ``reads`` or ``writes``, instead of what its body tells."""
        if kind == "reads":
            self._reads = regions
        else:
            self._writes = regions
        self.says_regions = True

    @property
    def reads(self) -> tuple[BufferRegion, ...]:
        """The boxes of buffers that it reads."""
        return tuple(self._regions()[0] if self._reads is None else self._reads)

    @property
    def writes(self) -> tuple[BufferRegion, ...]:
        """The boxes of buffers that it writes."""
        return tuple(self._regions()[1] if self._writes is None else self._writes)

    def _regions(self) -> tuple[Sequence[BufferRegion], Sequence[BufferRegion]]:
        from relax_mlir.objects.regions import access_regions

        return access_regions(self)


class BlockRealize(Stmt):
    """One point of a block.

    Attributes:
        iter_values: the values of its axes.
        predicate: where it is not true, the point is left out.
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
        """Whether the predicate is true as it stands."""
        return isinstance(self.predicate, prim.IntImm) and self.predicate.value != 0


def stmt_list(node: Stmt) -> list[Stmt]:
    """The statements that one after the other make one."""
    return list(node.seq) if isinstance(node, SeqStmt) else [node]


def stmt_seq(*statements: Any) -> Stmt:
    """Statements one after the other; a single one stays what it is."""
    flat: list[Stmt] = []
    for statement in statements:
        made = statement if isinstance(statement, Stmt) else Evaluate(statement)
        flat += made.seq if isinstance(made, SeqStmt) else [made]
    return flat[0] if len(flat) == 1 else SeqStmt(flat)
