"""Namespace ``R`` of scripts: Relax functions.

It also has every operator of :mod:`relax_mlir.tvm.relax.op`.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable as Function
from collections.abc import Mapping
from types import FrameType
from typing import Any as Anything

from relax_mlir.errors import short_repr
from relax_mlir.objects.argument_checks import dtype_text
from relax_mlir.objects.expr import (
    Attrs,
    Call,
    DataTypeImm,
    Expr,
    MatchCast,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    TupleGetItem,
    Var,
    VarBinding,
    const,
    convert,
)
from relax_mlir.objects.expr import (
    ExternFunc as _ExternFunc,
)
from relax_mlir.objects.expr import (
    Tuple as _Tuple,
)
from relax_mlir.objects.expr.struct_info import VDevice
from relax_mlir.runtime.ndarray import cpu, cuda, device
from relax_mlir.support.argument_types import caller_of, check_exports
from relax_mlir.tvm.relax import op
from relax_mlir.tvm.script import annotations
from relax_mlir.tvm.script.annotations import (
    Any,
    Callable,
    Object,
    Prim,
    Shape,
    Tensor,
    Tuple,
    struct_info,
)
from relax_mlir.tvm.script.blocks import BranchFrame, DataflowFrame, IfFrame
from relax_mlir.tvm.script.builder import FunctionFrame, current_frame, define_attrs
from relax_mlir.tvm.script.parser.entry import parse_function
from relax_mlir.tvm.script.parser.macro import Macro
from relax_mlir.tvm.script.parser.source import is_in_script_class

__all__ = [
    "Any",
    "Call",
    "Callable",
    "Else",
    "ExternFunc",
    "If",
    "MatchCastPair",
    "Object",
    "Prim",
    "SeqExpr",
    "Shape",
    "ShapeExpr",
    "Tensor",
    "Then",
    "Tuple",
    "TupleGetItem",
    "arg",
    "call_packed",
    "call_py_func",
    "const",
    "cpu",
    "cuda",
    "dataflow",
    "device",
    "dtype",
    "emit",
    "emit_match_cast",
    "emit_te",
    "emit_var_binding",
    "emit_with_sinfo",
    "func_attr",
    "func_name",
    "func_ret_struct_info",
    "func_ret_value",
    "function",
    "macro",
    "match_cast",
    "output",
    "prim_value",
    "rewriter",
    "shape",
    "str",
    "tuple",
    "vdevice",
]

py_print = builtins.print
py_str = builtins.str
py_tuple = builtins.tuple


def __getattr__(name: py_str) -> Anything:  # Any: a function of any signature
    """Returns the operator called ``name``."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(op, name)


class _Decorator(FunctionFrame):
    """The value of ``R.function(...)``: a decorator and a context manager."""

    dispatch_token = "relax"

    def __init__(self, *, pure: bool, private: bool, check_well_formed: bool) -> None:
        super().__init__(is_pure=pure, is_private=private)
        self._check_well_formed = check_well_formed

    def __call__(self, f: Function[..., Anything]) -> Anything:
        """Parses the function."""
        return self.parse(f, _caller())

    def parse(self, f: Anything, frame: FrameType) -> Anything:
        """Parses a function that is defined in ``frame``."""
        if not inspect.isfunction(f):
            raise TypeError(f"R.function: expected a function, got {short_repr(f)}")
        if is_in_script_class(frame):
            return f  # the decorator of the class parses it
        return parse_function(f, frame, check_well_formed=self._check_well_formed)


def _caller() -> FrameType:
    """Returns the frame of the caller's caller."""
    frame = inspect.currentframe()
    assert frame is not None
    return caller_of(caller_of(frame))


