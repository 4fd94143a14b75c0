"""Random primitive calls, as data that can be applied, stored and removed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlir import ir

from relax_mlir import IRModule
from relax_mlir.errors import ScheduleError
from relax_mlir.tvm.script import from_source
from relax_mlir.tvm.tir import Schedule, TensorIntrin
from relax_mlir.tvm.tir.schedule import accesses, tree
from relax_mlir.tvm.tir.schedule.buffers import element_dtype
from relax_mlir.tvm.tir.schedule.indices import IndexSymbols
from relax_mlir.tvm.tir.schedule.state import loop_bounds

__all__ = ["LOOKS", "PRIMITIVES", "Step", "Stepper", "draw_steps"]


@dataclass(frozen=True)
class Step:
    """A primitive call.

    Attributes:
        primitive: the method of the schedule.
        args: plain values; ``{"block": name}``, ``{"loop": [block, number]}`` and
            ``{"sampled": number}`` stand for random variables.
        options: keyword arguments.
    """

    primitive: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """The call as one line."""
        return json.dumps([self.primitive, list(self.args), self.options])

    @staticmethod
    def from_json(text: str) -> Step:
        """Parses the result of :meth:`to_json`."""
        primitive, args, options = json.loads(text)
        return Step(primitive, tuple(args), options)


class MissingError(LookupError):
    """A step refers to a block, a loop or a sample that does not exist."""


class Stepper:
    """Applies steps to a schedule.

    Args:
        schedule: the schedule.
        keeps_bindings: whether its loops stay bound to threads.

    Attributes:
        bound: modules in which a loop was bound to threads, if the schedule, which a CPU
            runs, continues without.
    """

    def __init__(self, schedule: Schedule, *, keeps_bindings: bool = False) -> None:
        self.schedule = schedule
        self.keeps_bindings = keeps_bindings
        self.bound: list[IRModule] = []
        self.sampled: list[Any] = []

    def blocks(self) -> dict[str, ir.Operation]:
        """The blocks with unique names."""
        function = self.schedule.state.function("main")
        found: dict[str, list[ir.Operation]] = {}
        for op in filter(tree.is_block, tree.subtree(function)):
            found.setdefault(tree.block_name(op), []).append(op)
        return {name: ops[0] for name, ops in found.items() if len(ops) == 1}

    def resolve(self, value: Any) -> Any:
        """A value with random variables resolved."""
        if isinstance(value, (list, tuple)):
            return [self.resolve(v) for v in value]
        if not isinstance(value, dict):
            return value
        ((kind, what),) = value.items()
        if kind == "sampled":
            if what >= len(self.sampled):
                raise MissingError(f"sample {what}")
            return self.sampled[what]
        name = what if kind == "block" else what[0]
        if name not in self.blocks():
            raise MissingError(f"block {name}")
        block = self.schedule.get_block(name)
        if kind == "block":
            return block
        loops = self.schedule.get_loops(block)
        if not -len(loops) <= what[1] < len(loops):
            raise MissingError(f"loop {what}")
        return loops[what[1]]

    def apply(self, step: Step) -> None:
        """Call the primitive.

        Raises:
            MissingError: the step refers to something that does not exist.
            Exception: the error of the primitive.
        """
        args = [self.resolve(a) for a in step.args]
        self.call(step, args)

    def call(self, step: Step, args: Sequence[Any]) -> None:
        """Call the primitive with random variables of the schedule."""
        if step.primitive == "copy":
            self.schedule = self.schedule.copy()
            return
        if step.primitive == "bind" and not self.keeps_bindings:
            trial = Stepper(Schedule(self.schedule.mod))
            bound = [trial.resolve(a) for a in step.args]
            trial.schedule.bind(*bound)
            self.bound.append(trial.schedule.mod)
            return
        given = getattr(self.schedule, step.primitive)(*args, **step.options)
        if step.primitive.startswith("sample_"):
            self.sampled += given if isinstance(given, list) else [given]


_DOT = """
@T.prim_func
def dot(
    x: T.Buffer(({width},), "{dtype}"),
    y: T.Buffer(({width},), "{dtype}"),
    z: T.Buffer((1,), "{dtype}"),
):
    for k in range({width}):
        {body}
