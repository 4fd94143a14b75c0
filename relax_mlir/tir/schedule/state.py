"""What a schedule works on: a module, and what it knows of loops and blocks in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from mlir import ir

from relax_mlir import rewriting
from relax_mlir.dialects.dim_bounds import bounds
from relax_mlir.dialects.dim_limits import Limits
from relax_mlir.dialects.dims import Dim
from relax_mlir.dialects.intervals import Range
from relax_mlir.dialects.tir import marks
from relax_mlir.errors import ScheduleError
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.memrefs import whole_buffer
from relax_mlir.passes.tir.expand_loops import expand_loops
from relax_mlir.tir.schedule import edit, tree
from relax_mlir.tir.schedule.indices import Indices

__all__ = [
    "ScheduleDebugMask",
    "ScheduleState",
    "Sref",
    "extents_of",
    "limits_at",
    "loop_bounds",
    "loop_var",
]


class ScheduleDebugMask(IntEnum):
    """What TVM may be asked to verify; here everything always is."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


class Sref:
    """A loop or a block, which stays the same while primitives replace it.

    Attributes:
        op: the operation; None once it is gone.
    """

    def __init__(self, state: ScheduleState, op: ir.Operation) -> None:
        self._state = state
        self.op: ir.Operation | None = op

    @property
    def stmt(self) -> Any:  # Any: For, Block or None
        """The loop or the block as an object."""
        return None if self.op is None else self._state.statement(self.op)

    @property
    def parent(self) -> Sref | None:
        """The loop or the block around."""
        if self.op is None or tree.is_function(self.op):
            return None
        around = tree.ancestors(self.op)
        found = next(a for a in around if not tree.is_where(a) and a.name != "scf.if")
        return self._state.sref(found)

    def same_as(self, other: object) -> bool:
        """Whether it is the same object."""
        return self is other


class ScheduleState:
    """A module that is being scheduled; all loops of its programs are written out.

    Args:
        mod: a module, or one program, which is then called ``main``.
        debug_mask: accepted for compatibility: everything is always checked.
        enable_check: accepted for compatibility.

    Attributes:
        module: what it works on; nobody else has it.
        srefs: what is known of loops and blocks. It is searched by identity: the hash of an
            operation changes when the operation does.
    """

    def __init__(
        self,
        mod: IRModule | BaseFunc,
        *,
        debug_mask: str | int = "none",
        enable_check: bool = True,
    ) -> None:
        module = mod if isinstance(mod, IRModule) else IRModule({"main": mod})
        self.module = module.clone()
        self.srefs: list[Sref] = []
        self._snapshot: IRModule | None = None
        self._statements: dict[ir.Operation, Any] = {}
        with self.module.context, ir.Location.unknown():
            for function in self.module.func_ops():
                if names.is_prim_func(function):
                    expand_loops(function)
                    edit.localise(function.operation)

    @property
    def mod(self) -> IRModule:
        """The module as it is now; later primitives do not change it."""
        if self._snapshot is None:
            self._snapshot = self.module.clone()
        return self._snapshot

    def function(self, name: str) -> ir.Operation:
        """A program of the module.

        Raises:
            ScheduleError: there is none with this name.
        """
        if name not in self.module:
            raise ScheduleError(f"schedule: the module has no program `{name}`")
        return self.module.func_op(name).operation

    def program_names(self) -> list[str]:
        """The names of all tensor programs."""
        found = filter(names.is_prim_func, self.module.func_ops())
        return [op.name.value for op in found]

    def sref(self, op: ir.Operation) -> Sref:
        """What stands for a loop or a block."""
        found = self._known(op)
        if found is None:
            found = Sref(self, op)
            self.srefs.append(found)
        return found

    def _known(self, op: ir.Operation) -> Sref | None:
        return next((s for s in self.srefs if s.op == op), None)

    def get_sref(self, stmt: Any) -> Sref | None:
        """What stands for a loop or a block of :attr:`mod`, or that :attr:`Sref.stmt` gave."""
        for op, known in self._statements.items():
            if known is stmt:
                return self.sref(op)
        from relax_mlir.tir.schedule.statements import find_statement

        for name in self.program_names():
            found = find_statement(self.module, self.function(name), stmt)
            if found is not None:
                self._statements[found] = stmt
                return self.sref(found)
        return None

    def get_block_scope(self, block_sref: Sref) -> Any:  # Any: it knows this module
        """How the blocks in a block or a program depend on one another."""
        from relax_mlir.tir.schedule.block_scope import BlockScope

        return BlockScope(self, block_sref)

    def get_sblock_scope(self, block_sref: Sref) -> Any:  # Any: it knows this module
        """The newer spelling of :meth:`get_block_scope`."""
        return self.get_block_scope(block_sref)

    def statement(self, op: ir.Operation) -> Any:  # Any: For or Block
        """A loop or a block as an object, the same while nothing changes."""
        from relax_mlir.tir.schedule.statements import read_statement

        if op not in self._statements:
            self._statements[op] = read_statement(self.module, op)
        return self._statements[op]

    # changes

    @contextmanager
    def change(self, op: ir.Operation) -> Iterator[Indices]:
        """A change of the program around ``op``; if it fails, nothing has happened.

        Changes may stand in one another.
        """
        function = tree.function_of(op)
        name = ir.StringAttr(function.attributes["sym_name"]).value
        _check_own_memory(function)
        paths = self._paths(function)
        backup = function.clone().operation
        try:
            with self.module.context, ir.Location.unknown():
                indices = Indices()
                indices.add_sizes(function)
                yield indices
                edit.sweep(function)
        except BaseException:
            self._restore(self.function(name), backup, paths)
            raise
        backup.erase()
        self._snapshot = None
        self._statements.clear()

    def _paths(self, function: ir.Operation) -> dict[Sref, int]:
        """The number of each operation that is known, among all of the program."""
        listed = enumerate(tree.subtree(function))
        found = ((self._known(op), n) for n, op in listed if tree.is_statement(op))
        return {sref: n for sref, n in found if sref is not None}

    def _restore(
        self, function: ir.Operation, backup: ir.Operation, paths: Mapping[Sref, int]
    ) -> None:
        ir.InsertionPoint(function).insert(backup)
        for sref in [s for s in self.srefs if _stands_in(function, s.op)]:
            self._forget(sref)
        function.erase()
        listed = tree.subtree(backup)
        for sref, number in paths.items():
            sref.op = listed[number]
            self.srefs.append(sref)

    def _forget(self, sref: Sref) -> None:
        sref.op = None
        self.srefs.remove(sref)

    def replace(self, old: ir.Operation, new: ir.Operation) -> None:
        """Say that ``new`` stands where ``old`` stood."""
        sref = self._known(old)
        if sref is not None:
            sref.op = new

    def erase(self, op: ir.Operation) -> None:
        """Erase a statement with all that is in it."""
        for inner in filter(tree.is_statement, tree.subtree(op)):
            sref = self._known(inner)
            if sref is not None:
                self._forget(sref)
        rewriting.erase(op)

    def erase_alone(self, op: ir.Operation) -> None:
        """Erase a statement, and loops around that hold nothing else."""
        outer = op
        while True:
            around = tree.parent_of(outer)
            keeps = tree.is_block(around) or tree.is_function(around)
            if keeps or len(tree.children(around)) > 1:
                break
            outer = around
        self.erase(outer)