def function(
    f: Function[..., Anything] | None = None,
    pure: bool = True,
    private: bool = False,
    check_well_formed: bool = True,
    *,
    is_pure: bool | None = None,
    is_private: bool | None = None,
) -> Anything:
    """Parses a Python function as a Relax function.

    Args:
        f: the Python function; None if the decorator has arguments, or to build a
            function with ``with R.function(): ...``.
        pure: whether it has no side effects.
        private: whether it has no global symbol.
        check_well_formed: whether to verify the function.
        is_pure: TVM's name of ``pure`` for ``with R.function()``.
        is_private: TVM's name of ``private`` for ``with R.function()``.

    Raises:
        ScriptError: the function is not a valid script.
    """
    decorator = _Decorator(
        pure=pure if is_pure is None else is_pure,
        private=private if is_private is None else is_private,
        check_well_formed=check_well_formed,
    )
    return decorator if f is None else decorator.parse(f, _caller())


function.dispatch_token = "relax"  # pyright: ignore[reportFunctionMemberAccess]


def macro(*args: Anything, hygienic: bool = True) -> Anything:
    """Makes a macro of a Python function, whose body is expanded at each call.

    Args:
        args: the function, if the decorator has no arguments.
        hygienic: whether names in its body are resolved at its definition rather than at
            its calls.
    """
    frame = _caller()

    def decorate(f: Function[..., Anything]) -> Macro:
        return Macro(f, frame, hygienic=hygienic)

    return decorate(args[0]) if args else decorate


def rewriter(mod: Anything) -> Anything:
    """Makes a rewrite rule of a module's functions ``pattern`` and ``replacement``."""
    from relax_mlir.ir.module import IRModule
    from relax_mlir.tvm.relax import dpl
    from relax_mlir.tvm.script.parser.entry import parse_class

    if not isinstance(mod, IRModule):
        mod = parse_class(mod, _caller())
    return dpl.PatternMatchingRewriter.from_module(mod)


def arg(name: py_str, ty: Anything) -> Var:
    """Adds a parameter to the function under construction."""
    return current_frame(FunctionFrame, "R.arg").add_param(name, struct_info(ty))


def func_name(name: py_str) -> None:
    """Names the function under construction."""
    current_frame(FunctionFrame, "R.func_name").name = name


def func_attr(attrs: Mapping[py_str, Anything]) -> None:
    """Adds attributes to the function under construction."""
    define_attrs(attrs)


def func_ret_struct_info(ret_sinfo: Anything) -> None:
    """Declares the result struct info of the function under construction."""
    frame = current_frame(FunctionFrame, "R.func_ret_struct_info")
    frame.ret_info = struct_info(ret_sinfo)


func_ret_type = func_ret_ty = func_ret_struct_info


def func_ret_value(value: Anything) -> None:
    """Sets the result of the function under construction."""
    current_frame(FunctionFrame, "R.func_ret_value").returns(value)


def dataflow() -> DataflowFrame:
    """Opens a dataflow block, free of side effects: ``with R.dataflow(): ...``."""
    return DataflowFrame()


def output(*variables: Var) -> None:
    """Ends a dataflow block: sets its variables that are visible after it."""
    current_frame(DataflowFrame, "R.output").output(variables)


def If(condition: Anything) -> IfFrame:  # noqa: N802  TVM's name
    """Opens an ``if``: ``with R.If(condition): with R.Then(): ...; with R.Else(): ...``."""
    return IfFrame(condition)


def Then() -> BranchFrame:  # noqa: N802  TVM's name
    """Opens the branch taken if the condition is true."""
    return BranchFrame("then")


def Else() -> BranchFrame:  # noqa: N802  TVM's name
    """Opens the branch taken if the condition is false."""
    return BranchFrame("else")


def emit(value: Anything, annotate_struct_info: Anything = None) -> Var:
    """Binds a value to a new variable of the function under construction."""
    info = None if annotate_struct_info is None else struct_info(annotate_struct_info)
    return current_frame(FunctionFrame, "R.emit").emit(value, info)


def emit_te(func: Function[..., Anything], *args: Anything, **kwargs: Anything) -> Call:
    """Makes a ``call_tir`` of the PrimFunc of a tensor-expression function."""
    frame = current_frame(FunctionFrame, "R.emit_te")
    return frame.builder.call_te(func, *args, **kwargs)


