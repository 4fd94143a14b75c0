"""A reference interpreter of PrimFuncs: their meaning, independent of schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import BufferLoad
from relax_mlir.objects.stmt.functor import post_order_visit

__all__ = ["Evaluation", "evaluate", "interpret"]

_FUNCTIONS = {"exp": "math.exp", "sqrt": "math.sqrt", "fabs": "abs"}


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation.

    Attributes:
        arrays: the buffers, in order.
        is_exact: whether no floating-point operation was rounded.
        largest: the largest magnitude in a buffer at the end.
    """

    arrays: list[np.ndarray]
    is_exact: bool
    largest: float


class _Rounding:
    """Rounds results to their types and records whether that may change one.

    Sums near the largest integer that a type represents exactly count as rounded: another order
    of summation may be.
    """

    def __init__(self) -> None:
        self.is_exact = True

    def of(self, dtype: str) -> Callable[[Any], Any]:
        """The rounding to a floating-point type."""
        if dtype == "float64":
            return self.double
        number = _numpy(dtype).type
        ends = (float(ml_dtypes.finfo(dtype).min), float(ml_dtypes.finfo(dtype).max))
        limit = 0.5 / float(ml_dtypes.finfo(dtype).eps)

        def rounded(value: float) -> float:
            found = float(number(value))
            if found != value or (abs(value) > limit and value not in ends):
                self.is_exact = False
            return found

        return rounded

    def double(self, value: float) -> float:
        """The identity, recorded as rounded where another order of summation may differ."""
        if not abs(value) < 2.0**40 or not (value * 1024).is_integer():
            self.is_exact = False
        return float(value)


def _wrapped(dtype: str) -> str:
    """Python code that wraps an integer ``{}`` to the range of an integer type."""
    bits = int(dtype.lstrip("uint"))
    if dtype.startswith("u"):
        return f"({{}} & {(1 << bits) - 1})"
    half = 1 << (bits - 1)
    return f"((({{}} + {half}) & {(1 << bits) - 1}) - {half})"


