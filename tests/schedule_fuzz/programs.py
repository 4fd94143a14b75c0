"""Draws random PrimFuncs, as TVMScript."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.schedule_fuzz.dependent_stages import DEPENDENT_STAGES

__all__ = ["Param", "Program", "Tensor", "Writer", "draw_program"]

_FLOATS = ("float32", "float16", "bfloat16", "float64")
_INTEGERS = ("int8", "uint8", "int32", "int64")
_MOST_ELEMENTS = 160  # of one buffer
_MOST_POINTS = 500  # of one block
_OPEN = "n"  # the name of the one size that is open


@dataclass(frozen=True)
class Param:
    """A buffer parameter of a PrimFunc.

    Attributes:
        name: the name.
        shape: the concrete shape.
        dtype: the element type.
        limit: the exclusive upper bound of elements, for buffers of indices.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    limit: int | None = None


@dataclass(frozen=True)
class Program:
    """A PrimFunc as TVMScript, with its parameters.

    Attributes:
        script: the script.
        params: its buffers, outputs last.
        outputs: the number of outputs.
        decides: whether rounding errors may be amplified, as by comparisons.
    """

    script: str
    params: tuple[Param, ...]
    outputs: int
    decides: bool = False


@dataclass(frozen=True)
class Tensor:
    """A buffer of a PrimFunc."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    @property
    def rank(self) -> int:
        return len(self.shape)


def draw_program(rng: random.Random) -> Program:
    """A PrimFunc of one to four stages, each of which reads an earlier one."""
    return Writer(rng).program()


class Writer:
    """Writes the stages of one PrimFunc.

    Attributes:
        partial: results with elements that no stage writes; none reads them either.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        kinds = ("float32",) * 4 + _FLOATS + _INTEGERS
        self.dtype = rng.choice(kinds)
        self.open_size = rng.choice((3, 5, 7, 8)) if rng.random() < 0.15 else None
        self.inputs: list[Tensor] = []
        self.limits: dict[str, int] = {}
        self.made: list[Tensor] = []
        self.read: set[str] = set()
        self.partial: set[str] = set()
        self.lines: list[str] = []
        self.decides = False

    # pieces

    def int_value(self, size: int | str) -> int:
        """A size as an integer."""
        if isinstance(size, str):
            assert self.open_size is not None
            return self.open_size
        return size

    def count(self, shape: Sequence[int | str]) -> int:
        """The number of elements."""
        product = 1
        for size in shape:
            product *= self.int_value(size)
        return product

    def size(self) -> int | str:
        """A random size, sometimes the symbolic one."""
        if self.open_size is not None and self.rng.random() < 0.5:
            return _OPEN
        return self.rng.choice((1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12))

    def shape(self, rank: int) -> tuple[int | str, ...]:
        """A random shape of few elements."""
        while True:
            shape = tuple(self.size() for _ in range(rank))
            if self.count(shape) <= _MOST_ELEMENTS:
                return shape

    def input(
        self, shape: Sequence[int | str], dtype: str, limit: int | None = None
    ) -> Tensor:
        """A new input."""
        made = Tensor(f"X{len(self.inputs)}", tuple(shape), dtype)
        self.inputs.append(made)
        if limit is not None:
            self.limits[made.name] = limit
        return made

    def source(self, *, least_rank: int = 0, most_rank: int = 4) -> Tensor:
        """An operand of a stage: mostly the last result, else an older one or an input."""
        known = [
            t
            for t in (*self.made, *self.inputs)
            if least_rank <= t.rank <= most_rank
            and t.name not in self.limits
            and t.name not in self.partial
            and t.dtype != "bool"
        ]
        last = self.made[-1:] if self.made and self.made[-1] in known else known
        if last and self.rng.random() < 0.9:
            found = self.rng.choice(last if self.rng.random() < 0.75 else known)
            self.read.add(found.name)
            return found
        rank = self.rng.randint(max(1, least_rank), max(1, min(3, most_rank)))
        return self.input(self.shape(rank), self.dtype)

    def result(self, shape: Sequence[int | str], dtype: str) -> Tensor:
        """A new result."""
        made = Tensor(f"Y{len(self.made)}", tuple(shape), dtype)
        self.made.append(made)
        return made

    def block(
        self,
        name: str,
        extents: Sequence[int | str],
        kinds: str,
        body: Sequence[str],
        *,
        plain: bool = False,
    ) -> None:
        """A block in loops of its own, with iter vars ``v0``, ``v1`` and so on."""
        if not extents:
            self.lines += [f'with T.block("{name}"):']
            self.lines += [f"    {line}" for line in ("T.reads()", *body)][1:]
            return
        form = "grid" if plain else self.rng.choice(("grid",) * 5 + ("fused", "tiled"))
        has_open = any(isinstance(e, str) for e in extents)
        fixed = tuple(int(e) for e in extents) if not has_open else ()
        if form == "fused" and fixed:
            self._fused(name, fixed, kinds, body)
        elif form == "tiled" and not isinstance(extents[0], str):
            self._tiled(name, extents, kinds, body)
        else:
            self._grid(name, extents, kinds, body)

    def _grid(
        self, name: str, extents: Sequence[int | str], kinds: str, body: Sequence[str]
    ) -> None:
        loops = [f"i{n}" for n in range(len(extents))]
        if len(loops) == 1:
            self.lines.append(f"for i0 in range({extents[0]}):")
        else:
            sizes = ", ".join(map(str, extents))
            self.lines.append(f"for {', '.join(loops)} in T.grid({sizes}):")
        axes = [
            f"v{n} = T.axis.{_AXES[k]}({e}, i{n})"
            for n, (k, e) in enumerate(zip(kinds, extents, strict=True))
        ]
        self._in_block(name, 1, [*axes, *body])

    def _fused(
        self, name: str, extents: Sequence[int], kinds: str, body: Sequence[str]
    ) -> None:
        """All loops fused."""
        self.lines.append(f"for f in range({self.count(extents)}):")
        axes, stride = [], self.count(extents)
        for n, (kind, extent) in enumerate(zip(kinds, extents, strict=True)):
            outer = stride
            stride //= extent
            rest = f"f % {outer}" if n else "f"
            value = f"{rest} // {stride}" if stride > 1 else rest
            axes.append(f"v{n} = T.axis.{_AXES[kind]}({extent}, {value})")
        self._in_block(name, 1, [*axes, *body])

    def _tiled(
        self, name: str, extents: Sequence[int | str], kinds: str, body: Sequence[str]
    ) -> None:
        """The first loop split, with a predicate."""
        first = self.int_value(extents[0])
        step = self.rng.choice((2, 3, 4))
        sizes = [-(-first // step), step, *extents[1:]]
        loops = ["io", "ii", *(f"i{n}" for n in range(1, len(extents)))]
        listed = ", ".join(map(str, sizes))
        self.lines.append(f"for {', '.join(loops)} in T.grid({listed}):")
        place = f"io * {step} + ii"
        axes = [f"v0 = T.axis.{_AXES[kinds[0]]}({first}, {place})"]
        axes += [
            f"v{n} = T.axis.{_AXES[kinds[n]]}({extents[n]}, i{n})"
            for n in range(1, len(extents))
        ]
        where = [f"T.where({place} < {first})"] if first % step else []
        self._in_block(name, 1, [*axes, *where, *body])

    def _in_block(self, name: str, depth: int, lines: Sequence[str]) -> None:
        indent = "    " * depth
        self.lines.append(f'{indent}with T.block("{name}"):')
        self.lines += [f"{indent}    {line}" for line in lines]

    # scalar expressions

    def constant(self, dtype: str, value: int | None = None) -> str:
        """A small constant of a type."""
        value = self.rng.choice((0, 1, 2, 3)) if value is None else value
        return f"T.{dtype}({value})"

    def expression(self, terms: Sequence[str], dtype: str, axes: Sequence[str]) -> str:
        """A random expression of loads, constants and iter vars."""
        found = self.rng.choice(terms)
        for _ in range(self.rng.randint(1, 2)):
            other = self.rng.choice([*terms, self.constant(dtype)])
            found = self.rng.choice(_OPERATIONS)(found, other)
        if axes and self.rng.random() < 0.25:
            axis, size = self.rng.choice(axes), self.rng.randint(1, 4)
            condition = f"{axis} {self.rng.choice(('<', '>=', '=='))} {size}"
            other = self.constant(dtype)
            choose = self.rng.choice(("T.if_then_else", "T.Select"))
            found = f"{choose}({condition}, {found}, {other})"
        return found

    # the program

    def program(self) -> Program:
        """The whole PrimFunc."""
        for _ in range(self.rng.choice((1, 2, 2, 3, 3, 4))):
            self.rng.choice(_STAGES)(self)
        outputs = [t for t in self.made if t.name not in self.read]
        params = [*self.inputs, *outputs]
        kept = [t for t in self.made if t.name in self.read]
        lines = ["@T.prim_func"]
        lines.append(
            f"def main({', '.join(f'{t.name.lower()}: T.handle' for t in params)}):"
        )
        if self.open_size is not None:
            lines.append(f"    {_OPEN} = T.int32()")
        lines += [
            f'    {t.name} = T.match_buffer({t.name.lower()}, {_shape(t)}, "{t.dtype}")'
            for t in params
        ]
        lines += [
            f'    {t.name} = T.alloc_buffer({_shape(t)}, "{t.dtype}")' for t in kept
        ]
        lines += [f"    {line}" for line in self.lines]
        used = any(_OPEN in t.shape for t in params)
        if self.open_size is not None and not used:
            lines.remove(f"    {_OPEN} = T.int32()")
        given = [
            Param(
                t.name,
                tuple(map(self.int_value, t.shape)),
                t.dtype,
                self.limits.get(t.name),
            )
            for t in params
        ]
        return Program(
            "\n".join(lines) + "\n", tuple(given), len(outputs), self.decides
        )


_AXES = {"S": "spatial", "R": "reduce", "O": "opaque"}
_OPERATIONS: tuple[Callable[[str, str], str], ...] = (
    lambda a, b: f"({a} + {b})",
    lambda a, b: f"({a} - {b})",
    lambda a, b: f"({a} * {b})",
    lambda a, b: f"T.max({a}, {b})",
    lambda a, b: f"T.min({a}, {b})",
)


def _shape(tensor: Tensor) -> str:
    sizes = "".join(f"{size}, " for size in tensor.shape)
    return f"({sizes.strip()})"


def _at(tensor: Tensor, indices: Sequence[str]) -> str:
    return f"{tensor.name}[{', '.join(indices) or '()'}]"


def _axes(count: int) -> list[str]:
    return [f"v{n}" for n in range(count)]


# stages


def _elementwise(w: Writer) -> None:
    x = w.source()
    axes = _axes(x.rank)
    terms = [_at(x, axes)]
    if w.rng.random() < 0.4:
        beside = [
            t
            for t in w.made
            if (t.shape, t.dtype) == (x.shape, x.dtype) and t.name not in w.partial
        ]
        y = w.rng.choice(beside) if beside else w.input(x.shape, x.dtype)
        w.read.add(y.name)
        terms.append(_at(y, axes))
    if x.rank and w.rng.random() < 0.2:  # a bias of the last axis
        bias = w.input(x.shape[-1:], x.dtype)
        terms.append(_at(bias, axes[-1:]))
    y = w.result(x.shape, x.dtype)
    value = w.expression(terms, x.dtype, axes)
    w.block(y.name, x.shape, "S" * x.rank, [f"{_at(y, axes)} = {value}"])


def _bias(w: Writer) -> None:
    _add_bias(w, w.source(least_rank=1))


def _add_bias(w: Writer, x: Tensor) -> None:
    bias = w.input(x.shape, x.dtype)
    axes = _axes(x.rank)
    y = w.result(x.shape, x.dtype)
    value = f"{_at(x, axes)} + {_at(bias, axes)}"
    w.block(y.name, x.shape, "S" * x.rank, [f"{_at(y, axes)} = {value}"], plain=True)


def _cast(w: Writer) -> None:
    x = w.source(least_rank=1)
    wider = {
        "int8": "int32",
        "uint8": "int32",
        "float16": "float32",
        "bfloat16": "float32",
        "int32": "int64",
        "int64": "int32",
        "float32": "float64",
        "float64": "float32",
    }
    dtype = wider[x.dtype]
    axes = _axes(x.rank)
    y = w.result(x.shape, dtype)
    value = f'T.Cast("{dtype}", {_at(x, axes)})'
    w.block(y.name, x.shape, "S" * x.rank, [f"{_at(y, axes)} = {value}"])


def _mask(w: Writer) -> None:
    """A comparison into a bool buffer, and a selection by it."""
    w.decides = True
    x = w.source(least_rank=1)
    axes = _axes(x.rank)
    mask, y = w.result(x.shape, "bool"), w.result(x.shape, x.dtype)
    w.read.add(mask.name)
    compared = f"{_at(x, axes)} > {w.constant(x.dtype)}"
    w.block(mask.name, x.shape, "S" * x.rank, [f"{_at(mask, axes)} = {compared}"])
    value = f"T.Select({_at(mask, axes)}, {_at(x, axes)}, {w.constant(x.dtype)})"
    w.block(y.name, x.shape, "S" * x.rank, [f"{_at(y, axes)} = {value}"])


def _reduction(w: Writer) -> None:
    x = w.source(least_rank=1, most_rank=3)
    summed = set(w.rng.sample(range(x.rank), w.rng.randint(1, min(2, x.rank))))
    axes = _axes(x.rank)
    kept = [n for n in range(x.rank) if n not in summed]
    y = w.result([x.shape[n] for n in kept], x.dtype)
    place = _at(y, [axes[n] for n in kept])
    combine, start = w.rng.choice(_combiners(x.dtype))
    kinds = "".join("R" if n in summed else "S" for n in range(x.rank))
    term = _at(x, axes)
    if w.rng.random() < 0.3:
        term = w.expression([term], x.dtype, ())
    update = f"{place} = {combine(place, term)}"
    _reduce(w, y, x.shape, kinds, start, update, place)


def _reduce(
    w: Writer,
    y: Tensor,
    extents: Sequence[int | str],
    kinds: str,
    start: str,
    update: str,
    place: str,
) -> None:
    """A reduction block, sometimes with a separate init block."""
    if w.rng.random() < 0.15:
        spatial = [e for e, k in zip(extents, kinds, strict=True) if k == "S"]
        names = [f"v{n}" for n, k in enumerate(kinds) if k == "S"]
        renamed = place
        for new, old in enumerate(names):
            renamed = renamed.replace(old, f"v{new}")
        if spatial:
            body = [f"{renamed} = {start}"]
            w.block(f"{y.name}_init", spatial, "S" * len(spatial), body)
            w.block(y.name, extents, kinds, [update])
            return
    w.block(
        y.name, extents, kinds, ["with T.init():", f"    {place} = {start}", update]
    )


def _combiners(dtype: str) -> list[tuple[Callable[[str, str], str], str]]:
    least, most = f'T.min_value("{dtype}")', f'T.max_value("{dtype}")'
    return [
        (lambda a, b: f"{a} + {b}", f"T.{dtype}(0)"),
        (lambda a, b: f"{a} + {b}", f"T.{dtype}(0)"),
        (lambda a, b: f"T.max({a}, {b})", least),
        (lambda a, b: f"T.min({a}, {b})", most),
    ]


_WIDE = {"int8": "int32", "uint8": "int32", "float16": "float32", "bfloat16": "float32"}


def _sum_type(w: Writer, dtype: str) -> str:
    return _WIDE[dtype] if dtype in _WIDE and w.rng.random() < 0.6 else dtype


def _wide(term: str, dtype: str, wanted: str) -> str:
    return term if dtype == wanted else f'T.Cast("{wanted}", {term})'


def _matmul(w: Writer) -> None:
    x = w.source(least_rank=2, most_rank=3)
    *batch, rows, terms = x.shape
    columns = w.rng.choice((1, 2, 3, 4, 5, 8))
    if w.count([*x.shape, columns]) > _MOST_POINTS:
        columns = 1
    turned = w.rng.random() < 0.3
    weight = w.input((columns, terms) if turned else (terms, columns), x.dtype)
    dtype = _sum_type(w, x.dtype)
    y = w.result((*batch, rows, columns), dtype)
    lead = _axes(len(batch))
    i, j, k = _axes(len(batch) + 3)[len(batch) :]
    place = _at(y, [*lead, i, j])
    lhs = _wide(_at(x, [*lead, i, k]), x.dtype, dtype)
    rhs = _wide(_at(weight, [j, k] if turned else [k, j]), x.dtype, dtype)
    kinds = "S" * len(batch) + "SSR"
    extents = [*batch, rows, columns, terms]
    update = f"{place} = {place} + {lhs} * {rhs}"
    _reduce(w, y, extents, kinds, f"T.{dtype}(0)", update, place)


def _convolution(w: Writer) -> None:
    """A 1-D convolution of rows, with strides and dilation."""
    channels, rows = w.rng.choice((1, 2, 3)), w.rng.choice((7, 8, 9, 12))
    known = [t for t in w.made[-1:] if t.rank == 2 and t.dtype != "bool"]
    known = [t for t in known if t.name not in w.partial]
    known = [t for t in known if isinstance(t.shape[1], int) and t.shape[1] >= 4]
    x = known[0] if known else w.input((channels, rows), w.dtype)
    w.read.add(x.name)
    channels, rows = x.shape[0], w.int_value(x.shape[1])
    taps, stride, dilation = (
        w.rng.choice((2, 3)),
        w.rng.choice((1, 1, 2)),
        w.rng.choice((1, 1, 2)),
    )
    out = (rows - (taps - 1) * dilation - 1) // stride + 1
    if out < 1:
        dilation, stride = 1, 1
        out = rows - taps + 1
    filters = w.rng.choice((1, 2, 4))
    weight = w.input((filters, channels, taps), x.dtype)
    dtype = _sum_type(w, x.dtype)
    y = w.result((filters, out), dtype)
    lhs = _wide(_at(x, ["v2", f"v1 * {stride} + v3 * {dilation}"]), x.dtype, dtype)
    rhs = _wide(_at(weight, ["v0", "v2", "v3"]), x.dtype, dtype)
    place = _at(y, ["v0", "v1"])
    update = f"{place} = {place} + {lhs} * {rhs}"
    extents = [filters, out, channels, taps]
    _reduce(w, y, extents, "SSRR", f"T.{dtype}(0)", update, place)


def _padding(w: Writer) -> None:
    x = w.source(least_rank=1, most_rank=3)
    pads = [(w.rng.randint(0, 2), w.rng.randint(0, 2)) for _ in x.shape]
    if any(isinstance(size, str) for size in x.shape):
        pads = [
            (0, 0) if isinstance(s, str) else p
            for s, p in zip(x.shape, pads, strict=True)
        ]
    shape = [
        s if isinstance(s, str) else s + lo + hi
        for s, (lo, hi) in zip(x.shape, pads, strict=True)
    ]
    axes = _axes(x.rank)
    conditions = []
    for axis, size, (low, high) in zip(axes, x.shape, pads, strict=True):
        if low:
            conditions.append(f"{axis} >= {low}")
        if high:
            conditions.append(f"{axis} < {w.int_value(size) + low}")
    places = [f"{a} - {lo}" if lo else a for a, (lo, _) in zip(axes, pads, strict=True)]
    y = w.result(shape, x.dtype)
    value = _at(x, places)
    if conditions:
        value = f"T.if_then_else({' and '.join(conditions)}, {value}, {w.constant(x.dtype)})"
    w.block(y.name, shape, "S" * x.rank, [f"{_at(y, axes)} = {value}"])


def _stencil(w: Writer) -> None:
    """A stencil along the last axis."""
    x = w.source(least_rank=1, most_rank=3)
    if isinstance(x.shape[-1], str) or x.shape[-1] < 3:
        x = w.input((*x.shape[:-1], 9) if x.rank < 3 else (9,), w.dtype)
    _add_neighbours(w, x)


def _add_neighbours(w: Writer, x: Tensor) -> None:
    width = w.rng.choice((2, 3))
    last = w.int_value(x.shape[-1]) - width + 1
    axes = _axes(x.rank)
    terms = [
        _at(x, [*axes[:-1], f"{axes[-1]} + {n}" if n else axes[-1]])
        for n in range(width)
    ]
    y = w.result((*x.shape[:-1], last), x.dtype)
    value = w.rng.choice((" + ".join(terms), f"T.max({terms[0]}, {terms[1]})"))
    w.block(y.name, y.shape, "S" * x.rank, [f"{_at(y, axes)} = {value}"])


def _stencil_of_result(w: Writer) -> None:
    """A stencil of the previous result."""
    _elementwise(w)
    x = w.made[-1]
    if x.rank and not isinstance(x.shape[-1], str) and x.shape[-1] >= 3:
        w.read.add(x.name)
        _add_neighbours(w, x)


def _biased_matmul(w: Writer) -> None:
    _matmul(w)
    x = w.made[-1]
    w.read.add(x.name)
    _add_bias(w, x)


def _pooling(w: Writer) -> None:
    """Max or sum pooling, padded inside the block."""
    x = w.source(least_rank=1, most_rank=2)
    if isinstance(x.shape[-1], str):
        x = w.input((7,), w.dtype)
    rows, taps = w.int_value(x.shape[-1]), 3
    axes = _axes(x.rank)
    tap, place = f"v{x.rank}", f"{axes[-1]} + v{x.rank} - 1"
    y = w.result(x.shape, x.dtype)
    value = f"T.if_then_else({place} >= 0 and {place} < {rows}, {_at(x, [*axes[:-1], place])}, {w.constant(x.dtype, 0)})"
    combine, start = w.rng.choice(_combiners(x.dtype))
    target = _at(y, axes)
    update = f"{target} = {combine(target, value)}"
    kinds = "S" * x.rank + "R"
    assert tap
    _reduce(w, y, [*x.shape, taps], kinds, start, update, target)


def _permutation(w: Writer) -> None:
    x = w.source(least_rank=1, most_rank=3)
    order = w.rng.sample(range(x.rank), x.rank)
    shape = [x.shape[n] for n in order]
    axes = _axes(x.rank)
    places = [""] * x.rank
    for axis, dim in zip(axes, order, strict=True):
        size = x.shape[dim]
        mirrored = w.rng.random() < 0.25 and not isinstance(size, str)
        places[dim] = f"{w.int_value(size) - 1} - {axis}" if mirrored else axis
    y = w.result(shape, x.dtype)
    stores_in_order = w.rng.random() < 0.7
    if stores_in_order:
        body = f"{_at(y, axes)} = {_at(x, places)}"
        w.block(y.name, shape, "S" * x.rank, [body])
    else:  # goes over what it reads
        target = [axes[dim] for dim in order]
        w.block(y.name, x.shape, "S" * x.rank, [f"{_at(y, target)} = {_at(x, axes)}"])


def _reshape(w: Writer) -> None:
    """Two axes are flattened."""
    x = w.source(least_rank=2, most_rank=3)
    if any(isinstance(size, str) for size in x.shape):
        x = w.input((4, 6), w.dtype)
    *lead, rows, columns = map(w.int_value, x.shape)
    y = w.result((*lead, rows * columns), x.dtype)
    axes = _axes(len(lead) + 1)
    places = [*axes[:-1], f"{axes[-1]} // {columns}", f"{axes[-1]} % {columns}"]
    body = [f"{_at(y, axes)} = {_at(x, places)}"]
    w.block(y.name, y.shape, "S" * y.rank, body)


def _scan(w: Writer) -> None:
    """A prefix sum."""
    x = w.source(least_rank=1, most_rank=2)
    axes = _axes(x.rank)
    y = w.result(x.shape, x.dtype)
    before = _at(y, [*axes[:-1], f"{axes[-1]} - 1"])
    first = w.constant(x.dtype, 0)
    value = f"T.if_then_else({axes[-1]} > 0, {before}, {first}) + {_at(x, axes)}"
    kinds = "S" * (x.rank - 1) + "O"
    w.block(y.name, x.shape, kinds, [f"{_at(y, axes)} = {value}"], plain=True)


def _argmax(w: Writer) -> None:
    """The first argmax, in any iteration order."""
    w.decides = True
    x = w.source(least_rank=1, most_rank=2)
    if x.dtype not in ("float32", "int32", "float64"):
        x = w.input(w.shape(2), "float32")
    lead = x.shape[:-1]
    place, value = w.result(lead, "int32"), w.result(lead, x.dtype)
    axes = _axes(x.rank)
    index, best = _at(place, axes[:-1]), _at(value, axes[:-1])
    term = _at(x, axes)
    keeps = f"{best} > {term} or ({best} == {term} and {index} <= {axes[-1]})"
    body = [
        "with T.init():",
        f"    {index} = -1",
        f'    {best} = T.min_value("{x.dtype}")',
        f"chosen: T.int32 = T.Select({keeps}, {index}, {axes[-1]})",
        f"top: T.{x.dtype} = T.Select({keeps}, {best}, {term})",
        f"{index} = chosen",
        f"{best} = top",
    ]
    w.block(value.name, x.shape, "S" * (x.rank - 1) + "R", body, plain=True)


def _gather(w: Writer) -> None:
    x = w.source(least_rank=1, most_rank=3)
    count = w.rng.choice((3, 5, 8))
    indices = w.input(
        (count,), w.rng.choice(("int32", "int32", "int64")), w.int_value(x.shape[0])
    )
    y = w.result((count, *x.shape[1:]), x.dtype)
    axes = _axes(x.rank)
    index = _at(indices, axes[:1])
    if indices.dtype == "int64":
        index = f'T.Cast("int32", {index})'
    body = [f"{_at(y, axes)} = {_at(x, [index, *axes[1:]])}"]
    w.block(y.name, y.shape, "S" * x.rank, body)


def _concatenation(w: Writer) -> None:
    """Two blocks write parts of one buffer."""
    x = w.source(least_rank=1, most_rank=2)
    if isinstance(x.shape[0], str):
        x = w.input((5, 4), w.dtype)
    rows, more = w.int_value(x.shape[0]), w.rng.choice((1, 3))
    other = w.input((more, *x.shape[1:]), x.dtype)
    y = w.result((rows + more, *x.shape[1:]), x.dtype)
    axes = _axes(x.rank)
    kinds = "S" * x.rank
    first = f"{_at(y, axes)} = {_at(x, axes)}"
    w.block(f"{y.name}_first", x.shape, kinds, [first])
    place = [f"v0 + {rows}", *axes[1:]]
    second = f"{_at(y, place)} = {_at(other, axes)}"
    w.block(f"{y.name}_second", other.shape, kinds, [second])


def _in_place(w: Writer) -> None:
    """A buffer is updated in place."""
    x = w.source(least_rank=1, most_rank=2)
    axes = _axes(x.rank)
    y = w.result(x.shape, x.dtype)
    kinds = "S" * x.rank
    w.block(f"{y.name}_copy", x.shape, kinds, [f"{_at(y, axes)} = {_at(x, axes)}"])
    value = w.expression([_at(y, axes)], x.dtype, ())
    w.block(y.name, x.shape, kinds, [f"{_at(y, axes)} = {value}"])


def _branches(w: Writer) -> None:
    """A block with branches inside."""
    x = w.source(least_rank=1, most_rank=2)
    axes = _axes(x.rank)
    y = w.result(x.shape, x.dtype)
    limit = w.rng.randint(1, 3)
    store = _at(y, axes)
    inner = [f"{store} = {w.expression([_at(x, axes)], x.dtype, ())}"]
    other = [f"{store} = {_at(x, axes)}"]
    if w.rng.random() < 0.5:
        last = axes[-1]
        other = [
            f"if {last} % 2 == 0:",
            f"    {other[0]}",
            "else:",
            f"    {store} = {w.constant(x.dtype)}",
        ]
    body = [f"if v0 < {limit}:", *(f"    {s}" for s in inner), "else:"]
    body += [f"    {s}" for s in other]
    w.block(y.name, x.shape, "S" * x.rank, body)


def _nested(w: Writer) -> None:
    """A block over rows with a nested block over elements."""
    x = w.source(least_rank=2, most_rank=2)
    y = w.result(x.shape, x.dtype)
    rows, columns = x.shape
    value = w.expression([f"{x.name}[w0, v1]"], x.dtype, ())
    w.lines += [
        f"for i0 in range({rows}):",
        f'    with T.block("{y.name}_outer"):',
        f"        w0 = T.axis.spatial({rows}, i0)",
        f"        T.reads({x.name}[w0, 0:{columns}])",
        f"        T.writes({y.name}[w0, 0:{columns}])",
        f"        for i1 in range({columns}):",
        f'            with T.block("{y.name}"):',
        f"                v1 = T.axis.spatial({columns}, i1)",
        f"                {y.name}[w0, v1] = {value}",
    ]


_STAGES: tuple[Callable[[Writer], None], ...] = (
    *(_elementwise,) * 4,
    *(_reduction,) * 3,
    *(_matmul,) * 3,
    *(_bias, _bias, _cast, _mask, _convolution, _convolution, _padding, _padding),
    *(_stencil, _stencil, _pooling, _permutation, _permutation, _reshape, _scan),
    *(_biased_matmul, _stencil_of_result, _stencil_of_result),
    *(_argmax, _gather, _concatenation, _in_place, _branches, _nested),
    *DEPENDENT_STAGES,
)
