"""Schedule state: the module under transformation and stable references to its statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import ScheduleError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.write.memref import base_buffer
from relax_mlir.passes.tir.expand_loops import expand_loops
from relax_mlir.rewrite import patterns
from relax_mlir.symbolic.bounds import bounds
from relax_mlir.symbolic.dims import Dim
from relax_mlir.symbolic.intervals import Range
from relax_mlir.symbolic.limits import Limits
from relax_mlir.tvm.tir.schedule import edit, tree
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols

__all__ = [
    "ScheduleDebugMask",
    "ScheduleState",
    "StmtSRef",
    "iter_extents",
    "limits_at",
    "loop_bounds",
    "loop_var",
]


class ScheduleDebugMask(IntEnum):
    """Verification switches of TVM; accepted for compatibility, all checks always run."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


class StmtSRef:
    """A stable reference to a loop or a block while primitives replace it; TVM's ``StmtSRef``.

    Attributes:
        op: the operation; None once the statement is removed.
    """

    def __init__(self, state: ScheduleState, op: ir.Operation) -> None:
        self._state = state
        self.op: ir.Operation | None = op

    @property
    def stmt(self) -> Any:  # Any: For, Block or None
        """The loop or the block as a TIR object."""
        return None if self.op is None else self._state.statement(self.op)

    @property
    def parent(self) -> StmtSRef | None:
        """The sref of the parent loop or block."""
        if self.op is None or tree.is_function(self.op):
            return None
        around = tree.ancestors(self.op)
        found = next(
            a for a in around if not tree.is_predicate(a) and a.name != "scf.if"
        )
        return self._state.sref(found)

    def same_as(self, other: object) -> bool:
        """Whether both are the same object."""
        return self is other


