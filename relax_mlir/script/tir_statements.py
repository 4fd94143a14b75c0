"""Statements of scripts that are functions: ``T.evaluate``, ``T.LetStmt``, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import dtype_text, sequence_of
from relax_mlir.objects.buffer import Buffer as ProgramBuffer
from relax_mlir.objects.pointers import Pointer
from relax_mlir.objects.prim import CommReducer, IterVar, PrimExpr, StringImm, Var
from relax_mlir.script.tir_buffers import regions_of
from relax_mlir.script.tir_frames import (
    AssertFrame,
    AttrFrame,
    BranchScope,
    IfScope,
    LetFrame,
    RealizeFrame,
    WriterScope,
)
from relax_mlir.script.tir_program import Scope, current_program, open_program

__all__ = [
    "Assert",
    "Bind",
    "Else",
    "If",
    "LetStmt",
    "Then",
    "While",
    "arg",
    "attr",
    "bind",
    "buffer_store",
    "comm_reducer",
    "evaluate",
    "iter_var",
    "let",
    "message_text",
    "realize",
    "var",
]


def LetStmt(  # noqa: N802
    value: Any, type_annotation: Any = None, *, var: Var | None = None
) -> Scope:
    """A name for a scalar, for what follows."""
    return LetFrame(value, var)


def Bind(  # noqa: N802
    value: Any, type_annotation: Any = None, *, var: Var | None = None
) -> Any:
    """A name for a scalar, from here on; gives the variable if it is a new one."""
    frame = LetFrame(value, var)
    with frame:
        return frame.value if var is None else None


bind = Bind


class _Let:
    """``T.let(var, value)``, and ``x: T.let[T.int32] = value``."""

    def __call__(self, v: Var, value: Any, body: Any = None) -> Any:
        return LetFrame(value, v) if body is None else prim.Let(v, value, body)

    def __getitem__(self, kind: Any) -> Any:
        return kind


let = _Let()


def Assert(condition: Any, message: Any, error_kind: str = "RuntimeError") -> Scope:  # noqa: N802
    """What holds for what follows."""
    return AssertFrame(condition, message_text(message))


def message_text(message: Any) -> str:
    """The text of an assertion, which may come with a kind of error."""
    if isinstance(message, (tuple, list)):
        if not message:
            return ""
        *_, last = message
        parts = last if isinstance(last, (list, tuple)) else [last]
        return "".join(map(message_text, parts))
    return message if isinstance(message, str) else shown(message)


def If(condition: Any) -> Scope:  # noqa: N802
    """A choice; ``T.Then`` and ``T.Else`` in it open the branches."""
    return IfScope(condition)


def Then() -> Scope:  # noqa: N802
    """The branch where the condition holds."""
    return BranchScope("Then")


def Else() -> Scope:  # noqa: N802
    """The branch where the condition does not hold."""
    return BranchScope("Else")


def arg(name: str, obj: Any) -> Any:
    """One more parameter of the program; gives the variable or the buffer."""
    program = current_program("T.arg")
    program.name(obj, name)
    obj.name = name
    if isinstance(obj, ProgramBuffer):
        program.writer.buffer_param(obj, Pointer(f"{name}_handle"))
    else:
        program.writer.scalar_param(obj)
    return obj


def attr(node: Any, attr_key: str, value: Any) -> Scope:
    """Say something of what follows.

    Args:
        node: of what: a variable, a buffer, a number, a string, or several of them.
        attr_key: what is said.
        value: a scalar or a string that goes with it.
    """
    return AttrFrame(node, attr_key, value)


def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> Scope:
    """Let a box of a buffer be memory, for what follows.

    Args:
        buffer_slice: the box.
        storage_scope: in which memory.
        condition: whether it is.

    Raises:
        TypeError: it is no box.
    """
    if isinstance(buffer_slice, ProgramBuffer):
        raise TypeError(
            f"`T.realize`: expected a part of a buffer, got `{buffer_slice.name}`"
        )
    regions = regions_of([buffer_slice])
    if len(regions) != 1:
        raise TypeError(f"`T.realize`: expected a part of a buffer, got {len(regions)}")
    (region,) = regions
    return RealizeFrame(region, storage_scope, condition)


def While(condition: Any) -> Scope:  # noqa: N802
    """What is repeated while a condition holds; use it in a ``with``."""
    writer = current_program("T.While").writer
    return WriterScope(lambda: writer.while_(condition))


def evaluate(value: Any) -> None:
    """Compute a scalar for what else that does."""
    program = current_program("T.evaluate")
    if isinstance(value, str):
        value = StringImm(value)
    program.writer.evaluate(value)


def buffer_store(
    buffer: ProgramBuffer, value: Any, indices: Any, predicate: Any = None
) -> None:
    """``buffer[indices] = value``."""
    listed = list(indices) if isinstance(indices, (tuple, list)) else [indices]
    current_program("T.buffer_store").writer.store(buffer, value, listed, predicate)


def var(dtype: str, name: str = "") -> Var:
    """A new variable."""
    made, program = Var(name, dtype_text(dtype, "`dtype`")), open_program()
    return made if program is None or name else program.new(made)


def iter_var(v: Any, dom: Any, iter_type: str, thread_tag: str) -> IterVar:
    """An axis as an object."""
    kinds = {"DataPar": 0, "ThreadIndex": 1, "CommReduce": 2, "Ordered": 3, "Opaque": 4}
    if iter_type not in kinds:
        raise ValueError(
            f"T.iter_var: `iter_type`: expected one of {', '.join(kinds)}, got {iter_type}"
        )
    return IterVar(dom, v, kinds[iter_type], thread_tag)


def comm_reducer(combiner: Callable[..., Any], identity: Any) -> CommReducer:
    """How a reduction combines values, and what it starts with."""
    listed = sequence_of(identity, "T.comm_reducer: `identity`", "terms")
    starts = [prim.convert(v) for v in listed]
    count = len(starts)

    def combine(lhs: Any, rhs: Any) -> list[PrimExpr]:
        made = combiner(*lhs, *rhs)
        return list(made) if count > 1 else [made]

    return CommReducer("reduce", combine, lambda dtypes: starts)