"""
_DOT_BLOCK = """with T.block("dot"):
            vk = T.axis.reduce({width}, k)
            z[0] = z[0] + x[vk] * y[vk]"""
_DOT_BACKWARDS = "z[0] = z[0] + x[{width} - 1 - k] * y[{width} - 1 - k]"
_DOT_WIDTHS = (2, 3, 4)
_DOT_DTYPES = ("float32", "int32")


def _register_dots() -> None:
    """Registers dot-product intrinsics of a few elements, for ``tensorize``."""
    for width in _DOT_WIDTHS:
        for dtype in _DOT_DTYPES:
            programs = [
                from_source(
                    _DOT.format(width=width, dtype=dtype, body=body.format(width=width))
                )
                for body in (_DOT_BLOCK, _DOT_BACKWARDS)
            ]
            TensorIntrin.register(_dot_name(width, dtype), *programs, override=True)


def _dot_name(width: int, dtype: str) -> str:
    return f"fuzz.dot{width}.{dtype}"


_register_dots()

_MOST_TRIALS = 6
Drawn = list[Step]
Drawer = Callable[["_Drawing"], Drawn]


class _Drawing:
    """Draws the next calls for the current schedule.

    Args:
        rng: the random generator.
        stepper: the schedule.
    """

    def __init__(self, rng: random.Random, stepper: Stepper) -> None:
        self.rng = rng
        self.stepper = stepper
        self.named = stepper.blocks()
        self.names = list(self.named)

    def fits(self, steps: Sequence[Step]) -> bool:
        """Whether a copy of the schedule accepts a sequence of calls."""
        schedule = Schedule(self.stepper.schedule.mod, seed=0)
        trial = Stepper(schedule, keeps_bindings=self.stepper.keeps_bindings)
        try:
            for step in steps:
                trial.apply(step)
        except (ScheduleError, MissingError):
            return False
        except Exception:
            return True  # what is wrong shows when they are applied
        return True

    def fitting(self, candidates: Sequence[Drawn]) -> Drawn:
        """One of several sequences of calls, mostly an accepted one.

        Raises:
            IndexError: there is none.
        """
        listed = self.rng.sample(candidates, min(len(candidates), _MOST_TRIALS))
        if self.flag(0.05):
            return listed[0]
        for steps in listed:
            if self.fits(steps):
                return steps
        raise IndexError("none fits")

    # what there is

    def loops(self, name: str) -> list[ir.Operation]:
        return tree.enclosing_loops(self.named[name])

    def extent(self, name: str, number: int) -> int | None:
        """The extent of a loop, if it is constant."""
        found = loop_bounds(IndexSymbols(), self.loops(name)[number])[1]
        return found if isinstance(found, int) else None

    def block(self, kinds: str | None = None) -> str:
        """A block, mostly one with an iter var of a kind if one is given."""
        if kinds is not None and self.rng.random() < 0.9:
            found = [
                n
                for n in self.names
                if set(kinds) & set(tree.iter_kinds(self.named[n]))
            ]
            if found:
                return self.rng.choice(found)
        return self.rng.choice(self.names)

    def looped(self, least: int = 1) -> str:
        """A block with loops around it.

        Raises:
            IndexError: there is none.
        """
        found = [n for n in self.names if len(self.loops(n)) >= least]
        return self.rng.choice(found)

    def loop(self, name: str | None = None) -> tuple[str, int]:
        """A loop, as a block in it and its number."""
        name = self.looped() if name is None else name
        return name, self.rng.randrange(len(self.loops(name)))

    def rank(self, name: str) -> int:
        return len(tree.iter_kinds(self.named[name]))

    def accessed(self, name: str, kind: str) -> list[ir.Value]:
        op = self.named[name]
        find = accesses.buffers_read if kind == "read" else accesses.buffers_written
        return find(op)

    def access(self, kind: str | None = None) -> tuple[str, str, int]:
        """A block, ``read`` or ``write``, and the index of a buffer."""
        name = self.block()
        kind = kind or self.rng.choice(("read", "write"))
        return name, kind, self.rng.randrange(len(self.accessed(name, kind)))

    def consumers(self, name: str) -> list[str]:
        """The consumers of a block with unique names."""
        found = map(tree.block_name, accesses.consumers_of(self.named[name]))
        return [other for other in found if other in self.named]

    def contains(self, name: str, *parts: str) -> bool:
        """Whether a block contains an operation with one of these in its name."""
        inside = [op.name for op in tree.subtree(self.named[name])]
        return any(part in op for part in parts for op in inside)

    def scope(self) -> str:
        return self.rng.choice(("global", "local", "shared", "global"))

    def flag(self, odds: float = 0.5) -> bool:
        return self.rng.random() < odds

    def shape(self, name: str, kind: str, number: int) -> list[int]:
        """The shape of a buffer.

        Raises:
            IndexError: a size is symbolic.
        """
        shape = accesses.buffer_shape(self.accessed(name, kind)[number])
        if not all(isinstance(s, int) for s in shape):
            raise IndexError("open")
        return [int(s) for s in shape]  # type: ignore[arg-type]

    def axes(self, name: str) -> list[int]:
        """The extents of a block's iter domain.

        Raises:
            IndexError: one is symbolic.
        """
        found = tree.iter_extent_operands(self.named[name])
        if not all(isinstance(e, int) for e in found):
            raise IndexError("open")
        return [int(e) for e in found]

    def factors(self, extent: int | None) -> list[int | None]:
        """Factors of a split: divisors, non-divisors, and an inferred one."""
        first = self.rng.choice((1, 2, 2, 3, 4, 5))
        forms: list[list[int | None]] = [[None, first], [first, None]]
        forms.append([None, first, self.rng.choice((1, 2, 3))])
        if extent is not None:
            forms.append([-(-extent // first), first])
            divisors = [d for d in range(1, extent + 1) if extent % d == 0]
            fitting = self.rng.choice(divisors)
            tile: list[int | None] = [extent // fitting, fitting]
            forms += [tile, tile]
        return self.rng.choice(forms)

    def layout(self, shape: Sequence[int]) -> str:
        """A bijective index map of a buffer."""
        names = [f"i{n}" for n in range(len(shape))]
        parts: list[str] = list(names)
        form = self.rng.choice(("permute", "split", "fuse", "mirror"))
        at = self.rng.randrange(len(shape))
        if form == "split":
            step = self.rng.choice((2, 3, 4))
            parts[at : at + 1] = [f"{names[at]} // {step}", f"{names[at]} % {step}"]
        elif form == "fuse" and len(shape) > 1:
            at = self.rng.randrange(len(shape) - 1)
            parts[at : at + 2] = [f"{names[at]} * {shape[at + 1]} + {names[at + 1]}"]
        elif form == "mirror":
            parts[at] = f"{shape[at] - 1} - {names[at]}"
        if self.flag():
            self.rng.shuffle(parts)
        return f"lambda {', '.join(names)}: ({''.join(f'{p}, ' for p in parts)})"


def _block(name: str) -> dict[str, str]:
    return {"block": name}


def _loop(name: str, number: int) -> dict[str, list[Any]]:
    return {"loop": [name, number]}


def _sampled(*numbers: int) -> list[dict[str, int]]:
    return [{"sampled": n} for n in numbers]


# loops


def _split(d: _Drawing) -> Drawn:
    name, number = d.loop()
    extent = d.extent(name, number)
    factors = d.factors(extent)
    options: dict[str, Any] = {}
    if d.flag(0.3):
        options["preserve_unit_iters"] = d.flag()
    known = [f for f in factors if f is not None]
    product = 1
    for factor in known:
        product *= factor
    if len(known) == len(factors) and product == extent and d.flag(0.3):
        options["disable_predication"] = True
    return [Step("split", (_loop(name, number), factors), options)]


def _fuse(d: _Drawing) -> Drawn:
    name = d.looped(2)
    count = len(d.loops(name))
    first = d.rng.randrange(count - 1)
    last = d.rng.randint(first + 1, min(count - 1, first + 2))
    listed = [_loop(name, n) for n in range(first, last + 1)]
    options = {"preserve_unit_iters": d.flag()} if d.flag(0.3) else {}
    return [Step("fuse", tuple(listed), options)]


def _merge(d: _Drawing) -> Drawn:
    pairs = [
        (a, b)
        for n, a in enumerate(d.names)
        for b in d.names[n + 1 :]
        if d.loops(a) and d.loops(b) and d.loops(a)[0] != d.loops(b)[0]
    ]
    equal = [p for p in pairs if d.extent(p[0], 0) == d.extent(p[1], 0)]
    first, second = d.rng.choice(equal or pairs)
    depth = 0
    return [Step("merge", (_loop(first, depth), _loop(second, depth)))]


def _loop_partition(d: _Drawing) -> Drawn:
    name, number = d.loop()
    extent = d.extent(name, number) or 6
    first = d.rng.randint(1, max(1, extent - 1))
    factors = d.rng.choice(([first, None], [None, first], [first], [1, first]))
    return [Step("loop_partition", (_loop(name, number), factors))]


def _reorder(d: _Drawing) -> Drawn:
    name = d.looped(2)
    count = len(d.loops(name))
    chosen = d.rng.sample(range(count), d.rng.randint(2, count))
    return [Step("reorder", tuple(_loop(name, n) for n in chosen))]


def _reorder_block_iter_var(d: _Drawing) -> Drawn:
    name = d.block()
    order = d.rng.sample(range(d.rank(name)), d.rank(name))
    return [Step("reorder_block_iter_var", (_block(name), order))]


def _add_unit_loop(d: _Drawing) -> Drawn:
    if d.flag():
        return [Step("add_unit_loop", (_block(d.block()),))]
    return [Step("add_unit_loop", (_loop(*d.loop()),))]


def _tile(d: _Drawing) -> Drawn:
    name = d.looped(2)
    first = d.rng.randrange(len(d.loops(name)) - 1)
    loops = _loop(name, first), _loop(name, first + 1)
    sizes = d.rng.choice((2, 3, 4)), d.rng.choice((2, 3, 4))
    return [Step("tile", (_block(name), *loops, *sizes))]


def _kind(primitive: str) -> Drawer:
    def draw(d: _Drawing) -> Drawn:
        return [Step(primitive, (_loop(*d.loop()),))]

    return draw


def _bind(d: _Drawing) -> Drawn:
    axis = d.rng.choice(("threadIdx.x", "blockIdx.x", "vthread"))
    return [Step("bind", (_loop(*d.loop()), axis))]


# annotations


def _annotate(d: _Drawing) -> Drawn:
    target = _block(d.block()) if d.flag() else _loop(*d.loop())
    value = d.rng.choice((1, "text", [1, 2], True))
    made = [Step("annotate", (target, "note", value))]
    return [*made, Step("unannotate", (target, "note"))] if d.flag(0.3) else made


def _unannotate(d: _Drawing) -> Drawn:
    target = _block(d.block()) if d.flag() else _loop(*d.loop())
    if d.flag(0.3):
        return [Step("unannotate", (target, "note"))]
    return [Step("annotate", (target, "note", 1)), Step("unannotate", (target, "note"))]


def _storage_align(d: _Drawing) -> Drawn:
    name, _, number = d.access("write")
    rank = len(accesses.buffer_shape(d.accessed(name, "write")[number]))
    axis = d.rng.randrange(max(1, rank))
    factor = d.rng.choice((2, 4, 8))
    offset = d.rng.randrange(factor)
    return [Step("storage_align", (_block(name), number, axis, factor, offset))]


def _set_scope(d: _Drawing) -> Drawn:
    name, _, number = d.access("write")
    return [Step("set_scope", (_block(name), number, d.scope()))]


# movement


def _of_block(primitive: str) -> Drawer:
    def draw(d: _Drawing) -> Drawn:
        return [Step(primitive, (_block(d.block()),))]

    return draw


def _reverse_compute_inline(d: _Drawing) -> Drawn:
    candidates = [[Step("reverse_compute_inline", (_block(n),))] for n in d.names]
    return d.rng.choice(candidates) if d.flag() else d.fitting(candidates)


def _move(primitive: str) -> Drawer:
    """``compute_at`` and ``reverse_compute_at``: mostly to a loop of a neighbour."""

    def draw(d: _Drawing) -> Drawn:
        name = d.block()
        find = (
            accesses.consumers_of
            if primitive == "compute_at"
            else accesses.producers_of
        )
        beside = [tree.block_name(op) for op in find(d.named[name])]
        beside = [n for n in beside if n in d.named and d.loops(n)]
        target = d.rng.choice(beside) if beside and d.flag(0.95) else d.looped()
        options: dict[str, Any] = {}
        if d.flag(0.3):
            options["preserve_unit_loops"] = d.flag()
        if d.flag(0.2):
            options["index"] = d.rng.choice((-1, -2, 0))
        return [Step(primitive, (_block(name), _loop(*d.loop(target))), options)]

    return draw


def _cache(primitive: str) -> Drawer:
    def draw(d: _Drawing) -> Drawn:
        kind = primitive.removeprefix("cache_")
        name, _, number = d.access(kind)
        options: dict[str, Any] = {}
        return [Step(primitive, (_block(name), number, d.scope()), options)]

    return draw


def _cache_inplace(d: _Drawing) -> Drawn:
    both = [
        (n, number)
        for n in d.names
        for number, buffer in enumerate(d.accessed(n, "read"))
        if buffer in d.accessed(n, "write")
    ]
    name, number = d.rng.choice(both)
    return [Step("cache_inplace", (_block(name), number, d.scope()))]


def _copy_at(primitive: str) -> Drawer:
    def draw(d: _Drawing) -> Drawn:
        name, _, number = d.access(primitive.removesuffix("_at"))
        if not d.loops(name):
            raise IndexError("no loops")
        args = (_loop(*d.loop(name)), _block(name), number, d.scope())
        return [Step(primitive, args)]

    return draw


def _rolling_buffer(d: _Drawing) -> Drawn:
    """A block is computed at a loop of a consumer, mostly with overlapping tiles."""
    found: list[Drawn] = []
    for name in d.names:
        ring = Step("rolling_buffer", (_block(name), 0))
        found += [[ring]] if d.loops(name) else []
        for reader in d.consumers(name):
            found += [
                [Step("compute_at", (_block(name), _loop(reader, n))), ring]
                for n in range(len(d.loops(reader)))
            ]
    return d.fitting(found)


def _decompose_reduction(d: _Drawing) -> Drawn:
    name = d.block("R")
    return [Step("decompose_reduction", (_block(name), _loop(*d.loop(name))))]


def _rfactor(d: _Drawing) -> Drawn:
    name = d.block("R")
    return [Step("rfactor", (_loop(*d.loop(name)), d.rng.choice((0, 0, 1, 2, -1))))]


def _blockize(d: _Drawing) -> Drawn:
    options = {"preserve_unit_iters": d.flag()} if d.flag(0.3) else {}
    if d.flag(0.85):
        return [Step("blockize", (_loop(*d.loop()),), options)]
    first = d.block()
    around = tree.parent_of(d.named[first])
    beside = [n for n in d.names if n != first and tree.parent_of(d.named[n]) == around]
    return [Step("blockize", ([_block(first), _block(d.rng.choice(beside))],), options)]


def _tensorize(d: _Drawing) -> Drawn:
    """A dot product is tensorized."""
    found: list[Drawn] = []
    for name in d.names:
        kinds, read = tree.iter_kinds(d.named[name]), d.accessed(name, "read")
        if "R" not in kinds or len(read) != 2 or not d.loops(name):
            continue
        dtype = element_dtype(d.accessed(name, "write")[0])
        if dtype not in _DOT_DTYPES:
            continue
        found += [_dot_steps(name, width, dtype) for width in _DOT_WIDTHS]
    return d.fitting(found)


def _dot_steps(name: str, width: int, dtype: str) -> Drawn:
    inner = _loop(f"{name}_update", -1)
    return [
        *(Step("reindex", (_block(name), ["read", n])) for n in range(2)),
        Step("decompose_reduction", (_block(name), _loop(name, 0))),
        Step("split", (inner, [None, width])),
        Step("tensorize", (inner, _dot_name(width, dtype))),
    ]


# layouts


def _transform_layout(d: _Drawing) -> Drawn:
    name, kind, number = d.access()
    if accesses.is_argument(d.accessed(name, kind)[number]):
        raise IndexError("the program is called with it")
    index_map = d.layout(d.shape(name, kind, number))
    options: dict[str, Any] = {}
    if d.flag(0.3):
        options["pad_value"] = 0
    args = (_block(name), [kind, number], index_map)
    return [Step("transform_layout", args, options)]


def _transform_block_layout(d: _Drawing) -> Drawn:
    name = d.block()
    return [Step("transform_block_layout", (_block(name), d.layout(d.axes(name))))]


def _set_axis_separator(d: _Drawing) -> Drawn:
    name, kind, number = d.access()
    rank = len(accesses.buffer_shape(d.accessed(name, kind)[number]))
    places = sorted(d.rng.sample(range(1, rank), d.rng.randint(0, min(1, rank - 1))))
    return [Step("set_axis_separator", (_block(name), [kind, number], places))]


_WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}
_WIDER |= {"int8": "int16", "int32": "int64", "uint8": "int32"}


def _unsafe_set_dtype(d: _Drawing) -> Drawn:
    name, _, number = d.access("write")
    buffer = d.accessed(name, "write")[number]
    if accesses.is_argument(buffer):
        raise IndexError("the program is called with it")
    dtype = _WIDER[element_dtype(buffer)]
    return [Step("unsafe_set_dtype", (_block(name), number, dtype))]


def _reindex(d: _Drawing) -> Drawn:
    name, kind, number = d.access()
    return [Step("reindex", (_block(name), [kind, number]))]


def _reindex_cache(primitive: str) -> Drawer:
    def draw(d: _Drawing) -> Drawn:
        kind = primitive.rpartition("_")[2]
        name, _, number = d.access(kind)
        kinds = tree.iter_kinds(d.named[name])
        names = [f"i{n}" for n in range(len(kinds))]
        spatial = [n for n, k in zip(names, kinds, strict=True) if k == "S"]
        chosen = spatial if kind == "write" or d.flag() else names
        if kind == "read" and d.flag(0.4):
            chosen = d.rng.sample(names, d.rng.randint(1, len(names)))
        places = d.rng.sample(chosen, len(chosen))
        text = f"lambda {', '.join(names)}: ({''.join(f'{p}, ' for p in places)})"
        return [Step(primitive, (_block(name), number, d.scope(), text))]

    return draw


def _cache_index(d: _Drawing) -> Drawn:
    args = (_block(d.block()), d.scope(), d.rng.choice((0, 0, 1, 2)))
    return [Step("cache_index", args)]


def _annotate_buffer_access(d: _Drawing) -> Drawn:
    """Annotates a block with the region of a whole buffer, which is true.

    There have to be as many ranges as iter vars, whatever the rank of the buffer.
    """
    name, kind, number = d.access()
    shape = d.shape(name, kind, number)
    names = ", ".join(f"i{n}" for n in range(d.rank(name)))
    sizes = [*shape, *[1] * d.rank(name)][: d.rank(name)]
    boxes = "".join(f"(0, {size}), " for size in sizes)
    args = (_block(name), number, kind, f"lambda {names}: ({boxes})")
    return [Step("annotate_buffer_access", args)]


def _unsafe_hide_buffer_access(d: _Drawing) -> Drawn:
    name, kind, number = d.access()
    return [Step("unsafe_hide_buffer_access", (_block(name), kind, [number]))]


def _fuse_reduction_epilogue(d: _Drawing) -> Drawn:
    """A bias is fused into a reduction.

    ReLUs and clips are left out: applied at every update, they are another function.
    """
    found: list[Drawn] = []
    for name in d.names:
        if "R" in tree.iter_kinds(d.named[name]):
            found += [
                [Step("fuse_reduction_epilogue", (_block(name), _block(other)))]
                for other in d.consumers(name)
                if not d.contains(other, "max", "min")
            ]
    return d.fitting(found)


def _decompose_padding(d: _Drawing) -> Drawn:
    choices = [n for n in d.names if d.contains(n, "scf.if")]
    return d.fitting(
        [
            [Step("decompose_padding", (_block(name), _loop(name, number)))]
            for name in choices
            for number in range(len(d.loops(name)))
        ]
    )


def _pad_einsum(d: _Drawing) -> Drawn:
    name = d.block("R")
    padding = [d.rng.choice((1, 2, 3, 4)) for _ in range(d.rank(name))]
    return [Step("pad_einsum", (_block(name), padding))]


# samples


def _sample_categorical(d: _Drawing) -> Drawn:
    number = len(d.stepper.sampled)
    made = [Step("sample_categorical", ([1, 2, 3, 4], [0.1, 0.4, 0.3, 0.2]))]
    use = Step("split", (_loop(*d.loop()), [None, *_sampled(number)]))
    return [*made, use]


def _sample_tile(primitive: str) -> Drawer:
    def draw(d: _Drawing) -> Drawn:
        loop = _loop(*d.loop())
        number, count = len(d.stepper.sampled), d.rng.choice((1, 2, 3))
        options: dict[str, Any] = {}
        if primitive == "sample_partitioned_tile":
            options = {
                "partition_pos": d.rng.randint(0, count),
                "innerpart_factor": d.rng.choice((1, 2)),
            }
        samples = _sampled(*range(number, number + count))
        return [Step(primitive, (loop, count), options), Step("split", (loop, samples))]

    return draw


def _sample_compute_location(d: _Drawing) -> Drawn:
    name, number = d.block(), len(d.stepper.sampled)
    (sample,) = _sampled(number)
    return [
        Step("sample_compute_location", (_block(name),)),
        Step("compute_at", (_block(name), sample)),
    ]


# looks


def _plain(primitive: str) -> Drawer:
    return lambda d: [Step(primitive)]


_RARE = 0.15  # the weight of what changes no program
# Each primitive, how it is drawn, and how often.
_DRAWERS: dict[str, tuple[Drawer, float]] = {
    "split": (_split, 2.5),
    "fuse": (_fuse, 2),
    "merge": (_merge, 0.8),
    "loop_partition": (_loop_partition, 0.8),
    "reorder": (_reorder, 2.5),
    "reorder_block_iter_var": (_reorder_block_iter_var, 0.7),
    "add_unit_loop": (_add_unit_loop, 0.5),
    "tile": (_tile, 0.8),
    "parallel": (_kind("parallel"), 1),
    "vectorize": (_kind("vectorize"), 1),
    "unroll": (_kind("unroll"), 0.6),
    "bind": (_bind, 1.5),
    "annotate": (_annotate, _RARE),
    "unannotate": (_unannotate, _RARE),
    "storage_align": (_storage_align, 0.5),
    "set_scope": (_set_scope, 0.5),
    "compute_inline": (_of_block("compute_inline"), 1),
    "reverse_compute_inline": (_reverse_compute_inline, 1),
    "compute_at": (_move("compute_at"), 2.5),
    "reverse_compute_at": (_move("reverse_compute_at"), 2.5),
    "cache_read": (_cache("cache_read"), 1),
    "cache_write": (_cache("cache_write"), 1),
    "cache_inplace": (_cache_inplace, 0.8),
    "read_at": (_copy_at("read_at"), 0.8),
    "write_at": (_copy_at("write_at"), 0.8),
    "rolling_buffer": (_rolling_buffer, 2),
    "decompose_reduction": (_decompose_reduction, 1),
    "rfactor": (_rfactor, 1.5),
    "blockize": (_blockize, 1),
    "tensorize": (_tensorize, 2),
    "transform_layout": (_transform_layout, 1.5),
    "transform_block_layout": (_transform_block_layout, 1),
    "set_axis_separator": (_set_axis_separator, 0.3),
    "unsafe_set_dtype": (_unsafe_set_dtype, 0.7),
    "reindex": (_reindex, 0.8),
    "reindex_cache_read": (_reindex_cache("reindex_cache_read"), 0.8),
    "reindex_cache_write": (_reindex_cache("reindex_cache_write"), 0.8),
    "cache_index": (_cache_index, 0.8),
    "annotate_buffer_access": (_annotate_buffer_access, 0.3),
    "fuse_reduction_epilogue": (_fuse_reduction_epilogue, 4),
    "decompose_padding": (_decompose_padding, 2),
    "pad_einsum": (_pad_einsum, 1.2),
    "sample_categorical": (_sample_categorical, 0.3),
    "sample_perfect_tile": (_sample_tile("sample_perfect_tile"), 0.3),
    "sample_partitioned_tile": (_sample_tile("sample_partitioned_tile"), 0.3),
    "sample_compute_location": (_sample_compute_location, 0.5),
    "get_producers": (_of_block("get_producers"), _RARE),
    "get_consumers": (_of_block("get_consumers"), _RARE),
    "get_output_blocks": (_of_block("get_output_blocks"), _RARE),
    "get_child_blocks": (_of_block("get_child_blocks"), _RARE),
    "enter_postproc": (_plain("enter_postproc"), _RARE),
    "copy": (_plain("copy"), _RARE),
}
PRIMITIVES = tuple(_DRAWERS)
# What leaves a program as it is.
LOOKS = frozenset(
    {"get_producers", "get_consumers", "get_output_blocks", "get_child_blocks", "copy"}
    | {"bind"}
    | {"enter_postproc", "sample_categorical", "sample_perfect_tile"}
    | {"sample_partitioned_tile", "sample_compute_location"}
)


def draw_steps(rng: random.Random, stepper: Stepper) -> Drawn:
    """The next few calls, drawn for the current schedule."""
    drawing = _Drawing(rng, stepper)
    names = list(_DRAWERS)
    weights = [weight for _, weight in _DRAWERS.values()]
    while True:
        (name,) = rng.choices(names, weights)
        try:
            return _DRAWERS[name][0](drawing)
        except (IndexError, KeyError, ValueError):
            continue  # there is nothing that it could be called with
