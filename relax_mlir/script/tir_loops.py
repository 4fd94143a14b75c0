"""Loops and axes of scripts: ``T.serial``, ``T.grid``, ``T.axis``, ..."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relax_mlir.errors import shown
from relax_mlir.objects import prim
from relax_mlir.objects.argument_checks import dtype_text
from relax_mlir.objects.prim import IterVar, PrimExpr, Var
from relax_mlir.objects.simplify import simplify
from relax_mlir.script.tir_frames import LoopFrame, Run
from relax_mlir.script.tir_program import current_block, current_program

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
    """The axes of the innermost block: ``T.axis.spatial`` and the like."""

    def spatial(self, dom: Any, binding: Any, dtype: Any = None) -> Var:
        """An axis whose points are independent."""
        return self._axis("S", dom, binding, dtype)

    def reduce(self, dom: Any, binding: Any, dtype: Any = None) -> Var:
        """An axis whose points are combined."""
        return self._axis("R", dom, binding, dtype)

    def scan(self, dom: Any, binding: Any, dtype: Any = None) -> Var:
        """An axis whose points come in order."""
        return self._axis("C", dom, binding, dtype)

    def opaque(self, dom: Any, binding: Any, dtype: Any = None) -> Var:
        """An axis of which nothing is known."""
        return self._axis("O", dom, binding, dtype)

    S, R = spatial, reduce

    def remap(self, kinds: str, bindings: Any, dtype: Any = None) -> Any:
        """An axis per loop variable, over all of its loop.

        Args:
            kinds: a letter per axis, ``S`` or ``R``.
            bindings: loop variables.

        Raises:
            ValueError: there are not as many, or one is no loop variable.
        """
        if len(kinds) != len(bindings):
            raise ValueError(
                f"`T.axis.remap`: expected {len(kinds)} variables for `{kinds}`, "
                f"got {len(bindings)}"
            )
        writer = current_program("T.axis").writer
        found = []
        for kind, binding in zip(kinds, bindings, strict=True):
            if kind not in "SR":
                raise ValueError(
                    f"`T.axis.remap`: expected letters S and R, got `{kind}`"
                )
            run = writer.loop_domain(prim.convert(binding))
            found.append(self._axis(kind, run, binding, dtype))
        return found[0] if len(found) == 1 else found

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
    run = _run(start, stop)
    type_ = None if dtype is None else dtype_text(dtype, "`dtype`")
    by = None if step is None else _bound(step)
    if isinstance(by, prim.IntImm) and by.value == 1:
        by = None
    said = dict(annotations or {})
    own = None if variable is None else [variable]
    return LoopFrame([run], kind, thread, said, by, variables=own, dtype=type_)


def _run(start: Any, stop: Any) -> Run:
    if stop is None:
        extent = _bound(start)
        return Run(prim.const(0, extent.dtype), extent)
    begin, end = _bound(start), _bound(stop)
    return Run(begin, simplify(end - begin))


def _bound(value: Any) -> PrimExpr:
    term = prim.convert(value)
    if not term.is_integer:
        raise TypeError(f"expected an integer as the bound of a loop, got `{term}`")
    return term


def serial(
    start: Any,
    stop: Any = None,
    *,
    annotations: Mapping[str, Any] | None = None,
    step: Any = None,
    dtype: Any = None,
    **options: Any,
) -> LoopFrame:
    """A loop whose steps come one after the other."""
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
    """A loop whose steps threads share."""
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
    """A loop whose steps are the lanes of a vector."""
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
    """A loop whose steps are written out."""
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
    """A loop whose steps are threads of an axis, such as ``threadIdx.x``.

    Raises:
        ValueError: the axis is not given.
    """
    if thread is None:
        if not isinstance(stop, str):
            raise ValueError(
                "`T.thread_binding` needs a thread axis: `threadIdx.x`, ..."
            )
        thread, stop = stop, None
    return _loop("thread_binding", start, stop, annotations, thread, dtype)


def grid(*extents: Any, dtype: Any = None) -> LoopFrame:
    """Loops one inside the other, over numbers of steps, or pairs of begin and end."""
    for extent in extents:
        if isinstance(extent, (tuple, list)) and len(extent) != 2:
            raise ValueError(
                f"T.grid: expected a begin and an end, got {shown(extent)}"
            )
    runs = [
        _run(*extent) if isinstance(extent, (tuple, list)) else _run(extent, None)
        for extent in extents
    ]
    type_ = None if dtype is None else dtype_text(dtype, "T.grid: `dtype`")
    return LoopFrame(runs, dtype=type_)


def launch_thread(thread: Any, extent: Any) -> LoopFrame:
    """All that follows, for each thread of an axis."""
    tag = getattr(thread, "thread_tag", thread)
    variable = getattr(thread, "var", None)
    return _loop("thread_binding", extent, None, None, tag, variable=variable)


def env_thread(thread_tag: str, dtype: str = "int32") -> IterVar:
    """A thread axis, for ``T.launch_thread``."""
    program = current_program("T.env_thread")
    return IterVar(None, program.new(Var("", dtype)), IterVar.ThreadIndex, thread_tag)
