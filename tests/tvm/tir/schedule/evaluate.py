"""A reference interpreter of PrimFuncs: their meaning, independent of schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

from relax_mlir.objects import prim
from relax_mlir.objects.stmt import statements
from relax_mlir.objects.stmt.buffer import BufferLoad
from relax_mlir.objects.stmt.functor import post_order_visit, pre_order_visit

__all__ = ["Evaluation", "Order", "evaluate", "interpret"]

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


# How parallel loops run: like serial ones; from the last iteration to the first, threads
# waiting for one another between statements; or all of them waiting so.
Order: TypeAlias = Literal["forward", "backwards", "lockstep"]


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
        order: how parallel loops run, except those over which threads reduce.
        body: the statement to translate.
    """

    def __init__(self, typed: bool, order: Order, body: Any) -> None:
        self.typed = typed
        self.order = order
        self.accesses = _access_counts(body)
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[int, str] = {}
        self.allocated: list[str] = []
        self.allocated_buffers: set[int] = set()
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
            self._for(node)
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

    def _for(self, node: Any) -> None:
        first, extent = (self.term(t, True) for t in (node.min, node.extent))
        steps = f"range({first}, {first} + {extent})"
        head = f"for {self.name(node.loop_var)} in {{}}:"
        is_concurrent = self.order != "forward" and node.kind in _PARALLEL
        if is_concurrent and _combines(node):
            assert _tag(node).startswith("threadIdx"), f"reduces over {node.kind}"
        elif is_concurrent:
            head = head.format(f"reversed({steps})")
            if self.order == "lockstep" or _tag(node).startswith("threadIdx"):
                self._with_private_buffers(node, head)
                return
        self.emit(head.format(steps))
        self._inside(node.body)

    def _with_private_buffers(self, loop: Any, head: str) -> None:
        """Runs a loop in lockstep, where each iteration has its own private buffers."""
        private = [self.name(b) for b in self._private_buffers(loop)]
        saved = [f"{name}_of_{self.name(loop.loop_var)}" for name in private]
        for name, outer in zip(private, saved, strict=True):
            self.emit(f"{outer} = {name}")
        copies = [
            f"{name} = own({outer}, {self.name(loop.loop_var)})"
            for name, outer in zip(private, saved, strict=True)
        ]
        self._in_lockstep(loop, loop.body, [head, *(f"    {c}" for c in copies)])
        for name, outer in zip(private, saved, strict=True):
            self.emit(f"{name} = {outer}")

    def _private_buffers(self, loop: Any) -> list[Any]:
        """The allocated buffers of which each iteration of a parallel loop has its own."""
        scopes = next(
            (v for k, v in _PRIVATE.items() if _tag(loop).startswith(k)), None
        )
        return [
            buffer
            for key, (buffer, count) in _access_counts(loop.body).items()
            if key in self.allocated_buffers
            and count == self.accesses[key][1]
            and (scopes is None or buffer.scope() in scopes)
        ]

    def _in_lockstep(self, loop: Any, node: Any, head: Sequence[str]) -> None:
        """Emits a loop all of whose iterations complete a statement before the next starts."""
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
        for line in head:
            self.emit(line)
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
            self.allocated_buffers.add(id(buffer))
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


_PARALLEL = (
    statements.ForKind.PARALLEL,
    statements.ForKind.VECTORIZED,
    statements.ForKind.THREAD_BINDING,
)
# The scopes of the buffers that iterations of a thread-bound loop do not share.
_PRIVATE = {
    "threadIdx": ("local",),
    "vthread": ("local",),
    "blockIdx": ("local", "shared", "shared.dyn"),
}


def _tag(loop: Any) -> str:
    """The thread that a loop is bound to, or nothing."""
    return "" if loop.thread_binding is None else loop.thread_binding.thread_tag


def _access_counts(node: Any) -> dict[int, tuple[Any, int]]:
    """The buffers that a statement accesses, each with the number of accesses, by id."""
    found: dict[int, tuple[Any, int]] = {}

    def count(part: Any) -> bool:
        accessed: list[Any] = []
        if isinstance(part, (statements.BufferStore, BufferLoad)):
            accessed = [part.buffer]
        elif isinstance(part, statements.BlockRealize):
            accessed = [m.source.buffer for m in part.block.match_buffers]
        for buffer in accessed:
            found[id(buffer)] = buffer, found.get(id(buffer), (buffer, 0))[1] + 1
        return True

    pre_order_visit(node, count)
    return found


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
    order: Order = "forward",
) -> Evaluation:
    """The results of a PrimFunc on copies of arrays.

    Args:
        program: the PrimFunc.
        arrays: its buffers, in order.
        sizes: its other parameters.
        typed: whether every operation has its declared type; otherwise all buffers are f64.
        order: how parallel loops run.
    """
    body = program.body
    made = _Translator(typed, order, body)
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
    made.statement(body)
    copies: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def own(array: np.ndarray | None, step: int) -> np.ndarray | None:
        if array is None:
            return None
        # Holds the array, so that its id stays its own.
        return copies.setdefault((id(array), step), (array, array.copy()))[1]

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
        "own": own,
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