def _check_own_memory(function: ir.Operation) -> None:
    """Refuse to change programs with buffers in the memory of others.

    Raises:
        ScheduleError: there is one, so that names of buffers do not tell what is written.
    """
    for op in tree.subtree(function):
        if op.name != "tir.decl_buffer":
            continue
        sharing = [u for u in op.operands[0].uses if u.owner.name == op.name]
        if whole_buffer(op.results[0]) != op.results[0] or len(sharing) > 1:
            name = tree.string_attr(op, marks.NAME, "buffer")
            raise ScheduleError(
                f"schedule: buffer `{name}` of `{tree.block_name(function)}` lies in the "
                "memory of another one (`T.decl_buffer(..., data=...)`): expected "
                "buffers with memory of their own"
            )


def _stands_in(function: ir.Operation, op: ir.Operation | None) -> bool:
    return op is not None and tree.function_of(op) == function


def limits_at(indices: Indices, op: ir.Operation) -> dict[str, Range]:
    """Bounds of the variables that an operation sees, and of its own."""
    found: dict[str, Range] = {}
    for around in reversed(
        [op, *tree.ancestors(op)] if not tree.is_function(op) else []
    ):
        if tree.is_loop(around):
            found[indices.symbol(loop_var(around))] = _loop_limits(
                indices, around, found
            )
        elif tree.is_block(around):
            found |= _axis_limits(indices, around, found)
    return found


def loop_var(loop: ir.Operation) -> ir.Value:
    """The variable of a loop."""
    return tree.body(loop).arguments[0]


def loop_bounds(indices: Indices, loop: ir.Operation) -> tuple[Dim, Dim]:
    """Where a loop begins, and how many steps it has."""
    low, high = (indices.of(v) for v in list(loop.operands)[:2])
    return low, high - low


def _loop_limits(indices: Indices, loop: ir.Operation, limits: Limits) -> Range:
    low, extent = loop_bounds(indices, loop)
    return _limits(low, low + extent - 1, limits)


def _limits(low: Dim, high: Dim, limits: Limits) -> Range:
    return bounds(low, limits)[0], bounds(high, limits)[1]


def _axis_limits(
    indices: Indices, block: ir.Operation, limits: Limits
) -> dict[str, Range]:
    found: dict[str, Range] = {}
    for number, extent in enumerate(extents_of(indices, block)):
        start = tree.axis_starts(block)[number]
        for region in block.regions:
            for inner in region.blocks:
                name = indices.symbol(inner.arguments[number])
                found[name] = _limits(start, start + extent - 1, limits)
    return found


def extents_of(indices: Indices, block: ir.Operation) -> list[Dim]:
    """The extents of the axes of a block."""
    return [
        e if isinstance(e, int) else indices.of(e) for e in tree.axis_extents(block)
    ]