def emit_match_cast(value: Expr, ty: Anything) -> Var:
    """Binds a value to a new variable with refined struct info, checked at run time."""
    frame = current_frame(FunctionFrame, "R.emit_match_cast")
    return frame.emit_match_cast(value, struct_info(ty))


def emit_var_binding(binding: VarBinding | MatchCast) -> Var:
    """Appends a binding to the function under construction."""
    return current_frame(FunctionFrame, "R.emit_var_binding").emit_binding(binding)


def emit_with_sinfo(op: py_str, args: Anything, sinfo_args: Anything = None) -> Call:
    """Makes a call of the operator ``op`` with struct info arguments."""
    return Call(Op.of(op), args, None, _infos(sinfo_args))


emit_with_type = emit_with_ty = emit_with_sinfo


class MatchCastPair:
    """The value of ``R.match_cast``: a value, and the struct info that it is cast to."""

    def __init__(self, value: Expr, info: Anything) -> None:
        self.value = value
        self.struct_info = info


def match_cast(value: Anything, struct_info: Anything) -> MatchCastPair:
    """Refines the struct info of a value, with a check at run time.

    Raises:
        ValueError: an argument is None.
    """
    if value is None or struct_info is None:
        raise ValueError("R.match_cast: expected a value and struct info")
    return MatchCastPair(convert(value), annotations.struct_info(struct_info))


def _infos(sinfo_args: Anything) -> list[Anything]:
    if sinfo_args is None:
        return []
    listed = sinfo_args if isinstance(sinfo_args, (list, py_tuple)) else [sinfo_args]
    return [struct_info(info) for info in listed]


def call_packed(
    func: Anything,
    *args: Anything,
    sinfo_args: Anything = None,
    ty_args: Anything = None,
    **kwargs: Anything,
) -> Call:
    """Calls a packed function, which may have side effects.

    Args:
        func: its name.
        args: its arguments.
        sinfo_args: struct info of its result.
        ty_args: TVM's newer name of ``sinfo_args``.
        kwargs: attributes of the call.
    """
    callee = _ExternFunc(func) if isinstance(func, py_str) else func
    kwargs.pop("attrs_type_key", None)
    infos = _infos(sinfo_args if ty_args is None else ty_args)
    return Call(callee, [convert(a) for a in args], Attrs(kwargs), infos)


def call_py_func(
    func_name: Anything,
    *args: Anything,
    out_sinfo: Anything = None,
    out_ty: Anything = None,
) -> Call:
    """Calls a Python function of the module."""
    info = out_sinfo if out_ty is None else out_ty
    if len(args) == 1 and isinstance(args[0], py_tuple):
        (args,) = args
    return op.call_py_func(func_name, args, info)


def vdevice(
    target: Anything = None, vdevice_id: int = 0, memory_scope: py_str = "global"
) -> VDevice:
    """Makes a virtual device."""
    return VDevice(target, vdevice_id, memory_scope)


def to_vdevice(data: Expr, dst_vdevice: Anything) -> Call:
    """Copies a tensor to a virtual device."""
    device = annotations._vdevice(dst_vdevice)
    return op.to_vdevice(data, device)


def ExternFunc(name: py_str, ty: Anything = None) -> _ExternFunc:  # noqa: N802
    """Makes a reference to a packed function, by its name."""
    return _ExternFunc(name, None if ty is None else struct_info(ty))


def shape(value: Anything) -> ShapeExpr:
    """Makes a shape value."""
    return ShapeExpr(value)


def tuple(*fields: Anything) -> _Tuple:
    """Makes a tuple."""
    listed = fields[0] if len(fields) == 1 and isinstance(fields[0], list) else fields
    return _Tuple(listed)


def prim_value(value: Anything) -> PrimValue:
    """Makes a scalar value."""
    return PrimValue(value)


def str(value: py_str) -> StringImm:
    """Makes a string value."""
    return StringImm(value)


def dtype(value: Anything) -> DataTypeImm:
    """Makes an element type value."""
    return DataTypeImm(dtype_text(value, "R.dtype: `value`"))


check_exports(globals())
