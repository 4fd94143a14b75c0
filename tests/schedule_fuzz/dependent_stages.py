"""Stages whose iterations depend on one another, or on sibling blocks and predicates.

Every element read is defined: buffers that are not written completely are parameters, which
have earlier values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.schedule_fuzz.programs import Tensor, Writer

__all__ = ["DEPENDENT_STAGES"]


def _row(w: Writer) -> tuple[Tensor, int]:
    """A random vector and its length."""
    x = w.source(least_rank=1, most_rank=1)
    if x.rank != 1 or isinstance(x.shape[0], str) or x.shape[0] < 3:
        x = w.input((w.rng.choice((4, 6, 8)),), w.dtype)
    return x, w.int_value(x.shape[0])


def _rows(w: Writer) -> tuple[Tensor, int, int]:
    """A matrix and its sizes."""
    x = w.source(least_rank=2, most_rank=2)
    if any(isinstance(size, str) for size in x.shape):
        x = w.input((3, 4), w.dtype)
    rows, columns = map(w.int_value, x.shape)
    return x, rows, columns


def _block(w: Writer, name: str, depth: int, *lines: str) -> None:
    w.lines.append(f'{"    " * depth}with T.block("{name}"):')
    w.lines += [f"{'    ' * (depth + 1)}{line}" for line in lines]


def _axis(number: int, extent: int, loop: str) -> str:
    return f"v{number} = T.axis.spatial({extent}, {loop})"


def _place(w: Writer, count: int) -> str:
    """The index of a read: mostly an element of another iteration."""
    return w.rng.choice(
        ("v0", "v0 + 1", "v0 + 2", f"{count - 1} - v0", "v0 // 2", "v0 * 0")
    )


def _kept_rows(w: Writer) -> None:
    """Some iterations write what all of them read."""
    x, count = _row(w)
    steps = w.rng.choice((2, 3))
    kept, y = w.result((count,), x.dtype), w.result((steps, count), x.dtype)
    w.read.add(kept.name)
    condition = w.rng.choice(("i0 < 1", "i0 < 2", f"i1 < {count}", "i0 * 2 < 3"))
    value = w.expression([f"{x.name}[v1]"], x.dtype, ())
    w.lines += [f"for i0 in range({steps}):", f"    for i1 in range({count}):"]
    axis = _axis(1, count, "i1")
    store = f"{kept.name}[v1] = {value}"
    _block(w, kept.name, 2, axis, f"T.where({condition})", store)
    w.lines.append(f"    for i1 in range({count}):")
    store = f"{y.name}[v0, v1] = {kept.name}[v1]"
    _block(w, y.name, 2, _axis(0, steps, "i0"), axis, store)


def _side_by_side(w: Writer) -> None:
    """Two blocks in one loop, one of which reads what iterations of the other write."""
    x, count = _row(w)
    a, c = w.result((count + 2,), x.dtype), w.result((count,), x.dtype)
    w.partial.add(a.name)
    axis = _axis(0, count, "i0")
    blocks = [
        (a.name, f"{a.name}[{_place(w, count)}] = {x.name}[v0]"),
        (c.name, f"{c.name}[v0] = {a.name}[{_place(w, count)}]"),
    ]
    w.rng.shuffle(blocks)
    w.lines.append(f"for i0 in range({count}):")
    for name, store in blocks:
        _block(w, name, 1, axis, store)


def _rounds(w: Writer) -> None:
    """An outer loop whose iterations read and then overwrite elements."""
    x, steps, count = _rows(w)
    a, b = w.result((count + 2,), x.dtype), w.result((count,), x.dtype)
    w.partial.add(a.name)
    w.lines.append(f"for t in range({steps}):")
    is_one = w.rng.random() < 0.6
    axis = _axis(0, count, "i0")
    w.lines.append(f"    for i0 in range({count}):")
    time = f"vt = T.axis.spatial({steps}, t)"
    _block(w, a.name, 2, time, axis, f"{a.name}[v0] = {x.name}[vt, v0]")
    w.lines += [] if is_one else [f"    for i0 in range({count}):"]
    value = w.expression([f"{a.name}[{_place(w, count)}]"], x.dtype, ())
    _block(w, b.name, 2, axis, f"{b.name}[v0] = {value}")


def _moved_in_place(w: Writer) -> None:
    """Elements move within their buffer."""
    x, count = _row(w)
    y = w.result(x.shape, x.dtype)
    w.block(f"{y.name}_copy", x.shape, "S", [f"{y.name}[v0] = {x.name}[v0]"])
    place = w.rng.choice(("v0", "v0 + 1", "v0 // 2", f"{count - 1} - v0"))
    value = w.expression([f"{y.name}[{place}]"], x.dtype, ())
    w.block(y.name, (count - 1,), "S", [f"{y.name}[v0] = {value}"])


def _started_by_others(w: Writer) -> None:
    """Reductions whose initial values are loaded."""
    x, rows, columns = _rows(w)
    y = w.result((rows,), x.dtype)
    w.read.add(x.name)
    zero = w.constant(x.dtype, 0)
    bias = w.input((rows,), x.dtype)
    start = w.rng.choice(
        (
            f"{bias.name}[v0]",
            f"T.if_then_else(v0 > 0, {y.name}[v0 - 1], {zero})",
            f"{bias.name}[{rows - 1} - v0]",
        )
    )
    update = f"{y.name}[v0] = {y.name}[v0] + {x.name}[v0, v1]"
    body = ["with T.init():", f"    {y.name}[v0] = {start}", update]
    w.block(y.name, (rows, columns), "SR", body)


def _written_again(w: Writer) -> None:
    """Several instances write one element."""
    x, rows, columns = _rows(w)
    place, size = w.rng.choice(
        (("v0 + v1", rows + columns - 1), ("v1", columns), ("v0", rows))
    )
    y = w.result((size,), x.dtype)
    body = [f"{y.name}[{place}] = {x.name}[v0, v1]"]
    w.block(y.name, (rows, columns), "SS", body)


def _with_gaps(w: Writer) -> None:
    """Iterations write every other element, and read the ones between."""
    x, count = _row(w)
    y, z = w.result((2 * count,), x.dtype), w.result((2, count), x.dtype)
    w.partial.add(y.name)
    is_sum = w.rng.random() < 0.5
    axes = [_axis(0, 2, "i0"), _axis(1, count, "i1")]
    target = f"{y.name}[v1 * 2 + v0]"
    w.lines += ["for i0 in range(2):", f"    for i1 in range({count}):"]
    if is_sum:
        w.lines.append("        for i2 in range(2):")
        update = [
            *axes,
            "v2 = T.axis.reduce(2, i2)",
            "with T.init():",
            f"    {target} = {w.constant(x.dtype, 0)}",
            f"{target} = {target} + {x.name}[v1]",
        ]
        _block(w, y.name, 3, *update)
    else:
        _block(w, y.name, 2, *axes, f"{target} = {x.name}[v1]")
    w.lines.append(f"    for i1 in range({count}):")
    place = w.rng.choice(("v1 * 2 + 1", "v1 * 2 + v0", "v1"))
    _block(w, z.name, 2, *axes, f"{z.name}[v0, v1] = {y.name}[{place}]")


def _decided(w: Writer) -> None:
    """A condition around a block reads what a sibling block writes."""
    w.decides = True
    x, count = _row(w)
    z, c = w.result((count,), x.dtype), w.result((count,), x.dtype)
    w.partial.add(c.name)
    axis = _axis(0, count, "i0")
    w.block(f"{z.name}_copy", (count,), "S", [f"{z.name}[v0] = {x.name}[v0]"])
    w.lines.append(f"for i0 in range({count}):")
    w.lines.append(f"    if {z.name}[i0] > {w.constant(x.dtype, 0)}:")
    value = w.expression([f"{x.name}[v0]"], x.dtype, ())
    _block(w, c.name, 2, axis, f"{c.name}[v0] = {value}")
    place = w.rng.choice(("v0", f"{count - 1} - v0"))
    store = f"{z.name}[{place}] = {w.constant(x.dtype)}"
    _block(w, z.name, 1, axis, store)


DEPENDENT_STAGES: tuple[Callable[[Writer], None], ...] = (
    *(_kept_rows, _side_by_side, _side_by_side, _rounds, _moved_in_place),
    *(_started_by_others, _written_again, _with_gaps, _decided),
)
