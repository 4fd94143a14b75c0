"""Emulated kernel launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.arithmetic import ARITHMETIC
from tests.ptx_emulator.barriers import WAITING, refuse_unfinished
from tests.ptx_emulator.bits import BITS
from tests.ptx_emulator.busy import busy
from tests.ptx_emulator.conversions import CONVERSIONS
from tests.ptx_emulator.copies import COPIES
from tests.ptx_emulator.lanes import WARP, WARPGROUP, Lanes, Team
from tests.ptx_emulator.machine import Effect, Machine
from tests.ptx_emulator.memory import DeviceMemory, LaunchMemory, SharedMemory, Spaces
from tests.ptx_emulator.moves import MOVES
from tests.ptx_emulator.program import Kernel, Program
from tests.ptx_emulator.traffic import Traffic
from tests.ptx_emulator.turns import DeadlockError, finish
from tests.ptx_emulator.warpgroups import WARPGROUP_EFFECTS
from tests.ptx_emulator.warps import WARP_EFFECTS

__all__ = ["launch"]

_EFFECTS: Mapping[str, Effect] = {
    **ARITHMETIC,
    **BITS,
    **CONVERSIONS,
    **COPIES,
    **MOVES,
    **WAITING,
    **WARPGROUP_EFFECTS,
    **WARP_EFFECTS,
}
_LANES = 1 << 14  # that are emulated at once: so many fit caches
_MOST_THREADS, _MOST_SHARED_BYTES = 1024, 232448
_TAKES_TURNS = {"mbarrier", "wgmma"}


def launch(
    program: Program,
    name: str,
    grid: Sequence[int],
    threads: Sequence[int],
    shared_bytes: int,
    parameters: bytes,
    device: DeviceMemory,
    *,
    max_blocks: int | None = None,
    seed: int = 0,
    traffic: Traffic | None = None,
    is_early: bool = False,
) -> None:
    """Runs a kernel.

    Args:
        name: of the kernel; grid, threads: extents of the grid and of a block along
            x, y and z.
        shared_bytes: dynamic memory of a block.
        parameters: their bytes, in the kernel's layout.
        max_blocks: number of blocks to run: the first, the last and random ones; all by
            default.
        seed: of the random scheduling of threads and completion of copies.
        traffic: counts accesses to memory.
        is_early: whether it may start before the previous grid has completed: no thread
            may access memory before it has waited for that, and all blocks must wait.

    Raises:
        EmulationError: the kernel has an error, or is not supported; the message names the
            instruction.
    """
    kernel = program.kernels.get(name)
    if kernel is None:
        raise EmulationError(f"PTX has no kernel `{name}`")
    count = int(np.prod(threads))
    most = kernel.max_threads or _MOST_THREADS
    if not 0 < count <= min(most, _MOST_THREADS):
        raise EmulationError(f"kernel `{name}`: {count} threads: expected up to {most}")
    shared_bytes += kernel.shared_bytes
    if shared_bytes > _MOST_SHARED_BYTES:
        raise EmulationError(
            f"kernel `{name}`: {shared_bytes} bytes of a block's memory"
        )
    if len(parameters) != kernel.parameter_bytes:
        raise EmulationError(
            f"kernel `{name}`: {len(parameters)} bytes of parameters: expected "
            f"{kernel.parameter_bytes}"
        )
    rng = np.random.default_rng(seed)
    takes_turns = any(i.name in _TAKES_TURNS for i in kernel.code)
    at_once = 1 if takes_turns else max(1, _LANES // count)
    part = WARPGROUP if takes_turns else count
    blocks = _blocks(int(np.prod(grid)), max_blocks, rng)
    memory = LaunchMemory(
        device, program.variables, kernel, count, parameters, is_early=is_early
    )
    values = np.frombuffer(parameters, np.uint8)
    with np.errstate(all="ignore"):
        for first in range(0, len(blocks), at_once):
            team = Team(blocks[first : first + at_once], count, rng)
            shared = SharedMemory(team, shared_bytes, kernel)
            machines = []
            for thread in range(0, count, part):
                own = min(part, count - thread)
                lanes = Lanes(team, thread, own, is_early=is_early)
                spaces = Spaces(kernel, lanes, memory, shared, values, traffic)
                machines.append(
                    Machine(
                        kernel,
                        spaces,
                        lanes,
                        _special(lanes, grid, threads),
                        _EFFECTS,
                        takes_turns=takes_turns,
                    )
                )
            _finish(kernel, machines, team)


def _finish(kernel: Kernel, machines: Sequence[Machine], team: Team) -> None:
    """Runs all threads of a team to completion."""
    try:
        try:
            finish([machine.run() for machine in machines], team)
        except DeadlockError:
            for machine in machines:
                machine.refuse_parted()  # with a better message
            raise
        refuse_unfinished(team)
        if busy(team):
            raise EmulationError(
                "asynchronous copies or wgmma that no thread has waited for"
            )
        # Who waits for this launch must be sure of the one before.
        if not all(machine.lanes.is_late.all() for machine in machines):
            raise EmulationError("a thread has never waited for the previous grid")
    except EmulationError as error:
        if "kernel `" in str(error):
            raise
        raise EmulationError(f"kernel `{kernel.name}`: {error}") from error


def _blocks(total: int, most: int | None, rng: np.random.Generator) -> np.ndarray:
    """The ids of the blocks to run."""
    if most is None or total <= most:
        return np.arange(total)
    others = rng.choice(total, most, replace=False)
    return np.unique([0, total - 1, *others])


def _special(
    lanes: Lanes, grid: Sequence[int], threads: Sequence[int]
) -> dict[str, np.ndarray]:
    """The special registers: ids and extents."""
    thread, block = lanes.thread, lanes.block
    made = {"%laneid": thread % WARP, "%warpid": thread // WARP}
    for axis, count, blocks in zip("xyz", threads, grid, strict=True):
        made[f"%tid.{axis}"], thread = thread % count, thread // count
        made[f"%ctaid.{axis}"], block = block % blocks, block // blocks
        made[f"%ntid.{axis}"] = np.array([count])
        made[f"%nctaid.{axis}"] = np.array([blocks])
    return {name: _short(values.astype(np.uint32)) for name, values in made.items()}


def _short(values: np.ndarray) -> np.ndarray:
    return values[:1] if (values == values[0]).all() else values
