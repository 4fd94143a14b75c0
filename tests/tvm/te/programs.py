"""PrimFuncs as Python functions, for tests: slow and simple."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import Buffer, BufferLoad
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.tvm import te
from relax_mlir.tvm.te import Tensor
from relax_mlir.tvm.topi.sizes import get_const_tuple

__all__ = ["evaluate", "run"]

_CALLS: dict[str, str] = {
    "fabs": "abs({})",
    "pow": "({})**({})",
    "rsqrt": "1 / math.sqrt({})",
    "sigmoid": "1 / (1 + math.exp(-({})))",
    "round": "float(np.round({}))",
    "nearbyint": "float(np.round({}))",
    "if_then_else": "(({1}) if ({0}) else ({2}))",
    "shift_left": "(({}) << ({}))",
    "shift_right": "(({}) >> ({}))",
    "bitwise_and": "(({}) & ({}))",
    "bitwise_or": "(({}) | ({}))",
    "bitwise_xor": "(({}) ^ ({}))",
    "bitwise_not": "(~({}))",
    "isnan": "math.isnan({})",
    "log": "math.log({})",
}


def _dtype(name: str) -> Any:
    return np.dtype(getattr(ml_dtypes, name, None) or name)


class _Source:
    """The source of a Python function equivalent to a PrimFunc."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self._kept: list[object] = []

    def name(self, thing: Any) -> str:
        if id(thing) not in self.names:
            self.names[id(thing)] = f"v{len(self.names)}"
            self._kept.append(thing)
        return self.names[id(thing)]

    def put(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def term(self, term: Any) -> str:
        if isinstance(term, prim.Var):
            return self.name(term)
        parts = [self.term(child) for child in term.children()]
        if isinstance(term, BufferLoad):
            return (
                f"{self.name(term.buffer)}[({''.join(f'{p}, ' for p in parts)})].item()"
            )
        for kind, spell in _TERMS.items():
            if isinstance(term, kind):
                return spell(term, *parts)
        return f"({parts[0]} {term.symbol} {parts[1]})"

    def statement(self, node: Any, depth: int) -> None:
        if isinstance(node, statements.SeqStmt):
            for inner in node:
                self.statement(inner, depth)
        elif isinstance(node, statements.For):
            start = self.term(node.min)
            run = f"range({start}, {start} + {self.term(node.extent)})"
            self.put(depth, f"for {self.name(node.loop_var)} in {run}:")
            self.statement(node.body, depth + 1)
        elif isinstance(node, statements.BufferStore):
            places = "".join(f"{self.term(i)}, " for i in node.indices)
            target = f"{self.name(node.buffer)}[({places})]"
            self.put(depth, f"{target} = {self.term(node.value)}")
        elif isinstance(node, statements.IfThenElse):
            self._choice(node, depth)
        elif isinstance(node, statements.LetStmt):
            self.put(depth, f"{self.name(node.var)} = {self.term(node.value)}")
            self.statement(node.body, depth)
        elif isinstance(node, statements.BlockRealize):
            self._block(node, depth)
        elif isinstance(node, statements.Evaluate):
            self.put(depth, self.term(node.value))
        elif isinstance(node, statements.AttrStmt):
            self.statement(node.body, depth)
        else:
            raise TypeError(f"no {type(node).__name__} here")

    def _choice(self, node: statements.IfThenElse, depth: int) -> None:
        self.put(depth, f"if {self.term(node.condition)}:")
        self.statement(node.then_case, depth + 1)
        if node.else_case is not None:
            self.put(depth, "else:")
            self.statement(node.else_case, depth + 1)

    def _block(self, node: Any, depth: int) -> None:
        block = node.block
        for buffer in block.alloc_buffers:
            sizes = "".join(f"{self.term(s)}, " for s in buffer.shape)
            made = f"np.empty(({sizes}), dtype({buffer.dtype!r}))"
            self.put(depth, f"{self.name(buffer)} = {made}")
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            self.put(depth, f"{self.name(axis.var)} = {self.term(value)}")
        if block.init is not None:
            starts = [
                f"{self.name(axis.var)} == {self.term(axis.dom.min)}"
                for axis in block.iter_vars
                if axis.iter_type == prim.IterVar.CommReduce
            ]
            self.put(depth, f"if {' and '.join(starts)}:")
            self.statement(block.init, depth + 1)
        self.statement(block.body, depth)


def _float(term: prim.FloatImm) -> str:
    return repr(term.value) if math.isfinite(term.value) else f"float('{term.value}')"


def _call(term: prim.Call, *parts: str) -> str:
    if term.op_name == "reinterpret":
        return f"reinterpret({term.dtype!r}, {term.args[0].dtype!r}, {parts[0]})"
    if term.op_name in _CALLS:
        return f"({_CALLS[term.op_name].format(*parts)})"
    return f"math.{term.op_name}({', '.join(parts)})"


_TERMS: dict[type, Callable[..., str]] = {
    prim.IntImm: lambda term: repr(term.value),
    prim.FloatImm: _float,
    prim.Call: _call,
    prim.Min: lambda term, a, b: f"min({a}, {b})",
    prim.Max: lambda term, a, b: f"max({a}, {b})",
    prim.Cast: lambda term, a: f"cast({term.dtype!r}, {a})",
    prim.Select: lambda term, c, a, b: f"(({a}) if ({c}) else ({b}))",
    prim.Not: lambda term, a: f"(not {a})",
    prim.And: lambda term, a, b: f"({a} and {b})",
    prim.Or: lambda term, a, b: f"({a} or {b})",
    prim.Div: lambda term, a, b: f"div({a}, {b})",
    prim.Mod: lambda term, a, b: f"mod({a}, {b})",
}


def _div(a: Any, b: Any) -> Any:
    return int(a / b) if isinstance(a, int) and isinstance(b, int) else a / b


def _reinterpret(to: str, source: str, value: Any) -> Any:
    return np.array(value, _dtype(source)).view(_dtype(to)).item()


def compiled(program: PrimFunc) -> Callable[..., None]:
    """A Python function of the PrimFunc's buffers."""
    source = _Source()
    buffers: list[Buffer] = [program.buffer_map[p] for p in program.params]
    names = [source.name(b) for b in buffers]
    sizes = {
        source.name(size): f"{source.name(b)}.shape[{i}]"
        for b in buffers
        for i, size in enumerate(b.shape)
        if isinstance(size, prim.Var)
    }
    source.put(0, f"def program({', '.join(names)}):")
    for name, value in sizes.items():
        source.put(1, f"{name} = {value}")
    source.statement(program.body, 1)
    helpers = {
        "np": np,
        "math": math,
        "dtype": _dtype,
        "cast": lambda dtype, v: np.array(v).astype(_dtype(dtype)).item(),
        "div": _div,
        "mod": lambda a, b: (
            a - b * _div(a, b) if isinstance(a, int) else math.fmod(a, b)
        ),
        "reinterpret": _reinterpret,
    }
    exec("\n".join(source.lines), helpers)
    return helpers["program"]


def run(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The values of tensors of static shapes, for given arrays."""
    program = te.create_prim_func([*inputs, *outputs])
    results = [np.zeros(get_const_tuple(t.shape), _dtype(t.dtype)) for t in outputs]
    compiled(program)(*arrays, *results)
    return results


def evaluate(operator: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """The results of an operator on tensors, for arrays: one, or a list of several."""
    inputs = [
        te.placeholder(a.shape, a.dtype.name, f"x{i}") for i, a in enumerate(arrays)
    ]
    made = operator(*inputs)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    results = run(inputs, outputs, arrays)
    return results[0] if isinstance(made, Tensor) else results
