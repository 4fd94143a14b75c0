"""Emulation of AMX: lowers tiles to buffers, and operations on tiles to loops.

So code for AMX runs on CPUs without it. Multiplications update the accumulator's buffer in
place, as it has no other use. As in the manual, subnormal inputs and results are flushed to
zero, and the two products of each pair of bf16 go to separate sums, added at the end.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, TDPBF16PS and
TDPBSSD, "Operation".
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from mlir import ir

from relax_mlir import IRModule, compile, import_onnx, lower
from relax_mlir.compiler.driver import target_of
from relax_mlir.ir.traversal import walk
from relax_mlir.rewrite.patterns import erase
from relax_mlir.runtime.executable import Executable
from relax_mlir.schedules.builder import (
    add,
    alloc,
    constant,
    for_loop,
    index,
    multiply,
    op,
)
from relax_mlir.schedules.target_features import VectorUnit
from relax_mlir.targets import Target
from tests.frontends.onnx.differential import parse

__all__ = [
    "BYTES",
    "TARGET",
    "compile_with_tiles",
    "count_tiles",
    "drawn_bytes",
    "matmul_of_bytes",
    "run_with_tiles",
    "without_tiles",
]

BYTES = {"uint8": np.uint8, "int8": np.int8}


def _target() -> Target:
    """The host as a target with AMX and vectors of 512 bits."""
    host = target_of("cpu")
    dots = host.unit.int8_dot and host.unit.vector_bits == 512
    return replace(host, unit=VectorUnit(512, int8_dot=dots, amx=True))


TARGET = _target()


def count_tiles(module: IRModule) -> int:
    """Number of tile multiplications in a module."""
    names = [o.operation.name for o in walk(module.mlir.operation)]
    return sum(name.startswith("amx.tile_mul") for name in names)


def run_with_tiles(
    module: IRModule,
    *arrays: np.ndarray,
    precision: str = "f32",
    threads: int = 1,
    target: Target = TARGET,
) -> tuple[np.ndarray, ...]:
    """Compile a module for a target with AMX, and run it with emulated tiles.

    Raises:
        AssertionError: nothing is computed in tiles.
    """
    made, count = compile_with_tiles(module, precision, threads, target)
    assert count, "nothing is computed in tiles"
    return made(*arrays)


def compile_with_tiles(
    module: IRModule,
    precision: str = "f32",
    threads: int = 1,
    target: Target = TARGET,
) -> tuple[Executable, int]:
    """Compile a module for a target with AMX, with emulated tiles.

    Returns:
        The compiled module, and how many products of tiles it has.
    """
    loops = lower(module, to="loops", target=target, precision=precision)
    count = count_tiles(loops)
    without_tiles(loops)
    made = compile(loops, target=target, threads=threads, cache=False)
    assert isinstance(made, Executable)
    return made, count


def without_tiles(module: IRModule) -> None:
    """Lower AMX tiles to buffers, and operations on tiles to loops."""
    with module.context, ir.Location.unknown():
        operations = list(walk(module.mlir.operation))
        for operation in operations:
            if operation.operation.name == "scf.for":
                _carry_buffers(operation)
        for operation in operations:
            name = operation.operation.name
            if name.startswith("amx."):
                with ir.InsertionPoint(operation):
                    made = _MEANINGS[name](operation)
                if made is not None:
                    operation.operation.results[0].replace_all_uses_with(made)
        for operation in reversed(operations):
            if operation.operation.name.startswith("amx."):
                erase(operation)


_TILE = re.compile(r"!amx\.tile<(\d+)x(\d+)x(\w+)>")


def _shape(type_: ir.Type) -> tuple[int, int, ir.Type]:
    found = _TILE.fullmatch(str(type_))
    assert found is not None
    rows, columns, element = found.groups()
    return int(rows), int(columns), ir.Type.parse(element)


def _carry_buffers(loop: ir.OpView) -> None:
    """Change the loop-carried tiles of a loop to buffers."""
    block = loop.operation.regions[0].blocks[0]
    for value in [*block.arguments, *loop.operation.results]:
        if _TILE.fullmatch(str(value.type)):
            rows, columns, element = _shape(value.type)
            value.set_type(ir.MemRefType.get([rows, columns], element))


def _each(extents: Sequence[int], body: Callable[[Sequence[ir.Value]], None]) -> None:
    """Loop nest over given extents."""

    def nest(extents: Sequence[int], points: list[ir.Value]) -> tuple[()]:
        if not extents:
            body(points)
        else:
            inner = extents[1:]
            for_loop(0, extents[0], 1, lambda i: nest(inner, [*points, i]))
        return ()

    nest(extents, [])


def _read(buffer: ir.Value, *where: ir.Value) -> ir.Value:
    return op("memref.load", ir.MemRefType(buffer.type).element_type, buffer, *where)


def _write(value: ir.Value, buffer: ir.Value, *where: ir.Value) -> None:
    op("memref.store", None, value, buffer, *where)


def _zero(operation: ir.OpView) -> ir.Value:
    rows, columns, element = _shape(operation.operation.results[0].type)
    tile = alloc([rows, columns], element)
    _each((rows, columns), lambda at: _write(constant(0, element), tile, *at))
    return tile


def _load(operation: ir.OpView) -> ir.Value:
    view, offset, stride = operation.operation.operands
    rows, columns, element = _shape(operation.operation.results[0].type)
    tile = alloc([rows, columns], element)

    def copy(at: Sequence[ir.Value]) -> None:
        row, column = at
        place = add(add(offset, multiply(row, stride)), column)
        _write(_read(view, index(place)), tile, *at)

    _each((rows, columns), copy)
    return tile


def _store(operation: ir.OpView) -> None:
    buffer, *where, tile = operation.operation.operands
    rows, columns = ir.MemRefType(tile.type).shape

    def copy(at: Sequence[ir.Value]) -> None:
        there = [index(add(a, b)) for a, b in zip(where, at, strict=True)]
        _write(_read(tile, *at), buffer, *there)

    _each((rows, columns), copy)


def _flushed(x: ir.Value) -> ir.Value:
    """Flush subnormal numbers to zero of the same sign."""
    i1, i64 = (ir.IntegerType.get_signless(bits) for bits in (1, 64))
    size = op("math.absf", x.type, x)
    less = ir.IntegerAttr.get(i64, 4)
    is_tiny = op("arith.cmpf", i1, size, constant(2.0**-126, x.type), predicate=less)
    zero = op("math.copysign", x.type, constant(0, x.type), x)
    return op("arith.select", x.type, is_tiny, zero, x)


def _multiply_floats(operation: ir.OpView) -> ir.Value:
    a, b, c = operation.operation.operands
    rows, columns = ir.MemRefType(c.type).shape
    f32 = ir.F32Type.get()
    pairs = ir.MemRefType(b.type).shape[0]

    def wide(buffer: ir.Value, *where: ir.Value) -> ir.Value:
        return _flushed(op("arith.extf", f32, _read(buffer, *where)))

    def point(at: Sequence[ir.Value]) -> None:
        m, n = at

        def step(k: ir.Value, *sums: ir.Value) -> list[ir.Value]:
            following = []
            for place, total in enumerate(sums):
                x = wide(a, m, index(add(multiply(k, 2), place)))
                y = wide(b, k, index(add(multiply(n, 2), place)))
                following.append(_flushed(op("math.fma", f32, x, y, total)))
            return following

        first, second = for_loop(0, pairs, 1, step, [constant(0, f32)] * 2)
        both = _flushed(op("arith.addf", f32, first, second))
        before = _flushed(_read(c, m, n))
        _write(_flushed(op("arith.addf", f32, before, both)), c, m, n)

    _each((rows, columns), point)
    return c


def _multiply_integers(operation: ir.OpView) -> ir.Value:
    a, b, c = operation.operation.operands
    rows, columns = ir.MemRefType(c.type).shape
    i32 = ir.IntegerType.get_signless(32)
    extensions = [
        "arith.extui" if flag in operation.operation.attributes else "arith.extsi"
        for flag in ("isZextLhs", "isZextRhs")
    ]

    def point(at: Sequence[ir.Value]) -> None:
        m, n = at

        def step(k: ir.Value, total: ir.Value) -> list[ir.Value]:
            for place in range(4):
                x = _read(a, m, index(add(multiply(k, 4), place)))
                y = _read(b, k, index(add(multiply(n, 4), place)))
                factors = [
                    op(name, i32, v) for name, v in zip(extensions, (x, y), strict=True)
                ]
                total = op("arith.addi", i32, total, op("arith.muli", i32, *factors))
            return [total]

        groups = ir.MemRefType(b.type).shape[0]
        (total,) = for_loop(0, groups, 1, step, [_read(c, m, n)])
        _write(total, c, m, n)

    _each((rows, columns), point)
    return c


_MEANINGS: dict[str, Callable[[ir.OpView], ir.Value | None]] = {
    "amx.tile_zero": _zero,
    "amx.tile_load": _load,
    "amx.tile_store": _store,
    "amx.tile_mulf": _multiply_floats,
    "amx.tile_muli": _multiply_integers,
}


# matmuls of bytes


def drawn_bytes(kind: str, *shape: int) -> np.ndarray:
    """Random bytes, including the extreme values."""
    limits = np.iinfo(BYTES[kind])
    rng = np.random.default_rng(shape)
    values = rng.integers(limits.min, limits.max, shape, BYTES[kind], endpoint=True)
    values[0], values[-1] = limits.min, limits.max
    return values


def matmul_of_bytes(m: int, k: int, n: int, a: str, b: str) -> IRModule:
    text = f"""g ({a}[{m}, {k}] a, {b}[{k}, {n}] b) => (int32[{m}, {n}] y) {{
        y = MatMulInteger (a, b) }}"""
    return import_onnx(parse(text, opset=17))
