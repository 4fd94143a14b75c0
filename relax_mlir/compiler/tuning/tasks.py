"""Tuning tasks: the distinct kernels of a model, with arguments to run them on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.index_maps import constant_of
from relax_mlir.analysis.prim_func_verifier import argument_shape
from relax_mlir.compiler.kernel_modules import (
    CompilationUnit,
    kernel_hash,
    split_kernels,
)
from relax_mlir.dialects import dtypes, shapes
from relax_mlir.errors import TuningError, near_misses
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk

__all__ = ["TuningTask", "tuning_tasks"]

_DEFAULT_SIZE = 64  # of symbolic sizes without a given value
_ALIGNMENT = 64  # bytes, as the arena's


@dataclass(frozen=True)
class TuningTask:
    """A kernel and the types of its arguments.

    Attributes:
        unit: the kernel module; kernel: its hash.
        buffers: shape and element type of each buffer, outputs last.
        sizes: values of the size arguments.
        outputs: number of output buffers.
        has_indices: whether it uses loaded values as indices (a gather).
    """

    unit: CompilationUnit
    kernel: str
    buffers: tuple[tuple[tuple[int, ...], np.dtype], ...]
    sizes: tuple[int, ...]
    outputs: int
    has_indices: bool

    @property
    def name(self) -> str:
        """Name of the PrimFunc."""
        return self.unit.programs[0]

    def arrays(self, seed: int = 0) -> list[np.ndarray]:
        """Buffers to call the kernel with; inputs are random."""
        rng = np.random.default_rng(seed)
        arrays = [_aligned_zeros(*buffer) for buffer in self.buffers]
        for array in arrays[: len(arrays) - self.outputs]:
            array[...] = self._random(rng, array.shape, array.dtype)
        return arrays

    def _random(
        self, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype
    ) -> np.ndarray:
        """Random positive numbers, whose sums have no cancellation."""
        if np.issubdtype(dtype, np.integer):
            is_index = self.has_indices and dtype.itemsize >= 4
            end = 1 if is_index else 4  # 0 is a valid index of any buffer
            return rng.integers(0, end, shape).astype(dtype)
        return (rng.random(shape, np.float32) + np.float32(0.5)).astype(dtype)


def tuning_tasks(
    modules: Sequence[IRModule], sizes: Mapping[str, int]
) -> list[TuningTask]:
    """Every distinct kernel of modules at the level ``planned``, with its first call.

    Kernels with arguments other than buffers of scalars and sizes are omitted.

    Args:
        sizes: values of symbolic sizes of the modules; 64 by default.

    Raises:
        TuningError: no module has a symbolic size of a given name.
    """
    _check_sizes([_symbols(module.func_op("main")) for module in modules], sizes)
    tasks: dict[str, TuningTask] = {}
    for module in modules:
        for task in _tasks(module, sizes):
            tasks.setdefault(task.kernel, task)
    return list(tasks.values())


def _check_sizes(
    symbols: Sequence[Mapping[str, ir.Value]], sizes: Mapping[str, int]
) -> None:
    known = {name for names in symbols for name in names}
    for name, size in sizes.items():
        if name not in known:
            listed = sorted(known)
            expected = ", ".join(f"`{s}`" for s in listed) or "none: all are static"
            raise TuningError(
                f"no symbolic size `{name}`: expected {expected}."
                f"{near_misses(name, listed)}"
            )
        if size < 1:
            raise TuningError(f"size `{name}`: expected 1 or more, got {size}")


def _tasks(module: IRModule, sizes: Mapping[str, int]) -> list[TuningTask]:
    main = module.func_op("main")
    known = {v: sizes.get(name, _DEFAULT_SIZE) for name, v in _symbols(main).items()}
    programs = {f.name.value: f for f in module.func_ops()}
    units = {name: unit for unit in split_kernels(module) for name in unit.programs}
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


def _task(
    call: ir.OpView,
    function: func.FuncOp,
    unit: CompilationUnit,
    known: Mapping[ir.Value, int],
) -> TuningTask | None:
    sizes = [v for v in call.operands if isinstance(v.type, ir.IndexType)]
    try:
        values = [_evaluate(v, known) for v in sizes]
        buffers = _buffers(function, values)
    except (
        AttributeError,
        KeyError,
        ValueError,
    ):  # vector elements, or sizes that are not computed by arithmetic
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
    """Shapes and element types of the buffers, for values of the size arguments."""
    sizes = dict(zip(_symbols(function), values, strict=True))
    found: list[tuple[tuple[int, ...], np.dtype]] = []
    for number, type_ in enumerate(function.type.inputs):
        if isinstance(type_, ir.IndexType):
            continue
        if not isinstance(type_, ir.MemRefType):
            raise ValueError(f"argument {number} is not a buffer")
        shape = [shapes.evaluate(d, sizes) for d in argument_shape(function, number)]
        dtype = dtypes.from_mlir(type_.element_type).numpy
        found.append((tuple(shape), dtype))
    return tuple(found)


def _symbols(function: func.FuncOp) -> dict[str, ir.Value]:
    """The size arguments by name, in order."""
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


def _evaluate(value: ir.Value, known: Mapping[ir.Value, int]) -> int:
    """Evaluates a size that ``main`` computes."""
    if value in known:
        return known[value]
    constant = constant_of(value)
    if constant is not None:
        return constant
    lhs, rhs = (_evaluate(operand, known) for operand in value.owner.operands)
    return _ARITHMETIC[value.owner.name](lhs, rhs)


def _aligned_zeros(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Zeros that are aligned to a cache line."""
    size_bytes = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size_bytes + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size_bytes].view(dtype).reshape(shape)
