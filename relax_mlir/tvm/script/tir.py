"""Namespace ``T`` of scripts: PrimFuncs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects.argument_checks import dtype_text
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
    intrinsics,
)
from relax_mlir.objects.stmt.buffer import BufferLoad
from relax_mlir.support.argument_types import caller_of, check_exports
from relax_mlir.tvm.script.parser.function import MetaVar
from relax_mlir.tvm.script.parser.program import PrimFuncMacro, parse_prim_func
from relax_mlir.tvm.script.parser.source import is_in_script_class
from relax_mlir.tvm.script.tir_buffers import (
    alloc_buffer,
    allocate,
    allocate_const,
    buffer_decl,
    buffer_regions,
    decl_buffer,
    match_buffer,
    sblock_alloc_buffer,
)
from relax_mlir.tvm.script.tir_calls import INTRINSICS, intrinsic, math_function
from relax_mlir.tvm.script.tir_frames import PrimFuncFrame
from relax_mlir.tvm.script.tir_loops import (
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
from relax_mlir.tvm.script.tir_program import (
    BlockScope,
    InitScope,
    Scope,
    current_block,
    current_prim_func,
)
from relax_mlir.tvm.script.tir_statements import (
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
from relax_mlir.tvm.script.tir_types import SCALAR_TYPES, Buffer, handle

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


# Prefixes of target-specific intrinsics, which become opaque calls.
_INTRINSIC_PREFIXES = ("tvm_", "ptx_", "mma_", "cuda_")


def __getattr__(name: str) -> Any:  # Any: types and functions
    """Returns an element type, an intrinsic or a math function."""
    if name in ("ptr", "Ptr"):
        return handle
    if name in SCALAR_TYPES:
        return SCALAR_TYPES[name]
    if name in INTRINSICS:
        return INTRINSICS[name]
    if name in intrinsics.__all__:
        return math_function(name)
    if name.startswith(_INTRINSIC_PREFIXES):
        return intrinsic(name)
    raise AttributeError(f"`T` has no member `{name}`")


def _caller() -> FrameType:
    """Returns the frame of the caller's caller."""
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
    """Parses a Python function as a PrimFunc.

    Args:
        func: the Python function; None if the decorator has arguments, or to build a
            PrimFunc with ``with T.prim_func(): ...``.
        private: whether it has no global symbol.
        check_well_formed: whether undefined variables and buffers are errors.
        s_tir: ignored: all PrimFuncs can be scheduled.
        is_private: TVM's name of ``private`` for ``with T.prim_func()``.

    Raises:
        ScriptError: the function is not a valid script.
    """
    if func is not None:
        return _parse(func, private, _caller(), check=check_well_formed)

    return _Decorator(private or is_private, check_well_formed)


class _Decorator(PrimFuncFrame):
    """The value of ``T.prim_func(...)``: a decorator and a context manager."""

    dispatch_token = "tir"

    def __init__(self, private: bool, check: bool) -> None:
        super().__init__(private)
        self._options = (private, check)

    def __call__(self, inner: Callable[..., Any]) -> Any:
        """Parses the function."""
        private, check = self._options
        return _parse(inner, private, _caller(), check=check)


prim_func.dispatch_token = "tir"  # pyright: ignore[reportFunctionMemberAccess]


def _parse(func: Any, private: bool, frame: FrameType, *, check: bool) -> Any:
    if not inspect.isfunction(func):
        raise TypeError(f"T.prim_func: expected a function, got {short_repr(func)}")
    if is_in_script_class(frame):
        return func  # the decorator of the class parses it
    return parse_prim_func(func, frame, is_private=private, check_well_formed=check)


def macro(*args: Any, hygienic: bool = True) -> Any:
    """Makes a macro of a Python function, whose body is expanded at each call.

    Args:
        args: the function, if the decorator has no arguments.
        hygienic: whether names in its body are resolved at its definition rather than at
            its calls.

    Raises:
        ValueError: a positional argument is not a function.
    """
    frame = _caller()

    def decorate(f: Callable[..., Any]) -> PrimFuncMacro:
        return PrimFuncMacro(f, frame, hygienic=hygienic)

    if not args:
        return decorate
    if len(args) != 1 or not inspect.isfunction(args[0]):
        raise ValueError("T.macro: expected no arguments, or `hygienic=` by name")
    return decorate(args[0])


inline = macro


def meta_var(value: Any) -> MetaVar:
    """Wraps a Python value that an assignment binds without emitting a binding."""
    return MetaVar(value)


# functions


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Adds attributes to the PrimFunc."""
    state = current_prim_func("T.func_attr")
    for key, value in attrs.items():
        state.attrs[_attribute_name(key)] = value


def _attribute_name(key: str) -> str:
    return f"tir.{key[5:]}" if key.startswith("tirx.") else key


def func_name(name: str) -> None:
    """Names the PrimFunc."""
    current_prim_func("T.func_name").attrs["global_symbol"] = name


def func_ret(ret_type: Any) -> None:
    """Sets the return type of the PrimFunc."""
    current_prim_func("T.func_ret").ret_type = dtype_text(
        ret_type, "T.func_ret: `ret_type`"
    )


# blocks


def block(name: str = "", no_realize: bool = False, **options: Any) -> BlockScope:
    """Opens a block: ``with T.block("name"): ...``."""
    return BlockScope(name)


sblock = block


def init() -> Scope:
    """Opens the initialization of a reduction block: ``with T.init(): ...``."""
    return InitScope(current_block("T.init"))


def where(predicate: Any) -> None:
    """Sets the predicate of the block, which runs only where it holds."""
    scope = current_block("T.where")
    scope.check_once("T.where")
    scope.frame.where(predicate)


def reads(*buffer_slices: Any) -> None:
    """Declares the regions that the block reads; by default they are inferred."""
    _regions("reads", buffer_slices)


def writes(*buffer_slices: Any) -> None:
    """Declares the regions that the block writes; by default they are inferred."""
    _regions("writes", buffer_slices)


def _regions(kind: str, buffer_slices: Any) -> None:
    name = f"T.{kind}"
    scope = current_block(name)
    scope.check_once(name)
    writer = current_prim_func(name).writer
    regions = buffer_regions(buffer_slices)
    for region in regions:
        writer.check_known(region.buffer)
    scope.frame.touch(kind, regions)


def block_attr(attrs: Mapping[str, Any]) -> None:
    """Adds annotations to the block."""
    current_block("T.block_attr").annotate(attrs)


sblock_attr = block_attr

check_exports(globals())
