"""Statements of scripts with function syntax: ``T.evaluate``, ``T.LetStmt``, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import dtype_text, sequence_of
from relax_mlir.objects.prim import CommReducer, IterVar, PrimExpr, StringImm, Var
from relax_mlir.objects.prim.pointers import Pointer
from relax_mlir.objects.stmt.buffer import Buffer as TirBuffer
from relax_mlir.tvm.script.tir_buffers import buffer_regions
from relax_mlir.tvm.script.tir_frames import (
    AssertFrame,
    AttrFrame,
    BranchScope,
    IfScope,
    LetFrame,
    RealizeFrame,
    WriterScope,
)
from relax_mlir.tvm.script.tir_program import (
    Scope,
    current_prim_func,
    current_prim_func_or_none,
)

__all__ = [
    "Assert",
    "Bind",
    "Else",
    "If",
    "LetStmt",
    "Then",
    "While",
    "arg",
    "assert_message",
    "attr",
    "bind",
    "buffer_store",
    "comm_reducer",
    "evaluate",
    "iter_var",
    "let",
    "realize",
    "var",
]


def LetStmt(  # noqa: N802
    value: Any, type_annotation: Any = None, *, var: Var | None = None
) -> Scope:
    """Opens a let statement."""
    return LetFrame(value, var)


def Bind(  # noqa: N802
    value: Any, type_annotation: Any = None, *, var: Var | None = None
) -> Any:
    """Binds a scalar to a variable until the end of the scope; returns a new variable."""
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
    """Opens the scope of an assertion."""
    return AssertFrame(condition, assert_message(message))


def assert_message(message: Any) -> str:
    """Returns the message of an assertion, which may be a pair of error kind and text."""
    if isinstance(message, (tuple, list)):
        if not message:
            return ""
        *_, last = message
        parts = last if isinstance(last, (list, tuple)) else [last]
        return "".join(map(assert_message, parts))
    return message if isinstance(message, str) else short_repr(message)


def If(condition: Any) -> Scope:  # noqa: N802
    """Opens an if statement; ``T.Then`` and ``T.Else`` in it open the branches."""
    return IfScope(condition)


def Then() -> Scope:  # noqa: N802
    """Opens the branch taken if the condition is true."""
    return BranchScope("Then")


def Else() -> Scope:  # noqa: N802
    """Opens the branch taken if the condition is false."""
    return BranchScope("Else")


def arg(name: str, obj: Any) -> Any:
    """Adds a parameter to the PrimFunc; returns the variable or buffer."""
    state = current_prim_func("T.arg")
    state.name(obj, name)
    obj.name = name
    if isinstance(obj, TirBuffer):
        state.writer.buffer_param(obj, Pointer(f"{name}_handle"))
    else:
        state.writer.scalar_param(obj)
    return obj


def attr(node: Any, attr_key: str, value: Any) -> Scope:
    """Opens an attribute statement.

    Args:
        node: the annotated node: a variable, buffer, number, string, or a list of them.
        attr_key: the attribute's name.
        value: the attribute's value, a scalar or a string.
    """
    return AttrFrame(node, attr_key, value)


def realize(buffer_slice: Any, storage_scope: str, condition: Any = True) -> Scope:
    """Opens a scope in which a buffer region is realized in memory.

    Args:
        buffer_slice: the region.
        storage_scope: the memory scope.
        condition: whether the region is realized.

    Raises:
        TypeError: ``buffer_slice`` is not a region.
    """
    if isinstance(buffer_slice, TirBuffer):
        raise TypeError(
            f"`T.realize`: expected a buffer region, got `{buffer_slice.name}`"
        )
    regions = buffer_regions([buffer_slice])
    if len(regions) != 1:
        raise TypeError(f"`T.realize`: expected one buffer region, got {len(regions)}")
    (region,) = regions
    return RealizeFrame(region, storage_scope, condition)


def While(condition: Any) -> Scope:  # noqa: N802
    """Opens a while loop: ``with T.While(condition): ...``."""
    writer = current_prim_func("T.While").writer
    return WriterScope(lambda: writer.while_(condition))


def evaluate(value: Any) -> None:
    """Evaluates an expression for its side effects."""
    state = current_prim_func("T.evaluate")
    if isinstance(value, str):
        value = StringImm(value)
    state.writer.evaluate(value)


def buffer_store(
    buffer: TirBuffer, value: Any, indices: Any, predicate: Any = None
) -> None:
    """Stores an element: ``buffer[indices] = value``."""
    listed = list(indices) if isinstance(indices, (tuple, list)) else [indices]
    current_prim_func("T.buffer_store").writer.store(buffer, value, listed, predicate)


def var(dtype: str, name: str = "") -> Var:
    """Makes a variable."""
    variable, state = (
        Var(name, dtype_text(dtype, "`dtype`")),
        current_prim_func_or_none(),
    )
    return variable if state is None or name else state.add_unnamed(variable)


def iter_var(v: Any, dom: Any, iter_type: str, thread_tag: str) -> IterVar:
    """Makes an iteration variable."""
    kinds = {"DataPar": 0, "ThreadIndex": 1, "CommReduce": 2, "Ordered": 3, "Opaque": 4}
    if iter_type not in kinds:
        raise ValueError(
            f"T.iter_var: `iter_type`: expected one of {', '.join(kinds)}, got {iter_type}"
        )
    return IterVar(dom, v, kinds[iter_type], thread_tag)


def comm_reducer(combiner: Callable[..., Any], identity: Any) -> CommReducer:
    """Makes a commutative reducer of a combiner and its identity elements."""
    listed = sequence_of(identity, "T.comm_reducer: `identity`", "scalars")
    identities = [prim.convert(v) for v in listed]
    count = len(identities)

    def combine(lhs: Any, rhs: Any) -> list[PrimExpr]:
        combined = combiner(*lhs, *rhs)
        return list(combined) if count > 1 else [combined]

    return CommReducer("reduce", combine, lambda dtypes: identities)
