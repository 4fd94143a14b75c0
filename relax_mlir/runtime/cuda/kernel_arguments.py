"""Kernel arguments: numbers and addresses in memory at fixed addresses, for the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_void_p
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from relax_mlir.runtime.cuda.plan import Argument, Call, Launch, Plan, Pointer

__all__ = ["BASES", "ArgumentSlots", "Bases", "KernelArguments"]

Bases: TypeAlias = Mapping[str, Sequence[int]]
"""Addresses by kind of memory, see :data:`BASES`."""

BASES = ("input", "output", "constant", "arena", "workspace")


@dataclass(frozen=True)
class ArgumentSlots:
    """Memory for the arguments of a launch.

    Attributes:
        first: index of the first argument; addresses: array of pointers for the driver.
    """

    first: int
    addresses: Any  # of ctypes: an array of pointers


class KernelArguments:
    """The arguments of all launches of a plan.

    Each is an offset from an entry of an address table, whose entry 0 is the address 0. So
    all arguments are recomputed by one vectorised addition when arrays move.
    """

    def __init__(self, plan: Plan) -> None:
        groups = [
            plan.programs[step.program].launches if isinstance(step, Call) else ()
            for step in plan.steps
        ]
        launches = (n for n in chain(*groups) if isinstance(n, Launch))
        count = sum(len(launch.arguments) for launch in launches)
        self._values = np.zeros(max(1, count), np.uint64)
        self._offsets = np.zeros_like(self._values)
        self._entries = np.zeros(self._values.shape, np.intp)
        self._begins: dict[str, int] = {}  # table index of each base
        self._used = 0
        self._slots = [
            [self._allocate(n) if isinstance(n, Launch) else None for n in group]
            for group in groups
        ]

    def _allocate(self, launch: Launch) -> ArgumentSlots:
        first, count = self._used, len(launch.arguments)
        self._used += count
        begin = self._values.ctypes.data + 8 * first
        addresses = (begin + 8 * number for number in range(count))
        return ArgumentSlots(first, (c_void_p * max(1, count))(*addresses))

    def slots(self, step: int, index: int) -> ArgumentSlots:
        """The slots of a launch.

        Args:
            step: of the plan; index: of the launch in its program.
        """
        slots = self._slots[step][index]
        assert slots is not None  # not a library call
        return slots

    def put(
        self, slots: ArgumentSlots, arguments: Sequence[Argument], bases: Bases
    ) -> None:
        """Set the arguments of a launch, with bound sizes, except TMA descriptors.

        Args:
            bases: of any call: the number of addresses is the same for all calls.
        """
        if not self._begins:
            end = 1
            for base in BASES:
                self._begins[base] = end
                end += len(bases[base])
        entries, offsets = [0] * len(arguments), [0] * len(arguments)
        for index, argument in enumerate(arguments):
            if isinstance(argument, Pointer):
                entries[index] = self._begins[argument.base] + argument.number
                offsets[index] = argument.offset_bytes
            elif isinstance(argument, int):
                offsets[index] = argument % (1 << 64)
        end = slots.first + len(arguments)
        self._entries[slots.first : end] = entries
        self._offsets[slots.first : end] = np.array(offsets, np.uint64)

    def point(self, bases: Bases) -> None:
        """Update all arguments for the addresses of a call."""
        table = [0, *chain.from_iterable(bases[base] for base in BASES)]
        addresses = np.array(table, np.uint64)[self._entries]
        np.add(addresses, self._offsets, out=self._values)
