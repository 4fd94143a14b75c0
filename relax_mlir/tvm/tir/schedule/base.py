"""Common part of schedules: random variables, the statements they refer to, and the trace."""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from mlir import ir

from relax_mlir.errors import MissingElementError, ScheduleError, short_repr
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.symbolic.dims import Dim
from relax_mlir.tvm.tir.schedule import tree
from relax_mlir.tvm.tir.schedule.instruction import Instruction, InstructionKind
from relax_mlir.tvm.tir.schedule.random_variables import BlockRV, LoopRV
from relax_mlir.tvm.tir.schedule.state import ScheduleState, StmtSRef
from relax_mlir.tvm.tir.schedule.trace import Trace

__all__ = ["ScheduleBase", "primitive"]

_RENDER_LEVELS = ("detail", "fast", "none")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def primitive(method: _Method) -> _Method:
    """Decorates a primitive: its errors are as detailed as ``error_render_level`` asks."""

    @functools.wraps(method)
    def call(self: ScheduleBase, *args: Any, **named: Any) -> Any:
        try:
            return method(self, *args, **named)
        except ScheduleError as error:
            if self._render_level == "none":
                name = method.__name__
                raise ScheduleError(
                    f"schedule primitive `{name}`: (not rendered)"
                ) from None
            if self._render_level == "fast" and error.summary:
                raise ScheduleError(error.summary) from None
            raise

    return call  # pyright: ignore[reportReturnType]