class _Translator:
    """Translates a PrimFunc to Python.

    Args:
        typed: whether results are rounded to their types; otherwise all floats are f64.
        backwards: whether to run parallel loops from the last iteration to the first, except
            those over which threads reduce.
    """

    def __init__(self, typed: bool, backwards: bool = False) -> None:
        self.typed = typed
        self.backwards = backwards
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[int, str] = {}
        self.allocated: list[str] = []
        self.dtypes: set[str] = set()

    def name(self, thing: Any) -> str:
        """The name of a variable or a buffer."""
        return self.names.setdefault(id(thing), f"x{len(self.names)}")

    def emit(self, line: str) -> None:
        """Emit a line."""
        self.lines.append("    " * self.depth + line)

    # scalars

    def term(self, term: Any, is_index: bool = False) -> str:
        """Translates a scalar expression; index arithmetic does not overflow."""
        if isinstance(term, prim.IntImm):
            return str(bool(term.value)) if term.dtype == "bool" else str(term.value)
        if isinstance(term, prim.FloatImm):
            return f"float('{term.value!r}')"
        if isinstance(term, prim.Var):
            return self.name(term)
        if isinstance(term, BufferLoad):
            found = f"{self.name(term.buffer)}.item({self.place(term.indices)})"
            return f"int({found})" if is_index and not self.typed else found
        if isinstance(term, prim.Cast):
            return self._cast(term)
        found = self._operation(term, is_index)
        return found if is_index else self._rounded(found, term.dtype)

    def _operation(self, term: Any, is_index: bool) -> str:
        def of(part: Any) -> str:
            return self.term(part, is_index)

        if isinstance(term, (prim.And, prim.Or)):
            word = "and" if isinstance(term, prim.And) else "or"
            return f"({of(term.a)} {word} {of(term.b)})"
        if isinstance(term, prim.Not):
            return f"(not {of(term.a)})"
        if isinstance(term, (prim.Min, prim.Max)):
            return f"{type(term).__name__.lower()}({of(term.a)}, {of(term.b)})"
        if isinstance(term, (prim.Div, prim.Mod)):
            return f"{type(term).__name__}.fold({of(term.a)}, {of(term.b)})"
        if isinstance(term, prim.BinaryExpr):
            return f"({of(term.a)} {type(term).symbol} {of(term.b)})"
        if isinstance(term, prim.Select):
            both = f"({of(term.false_value)}, {of(term.true_value)})"
            return f"{both}[bool({of(term.condition)})]"
        assert isinstance(term, prim.Call), term
        if term.op_name == "if_then_else":
            condition, then, otherwise = map(of, term.args)
            return f"({then} if {condition} else {otherwise})"
        return f"{_FUNCTIONS[term.op_name]}({', '.join(map(of, term.args))})"

    def _rounded(self, found: str, dtype: str) -> str:
        if not self.typed or dtype == "bool":
            return found
        if "float" in dtype:
            self.dtypes.add(dtype)
            return f"to_{dtype}({found})"
        return _wrapped(dtype).format(found)

    def _cast(self, term: Any) -> str:
        value, dtype = self.term(term.value), term.dtype
        if "float" in dtype:
            return self._rounded(f"float({value})", dtype)
        if dtype == "bool":
            return f"bool({value})"
        return _wrapped(dtype).format(f"int({value})")

    def place(self, indices: Sequence[Any]) -> str:
        """Translates the indices of an element."""
        return ", ".join(self.term(i, is_index=True) for i in indices)

    # statements

    def statement(self, node: Any) -> None:
        """Translates a statement."""
        if isinstance(node, statements.SeqStmt):
            for inner in node.seq:
                self.statement(inner)
        elif isinstance(node, statements.For):
            first, extent = (self.term(t, True) for t in (node.min, node.extent))
            steps = f"range({first}, {first} + {extent})"
            head = f"for {self.name(node.loop_var)} in {{}}:"
            if self.backwards and node.kind in _AT_ONCE and not _combines(node):
                head = head.format(f"reversed({steps})")
                if _waits(node):
                    self._in_lockstep(node, node.body, head)
                    return
            self.emit(head.format(steps))
            self._inside(node.body)
        elif isinstance(node, statements.BlockRealize):
            self._block(node)
        elif isinstance(node, statements.LetStmt):
            self.emit(f"{self.name(node.var)} = {self.term(node.value)}")
            self.statement(node.body)
        elif isinstance(node, statements.IfThenElse):
            self.emit(f"if {self.term(node.condition)}:")
            self._inside(node.then_case)
            if node.else_case is not None:
                self.emit("else:")
                self._inside(node.else_case)
        else:
            assert isinstance(node, statements.BufferStore), node
            value, place = self.term(node.value), self.place(node.indices)
            self.emit(f"{self.name(node.buffer)}[place({place})] = {value}")

    def _in_lockstep(self, loop: Any, node: Any, head: str) -> None:
        """All iterations of a loop complete a statement before the next one starts."""
        if isinstance(node, statements.SeqStmt):
            for inner in node.seq:
                self._in_lockstep(loop, inner, head)
            return
        is_shared = isinstance(node, statements.For) and not any(
            t is loop.loop_var
            for end in (node.min, node.extent)
            for t in prim.post_order(end)
        )
        if is_shared and node.kind == statements.ForKind.SERIAL:
            first, extent = (self.term(t, True) for t in (node.min, node.extent))
            self.emit(
                f"for {self.name(node.loop_var)} in range({first}, {first} + {extent}):"
            )
            self.depth += 1
            self._in_lockstep(loop, node.body, head)
            self.depth -= 1
            return
        self.emit(head)
        self._inside(node)

    def _inside(self, node: Any) -> None:
        self.depth += 1
        self.statement(node)
        self.depth -= 1

    def _block(self, node: Any) -> None:
        axes, block, depth = node.block.iter_vars, node.block, self.depth
        condition = self.term(node.predicate)
        if condition != "True":
            self.emit(f"if {condition}:")
            self.depth += 1
        for axis, value in zip(axes, node.iter_values, strict=True):
            name, start = self.name(axis.var), self.term(axis.dom.min, True)
            extent = self.term(axis.dom.extent, True)
            self.emit(f"{name} = {self.term(value, True)}")
            self.emit(f"assert {start} <= {name} < {start} + {extent}, '{axis.var}'")
        for buffer in block.alloc_buffers:
            shape = "".join(f"{self.term(s, True)}, " for s in buffer.shape)
            name = self.name(buffer)
            self.allocated.append(name)
            self.emit(f"if {name} is None:")
            self.emit(
                f"    {name} = arrays['{name}'] = empty(({shape}), '{buffer.dtype}')"
            )
        for matched in block.match_buffers:
            self._match(matched)
        if block.init is not None:
            reduced = [a for a in axes if a.iter_type == prim.IterVar.CommReduce]
            starts = [
                f"{self.name(a.var)} == {self.term(a.dom.min, True)}" for a in reduced
            ]
            self.emit(f"if {' and '.join(starts) or 'True'}:")
            self._inside(block.init)
        self.statement(block.body)
        self.depth = depth

    def _match(self, matched: Any) -> None:
        """A view of the sub-region of an array that a match buffer stands for."""
        source = matched.source
        runs = [
            f"({self.term(r.min, True)}, {self.term(r.extent, True)}), "
            for r in source.region
        ]
        shape = "".join(f"{self.term(s, True)}, " for s in matched.buffer.shape)
        self.emit(
            f"{self.name(matched.buffer)} = view({self.name(source.buffer)}, "
            f"({''.join(runs)}), ({shape}))"
        )


