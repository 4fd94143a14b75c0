"""Estimate of memory allocated by functions, with and without memory planning."""

from __future__ import annotations

from dataclasses import dataclass

from relax_mlir.errors import short_repr
from relax_mlir.ir.module import IRModule
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Call, Expr, Op, ShapeExpr
from relax_mlir.objects.expr_functor import PyExprVisitor
from relax_mlir.objects.function import Function

__all__ = ["estimate_memory_usage"]

_GIB = 2**30


def estimate_memory_usage(mod: IRModule | Function) -> str:
    """Report the memory that each function allocates.

    Every allocation counts once, independent of control flow. Storages of
    ``relax.memory.alloc_storage`` count as planned memory.
    """
    module = IRModule({"foo": mod}) if isinstance(mod, Function) else mod
    reports = []
    for var, function in module.functions.items():
        if isinstance(function, Function):
            allocations = _Allocations()
            allocations.visit_expr(function)
            usage = allocations.usage
            reports.append(f"- Function {var.name_hint}:\n{usage.report()}\n")
    return "Memory usage estimation:\n" + "".join(reports) if reports else ""


@dataclass
class _Usage:
    """Allocations of one function.

    Attributes:
        tensors: number of tensors of static shape; ``tensors_bytes`` is their total size.
        dynamic: number of tensors of dynamic shape.
        planned: number of storages, and of static tensors outside of storages;
            ``planned_bytes`` is their total size.
    """

    tensors: int = 0
    tensors_bytes: int = 0
    dynamic: int = 0
    planned: int = 0
    planned_bytes: int = 0

    def report(self) -> str:
        """The counts as text."""
        dynamic = f", and {self.dynamic} dynamic-size allocation(s)"
        before = _report_line("Without", self.tensors, self.tensors_bytes)
        after = _report_line("With", self.planned, self.planned_bytes)
        lines = [f"{before}{dynamic if self.dynamic else ''}.", f"{after}.", ""]
        if self.tensors_bytes:
            share = self.planned_bytes / self.tensors_bytes
            lines[-1] = (
                f" * Memory planning reduces constant memory size to {share:.1%}."
            )
        return "\n".join(lines)


def _report_line(when: str, count: int, size_bytes: int) -> str:
    return (
        f" * {when} memory planning, there are {count} constant-size memory "
        f"allocation(s) with total size {size_bytes / _GIB:.4} GB"
    )


class _Allocations(PyExprVisitor):
    def __init__(self) -> None:
        self.usage = _Usage()

    def visit_call_(self, op: Call) -> None:
        name = op.op.name if isinstance(op.op, Op) else ""
        if name == "relax.builtin.alloc_tensor":
            size = self._tensor(op.args[0], op.args[1])
            self.usage.planned += size is not None
            self.usage.planned_bytes += size or 0
        elif name == "relax.memory.alloc_tensor":
            self._tensor(op.args[2], op.args[3])
        elif name == "relax.memory.alloc_storage":
            size = _static_sizes(op.args[0])
            self.usage.planned += 1
            self.usage.planned_bytes += (size or [0])[0]

    def _tensor(self, shape: Expr, dtype: Expr) -> int | None:
        """Counts a tensor; returns its size in bytes, or None if that is dynamic."""
        sizes = _static_sizes(shape)
        if sizes is None:
            self.usage.dynamic += 1
            return None
        size_bytes = _size_bytes(str(getattr(dtype, "value", dtype)))
        for size in sizes:
            size_bytes *= size
        self.usage.tensors += 1
        self.usage.tensors_bytes += size_bytes
        return size_bytes


def _static_sizes(shape: Expr) -> list[int] | None:
    if not isinstance(shape, ShapeExpr):
        raise TypeError(
            f"expected the size of an allocation as a shape, got {short_repr(shape)}"
        )
    known = [size.value for size in shape.values if isinstance(size, prim.IntImm)]
    return known if len(known) == len(shape) else None


def _size_bytes(dtype: str) -> int:
    """Bytes of one element."""
    name, _, lanes = dtype.partition("x")
    bits = "".join(c for c in name if c.isdigit()) or "8"
    return (int(bits) + 7) // 8 * int(lanes or 1)
