"""Relax in scripts: the namespace ``R``.

Beside the names here it has every operator of :mod:`relax_mlir.relax.op`.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable as Function
from collections.abc import Mapping
from types import FrameType
from typing import Any as Anything

from relax_mlir.argument_types import caller_of, check_exports
from relax_mlir.errors import shown
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
from relax_mlir.objects.struct_info import VDevice
from relax_mlir.relax import op
from relax_mlir.runtime.ndarray import cpu, cuda, device
from relax_mlir.script import annotations
from relax_mlir.script.annotations import (
    Any,
    Callable,
    Object,
    Prim,
    Shape,
    Tensor,
    Tuple,
    struct_info,
)
from relax_mlir.script.blocks import BranchFrame, DataflowFrame, IfFrame
from relax_mlir.script.builder import FunctionFrame, current_frame, define_attrs
from relax_mlir.script.parser.entry import parse_function
from relax_mlir.script.parser.macro import Macro
from relax_mlir.script.parser.source import is_in_script_class

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
    """The operator called ``name``."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(op, name)


class _Decorator(FunctionFrame):
    """What ``R.function(...)`` gives: a decorator, or a frame for ``with``."""

    dispatch_token = "relax"

    def __init__(self, *, pure: bool, private: bool, check_well_formed: bool) -> None:
        super().__init__(is_pure=pure, is_private=private)
        self._check_well_formed = check_well_formed

    def __call__(self, f: Function[..., Anything]) -> Anything:
        """Parse the function."""
        return self.parse(f, _caller())

    def parse(self, f: Anything, frame: FrameType) -> Anything:
        """Parse a function that is defined in ``frame``."""
        if not inspect.isfunction(f):
            raise TypeError(f"R.function: expected a function, got {shown(f)}")
        if is_in_script_class(frame):
            return f  # the class is parsed as a whole
        return parse_function(f, frame, check_well_formed=self._check_well_formed)


def _caller() -> FrameType:
    """The frame that called who calls this."""
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
    """Make a function of Relax of a Python function that is written as a script.

    Args:
        f: the Python function; None if the decorator is written with arguments, or to
            write a function inside of ``with R.function(): ...``.
        pure: whether it does nothing but compute its result.
        private: whether only its module sees it.
        check_well_formed: whether to check what it computes.
        is_pure, is_private: the same for functions that are not decorated.

    Raises:
        ScriptError: it is no such script.
    """
    decorator = _Decorator(
        pure=pure if is_pure is None else is_pure,
        private=private if is_private is None else is_private,
        check_well_formed=check_well_formed,
    )
    return decorator if f is None else decorator.parse(f, _caller())


function.dispatch_token = "relax"  # pyright: ignore[reportFunctionMemberAccess]


def macro(*args: Anything, hygienic: bool = True) -> Anything:
    """Make a macro of a Python function: where it is called, its body is written.

    Args:
        args: the function, if the decorator is written without arguments.
        hygienic: whether its names mean what they mean where it is defined.
    """
    frame = _caller()

    def decorate(f: Function[..., Anything]) -> Macro:
        return Macro(f, frame, hygienic=hygienic)

    return decorate(args[0]) if args else decorate


def rewriter(mod: Anything) -> Anything:
    """A rule that rewrites what one function of a module computes to what another does."""
    from relax_mlir.module import IRModule
    from relax_mlir.relax import dpl
    from relax_mlir.script.parser.entry import parse_class

    if not isinstance(mod, IRModule):
        mod = parse_class(mod, _caller())
    return dpl.PatternMatchingRewriter.from_module(mod)


def arg(name: py_str, ty: Anything) -> Var:
    """Add a parameter to the open function."""
    return current_frame(FunctionFrame, "R.arg").add_param(name, struct_info(ty))


def func_name(name: py_str) -> None:
    """Name the open function."""
    current_frame(FunctionFrame, "R.func_name").name = name


def func_attr(attrs: Mapping[py_str, Anything]) -> None:
    """Add attributes to the open function."""
    define_attrs(attrs)


def func_ret_struct_info(ret_sinfo: Anything) -> None:
    """Say what the open function gives."""
    frame = current_frame(FunctionFrame, "R.func_ret_struct_info")
    frame.ret_info = struct_info(ret_sinfo)


func_ret_type = func_ret_ty = func_ret_struct_info


def func_ret_value(value: Anything) -> None:
    """Say what the open function returns."""
    current_frame(FunctionFrame, "R.func_ret_value").returns(value)


def dataflow() -> DataflowFrame:
    """A block of bindings that do nothing but compute: ``with R.dataflow(): ...``."""
    return DataflowFrame()