_AT_ONCE = (
    statements.ForKind.PARALLEL,
    statements.ForKind.VECTORIZED,
    statements.ForKind.THREAD_BINDING,
)


def _waits(loop: Any) -> bool:
    """Whether a loop is over synchronised threads that share all memory."""
    tag = loop.thread_binding.thread_tag if loop.thread_binding is not None else ""
    used: list[str] = []

    def look(node: Any) -> None:
        if isinstance(node, statements.BufferStore):
            used.append(node.buffer.scope())

    post_order_visit(loop.body, look)
    return tag.startswith("threadIdx") and "local" not in used


def _combines(loop: Any) -> bool:
    """Whether a reduce iter var of a block depends on a loop."""
    found: list[bool] = []

    def look(node: Any) -> None:
        if isinstance(node, statements.BlockRealize):
            found.extend(
                any(t is loop.loop_var for t in prim.post_order(value))
                for axis, value in zip(
                    node.block.iter_vars, node.iter_values, strict=True
                )
                if axis.iter_type == prim.IterVar.CommReduce
            )

    post_order_visit(loop.body, look)
    return any(found)


def _place(*indices: int) -> tuple[int, ...]:
    assert all(i >= 0 for i in indices), indices
    return indices


def _view(
    array: np.ndarray, runs: Sequence[tuple[int, int]], shape: tuple[int, ...]
) -> np.ndarray:
    part = array[tuple(slice(low, low + extent) for low, extent in runs)]
    dropped, kept = part.ndim - len(shape), []
    for size in part.shape:
        kept.append(0 if dropped and size == 1 else slice(None))
        dropped -= kept[-1] == 0
    part = part[tuple(kept)]
    assert part.shape == shape, (part.shape, shape)
    return part


def _numpy(dtype: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def interpret(
    program: Any,  # Any: PrimFunc
    *arrays: np.ndarray,
    sizes: Iterable[int] = (),
    typed: bool = True,
    backwards: bool = False,
) -> Evaluation:
    """The results of a PrimFunc on copies of arrays.

    Args:
        program: the PrimFunc.
        arrays: its buffers, in order.
        sizes: its other parameters.
        typed: whether every operation has its declared type; otherwise all buffers are f64.
        backwards: whether parallel loops start with the last iteration.
    """
    made = _Translator(typed, backwards)
    rounding = _Rounding()
    values: dict[str, Any] = {}
    given, numbers = iter(arrays), iter(sizes)
    used: list[np.ndarray] = []
    for param in program.params:
        buffer = program.buffer_map.get(param)
        if buffer is None:
            values[made.name(param)] = next(numbers)
            continue
        array = next(given)
        used.append(np.array(array, dtype=None if typed else np.float64))
        values[made.name(buffer)] = used[-1]
        for size, number in zip(buffer.shape, array.shape, strict=True):
            if isinstance(size, prim.Var):
                values[made.name(size)] = number
    made.statement(program.body)

    def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        kind = _numpy(dtype) if typed else np.dtype(np.float64)
        return np.full(shape, 99 if kind.kind in "iub" else np.nan, kind)

    unset = [f"    {name} = None" for name in dict.fromkeys(made.allocated)]
    text = "\n".join([f"def run({', '.join(values)}):", *unset, *made.lines])
    held: dict[str, np.ndarray] = {}
    known: dict[str, Any] = {
        "math": math,
        "place": _place,
        "view": _view,
        "empty": empty,
        "arrays": held,
        "Div": prim.Div,
        "Mod": prim.Mod,
        **{f"to_{dtype}": rounding.of(dtype) for dtype in made.dtypes},
    }
    exec(text, known)  # noqa: S102  it is what this module wrote
    with np.errstate(all="ignore"):
        known["run"](*values.values())
        sizes_of = [
            float(np.abs(a.astype(np.float64)).max(initial=0))
            for a in (*used, *held.values())
        ]
    return Evaluation(used, rounding.is_exact, max(sizes_of, default=0.0))


def evaluate(
    program: Any,  # Any: PrimFunc
    *arrays: np.ndarray,
    sizes: Iterable[int] = (),
) -> list[np.ndarray]:
    """The buffers of a PrimFunc after it ran on copies of arrays, all in f64.

    Args:
        program: the PrimFunc.
        arrays: its buffers, in order.
        sizes: its other parameters.
    """
    return interpret(program, *arrays, sizes=sizes, typed=False).arrays
