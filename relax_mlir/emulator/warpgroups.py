"""What four warps do together: products of matrices in a block's memory.

Source: NVIDIA, PTX ISA, wgmma.mma_async: layout of fragments, matrix descriptors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from mlir import ir

from relax_mlir.emulator.lanes import WARP, WARPGROUP
from relax_mlir.emulator.memory import EmulationError, Memory
from relax_mlir.emulator.tensor_maps import Busy, busy, refuse_busy, swizzled

if TYPE_CHECKING:
    from relax_mlir.emulator.interpreter import Instruction, Interpreter

__all__ = ["WARPGROUP_EFFECTS", "Groups"]

Mask = np.ndarray | None

_ROWS = 64  # of a product


@dataclass
class Groups:
    """Products that are on their way, by group.

    Attributes:
        open: of no group yet; is_fenced: whether registers may be given to products.
    """

    closed: list[list[Callable[[], None]]] = field(default_factory=list)
    open: list[Callable[[], None]] = field(default_factory=list)
    is_fenced: bool = False


_FACTORS: Mapping[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


@dataclass(frozen=True)
class _Matrix:
    """A factor in a block's memory: where the elements of ``[place, step]`` are.

    Attributes:
        addresses: of elements; memory: that they are in.
    """

    addresses: np.ndarray
    memory: Memory
    dtype: Any

    @property
    def begin(self) -> int:
        """The first address."""
        return int(self.addresses.min())

    @property
    def end(self) -> int:
        """Behind the last one."""
        return int(self.addresses.max()) + np.dtype(self.dtype).itemsize

    def values(self) -> np.ndarray:
        """The elements."""
        size = np.dtype(self.dtype).itemsize
        bytes_ = self.memory.array.view(np.uint8)
        where = (self.addresses - self.memory.address)[..., None] + np.arange(size)
        found = np.ascontiguousarray(bytes_[where]).view(self.dtype)[..., 0]
        if found.dtype == np.float32:  # as TF32: the lower bits are not read
            found = (found.view(np.int32) & ~0x1FFF).view(np.float32)
        return found.astype(np.float32)


def _matrix(
    machine: Interpreter,
    descriptor: np.ndarray,
    places: int,
    steps: int,
    kind: str,
    *,
    is_along_sum: bool,
) -> _Matrix:
    """What a descriptor tells."""
    word = machine.same(descriptor, None)
    begin, lead, stride = (((word >> at) & 0x3FFF) << 4 for at in (0, 16, 32))
    if word >> 62 & 3 != 1:
        raise EmulationError("expected a matrix whose rows of 128 bytes are swizzled")
    size = np.dtype(_FACTORS[kind]).itemsize
    place, step = np.arange(places)[:, None], np.arange(steps)[None]
    if is_along_sum:
        offsets = place // 8 * stride + place % 8 * 128 + step * size
    else:
        wide = 128 // size
        offsets = place // wide * lead + step // 8 * stride
        offsets = offsets + step % 8 * 128 + place % wide * size
    addresses = swizzled(begin + offsets)
    for memory in machine.lanes.team.made(Memory):
        end = memory.address + memory.array.nbytes
        if memory.address <= addresses.min() and addresses.max() + size <= end:
            return _Matrix(addresses, memory, _FACTORS[kind])
    raise EmulationError("a matrix is in no buffer of the block")


def _multiply(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[list[np.ndarray]]:
    """``nvvm.wgmma.mma_async``: done as late as it may be, when it is waited for."""
    sums, *descriptors = machine.operands(instruction)
    attributes = instruction.operation.attributes
    _check_product(machine, mask)
    kind = str(attributes["typeA"]).partition("<")[2].rstrip(">")
    text = str(attributes["shape"])
    columns, steps = (
        int(text.partition(f"{n} = ")[2].split(",")[0].rstrip(">")) for n in "nk"
    )
    layouts = (str(attributes[f"layout{side}"]) for side in "AB")
    along = [
        word in layout for word, layout in zip(("row", "col"), layouts, strict=True)
    ]
    rows, across = (
        _matrix(machine, descriptor, places, steps, kind, is_along_sum=is_along_sum)
        for descriptor, places, is_along_sum in zip(
            descriptors, (_ROWS, columns), along, strict=True
        )
    )
    if "zero" in str(attributes["scaleD"]):
        sums = [np.zeros(machine.lanes.count, np.float32)] * len(sums)
    return [_later(machine, sums, [rows, across], rows.values, across)]


def _check_group(machine: Interpreter, mask: Mask) -> None:
    """Refuse less than a warpgroup."""
    lanes = machine.lanes
    if lanes.count != WARPGROUP or lanes.first % WARPGROUP or mask is not None:
        raise EmulationError("expected all threads of a warpgroup")


def _check_product(machine: Interpreter, mask: Mask) -> None:
    """Refuse a product of less than a warpgroup, or of registers that are being written."""
    _check_group(machine, mask)
    if not machine.products.is_fenced:
        raise EmulationError("registers are given to a product without a fence")


def _later(
    machine: Interpreter,
    sums: Sequence[np.ndarray],
    matrices: Sequence[_Matrix],
    rows: Callable[[], np.ndarray],
    columns: _Matrix,
) -> list[np.ndarray]:
    """Begin a product; its results, which are no numbers until it is waited for.

    Args:
        matrices: what it reads of the block's memory; rows: gives the rows.
    """
    lanes, reads = machine.lanes, []
    team = lanes.team
    for factor in matrices:
        refuse_busy(team, factor.begin, factor.end, is_written=False)
        reads.append(Busy(factor.begin, factor.end, is_written=False))
    busy(team).extend(reads)
    results = [np.full(lanes.count, np.nan, np.float32) for _ in sums]

    def multiply() -> None:
        found = rows() @ columns.values().T
        warp, lane = lanes.numbers // WARP, lanes.numbers % WARP
        for number, (result, start) in enumerate(zip(results, sums, strict=True)):
            n, part = divmod(number, 4)
            row = 16 * warp + lane // 4 + 8 * (part // 2)
            result[:] = start + found[row, 8 * n + 2 * (lane % 4) + part % 2]
        for read in reads:
            busy(team).remove(read)

    machine.products.open.append(multiply)
    return results


# The product whose rows are in registers, for which NVVM has no operation.
_OF_REGISTERS = re.compile(
    r"\{ \.reg \.pred p; setp\.ne\.b32 p, 1, 0; "
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(b?f16)\.\2 "
    r"\{(.+?)\}, \{(.+?)\}, (\$\d+), p, 1, 1, ([01]); \}"
)


def _assembly(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[list[np.ndarray]]:
    """``llvm.inline_asm`` of a product whose rows are in registers."""
    attributes = instruction.operation.attributes
    text, constraints = (
        ir.StringAttr(attributes[name]).value for name in ("asm_string", "constraints")
    )
    found = _OF_REGISTERS.fullmatch(text)
    if found is None:
        raise EmulationError("the emulator does not know this assembly")
    columns, kind, is_turned = int(found[1]), found[2], found[6] == "1"
    count = columns // 2
    # Sums are results and, tied to them, the first operands; then come rows, and columns.
    places = [f"${n}" for n in range(2 * count + 5)]
    given = [*found[3].split(", "), *found[4].split(", "), found[5]]
    tied = ["=f"] * count + [str(n) for n in range(count)] + ["r"] * 4 + ["l"]
    if given != places[:count] + places[2 * count :] or constraints != ",".join(tied):
        raise EmulationError("the operands of a product are in other places")
    _check_product(machine, mask)
    operands = machine.operands(instruction)
    sums, words, descriptor = operands[:count], operands[count:-1], operands[-1]
    across = _matrix(machine, descriptor, columns, 16, kind, is_along_sum=not is_turned)
    rows = _rows(machine, words, _FACTORS[kind])
    return [_later(machine, sums, [across], lambda: rows, across)]


def _rows(machine: Interpreter, words: Sequence[np.ndarray], dtype: Any) -> np.ndarray:
    """64 rows of 16 steps, of which each thread has eight elements in four registers."""
    lanes = machine.lanes
    made = np.empty((_ROWS, 16), np.float32)
    warp, lane = lanes.numbers // WARP, lanes.numbers % WARP
    for number, register in enumerate(words):
        whole = np.ascontiguousarray(np.broadcast_to(register, lanes.count))
        pairs = whole.view(dtype).reshape(-1, 2)
        for half in range(2):
            row = 16 * warp + lane // 4 + 8 * (number % 2)
            step = 8 * (number // 2) + 2 * (lane % 4) + half
            made[row, step] = pairs[:, half].astype(np.float32)
    return made


def _fence(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    machine.products.is_fenced = True


def _commit(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    groups = machine.products
    groups.closed.append(groups.open)
    groups.open = []


def _wait(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    """All groups but the last few are done."""
    left = ir.IntegerAttr(instruction.operation.attributes["group"]).value
    groups = machine.products
    while len(groups.closed) > left:
        for product in groups.closed.pop(0):
            product()
    groups.is_fenced = False


def _undefined(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[list[np.ndarray]]:
    """``llvm.mlir.undef`` of the sums of a thread."""
    count = str(instruction.operation.operation.results[0].type).count("f32")
    return [[np.full(machine.lanes.count, np.nan, np.float32) for _ in range(count)]]


def _zeros(
    machine: Interpreter, instruction: Instruction, mask: Mask
) -> list[list[np.ndarray]]:
    """``llvm.mlir.zero`` of the sums of a thread."""
    count = str(instruction.operation.operation.results[0].type).count("f32")
    return [[np.zeros(machine.lanes.count, np.float32) for _ in range(count)]]


def _take_registers(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    """``nvvm.setmaxregister``, of all threads of a warpgroup."""
    _check_group(machine, mask)


def _nothing(machine: Interpreter, instruction: Instruction, mask: Mask) -> None:
    """What changes no values here."""


WARPGROUP_EFFECTS: Mapping[str, Callable[..., Any]] = {
    "llvm.inline_asm": _assembly,
    "llvm.mlir.undef": _undefined,
    "llvm.mlir.zero": _zeros,
    "nvvm.fence.mbarrier.init": _nothing,
    "nvvm.setmaxregister": _take_registers,
    "nvvm.wgmma.mma_async": _multiply,
    "nvvm.wgmma.fence.aligned": _fence,
    "nvvm.wgmma.commit.group.sync.aligned": _commit,
    "nvvm.wgmma.wait.group.sync.aligned": _wait,
}
