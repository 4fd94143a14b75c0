"""Tensor programs in scripts: the namespace ``T``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from relax_mlir.argument_types import caller_of, check_exports
from relax_mlir.errors import shown
from relax_mlir.objects import functions
from relax_mlir.objects.argument_checks import dtype_text
from relax_mlir.objects.buffer import BufferLoad
from relax_mlir.objects.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    CommReducer,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Range,
    StringImm,
    Sub,
    Var,
)
from relax_mlir.script.parser.function import MetaVar
from relax_mlir.script.parser.program import ProgramMacro, parse_function
from relax_mlir.script.parser.source import is_in_script_class
from relax_mlir.script.tir_buffers import (
    alloc_buffer,
    allocate,
    allocate_const,
    buffer_decl,
    decl_buffer,
    match_buffer,
    regions_of,
    sblock_alloc_buffer,
)
from relax_mlir.script.tir_calls import INTRINSICS, intrinsic, math_function
from relax_mlir.script.tir_frames import ProgramFrame
from relax_mlir.script.tir_loops import (
    axis,
    env_thread,
    grid,
    launch_thread,
    parallel,
    serial,
    thread_binding,
    unroll,
    vectorized,
)
from relax_mlir.script.tir_program import (
    BlockScope,
    InitScope,
    Scope,
    current_block,
    current_program,
)
from relax_mlir.script.tir_statements import (
    Assert,
    Bind,
    Else,
    If,
    LetStmt,
    Then,
    While,
    arg,
    attr,
    bind,
    buffer_store,
    comm_reducer,
    evaluate,
    iter_var,
    let,
    realize,
    var,
)
from relax_mlir.script.tir_types import SCALAR_TYPES, Buffer, handle

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "And",
    "Assert",
    "Bind",
    "Buffer",
    "BufferLoad",
    "Call",
    "CommReducer",
    "Div",
    "Else",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "If",
    "IntImm",
    "IterVar",
    "LetStmt",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "PrimExpr",
    "Range",
    "StringImm",
    "Sub",
    "Then",
    "Var",
    "While",
    "alloc_buffer",
    "allocate",
    "allocate_const",
    "arg",
    "attr",
    "axis",
    "bind",
    "block",
    "block_attr",
    "buffer_decl",
    "buffer_store",
    "comm_reducer",
    "decl_buffer",
    "env_thread",
    "evaluate",
    "func_attr",
    "func_name",
    "func_ret",
    "grid",
    "handle",
    "init",
    "iter_var",
    "launch_thread",
    "let",
    "macro",
    "match_buffer",
    "meta_var",
    "parallel",
    "prim_func",
    "reads",
    "realize",
    "sblock",
    "sblock_alloc_buffer",
    "sblock_attr",
    "serial",
    "thread_binding",
    "unroll",
    "var",
    "vectorized",
    "where",
    "writes",
]


# Intrinsics of one kind of machine each, which stand for themselves.
_FAMILIES = ("tvm_", "ptx_", "mma_", "cuda_")


def __getattr__(name: str) -> Any:  # Any: types and functions
    """An element type, or a function of scalars."""
    if name in ("ptr", "Ptr"):
        return handle
    if name in SCALAR_TYPES:
        return SCALAR_TYPES[name]
    if name in INTRINSICS:
        return INTRINSICS[name]
    if name in functions.__all__:
        return math_function(name)
    if name.startswith(_FAMILIES):
        return intrinsic(name)
    raise AttributeError(f"`T` has no member `{name}`")


def _caller() -> FrameType:
    """The frame that called who calls this."""
    frame = inspect.currentframe()
    assert frame is not None
    return caller_of(caller_of(frame))


def prim_func(
    func: Callable[..., Any] | None = None,
    private: bool = False,
    check_well_formed: bool = True,
    s_tir: bool = False,
    is_private: bool = False,
) -> Any:
    """Make a tensor program of a Python function that is written as a script.

    Args:
        func: the Python function; None if the decorator is written with arguments.
        private: whether only its module sees it.
        check_well_formed: whether variables and buffers that nothing defines are errors.
        s_tir: of no effect: all tensor programs may be scheduled.
        is_private: the same as ``private``, for programs that Python code writes.

    Raises:
        ScriptError: it is no such script.
    """
    if func is not None:
        return _parsed(func, private, _caller(), check=check_well_formed)

    return _Decorator(private or is_private, check_well_formed)


class _Decorator(ProgramFrame):
    """``@T.prim_func(...)``; in a ``with``, a program that Python code writes."""

    dispatch_token = "tir"

    def __init__(self, private: bool, check: bool) -> None:
        super().__init__(private)
        self._options = (private, check)

    def __call__(self, inner: Callable[..., Any]) -> Any:
        """The program that a function is a script of."""
        private, check = self._options
        return _parsed(inner, private, _caller(), check=check)


prim_func.dispatch_token = "tir"  # pyright: ignore[reportFunctionMemberAccess]


def _parsed(func: Any, private: bool, frame: FrameType, *, check: bool) -> Any:
    if not inspect.isfunction(func):
        raise TypeError(f"T.prim_func: expected a function, got {shown(func)}")
    if is_in_script_class(frame):
        return func  # the class is parsed as a whole
    return parse_function(func, frame, is_private=private, check_well_formed=check)


def macro(*args: Any, hygienic: bool = True) -> Any:
    """Make a macro of a Python function: where it is called, its body is written.

    Args:
        args: the function, if the decorator is written without arguments.
        hygienic: whether its names mean what they mean where it is defined.

    Raises:
        ValueError: something else than a function is given.
    """
    frame = _caller()

    def decorate(f: Callable[..., Any]) -> ProgramMacro:
        return ProgramMacro(f, frame, hygienic=hygienic)

    if not args:
        return decorate
    if len(args) != 1 or not inspect.isfunction(args[0]):
        raise ValueError("T.macro: expected no arguments, or `hygienic=` by name")
    return decorate(args[0])


inline = macro


def meta_var(value: Any) -> MetaVar:
    """A Python value that an assignment in a script leaves as it is."""
    return MetaVar(value)


# the function


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Give the program its attributes."""
    program = current_program("T.func_attr")
    for key, value in attrs.items():
        program.attrs[_attribute_name(key)] = value