class ScheduleBase:
    """A module under transformation, and the trace of the primitives applied to it.

    Attributes:
        state: the module and the srefs of its statements.
    """

    def __init__(
        self,
        mod: IRModule | BaseFunc,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        if error_render_level not in _RENDER_LEVELS:
            raise ValueError(
                f"error_render_level: expected one of {', '.join(_RENDER_LEVELS)}, got "
                f"`{error_render_level}`"
            )
        self._initialise(ScheduleState(mod), error_render_level)
        self.seed(-1 if seed is None else seed)
        func_names = self.state.func_names()
        if len(func_names) == 1:
            self._working_on = func_names[0]
        elif "main" in func_names:
            self._working_on = "main"

    def _initialise(self, state: ScheduleState, render_level: str) -> None:
        self.state = state
        self._render_level = render_level
        self._trace = Trace()
        self._values: dict[Any, StmtSRef | int] = {}
        self._working_on: str | None = None
        self._block_kind = "GetBlock"
        self._random = random.Random(0)
        self._seed = 0

    @property
    def mod(self) -> IRModule:
        """The module in its current state."""
        return self.state.mod

    @property
    def trace(self) -> Trace:
        """The instructions recorded so far."""
        return self._trace

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The PrimFunc in which blocks are looked up by name."""
        return None if self._working_on is None else GlobalVar(self._working_on)

    def work_on(self, func_name: str) -> None:
        """Set the PrimFunc in which blocks are looked up by name."""
        self.state.function(func_name)
        self._working_on = func_name

    def copy(self) -> Any:
        """An independent schedule in the same state; random variables are valid in both."""
        copied = type(self).__new__(type(self))
        copied._initialise(ScheduleState(self.state.module), self._render_level)
        copied._working_on, copied._block_kind = self._working_on, self._block_kind
        copied._trace = Trace(self._trace.insts, self._trace.decisions)
        copied.seed(self.fork_seed())
        numbers = self._operation_numbers()
        copied_operations = copied._all_operations()
        for variable, value in self._values.items():
            if isinstance(value, int):
                copied._values[variable] = value
            elif value.op is not None:
                copied._values[variable] = copied.state.sref(
                    copied_operations[numbers[value.op]]
                )
        return copied

    def _all_operations(self) -> list[ir.Operation]:
        """PrimFuncs, loops and blocks, in program order."""
        found: list[ir.Operation] = []
        for function in self.state.module.func_ops():
            listed = tree.subtree(function.operation)
            found += [
                op
                for op in listed
                if tree.is_function(op) or tree.is_loop(op) or tree.is_block(op)
            ]
        return found

    def _operation_numbers(self) -> dict[ir.Operation, int]:
        return {op: number for number, op in enumerate(self._all_operations())}

    def seed(self, seed: int) -> None:
        """Seed the random state; -1 takes a seed from the system."""
        number = operator.index(seed)
        is_any = number == -1
        self._seed = random.SystemRandom().randrange(1, 1 << 31) if is_any else number
        self._random = random.Random(self._seed)

    def fork_seed(self) -> int:
        """A seed for another schedule, drawn from the random state."""
        return self._random.randrange(1, 1 << 31)

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the module and the trace."""
        self.mod.show(**({} if style is None else {"style": style}))
        print(self._trace)

    # random variables

    def get(self, rand_var_or_sref: Any) -> Any:
        """The value of a random variable: a block, a loop or an integer.

        Raises:
            IndexError: the variable is not of this schedule.
        """
        if isinstance(rand_var_or_sref, StmtSRef):
            return rand_var_or_sref.stmt
        if isinstance(rand_var_or_sref, (BlockRV, LoopRV)):
            return self._sref(rand_var_or_sref).stmt
        return self.int_value(rand_var_or_sref)

    def get_sref(self, rand_var_or_stmt: Any) -> StmtSRef | None:
        """The sref of a block or a loop, valid while primitives replace the statement."""
        if isinstance(rand_var_or_stmt, (BlockRV, LoopRV)):
            return self._sref(rand_var_or_stmt)
        return self.state.get_sref(rand_var_or_stmt)

    def remove_rv(self, rand_var: BlockRV | LoopRV | prim.PrimExpr) -> None:
        """Remove a random variable from the symbol table."""
        self._values.pop(rand_var, None)

    def _sref(self, variable: Any) -> StmtSRef:
        found = self._values.get(variable)
        if not isinstance(found, StmtSRef):
            raise MissingElementError(
                f"schedule: no such {type(variable).__name__}: expected one of this "
                "schedule"
            )
        return found

    def int_value(self, value: Any) -> int:
        """An integer, or the value of an integer random variable or expression.

        Raises:
            IndexError: the variable was not sampled in this schedule.
        """
        if isinstance(value, (int, np.integer, prim.IntImm)):
            return int(value)
        if isinstance(value, prim.Var):
            found = self._values.get(value)
            if not isinstance(found, int):
                raise MissingElementError(f"schedule: no value for `{value.name}`")
            return found
        if isinstance(value, prim.PrimExpr):
            used = {t for t in prim.post_order(value) if isinstance(t, prim.Var)}
            known = {t: self.int_value(t) for t in used}
            found = prim.substitute(value, known)
            if isinstance(found, prim.IntImm):
                return found.value
        raise TypeError(f"schedule: expected a number, got {short_repr(value)}")

    def size(self, value: Any) -> Dim:
        """An integer, the value of a random variable, or an expression of symbolic sizes."""
        try:
            return self.int_value(value)
        except (IndexError, TypeError):
            symbols = self._symbols()
            for term in prim.post_order(prim.convert(value)):
                if isinstance(term, prim.Var) and isinstance(
                    self._values.get(term), int
                ):
                    value = prim.substitute(value, {term: self._values[term]})
            return symbols.dim(value)

    def _symbols(self) -> Symbols:
        return self.state.module.scope(self._working_on or "main").symbols

    def block_op(self, block: Any) -> ir.Operation:
        """The operation of a block.

        Raises:
            TypeError: it is not a block variable.
            ScheduleError: the block no longer exists.
        """
        if not isinstance(block, BlockRV):
            raise TypeError(f"block: expected a block, got {type(block).__name__}")
        return self._operation(block)

    def loop_op(self, loop: Any) -> ir.Operation:
        """The operation of a loop.

        Raises:
            TypeError: it is not a loop variable.
            ScheduleError: the loop no longer exists.
        """
        if not isinstance(loop, LoopRV):
            raise TypeError(f"loop: expected a loop, got {type(loop).__name__}")
        return self._operation(loop)

    def statement_op(self, target: Any) -> ir.Operation:
        """The operation of a loop or a block."""
        is_loop = isinstance(target, LoopRV)
        return self.loop_op(target) if is_loop else self.block_op(target)

    def _operation(self, variable: Any) -> ir.Operation:
        found = self._sref(variable).op
        if found is None:
            kind = "block" if isinstance(variable, BlockRV) else "loop"
            raise ScheduleError(
                f"schedule: the {kind} no longer exists: expected one that no primitive "
                "has removed"
            )
        return found

    def new_block(self, op: ir.Operation) -> BlockRV:
        """A new random variable for a block."""
        made = BlockRV()
        self._values[made] = self.state.sref(op)
        return made

    def new_loop(self, op: ir.Operation) -> LoopRV:
        """A new random variable for a loop."""
        made = LoopRV()
        self._values[made] = self.state.sref(op)
        return made

    def new_sentinel(self, sentinel_location: int) -> LoopRV:
        """A random variable for a sentinel compute location: -1 for root, -2 for inline."""
        made = LoopRV()
        self._values[made] = sentinel_location
        return made

    def sentinel(self, loop: Any) -> int | None:
        """The sentinel compute location of a random variable; None for a loop."""
        found = self._values.get(loop) if isinstance(loop, LoopRV) else None
        return found if isinstance(found, int) else None

    def new_number(self, value: int) -> prim.Var:
        """A random variable for a sampled integer."""
        made = prim.Var(f"v{len(self._values)}", "int32")
        self._values[made] = value
        return made

    def record(
        self,
        kind: str,
        inputs: Sequence[Any],
        attrs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        decision: Any = None,
    ) -> None:
        """Append an instruction to the trace."""
        made = Instruction(InstructionKind.get(kind), inputs, attrs, outputs)
        self._trace.append(made, decision)

    @contextmanager
    def transaction(self, op: ir.Operation) -> Iterator[None]:
        """Transaction of several primitives around ``op``: if one fails, all are undone."""
        count = len(self._trace.insts)
        try:
            with self.state.change(op, of_primitives=True):
                yield
        except BaseException:
            while len(self._trace.insts) > count:
                self._trace.pop()
            raise

    # block and loop relations

    @primitive
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block with a name.

        Args:
            name: its name.
            func_name: the PrimFunc that contains it; by default, the one that is worked on.

        Raises:
            ScheduleError: there is none, or more than one.
            ValueError: the module has several PrimFuncs and none is selected.
        """
        return self._get_block(name, func_name, "GetBlock")

    @primitive
    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block with a name; the newer name of :meth:`get_block`."""
        self._block_kind = "GetSBlock"
        return self._get_block(name, func_name, "GetSBlock")

    def _get_block(self, name: str, func_name: str | None, kind: str) -> BlockRV:
        function_name = func_name or self._working_on
        if function_name is None:
            raise ValueError(
                "schedule: does not know which function to be working on: the module has "
                "several; say which by `func_name` or `work_on`"
            )
        found = tree.find_blocks(self.state.function(function_name), name)
        if len(found) != 1:
            raise _block_error(name, function_name, len(found))
        made = self.new_block(found[0])
        self.record(kind, [], [name, function_name], [made])
        return made

    def resolve_block(self, block: BlockRV | str) -> BlockRV:
        """A block, given by its random variable or its name."""
        if isinstance(block, str):
            return self._get_block(block, None, self._block_kind)
        return block

    @primitive
    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block within its scope, outermost first."""
        block = self.resolve_block(block)
        loops = (
            tree.enclosing_loops(self.block_op(block))
            if (not tree.is_function(self.block_op(block)))
            else []
        )
        made = list(map(self.new_loop, loops))
        self.record("GetLoops", [block], [], made)
        return made

    @primitive
    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        """The child blocks of a block or a loop, in program order."""
        found = tree.blocks_below(self.statement_op(block_or_loop))
        made = list(map(self.new_block, found))
        self.record("GetChildBlocks", [block_or_loop], [], made)
        return made


def _block_error(name: str, func_name: str, count: int) -> ScheduleError:
    if count:
        return ScheduleError(
            f"get_block: function `{func_name}` has {count} blocks named `{name}`: expected "
            "one",
            summary="get_block: several blocks have the specified name",
        )
    return ScheduleError(
        f"get_block: function `{func_name}`: Cannot find a block with the name: {name}",
        summary="get_block: Cannot find a block with the specified name",
    )
