"""Calls of PrimFuncs and registered functions, and debug printing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from relax_mlir.errors import BuilderError
from relax_mlir.nn.extern import call_extern, extern_value
from relax_mlir.nn.tensor import Tensor, current_builder, wrap_nested
from relax_mlir.objects.argument_checks import instance_of, sequence_of
from relax_mlir.objects.expr import Expr, PrimValue, ShapeExpr, StringImm
from relax_mlir.objects.expr.struct_info import ObjectStructInfo, StructInfo
from relax_mlir.objects.prim import PrimExpr
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.support.argument_types import caller_of
from relax_mlir.tvm.relax import op

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
    """Call a function of tensor expressions, lowered to a PrimFunc.

    Args:
        tensor_expr_func: the function.
        name_hint: name of the PrimFunc.
        args: tensors, sizes and numbers.
        attrs: attributes of the PrimFunc.
    """
    value = current_builder().emit_te(
        tensor_expr_func,
        *[a.as_expr() if isinstance(a, Tensor) else a for a in args],
        primfunc_name_hint=name_hint,
        primfunc_attrs=attrs,
    )
    return wrap_nested(value, name_hint)


def tensor_ir_op(func: PrimFunc, name_hint: str, args: Any, out: Any) -> Any:
    """Call a PrimFunc in destination-passing style (``call_tir``).

    Args:
        func: the PrimFunc, with parameters for inputs, then outputs; scalars are among the
            inputs or after the outputs.
        name_hint: its name in the module.
        args: tensors, shapes and scalar expressions.
        out: placeholders of the results: a tensor, or several.
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
    """Call a PrimFunc that overwrites some of its inputs (``call_tir_inplace``).

    Args:
        func, name_hint, args, out: as for :func:`tensor_ir_op`.
        inplace_indices: per result, the index of the input that it overwrites; -1 for a
            new tensor.
    """
    tensors, numbers = _arguments(func, args)
    builder = current_builder()
    function = builder.add_func(func, name_hint)
    called = op.call_tir_inplace(
        function, tensors, inplace_indices, _results(out), numbers
    )
    return wrap_nested(builder.emit(called), name_hint)


def _arguments(func: PrimFunc, args: Any) -> tuple[list[Expr], list[PrimExpr] | None]:
    """Tensor arguments of a PrimFunc, and its trailing scalar arguments or None."""
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
                "Unsupported type: a PrimFunc takes Tensor, ShapeExpr or PrimExpr, got "
                f"{type(arg)}"
            )
    numbers = [v for v in values if isinstance(v, PrimExpr)]
    if not numbers or len(numbers) != _trailing_scalars(func):
        return [PrimValue(v) if isinstance(v, PrimExpr) else v for v in values], None
    return [v for v in values if not isinstance(v, PrimExpr)], numbers


def _trailing_scalars(func: PrimFunc) -> int:
    """The number of scalar parameters after the last tensor."""
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
    """Call a registered function in destination-passing style.

    Args:
        name: the function's name.
        args: tensors, expressions, numbers and strings.
        out: placeholders of the results: a tensor, or several.
    """
    return call_extern(name, args, out)


def debug_func(name: str, *args: Any, _line_info: str | None = None) -> None:
    """Call a registered debug function at run time, ordered by the I/O effect.

    It receives the source location of this call as ``file:line``, then the arguments.

    Args:
        name: the function's name.
        args: tensors, expressions, numbers and strings.

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
    """Print a tensor at run time; the export needs ``debug=True``."""
    line = _line_of(inspect.currentframe())
    debug_func("vm.builtin.debug_print", tensor, _line_info=line)


def _line_of(frame: FrameType | None) -> str:
    """The caller's source location as ``file:line``."""
    assert frame is not None
    caller = caller_of(frame)
    return f"{caller.f_code.co_filename}:{caller.f_lineno}"