def output(*variables: Var) -> None:
    """Say which variables of the dataflow block are seen outside; its last statement."""
    current_frame(DataflowFrame, "R.output").output(variables)


def If(condition: Anything) -> IfFrame:  # noqa: N802  TVM's name
    """A choice: ``with R.If(condition): with R.Then(): ...; with R.Else(): ...``."""
    return IfFrame(condition)


def Then() -> BranchFrame:  # noqa: N802  TVM's name
    """What holds if the condition does."""
    return BranchFrame("then")


def Else() -> BranchFrame:  # noqa: N802  TVM's name
    """What holds if the condition does not."""
    return BranchFrame("else")


def emit(value: Anything, annotate_struct_info: Anything = None) -> Var:
    """Bind a value to a new variable of the open function."""
    info = None if annotate_struct_info is None else struct_info(annotate_struct_info)
    return current_frame(FunctionFrame, "R.emit").emit(value, info)


def emit_te(func: Function[..., Anything], *args: Anything, **kwargs: Anything) -> Call:
    """A call of the tensor program that a tensor-expression function makes."""
    frame = current_frame(FunctionFrame, "R.emit_te")
    return frame.builder.call_te(func, *args, **kwargs)


def emit_match_cast(value: Expr, ty: Anything) -> Var:
    """Bind a value of which more is known from here on; checked when it runs."""
    frame = current_frame(FunctionFrame, "R.emit_match_cast")
    return frame.emit_match_cast(value, struct_info(ty))


def emit_var_binding(binding: VarBinding | MatchCast) -> Var:
    """Add a binding to the open function."""
    return current_frame(FunctionFrame, "R.emit_var_binding").emit_binding(binding)


def emit_with_sinfo(op: py_str, args: Anything, sinfo_args: Anything = None) -> Call:
    """A call of the operator called ``op`` with types among its arguments."""
    return Call(Op.of(op), args, None, _infos(sinfo_args))


emit_with_type = emit_with_ty = emit_with_sinfo


class MatchCastPair:
    """What ``R.match_cast`` gives: the value, and what it is cast to."""

    def __init__(self, value: Expr, info: Anything) -> None:
        self.value = value
        self.struct_info = info


def match_cast(value: Anything, struct_info: Anything) -> MatchCastPair:
    """A value of which more is known from here on; checked when it runs.

    Raises:
        ValueError: one of the two is missing.
    """
    if value is None or struct_info is None:
        raise ValueError("R.match_cast: expected a value and struct info")
    return MatchCastPair(convert(value), annotations.struct_info(struct_info))


def _infos(given: Anything) -> list[Anything]:
    if given is None:
        return []
    listed = given if isinstance(given, (list, py_tuple)) else [given]
    return [struct_info(info) for info in listed]


def call_packed(
    func: Anything,
    *args: Anything,
    sinfo_args: Anything = None,
    ty_args: Anything = None,
    **kwargs: Anything,
) -> Call:
    """Call a registered function, which may do more than compute its result.

    Args:
        func: its name.
        args: its arguments.
        sinfo_args: what it gives.
        ty_args: a newer spelling of ``sinfo_args``.
        kwargs: named arguments.
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
    """Call a Python function of the module."""
    info = out_sinfo if out_ty is None else out_ty
    if len(args) == 1 and isinstance(args[0], py_tuple):
        (args,) = args
    return op.call_py_func(func_name, args, info)


def vdevice(
    target: Anything = None, vdevice_id: int = 0, memory_scope: py_str = "global"
) -> VDevice:
    """A device that tensors live on."""
    return VDevice(target, vdevice_id, memory_scope)


def to_vdevice(data: Expr, dst_vdevice: Anything) -> Call:
    """A tensor on another device."""
    device = annotations._vdevice(dst_vdevice)
    return op.to_vdevice(data, device)


def ExternFunc(name: py_str, ty: Anything = None) -> _ExternFunc:  # noqa: N802
    """A registered function, by its name."""
    return _ExternFunc(name, None if ty is None else struct_info(ty))


def shape(value: Anything) -> ShapeExpr:
    """Sizes as a value."""
    return ShapeExpr(value)


def tuple(*fields: Anything) -> _Tuple:
    """Several values as one."""
    listed = fields[0] if len(fields) == 1 and isinstance(fields[0], list) else fields
    return _Tuple(listed)


def prim_value(value: Anything) -> PrimValue:
    """A scalar as a value."""
    return PrimValue(value)


def str(value: py_str) -> StringImm:
    """A string as a value."""
    return StringImm(value)


def dtype(value: Anything) -> DataTypeImm:
    """An element type as a value."""
    return DataTypeImm(dtype_text(value, "R.dtype: `value`"))


check_exports(globals())
