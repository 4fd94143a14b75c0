"""What every schedule primitive needs: variables, their operations, and the trace."""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from mlir import ir

from relax_mlir.dialects.dims import Dim
from relax_mlir.errors import MissingElementError, ScheduleError, shown
from relax_mlir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import GlobalVar
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.sizes import Symbols
from relax_mlir.tir.schedule import tree
from relax_mlir.tir.schedule.instruction import Instruction, InstructionKind
from relax_mlir.tir.schedule.random_variables import BlockRV, LoopRV
from relax_mlir.tir.schedule.state import ScheduleState, Sref
from relax_mlir.tir.schedule.trace import Trace

__all__ = ["ScheduleBase", "primitive"]

_RENDER_LEVELS = ("detail", "fast", "none")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def primitive(method: _Method) -> _Method:
    """Errors of a primitive say as much as the schedule was asked for."""

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
    """A module that is being scheduled, and the trace of how.

    Attributes:
        state: the module, and what is known of it.
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
        self._setup(ScheduleState(mod), error_render_level)
        self.seed(-1 if seed is None else seed)
        programs = self.state.program_names()
        if len(programs) == 1:
            self._working_on = programs[0]
        elif "main" in programs:
            self._working_on = "main"

    def _setup(self, state: ScheduleState, render_level: str) -> None:
        self.state = state
        self._render_level = render_level
        self._trace = Trace()
        self._values: dict[Any, Sref | int] = {}
        self._working_on: str | None = None
        self._block_kind = "GetBlock"
        self._random = random.Random(0)
        self._seed = 0

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self.state.mod

    @property
    def trace(self) -> Trace:
        """The calls so far."""
        return self._trace

    @property
    def func_working_on(self) -> GlobalVar | None:
        """The program in which blocks are looked up by name."""
        return None if self._working_on is None else GlobalVar(self._working_on)

    def work_on(self, func_name: str) -> None:
        """Say in which program to look up blocks by name."""
        self.state.function(func_name)
        self._working_on = func_name

    def copy(self) -> Any:
        """A schedule of its own in the same state; variables are valid in both."""
        made = type(self).__new__(type(self))
        made._setup(ScheduleState(self.state.module), self._render_level)
        made._working_on, made._block_kind = self._working_on, self._block_kind
        made._trace = Trace(self._trace.insts, self._trace.decisions)
        made.seed(self.fork_seed())
        places = self._places()
        theirs = made._all_operations()
        for variable, value in self._values.items():
            if isinstance(value, int):
                made._values[variable] = value
            elif value.op is not None:
                made._values[variable] = made.state.sref(theirs[places[value.op]])
        return made

    def _all_operations(self) -> list[ir.Operation]:
        """Programs, loops and blocks, in order."""
        found: list[ir.Operation] = []
        for function in self.state.module.func_ops():
            listed = tree.subtree(function.operation)
            found += [
                op
                for op in listed
                if tree.is_function(op) or tree.is_loop(op) or tree.is_block(op)
            ]
        return found

    def _places(self) -> dict[ir.Operation, int]:
        return {op: number for number, op in enumerate(self._all_operations())}

    def seed(self, seed: int) -> None:
        """Begin a new sequence of random numbers; -1 for any."""
        number = operator.index(seed)
        is_any = number == -1
        self._seed = random.SystemRandom().randrange(1, 1 << 31) if is_any else number
        self._random = random.Random(self._seed)

    def fork_seed(self) -> int:
        """A seed for another schedule."""
        return self._random.randrange(1, 1 << 31)

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the module and the trace."""
        self.mod.show(**({} if style is None else {"style": style}))
        print(self._trace)

    # variables

    def get(self, rand_var_or_sref: Any) -> Any:
        """What a variable stands for: a block, a loop or a number.

        Raises:
            IndexError: this schedule did not make it.
        """
        if isinstance(rand_var_or_sref, Sref):
            return rand_var_or_sref.stmt
        if isinstance(rand_var_or_sref, (BlockRV, LoopRV)):
            return self._sref(rand_var_or_sref).stmt
        return self.number(rand_var_or_sref)

    def get_sref(self, rand_var_or_stmt: Any) -> Sref | None:
        """What stands for a block or a loop while primitives replace it."""
        if isinstance(rand_var_or_stmt, (BlockRV, LoopRV)):
            return self._sref(rand_var_or_stmt)
        return self.state.get_sref(rand_var_or_stmt)

    def remove_rv(self, rand_var: BlockRV | LoopRV | prim.PrimExpr) -> None:
        """Forget a variable."""
        self._values.pop(rand_var, None)

    def _sref(self, variable: Any) -> Sref:
        found = self._values.get(variable)
        if not isinstance(found, Sref):
            raise MissingElementError(
                f"schedule: no such {type(variable).__name__}: expected one that this "
                "schedule gave"
            )
        return found

    def number(self, value: Any) -> int:
        """A number, or what a sampling gave.

        Raises:
            IndexError: this schedule did not sample it.
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
            known = {t: self.number(t) for t in used}
            found = prim.substitute(value, known)
            if isinstance(found, prim.IntImm):
                return found.value
        raise TypeError(f"schedule: expected a number, got {shown(value)}")

    def size(self, value: Any) -> Dim:
        """A number, what a sampling gave, or an expression on the sizes of the program."""
        try:
            return self.number(value)
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

    def block_op(self, block: Any, what: str = "block") -> ir.Operation:
        """The operation of a block.

        Raises:
            TypeError: it is no block.
            ScheduleError: it is gone.
        """
        if not isinstance(block, BlockRV):
            raise TypeError(f"{what}: expected a block, got {type(block).__name__}")
        return self._operation(block)

    def loop_op(self, loop: Any) -> ir.Operation:
        """The operation of a loop.

        Raises:
            TypeError: it is no loop.
            ScheduleError: it is gone.
        """
        if not isinstance(loop, LoopRV):
            raise TypeError(f"loop: expected a loop, got {type(loop).__name__}")
        return self._operation(loop)

    def statement_op(self, target: Any) -> ir.Operation:
        """The operation of a loop or of a block."""
        is_loop = isinstance(target, LoopRV)
        return self.loop_op(target) if is_loop else self.block_op(target)

    def _operation(self, variable: Any) -> ir.Operation:
        found = self._sref(variable).op
        if found is None:
            kind = "block" if isinstance(variable, BlockRV) else "loop"
            raise ScheduleError(
                f"schedule: the {kind} is gone: expected one that no primitive has "
                "taken away"
            )
        return found

    def new_block(self, op: ir.Operation) -> BlockRV:
        """A variable for a block."""
        made = BlockRV()
        self._values[made] = self.state.sref(op)
        return made

    def new_loop(self, op: ir.Operation) -> LoopRV:
        """A variable for a loop."""
        made = LoopRV()
        self._values[made] = self.state.sref(op)
        return made

    def new_mark(self, place: int) -> LoopRV:
        """A variable for a place to compute a block at that is no loop: -1 or -2."""
        made = LoopRV()
        self._values[made] = place
        return made

    def mark(self, loop: Any) -> int | None:
        """The place that a variable for no loop stands for, or None."""
        found = self._values.get(loop) if isinstance(loop, LoopRV) else None
        return found if isinstance(found, int) else None

    def new_number(self, value: int) -> prim.Var:
        """A variable for a number that was sampled."""
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
        """Write a call into the trace."""
        made = Instruction(InstructionKind.get(kind), inputs, attrs, outputs)
        self._trace.append(made, decision)

    @contextmanager
    def all_or_nothing(self, op: ir.Operation) -> Iterator[None]:
        """Several primitives around ``op``; if one refuses, none has happened."""
        count = len(self._trace.insts)
        try:
            with self.state.change(op):
                yield
        except BaseException:
            while len(self._trace.insts) > count:
                self._trace.pop()
            raise

    # looking around

    @primitive
    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block with a name.

        Args:
            name: its name.
            func_name: the program it stands in; left out, the one that is worked on.

        Raises:
            ScheduleError: there is none, or more than one.
            ValueError: nobody said which program.
        """
        return self._get_block(name, func_name, "GetBlock")

    @primitive
    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block with a name; the newer spelling of :meth:`get_block`."""
        self._block_kind = "GetSBlock"
        return self._get_block(name, func_name, "GetSBlock")

    def _get_block(self, name: str, func_name: str | None, kind: str) -> BlockRV:
        program = func_name or self._working_on
        if program is None:
            raise ValueError(
                "schedule: does not know which function to be working on: the module has "
                "several; say which by `func_name` or `work_on`"
            )
        found = tree.find_blocks(self.state.function(program), name)
        if len(found) != 1:
            raise _block_error(name, program, len(found))
        made = self.new_block(found[0])
        self.record(kind, [], [name, program], [made])
        return made

    def block_of(self, block: BlockRV | str) -> BlockRV:
        """A block, also where it is given by its name."""
        if isinstance(block, str):
            return self._get_block(block, None, self._block_kind)
        return block

    @primitive
    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block, outermost first, up to the next block."""
        block = self.block_of(block)
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
        """The blocks directly inside a block or a loop, in order."""
        found = tree.blocks_below(self.statement_op(block_or_loop))
        made = list(map(self.new_block, found))
        self.record("GetChildBlocks", [block_or_loop], [], made)
        return made


def _block_error(name: str, program: str, count: int) -> ScheduleError:
    if count:
        return ScheduleError(
            f"get_block: program `{program}` has {count} blocks named `{name}`: expected "
            "one",
            summary="get_block: several blocks have the specified name",
        )
    return ScheduleError(
        f"get_block: program `{program}`: Cannot find a block with the name: {name}",
        summary="get_block: Cannot find a block with the specified name",
    )
