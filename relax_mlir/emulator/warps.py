"""What the threads of a warp do together: shuffles, and products on tensor cores.

Source: NVIDIA, PTX ISA: shfl.sync, ldmatrix, mma.m16n8k16, mma.m16n8k8, cvt.rna.tf32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from mlir import ir

from relax_mlir.emulator.barriers import refuse_partial_warps
from relax_mlir.emulator.memory import EmulationError

if TYPE_CHECKING:
    from relax_mlir.emulator.interpreter import Instruction, Interpreter

__all__ = ["WARP_EFFECTS", "tf32_bits"]


def _shuffle(
    machine: Interpreter, instruction: Instruction, mask: np.ndarray | None
) -> list[np.ndarray]:
    value, distance, width = machine.operands(instruction)
    lanes = machine.lanes
    if lanes.threads % 32:
        raise EmulationError("a shuffle among threads that are no whole warps")
    value = np.broadcast_to(value, lanes.count)
    distance = np.broadcast_to(distance, lanes.count).astype(np.int64)
    number = lanes.numbers % 32
    mode = str(instruction.operation.attributes["mode"])
    segment = number // width * width
    inside = number % width
    if "xor" in mode:
        source = number ^ distance
    elif "up" in mode:
        source = segment + inside - distance
    elif "down" in mode:
        source = segment + inside + distance
    else:
        source = segment + distance
    valid = (source >= segment) & (source < segment + width)
    source = np.where(valid, source, number)
    from_ = lanes.numbers - number + source
    if mask is not None:
        inactive = ~np.broadcast_to(mask, lanes.count)[from_] & mask
        if inactive.any():
            raise EmulationError("a shuffle from a thread that does not take part")
    return [value[from_], valid]


def _load_matrices(
    machine: Interpreter, instruction: Instruction, mask: np.ndarray | None
) -> list[np.ndarray]:
    """``nvgpu.ldmatrix``: lane ``8 * t + r`` tells where row ``r`` of matrix ``t`` begins."""
    buffer, *indices = machine.operands(instruction)
    attributes = instruction.operation.attributes
    count = ir.IntegerAttr(attributes["numTiles"]).value
    offsets = np.broadcast_to(buffer.at(indices), machine.lanes.count)
    refuse_partial_warps(machine.lanes, mask)
    if (offsets % 8).any():
        raise EmulationError(
            "a row of a matrix does not begin at a multiple of 16 bytes"
        )
    places = buffer.memory.places(offsets, 8, mask, machine.lanes)
    rows = buffer.memory.read(places, mask, machine.lanes).reshape(-1, 32, 8)
    lane = np.arange(32)
    found = np.empty((len(rows), 32, count, 2), rows.dtype)
    for matrix in range(count):
        tile = rows[:, 8 * matrix : 8 * matrix + 8]
        if ir.BoolAttr(attributes["transpose"]).value:
            tile = tile.swapaxes(1, 2)
        for half in range(2):
            found[:, lane, matrix, half] = tile[:, lane // 4, 2 * (lane % 4) + half]
    return [found.reshape(-1, count, 2)]


def _multiply_matrices(
    machine: Interpreter, instruction: Instruction, mask: np.ndarray | None
) -> list[list[np.ndarray]]:
    """``nvvm.mma.sync`` of 16 rows by 8 columns: 16 steps of f16 or bf16, 8 of TF32."""
    refuse_partial_warps(machine.lanes, mask)
    kind = str(instruction.operation.attributes["multiplicandAPtxType"])
    dtype = next(d for name, d in _FACTORS.items() if f"<{name}>" in kind)
    count = machine.lanes.count
    operands = [
        np.ascontiguousarray(np.broadcast_to(v, (count, *v.shape[1:])))
        for v in machine.operands(instruction)
    ]
    factors = [
        v.reshape(count, -1).view(dtype).astype(np.float32) for v in operands[:6]
    ]
    width = factors[0].shape[1]  # elements of a register
    warps, depth, lane = count // 32, 8 * width, np.arange(32)
    group, place = lane // 4, width * (lane % 4)
    rows = np.empty((warps, 16, depth), np.float32)
    columns = np.empty((warps, depth, 8), np.float32)
    sums = np.empty((warps, 16, 8), np.float32)
    for part in range(width):
        for n, register in enumerate(factors[:4]):
            step = place + part + depth // 2 * (n // 2)
            rows[:, group + 8 * (n % 2), step] = register[:, part].reshape(warps, 32)
        for n, register in enumerate(factors[4:]):
            step = place + part + depth // 2 * n
            columns[:, step, group] = register[:, part].reshape(warps, 32)
    pairs = [(group + 8 * (n // 2), 2 * (lane % 4) + n % 2) for n in range(4)]
    for where, value in zip(pairs, operands[6:], strict=True):
        sums[:, where[0], where[1]] = value.reshape(warps, 32)
    sums += rows @ columns
    return [[sums[:, row, column].reshape(count) for row, column in pairs]]


_FACTORS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}


def _round_to_tf32(
    machine: Interpreter, instruction: Instruction, mask: np.ndarray | None
) -> list[np.ndarray]:
    return [tf32_bits(value) for value in machine.operands(instruction)]


def tf32_bits(value: np.ndarray) -> np.ndarray:
    """Numbers rounded to 11 bits, away from zero where two are as near, as bits."""
    bits = np.ascontiguousarray(value).view(np.int32)
    rounded = (bits + 0x1000) & ~0x1FFF
    return np.where(np.isfinite(value), rounded, bits)


def _extract_value(
    machine: Interpreter, instruction: Instruction, mask: np.ndarray | None
) -> list[np.ndarray]:
    (struct,) = machine.operands(instruction)
    (place,) = ir.DenseI64ArrayAttr(instruction.operation.attributes["position"])
    return [struct[place]]


WARP_EFFECTS: Mapping[str, Callable[..., Any]] = {
    "gpu.shuffle": _shuffle,
    "llvm.extractvalue": _extract_value,
    "nvgpu.ldmatrix": _load_matrices,
    "nvvm.convert.float.to.tf32": _round_to_tf32,
    "nvvm.mma.sync": _multiply_matrices,
}
