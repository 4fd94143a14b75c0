"""Tensors declared: given, computed element by element, or by a statement."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relax_mlir.errors import OperatorError, shown
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import sequence_of
from relax_mlir.objects.prim import IterVar, PrimExpr, Range, SizeVar, Var
from relax_mlir.te.tag import current_tag
from relax_mlir.te.tensor import ComputeOp, PlaceholderOp, Tensor

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
    """A tensor that is given.

    Args:
        shape: its sizes.
        dtype: type of its elements; float32 by default.
        name: what it is called.
    """
    return PlaceholderOp(name, _shape(shape), str(dtype or "float32")).output(0)


def _shape(shape: Any) -> tuple[Any, ...]:
    is_one = isinstance(shape, (int, PrimExpr))
    sizes = (shape,) if is_one else sequence_of(shape, "a shape", "sizes")
    if any(isinstance(s, (int, float)) and not 0 <= s < math.inf for s in sizes):
        raise ValueError(f"a shape: expected sizes from 0 up, got {shown(sizes)}")
    for size in sizes:
        if isinstance(size, str) or (
            isinstance(size, PrimExpr) and not size.is_integer
        ):
            raise TypeError(f"a shape: expected integers as sizes, got {shown(size)}")
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
        shape: its sizes.
        fcompute: from index variables to a term, or to several for as many tensors.
        name: what it is called.
        tag: what kind of operator it is.
        attrs: what else is known of it.
        varargs_names: what the variables that ``fcompute`` takes as ``*args`` are called.

    Returns:
        The tensor, or a tuple of them.

    Raises:
        ValueError: ``fcompute`` takes arguments that it cannot be given, or gives what
            is no element.
    """
    sizes = _shape(shape)
    axes = [
        IterVar((0, size), name, IterVar.DataPar)
        for name, size in zip(_axis_names(fcompute, len(sizes), varargs_names), sizes)  # noqa: B905  fewer axes than sizes: the rest is the same
    ]
    made = fcompute(*(axis.var for axis in axes))
    terms = [
        prim.convert(v) for v in (made if isinstance(made, (tuple, list)) else [made])
    ]
    op = ComputeOp(name, current_tag(tag), attrs, axes, terms)
    outputs = tuple(op.output(i) for i in range(op.num_outputs))
    return outputs[0] if len(outputs) == 1 else outputs


def _axis_names(
    fcompute: Callable[..., Any], rank: int, varargs_names: Sequence[str] | None
) -> list[str]:
    try:
        spec = inspect.getfullargspec(fcompute)
    except TypeError:
        raise TypeError(
            f"compute: `fcompute`: expected a function of Python, got {shown(fcompute)}"
        ) from None
    if spec.varkw or spec.defaults or spec.kwonlyargs:
        raise ValueError(
            "compute: expected a function of index variables alone, got one with "
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
    """A variable that is a size."""
    return SizeVar(name, dtype)


def const(value: Any, dtype: str = "int32", span: object = None) -> PrimExpr:
    """A number of a type."""
    return prim.const(value, dtype)


def thread_axis(
    dom: Any = None, tag: str = "", name: str = "", span: object = None
) -> IterVar:
    """An axis of threads, such as ``threadIdx.x``.

    Raises:
        ValueError: no tag says which.
    """
    if isinstance(dom, str):
        tag, dom = dom, None
    if not tag:
        raise ValueError("thread_axis: expected a tag, such as `threadIdx.x`, got none")
    return IterVar(dom, name or tag, IterVar.ThreadIndex, tag)


def reduce_axis(
    dom: Any, name: str = "rv", thread_tag: str = "", span: object = None
) -> IterVar:
    """An axis to reduce over.

    Args:
        dom: its begin and end, or a :class:`Range`.
        name: what it is called.
        thread_tag: the threads that it is bound to.
    """
    run = Range.of(dom)
    return IterVar(run, name, IterVar.CommReduce, thread_tag)