class ScheduleState:
    """A module under transformation; structured operations in it are expanded to loops.

    Args:
        mod: a module, or a PrimFunc, which is then named ``main``.
        debug_mask: accepted for compatibility: all checks always run.
        enable_check: accepted for compatibility.

    Attributes:
        module: a private copy of the module.
        srefs: the srefs in use, searched linearly: the hash of an operation changes with it.
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
        self.srefs: list[StmtSRef] = []
        self._snapshot: IRModule | None = None
        self._statements: dict[ir.Operation, Any] = {}
        self._open_changes = 0
        with self.module.context, ir.Location.unknown():
            for function in self.module.func_ops():
                if function_attributes.is_prim_func(function):
                    expand_loops(function)
                    edit.rematerialize_all(function.operation)

    @property
    def mod(self) -> IRModule:
        """A snapshot of the current module; later primitives do not change it."""
        if self._snapshot is None:
            self._snapshot = self.module.clone()
        return self._snapshot

    def function(self, name: str) -> ir.Operation:
        """A PrimFunc of the module.

        Raises:
            ScheduleError: there is none with this name.
        """
        if name not in self.module:
            raise ScheduleError(f"schedule: the module has no function `{name}`")
        return self.module.func_op(name).operation

    def func_names(self) -> list[str]:
        """The names of all PrimFuncs."""
        found = filter(function_attributes.is_prim_func, self.module.func_ops())
        return [op.name.value for op in found]

    def sref(self, op: ir.Operation) -> StmtSRef:
        """The sref of a loop or a block."""
        found = self._find_sref(op)
        if found is None:
            found = StmtSRef(self, op)
            self.srefs.append(found)
        return found

    def _find_sref(self, op: ir.Operation) -> StmtSRef | None:
        return next((s for s in self.srefs if s.op == op), None)

    def get_sref(self, stmt: Any) -> StmtSRef | None:
        """The sref of a loop or block object from :attr:`mod` or :attr:`StmtSRef.stmt`."""
        for op, known in self._statements.items():
            if known is stmt:
                return self.sref(op)
        from relax_mlir.tvm.tir.schedule.statements import find_operation

        for name in self.func_names():
            found = find_operation(self.module, self.function(name), stmt)
            if found is not None:
                self._statements[found] = stmt
                return self.sref(found)
        return None

    def get_block_scope(self, block_sref: StmtSRef) -> Any:  # Any: it knows this module
        """The dependences between the child blocks of a block or PrimFunc."""
        from relax_mlir.tvm.tir.schedule.block_scope import BlockScope

        return BlockScope(self, block_sref)

    def get_sblock_scope(
        self, block_sref: StmtSRef
    ) -> Any:  # Any: it knows this module
        """The newer name of :meth:`get_block_scope`."""
        return self.get_block_scope(block_sref)

    def statement(self, op: ir.Operation) -> Any:  # Any: For or Block
        """A loop or a block as a TIR object, cached until the next change."""
        from relax_mlir.tvm.tir.schedule.statements import read_statement

        if op not in self._statements:
            self._statements[op] = read_statement(self.module, op)
        return self._statements[op]

    # changes

    @contextmanager
    def change(
        self, op: ir.Operation, *, of_primitives: bool = False
    ) -> Iterator[IndexSymbols]:
        """A transaction on the PrimFunc around ``op``: it is restored if the body raises.

        Transactions nest. The outermost one of a primitive rejects a change that makes
        iterations of parallel, vectorized or thread-bound loops depend on one another.

        Args:
            of_primitives: whether it holds several primitives, each with a transaction of
                its own, which are replayed one by one.
        """
        from relax_mlir.tvm.tir.schedule import concurrency

        function = tree.function_of(op)
        name = ir.StringAttr(function.attributes["sym_name"]).value
        _check_no_aliases(function)
        numbers = self._preorder_numbers(function)
        backup = function.clone().operation
        self._open_changes += not of_primitives
        try:
            with self.module.context, ir.Location.unknown():
                indices = IndexSymbols()
                indices.add_size_symbols(function)
                yield indices
                edit.erase_dead_arithmetic(function)
                if self._open_changes == 1 and not of_primitives:
                    concurrency.check_loops(function, backup)
        except BaseException:
            self._restore(self.function(name), backup, numbers)
            raise
        finally:
            self._open_changes -= not of_primitives
        backup.erase()
        self._snapshot = None
        self._statements.clear()

    def _preorder_numbers(self, function: ir.Operation) -> dict[StmtSRef, int]:
        """The preorder number of each statement of a PrimFunc that has an sref."""
        listed = enumerate(tree.subtree(function))
        found = ((self._find_sref(op), n) for n, op in listed if tree.is_statement(op))
        return {sref: n for sref, n in found if sref is not None}

    def _restore(
        self,
        function: ir.Operation,
        backup: ir.Operation,
        numbers: Mapping[StmtSRef, int],
    ) -> None:
        ir.InsertionPoint(function).insert(backup)
        for sref in [s for s in self.srefs if _is_inside(function, s.op)]:
            self._forget(sref)
        function.erase()
        listed = tree.subtree(backup)
        for sref, number in numbers.items():
            sref.op = listed[number]
            self.srefs.append(sref)

    def _forget(self, sref: StmtSRef) -> None:
        sref.op = None
        self.srefs.remove(sref)

    def replace(self, old: ir.Operation, new: ir.Operation) -> None:
        """Redirect the sref of ``old`` to ``new``."""
        sref = self._find_sref(old)
        if sref is not None:
            sref.op = new

    def erase(self, op: ir.Operation) -> None:
        """Erase a statement with its subtree."""
        for inner in filter(tree.is_statement, tree.subtree(op)):
            sref = self._find_sref(inner)
            if sref is not None:
                self._forget(sref)
        patterns.erase(op)

    def erase_with_empty_loops(self, op: ir.Operation) -> None:
        """Erase a statement, and the loops around it that become empty."""
        outer = op
        while True:
            around = tree.parent_of(outer)
            is_scope = tree.is_block(around) or tree.is_function(around)
            if is_scope or len(tree.children(around)) > 1:
                break
            outer = around
        self.erase(outer)


def _check_no_aliases(function: ir.Operation) -> None:
    """Reject PrimFuncs with buffers that alias.

    Raises:
        ScheduleError: there is one; the accesses of a buffer are then not found by its value.
    """
    for op in tree.subtree(function):
        if op.name != "tir.decl_buffer":
            continue
        sharing = [u for u in op.operands[0].uses if u.owner.name == op.name]
        if base_buffer(op.results[0]) != op.results[0] or len(sharing) > 1:
            name = tree.string_attr(op, attribute_names.NAME, "buffer")
            raise ScheduleError(
                f"schedule: buffer `{name}` of `{tree.block_name(function)}` aliases "
                "another one (`T.decl_buffer(..., data=...)`): expected buffers with "
                "memory of their own"
            )


def _is_inside(function: ir.Operation, op: ir.Operation | None) -> bool:
    return op is not None and tree.function_of(op) == function


def limits_at(indices: IndexSymbols, op: ir.Operation) -> dict[str, Range]:
    """Value ranges of the variables in scope at an operation, and of its own."""
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
    """The induction variable of a loop."""
    return tree.body(loop).arguments[0]


def loop_bounds(indices: IndexSymbols, loop: ir.Operation) -> tuple[Dim, Dim]:
    """The lower bound and the trip count of a loop."""
    low, high = (indices.of(v) for v in list(loop.operands)[:2])
    return low, high - low


def _loop_limits(indices: IndexSymbols, loop: ir.Operation, limits: Limits) -> Range:
    low, extent = loop_bounds(indices, loop)
    return _limits(low, low + extent - 1, limits)


def _limits(low: Dim, high: Dim, limits: Limits) -> Range:
    return bounds(low, limits)[0], bounds(high, limits)[1]


def _axis_limits(
    indices: IndexSymbols, block: ir.Operation, limits: Limits
) -> dict[str, Range]:
    found: dict[str, Range] = {}
    for number, extent in enumerate(iter_extents(indices, block)):
        start = tree.iter_var_mins(block)[number]
        for region in block.regions:
            for inner in region.blocks:
                name = indices.symbol(inner.arguments[number])
                found[name] = _limits(start, start + extent - 1, limits)
    return found


def iter_extents(indices: IndexSymbols, block: ir.Operation) -> list[Dim]:
    """The extents of the iter domain of a block, as expressions."""
    return [
        e if isinstance(e, int) else indices.of(e)
        for e in tree.iter_extent_operands(block)
    ]
