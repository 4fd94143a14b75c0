"""Declaration of placeholder and computed tensors, variables and axes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.errors import OperatorError, short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import sequence_of
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, SizeVar, Var
from relax_mlir.tvm.te.tag import current_tag
from relax_mlir.tvm.te.tensor import ComputeOp, PlaceholderOp, Tensor

__all__ = [
    "compute",
    "const",
    "placeholder",
    "reduce_axis",
    "size_var",
    "thread_axis",
    "var",
]


def placeholder(
    shape: Any, dtype: str | None = None, name: str = "placeholder"
) -> Tensor:
    """An input tensor.

    Args:
        shape: its shape.
        dtype: the element type; float32 by default.
        name: its name.
    """
    return PlaceholderOp(name, _shape(shape), str(dtype or "float32")).output(0)


def _shape(shape: Any) -> tuple[Any, ...]:
    is_one = isinstance(shape, (int, PrimExpr))
    sizes = (shape,) if is_one else sequence_of(shape, "a shape", "sizes")
    if any(isinstance(s, (int, float)) and not 0 <= s < math.inf for s in sizes):
        raise ValueError(f"a shape: expected sizes from 0 up, got {short_repr(sizes)}")
    for size in sizes:
        if isinstance(size, str) or (
            isinstance(size, PrimExpr) and not size.is_integer
        ):
            raise TypeError(
                f"a shape: expected integers as sizes, got {short_repr(size)}"
            )
    return tuple(int(s) if isinstance(s, float) else s for s in sizes)


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor whose element at ``i, j, ...`` is ``fcompute(i, j, ...)``.

    Args:
        shape: its shape.
        fcompute: from index variables to an expression, or to several for several tensors.
        name: its name.
        tag: the kind of operator.
        attrs: further attributes.
        varargs_names: the names of the variables passed as ``*args``.

    Returns:
        The tensor, or a tuple of them.

    Raises:
        ValueError: ``fcompute`` has a wrong signature, or returns no expression.
    """
    sizes = _shape(shape)
    axes = [
        IterVar((0, size), name, IterVar.DataPar)
        for name, size in zip(_axis_names(fcompute, len(sizes), varargs_names), sizes)  # noqa: B905  fewer axes than sizes: broadcast along the rest
    ]
    result = fcompute(*(axis.var for axis in axes))
    elements = [
        prim.convert(v)
        for v in (result if isinstance(result, (tuple, list)) else [result])
    ]
    op = ComputeOp(name, current_tag(tag), attrs, axes, elements)
    outputs = tuple(op.output(i) for i in range(op.num_outputs))
    return outputs[0] if len(outputs) == 1 else outputs


def _axis_names(
    fcompute: Callable[..., Any], rank: int, varargs_names: Sequence[str] | None
) -> list[str]:
    try:
        spec = inspect.getfullargspec(fcompute)
    except TypeError:
        raise TypeError(
            f"compute: `fcompute`: expected a function of Python, got {short_repr(fcompute)}"
        ) from None
    if spec.varkw or spec.defaults or spec.kwonlyargs:
        raise ValueError(
            "compute: expected a function of only index variables, got one with "
            "defaults or keywords"
        )
    given = (
        [a for a in spec.args if a != "self"]
        if inspect.ismethod(fcompute)
        else spec.args
    )
    rest = rank - len(given)
    if spec.varargs is None and given:
        if rest < 0:
            raise ValueError(
                f"compute: expected a function of at most {rank} index variables, got "
                f"{len(given)}"
            )
        return list(given)
    if varargs_names is not None and len(varargs_names) != rest:
        raise OperatorError(
            f"compute: expected {rest} names in `varargs_names`, got {len(varargs_names)}"
        )
    return [*given, *(varargs_names or [f"i{i}" for i in range(rest)])]


def var(name: str = "tindex", dtype: str = "int32", span: object = None) -> Var:
    """A variable."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32", span: object = None) -> SizeVar:
    """A nonnegative variable that is a symbolic size."""
    return SizeVar(name, dtype)


def const(value: Any, dtype: str = "int32", span: object = None) -> PrimExpr:
    """A constant of a dtype."""
    return prim.const(value, dtype)


def thread_axis(
    dom: Any = None, tag: str = "", name: str = "", span: object = None
) -> IterVar:
    """A thread axis such as ``threadIdx.x``.

    Raises:
        ValueError: the tag is missing.
    """
    if isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise ValueError("thread_axis: expected a tag, such as `threadIdx.x`, got none")
    return IterVar(dom, name or tag, IterVar.ThreadIndex, tag)


def reduce_axis(
    dom: Any, name: str = "rv", thread_tag: str = "", span: object = None
) -> IterVar:
    """A reduction axis.

    Args:
        dom: its begin and end, or a :class:`Range`.
        name: its name.
        thread_tag: the thread axis it is bound to.
    """
    domain = Range.of(dom)
    return IterVar(domain, name, IterVar.CommReduce, thread_tag)