def _attribute_name(key: str) -> str:
    return f"tir.{key[5:]}" if key.startswith("tirx.") else key


def func_name(name: str) -> None:
    """Give the program its name."""
    current_program("T.func_name").attrs["global_symbol"] = name


def func_ret(ret_type: Any) -> None:
    """Say what type the program returns."""
    current_program("T.func_ret").ret_type = dtype_text(
        ret_type, "T.func_ret: `ret_type`"
    )


# blocks


def block(name: str = "", no_realize: bool = False, **options: Any) -> BlockScope:
    """A block; use it in a ``with``."""
    return BlockScope(name)


sblock = block


def init() -> Scope:
    """What comes before the first point of the reduce axes; use it in a ``with``."""
    return InitScope(current_block("T.init"))


def where(predicate: Any) -> None:
    """Leave out the points of the block where a condition does not hold."""
    found = current_block("T.where")
    found.once("T.where")
    found.frame.where(predicate)


def reads(*buffer_slices: Any) -> None:
    """List what the block reads; where it is left out, it is derived."""
    _regions("reads", buffer_slices)


def writes(*buffer_slices: Any) -> None:
    """List what the block writes; where it is left out, it is derived."""
    _regions("writes", buffer_slices)


def _regions(kind: str, buffer_slices: Any) -> None:
    what = f"T.{kind}"
    found = current_block(what)
    found.once(what)
    writer = current_program(what).writer
    regions = regions_of(buffer_slices)
    for region in regions:
        writer.check_known(region.buffer)
    found.frame.touch(kind, regions)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Say more of the block, for schedules."""
    current_block("T.block_attr").annotate(attrs)


sblock_attr = block_attr

check_exports(globals())
