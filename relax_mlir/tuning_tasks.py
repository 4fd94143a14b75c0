"""The kernels of a model as tasks for tuning: what each is called with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import dtypes, shapes
from relax_mlir.errors import TuningError, near_misses
from relax_mlir.indexing import constant_of
from relax_mlir.module import IRModule
from relax_mlir.programs import argument_shape
from relax_mlir.rewriting import walk
from relax_mlir.units import Unit, kernel_hash, split

__all__ = ["TuningTask", "tuning_tasks"]

_OPEN_SIZE = 64  # of which nobody says how large it is
_ALIGNMENT = 64  # bytes, as the arena's


@dataclass(frozen=True)
class TuningTask:
    """A kernel, and what it is called with.

    Attributes:
        unit: the kernel by itself; kernel: its hash.
        buffers: shape and element type of each, those that it writes last.
        sizes: that it is called with.
        outputs: how many buffers it writes.
        has_indices: whether it reads where in a buffer to read.
    """

    unit: Unit
    kernel: str
    buffers: tuple[tuple[tuple[int, ...], np.dtype], ...]
    sizes: tuple[int, ...]
    outputs: int
    has_indices: bool

    @property
    def name(self) -> str:
        """Of the program."""
        return self.unit.programs[0]

    def arrays(self, seed: int = 0) -> list[np.ndarray]:
        """Memory to call it with; numbers of inputs are random."""
        rng = np.random.default_rng(seed)
        made = [_aligned(*buffer) for buffer in self.buffers]
        for array in made[: len(made) - self.outputs]:
            array[...] = self._numbers(rng, array.shape, array.dtype)
        return made

    def _numbers(
        self, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype
    ) -> np.ndarray:
        """Positive numbers: sums of them are exact to many digits."""
        if np.issubdtype(dtype, np.integer):
            is_place = self.has_indices and dtype.itemsize >= 4
            most = 1 if is_place else 4  # 0 is a place of any buffer that has one
            return rng.integers(0, most, shape).astype(dtype)
        return (rng.random(shape, np.float32) + np.float32(0.5)).astype(dtype)


def tuning_tasks(module: IRModule, sizes: Mapping[str, int]) -> list[TuningTask]:
    """Every distinct kernel of a module at the level ``planned``, with its first call.

    Left out are kernels that take what is neither a buffer of numbers nor a size.

    Args:
        sizes: of open dimensions of the model; 64 for those that are not named.

    Raises:
        TuningError: the model has no such open dimension.
    """
    main = module.func_op("main")
    known = _known_sizes(main, sizes)
    programs = {f.name.value: f for f in module.func_ops()}
    units = {name: unit for unit in split(module) for name in unit.programs}
    tasks: dict[str, TuningTask] = {}
    for call in walk(main):
        if call.operation.name == "func.call":
            name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            symbol = units[name].symbol
            task = (
                None
                if symbol in tasks
                else _task(call, programs[name], units[name], known)
            )
            if task is not None:
                tasks[symbol] = task
    return list(tasks.values())


def _known_sizes(main: func.FuncOp, sizes: Mapping[str, int]) -> dict[ir.Value, int]:
    """The values of the arguments that are sizes."""
    symbols = _symbols(main)
    for name, size in sizes.items():
        if name not in symbols:
            expected = ", ".join(f"`{s}`" for s in symbols) or "none: all are known"
            raise TuningError(
                f"no open size `{name}`: expected {expected}.{near_misses(name, symbols)}"
            )
        if size < 1:
            raise TuningError(f"size `{name}`: expected 1 or more, got {size}")
    return {value: sizes.get(name, _OPEN_SIZE) for name, value in symbols.items()}


def _task(
    call: ir.OpView,
    function: func.FuncOp,
    unit: Unit,
    known: Mapping[ir.Value, int],
) -> TuningTask | None:
    sizes = [v for v in call.operands if isinstance(v.type, ir.IndexType)]
    try:
        values = [_index(v, known) for v in sizes]
        buffers = _buffers(function, values)
    except (AttributeError, KeyError, ValueError):  # vectors, what are no sizes
        return None
    outputs = ir.IntegerAttr(function.attributes["tir.num_outputs"]).value
    names = {op.operation.name for op in walk(function)}
    return TuningTask(
        unit,
        kernel_hash(function),
        buffers,
        tuple(values),
        outputs,
        bool(names & {"arith.index_cast", "arith.index_castui"}),
    )


def _buffers(
    function: func.FuncOp, values: Sequence[int]
) -> tuple[tuple[tuple[int, ...], np.dtype], ...]:
    """Shapes and element types, if sizes have these values in order."""
    sizes = dict(zip(_symbols(function), values, strict=True))
    found: list[tuple[tuple[int, ...], np.dtype]] = []
    for number, type_ in enumerate(function.type.inputs):
        if isinstance(type_, ir.IndexType):
            continue
        if not isinstance(type_, ir.MemRefType):
            raise ValueError(f"argument {number} is no buffer")
        shape = [shapes.evaluate(d, sizes) for d in argument_shape(function, number)]
        dtype = dtypes.from_mlir(type_.element_type).numpy
        found.append((tuple(shape), dtype))
    return tuple(found)


def _symbols(function: func.FuncOp) -> dict[str, ir.Value]:
    """The arguments that are sizes, by name, in order."""
    if "arg_attrs" not in function.attributes:
        return {}
    attributes = map(ir.DictAttr, function.attributes["arg_attrs"])
    pairs = zip(function.arguments, attributes, strict=True)
    return {
        ir.StringAttr(found["tir.symbol"]).value: argument
        for argument, found in pairs
        if "tir.symbol" in found
    }


_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.floordivsi": operator.floordiv,
    "arith.minsi": min,
    "arith.maxsi": max,
}


def _index(value: ir.Value, known: Mapping[ir.Value, int]) -> int:
    """What ``main`` computes a size to be."""
    if value in known:
        return known[value]
    constant = constant_of(value)
    if constant is not None:
        return constant
    lhs, rhs = (_index(operand, known) for operand in value.owner.operands)
    return _ARITHMETIC[value.owner.name](lhs, rhs)


def _aligned(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Zeros that begin where a cache line does."""
    size_bytes = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size_bytes + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size_bytes].view(dtype).reshape(shape)
