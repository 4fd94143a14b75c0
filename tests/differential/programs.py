"""Hand-written tensor programs, which random modules call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from relax_mlir import IRModule
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.dtypes import dtype
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.errors import OperatorError
from relax_mlir.ir.traversal import own_operations
from relax_mlir.tvm.script import ir as I
from relax_mlir.tvm.script import tir as T

__all__ = ["PROGRAMS", "Program", "write_call"]

_PREFIX = "program."


# ruff: noqa: E741, N805, N806, N812  scripts are not plain Python


@I.ir_module
class _Module:
    @T.prim_func(private=True)
    def scale(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i, j in T.grid(n, m):
            with T.block("scale"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(0.5) + T.float32(1)

    @T.prim_func(private=True)
    def reverse(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i, j in T.grid(n, m):
            with T.block("reverse"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, m - 1 - vj]

    @T.prim_func(private=True)
    def row_sums(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n,))
        for i, j in T.grid(n, m):
            with T.block("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vj]

    @T.prim_func(private=True)
    def matmul(a: T.handle, b: T.handle, c: T.handle):
        n, k, m = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, k))
        B = T.match_buffer(b, (k, m))
        C = T.match_buffer(c, (n, m))
        for i, j, l in T.grid(n, m, k):
            with T.block("matmul"):
                vi, vj, vl = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vl] * B[vl, vj]

    @T.prim_func(private=True)
    def smooth(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        doubled = T.alloc_buffer((n, m))
        for i, j in T.grid(n, m):
            with T.block("double"):
                vi, vj = T.axis.remap("SS", [i, j])
                doubled[vi, vj] = A[vi, vj] + A[vi, vj]
        for i, j in T.grid(n, m):
            with T.block("smooth"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = doubled[vi, vj] + T.if_then_else(
                    vj > 0, doubled[vi, vj - 1], T.float32(0)
                )

    @T.prim_func(private=True)
    def low_high(a: T.handle, b: T.handle, c: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        C = T.match_buffer(c, (m, n))
        for i, j in T.grid(n, m):
            with T.block("low"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.min(A[vi, vj], T.float32(0))
        for i, j in T.grid(n, m):
            with T.block("high"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj, vi] = T.max(A[vi, vj], T.float32(0))

    @T.prim_func(private=True)
    def rows_at(a: T.handle, at: T.handle, b: T.handle):
        n, m, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        At = T.match_buffer(at, (k,), "int64")
        B = T.match_buffer(b, (k, m))
        for i, j in T.grid(k, m):
            with T.block("row"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[At[vi], vj]

    @T.prim_func(private=True)
    def running_sums(a: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        for i in range(n):
            for j in range(m):
                with T.block("sum"):
                    vi = T.axis.spatial(n, i)
                    vj = T.axis.opaque(m, j)
                    T.reads(A[vi, 0:m])
                    T.writes(A[vi, vj])
                    if vj > 0:
                        A[vi, vj] = A[vi, vj] + A[vi, vj - 1]

    @T.prim_func(private=True)
    def add_to(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i, j in T.grid(n, m):
            with T.block("add"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] + B[vi, vj]

    @T.prim_func(private=True)
    def exchange(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m))
        B = T.match_buffer(b, (n, m))
        for i, j in T.grid(n, m):
            with T.block("old"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(n, m):
            with T.block("new"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1) - B[vi, vj]


Shape = tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """A tensor program, and what it computes.

    Attributes:
        compute: the same for arrays.
        operands: sizes of each operand; f32, but for ``indices``.
        results: sizes of each result.
        over: the operand that each result is written over; -1 for a new tensor.
        indices: the operand that holds indices, and the size that bounds them.
    """

    compute: Callable[..., Sequence[np.ndarray]]
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    over: tuple[int, ...] = ()
    indices: tuple[int, str] | None = None

    def dtype_of(self, operand: int) -> np.dtype[np.generic]:
        """The element type of an operand."""
        is_index = self.indices is not None and self.indices[0] == operand
        return np.dtype(np.int64 if is_index else np.float32)


def _smooth(a: np.ndarray) -> list[np.ndarray]:
    doubled = a + a
    before = np.concatenate([np.zeros_like(a[:, :1]), doubled[:, :-1]], axis=1)
    return [doubled + before]


_NM: Shape = ("n", "m")

PROGRAMS: Mapping[str, Program] = {
    f"{_PREFIX}{name}": program
    for name, program in {
        "scale": Program(
            lambda a: [a * np.float32(0.5) + np.float32(1)], (_NM,), (_NM,)
        ),
        "reverse": Program(lambda a: [a[:, ::-1]], (_NM,), (_NM,)),
        "row_sums": Program(
            lambda a: [a.sum(1, dtype=np.float64).astype(np.float32)], (_NM,), (("n",),)
        ),
        "matmul": Program(
            lambda a, b: [
                (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
            ],
            (("n", "k"), ("k", "m")),
            (_NM,),
        ),
        "smooth": Program(_smooth, (_NM,), (_NM,)),
        "low_high": Program(
            lambda a: [np.minimum(a, 0), np.maximum(a, 0).T], (_NM,), (_NM, ("m", "n"))
        ),
        "rows_at": Program(
            lambda a, at: [a[at]], (_NM, ("k",)), (("k", "m"),), indices=(1, "n")
        ),
        "running_sums": Program(
            lambda a: [a.astype(np.float64).cumsum(1).astype(np.float32)],
            (_NM,),
            (_NM,),
            over=(0,),
        ),
        "add_to": Program(lambda a, b: [a + b], (_NM, _NM), (_NM,), over=(0,)),
        "exchange": Program(
            lambda a: [np.float32(1) - a, a], (_NM,), (_NM, _NM), over=(0, -1)
        ),
    }.items()
}


def write_call(
    module: IRModule, name: str, operands: Sequence[ir.Value]
) -> ir.Operation:
    """Write a call of a program, and the program if the module lacks it.

    Raises:
        OperatorError: the operands' sizes do not fit each other.
    """
    program = PROGRAMS[name]
    sizes: dict[str, shapes.Dim] = {}
    for operand, named in zip(operands, program.operands, strict=True):
        for symbol, dim in zip(named, tensors.shape_of(operand), strict=True):
            if sizes.setdefault(symbol, dim) != dim:
                raise OperatorError(
                    f"`{name}`: `{symbol}` is both {sizes[symbol]} and {dim}"
                )
    types = [_type(named, sizes) for named in program.results]
    callee = ir.FlatSymbolRefAttr.get(_declare(module, name))
    result = types[0] if len(types) == 1 else ir.TupleType.get_tuple(types)
    if program.over:
        return _call_in_place(program, callee, operands, result)
    return CallTirOp(
        tensors.pack_tuple(operands),
        callee=callee.value,
        sizes=tensors.shape_attr(list(sizes.values())),
        results=[result],
    ).operation


def _type(named: Shape, sizes: Mapping[str, shapes.Dim]) -> ir.Type:
    return tensors.tensor_type(tuple(sizes[s] for s in named), dtype("float32"))


def _declare(module: IRModule, name: str) -> str:
    symbol = name.removeprefix(_PREFIX)
    body = module.mlir.body
    if symbol not in [f.name.value for f in module.func_ops()]:
        copy = ir.Module.parse(str(_Module.func_op(symbol)))
        for op in list(own_operations(copy.body)):
            body.append(op)
    return symbol


def _call_in_place(
    program: Program,
    callee: ir.FlatSymbolRefAttr,
    operands: Sequence[ir.Value],
    result: ir.Type,
) -> ir.Operation:
    own = {s: shapes.symbol(f"program_{s}") for o in program.operands for s in o}
    given = ", ".join(str(_type(o, own)) for o in program.operands)
    callable_type = ir.Type.parse(f"!relax.callable<[[{given}], tuple<>, false]>")
    function = ir.Operation.create(
        "relax.global_var", [callable_type], [], {"callee": callee}
    ).results[0]
    places = ", ".join(map(str, program.over))
    attributes = {
        "attrs": ir.Attribute.parse(f"{{inplace_indices = [{places}]}}"),
        "operator": ir.StringAttr.get("relax.call_tir_inplace"),
        "types": ir.ArrayAttr.get([ir.TypeAttr.get(result)]),
    }
    packed = tensors.pack_tuple([function, tensors.pack_tuple(operands)])
    return ir.Operation.create("relax.call_operator", [result], [packed], attributes)
