"""Loops and block axes of scripts: ``T.serial``, ``T.grid``, ``T.axis``, ..."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relax_mlir.errors import short_repr
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import dtype_text
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.prim.simplify import simplify
from relax_mlir.tvm.script.tir_frames import LoopDomain, LoopFrame
from relax_mlir.tvm.script.tir_program import current_block, current_prim_func

__all__ = [
    "axis",
    "env_thread",
    "grid",
    "launch_thread",
    "parallel",
    "serial",
    "thread_binding",
    "unroll",
    "vectorized",
]


class _Axes:
    """Constructors of the innermost block's axes: ``T.axis.spatial``, ..."""

    def spatial(self, dom: Any, binding: Any, dtype: Any = None) -> Var:
        """Adds a spatial (data-parallel) axis."""
        return self._axis("S", dom, binding, dtype)

    def reduce(self, dom: Any, binding: Any, dtype: Any = None) -> Var:
        """Adds a reduction axis."""
        return self._axis("R", dom, binding, dtype)

    def scan(self, dom: Any, binding: Any, dtype: Any = None) -> Var:
        """Adds a scan axis, which runs in order."""
        return self._axis("C", dom, binding, dtype)

    def opaque(self, dom: Any, binding: Any, dtype: Any = None) -> Var:
        """Adds an opaque axis."""
        return self._axis("O", dom, binding, dtype)

    S, R = spatial, reduce

    def remap(self, kinds: str, bindings: Any, dtype: Any = None) -> Any:
        """Adds an axis per loop variable, over the domain of its loop.

        Args:
            kinds: a letter per axis, ``S`` or ``R``.
            bindings: loop variables.
            dtype: type of the axes; by default that of the loop variables.

        Raises:
            ValueError: the numbers differ, or a binding is not a loop variable.
        """
        if len(kinds) != len(bindings):
            raise ValueError(
                f"`T.axis.remap`: expected {len(kinds)} variables for `{kinds}`, "
                f"got {len(bindings)}"
            )
        writer = current_prim_func("T.axis").writer
        axes = []
        for kind, binding in zip(kinds, bindings, strict=True):
            if kind not in "SR":
                raise ValueError(
                    f"`T.axis.remap`: expected letters S and R, got `{kind}`"
                )
            domain = writer.loop_domain(prim.convert(binding))
            axes.append(self._axis(kind, domain, binding, dtype))
        return axes[0] if len(axes) == 1 else axes

    def _axis(self, kind: str, dom: Any, binding: Any, dtype: Any) -> Var:
        return current_block("T.axis").axis(kind, dom, binding, dtype)


axis = _Axes()


def _loop(
    kind: str,
    start: Any,
    stop: Any,
    annotations: Mapping[str, Any] | None,
    thread: str | None = None,
    dtype: Any = None,
    step: Any = None,
    variable: Var | None = None,
) -> LoopFrame:
    domain = _loop_domain(start, stop)
    type_ = None if dtype is None else dtype_text(dtype, "`dtype`")
    stride = None if step is None else _bound(step)
    if isinstance(stride, prim.IntImm) and stride.value == 1:
        stride = None
    variables = None if variable is None else [variable]
    return LoopFrame(
        [domain],
        kind,
        thread,
        dict(annotations or {}),
        stride,
        variables=variables,
        dtype=type_,
    )


def _loop_domain(start: Any, stop: Any) -> LoopDomain:
    if stop is None:
        extent = _bound(start)
        return LoopDomain(prim.const(0, extent.dtype), extent)
    begin, end = _bound(start), _bound(stop)
    return LoopDomain(begin, simplify(end - begin))


def _bound(value: Any) -> PrimExpr:
    expr = prim.convert(value)
    if not expr.is_integer:
        raise TypeError(f"expected an integer loop bound, got `{expr}`")
    return expr


def serial(
    start: Any,
    stop: Any = None,
    *,
    annotations: Mapping[str, Any] | None = None,
    step: Any = None,
    dtype: Any = None,
    **options: Any,
) -> LoopFrame:
    """Opens a serial loop."""
    return _loop("serial", start, stop, annotations, dtype=dtype, step=step)


def parallel(
    start: Any,
    stop: Any = None,
    *,
    annotations: Mapping[str, Any] | None = None,
    step: Any = None,
    dtype: Any = None,
    **options: Any,
) -> LoopFrame:
    """Opens a parallel loop, which CPU threads share."""
    return _loop("parallel", start, stop, annotations, dtype=dtype, step=step)


def vectorized(
    start: Any,
    stop: Any = None,
    *,
    annotations: Mapping[str, Any] | None = None,
    step: Any = None,
    dtype: Any = None,
    **options: Any,
) -> LoopFrame:
    """Opens a vectorized loop."""
    return _loop("vectorized", start, stop, annotations, dtype=dtype, step=step)


def unroll(
    start: Any,
    stop: Any = None,
    *,
    annotations: Mapping[str, Any] | None = None,
    step: Any = None,
    dtype: Any = None,
    **options: Any,
) -> LoopFrame:
    """Opens an unrolled loop."""
    return _loop("unrolled", start, stop, annotations, dtype=dtype, step=step)


def thread_binding(
    start: Any,
    stop: Any = None,
    thread: str | None = None,
    *,
    annotations: Mapping[str, Any] | None = None,
    dtype: Any = None,
    **options: Any,
) -> LoopFrame:
    """Opens a loop bound to a thread axis, such as ``threadIdx.x``.

    Raises:
        ValueError: the thread axis is missing.
    """
    if thread is None:
        if not isinstance(stop, str):
            raise ValueError(
                "`T.thread_binding`: expected a thread axis: `threadIdx.x`, ..."
            )
        thread, stop = stop, None
    return _loop("thread_binding", start, stop, annotations, thread, dtype)


def grid(*extents: Any, dtype: Any = None) -> LoopFrame:
    """Opens a perfect loop nest, over extents or pairs of begin and end."""
    for extent in extents:
        if isinstance(extent, (tuple, list)) and len(extent) != 2:
            raise ValueError(
                f"T.grid: expected a begin and an end, got {short_repr(extent)}"
            )
    domains = [
        _loop_domain(*extent)
        if isinstance(extent, (tuple, list))
        else _loop_domain(extent, None)
        for extent in extents
    ]
    type_ = None if dtype is None else dtype_text(dtype, "T.grid: `dtype`")
    return LoopFrame(domains, dtype=type_)


def launch_thread(thread: Any, extent: Any) -> LoopFrame:
    """Opens a scope that runs once per thread of an axis."""
    tag = getattr(thread, "thread_tag", thread)
    variable = getattr(thread, "var", None)
    return _loop("thread_binding", extent, None, None, tag, variable=variable)


def env_thread(thread_tag: str, dtype: str = "int32") -> IterVar:
    """Makes a thread axis, for ``T.launch_thread``."""
    state = current_prim_func("T.env_thread")
    return IterVar(
        None, state.add_unnamed(Var("", dtype)), IterVar.ThreadIndex, thread_tag
    )
