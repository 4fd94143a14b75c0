"""Calls of tensor programs, of registered functions, and of what prints."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from relax_mlir.argument_types import caller_of
from relax_mlir.errors import BuilderError
from relax_mlir.nn.extern import call_extern, extern_value
from relax_mlir.nn.tensor import Tensor, current_builder, wrap_nested
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.expr import Expr, PrimValue, ShapeExpr, StringImm
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.struct_info import ObjectStructInfo, StructInfo
from relax_mlir.relax import op

__all__ = [
    "debug_func",
    "extern",
    "print_",
    "tensor_expr_op",
    "tensor_ir_inplace_op",
    "tensor_ir_op",
]


def tensor_expr_op(
    tensor_expr_func: Callable[..., Any],
    name_hint: str,
    args: Sequence[Any],
    *,
    attrs: Mapping[str, Any] | None = None,
) -> Any:  # Any: a tensor, or a tuple of such
    """Compute what a function of tensor expressions says.

    Args:
        tensor_expr_func: the function.
        name_hint: what the tensor program is called.
        args: tensors, sizes and numbers.
        attrs: attributes of the tensor program.
    """
    value = current_builder().emit_te(
        tensor_expr_func,
        *[a.as_expr() if isinstance(a, Tensor) else a for a in args],
        primfunc_name_hint=name_hint,
        primfunc_attrs=attrs,
    )
    return wrap_nested(value, name_hint)


def tensor_ir_op(func: PrimFunc, name_hint: str, args: Any, out: Any) -> Any:
    """Call a tensor program, which writes new tensors.

    Args:
        func: the program: it takes the inputs, then the results; numbers stand among the
            inputs or behind the results.
        name_hint: what it is called in the module.
        args: tensors, shapes and terms.
        out: placeholders of what it gives: a tensor, or several.
    """
    tensors, numbers = _arguments(func, args)
    builder = current_builder()
    function = builder.add_func(func, name_hint)
    called = op.call_tir(function, tensors, _results(out), numbers)
    return wrap_nested(builder.emit(called), name_hint)


def tensor_ir_inplace_op(
    func: PrimFunc,
    name_hint: str,
    args: Any,
    inplace_indices: int | Sequence[int],
    out: Any,
) -> Any:
    """Call a tensor program that writes its results over some of its inputs.

    Args:
        func, name_hint, args, out: as for :func:`tensor_ir_op`.
        inplace_indices: per result, the input that it is written over; -1 for a new
            tensor.
    """
    tensors, numbers = _arguments(func, args)
    builder = current_builder()
    function = builder.add_func(func, name_hint)
    called = op.call_tir_inplace(
        function, tensors, inplace_indices, _results(out), numbers
    )
    return wrap_nested(builder.emit(called), name_hint)


def _arguments(func: PrimFunc, args: Any) -> tuple[list[Expr], list[PrimExpr] | None]:
    """Inputs of a program, and the numbers that it takes behind all tensors."""
    listed = list(args) if isinstance(args, (tuple, list)) else [args]
    values: list[Any] = []
    for arg in listed:
        if isinstance(arg, Tensor):
            values.append(arg.as_expr())
        elif isinstance(arg, ShapeExpr):
            values += arg.values
        elif isinstance(arg, (PrimExpr, int)):
            values.append(PrimValue(arg).value)
        else:
            raise TypeError(
                "Unsupported type: tensor program takes Tensor, ShapeExpr or a term, got "
                f"{type(arg)}"
            )
    numbers = [v for v in values if isinstance(v, PrimExpr)]
    if not numbers or len(numbers) != _numbers_behind(func):
        return [PrimValue(v) if isinstance(v, PrimExpr) else v for v in values], None
    return [v for v in values if not isinstance(v, PrimExpr)], numbers


def _numbers_behind(func: PrimFunc) -> int:
    """How many parameters of a program stand behind the last tensor."""
    is_tensor = [param in func.buffer_map for param in func.params]
    return is_tensor[::-1].index(True) if any(is_tensor) else len(is_tensor)


def _results(out: Any) -> list[StructInfo]:
    several = [out] if isinstance(out, Tensor) else out
    where = "tensor_ir_op: `out`"
    tensors = [
        instance_of(tensor, Tensor, where, "placeholders of the results")
        for tensor in sequence_of(several, where, "placeholders of the results")
    ]
    return [tensor.as_expr().struct_info for tensor in tensors]


def extern(name: str, args: Sequence[Any], out: Any) -> Any:  # Any: as ``out``
    """Call a registered function, which writes new tensors.

    Args:
        name: its name.
        args: tensors, terms, numbers and strings.
        out: placeholders of what it gives: a tensor, or several.
    """
    return call_extern(name, args, out)


def debug_func(name: str, *args: Any, _line_info: str | None = None) -> None:
    """Call a registered function when the graph runs, in order with all that prints.

    It gets the line of this call as ``file:line``, then the arguments.

    Args:
        name: its name.
        args: tensors, terms, numbers and strings.

    Raises:
        RuntimeError: the network is not exported with ``debug=True``.
    """
    from relax_mlir.nn.exporter import Exporter

    effect = Exporter.current().io_effect
    if effect is None:
        raise BuilderError(
            f"`{name}`: expected an export with `debug=True`, which lets functions print"
        )
    state = effect.current
    called = op.call_pure_packed(
        "vm.builtin.invoke_debug_func",
        state,
        StringImm(name),
        StringImm(_line_info or _line_of(inspect.currentframe())),
        *[extern_value(arg, "float32") for arg in args],
        sinfo_args=[ObjectStructInfo()],
    )
    effect.set_state([current_builder().emit(called, state.name_hint)])


def print_(tensor: Tensor) -> None:
    """Print a tensor when the graph runs; the export needs ``debug=True``."""
    line = _line_of(inspect.currentframe())
    debug_func("vm.builtin.debug_print", tensor, _line_info=line)


def _line_of(frame: FrameType | None) -> str:
    """Where a function was called, from the frame of the call."""
    assert frame is not None
    caller = caller_of(frame)
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"
