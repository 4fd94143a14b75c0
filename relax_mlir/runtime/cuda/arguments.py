"""What kernels get: numbers and addresses, each in a place that stays where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_void_p
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from relax_mlir.runtime.cuda.plan import Argument, Call, Launch, Plan, Pointer

__all__ = ["BASES", "Arguments", "Bases", "Slots"]

Bases: TypeAlias = Mapping[str, Sequence[int]]
"""Addresses of what :data:`BASES` names."""

BASES = ("input", "output", "constant", "arena", "workspace")


@dataclass(frozen=True)
class Slots:
    """Where a launch finds its arguments.

    Attributes:
        first: number of the first one; addresses: of all, as the driver takes them.
    """

    first: int
    addresses: Any  # of ctypes: an array of pointers


class Arguments:
    """The arguments of all launches of a plan.

    Each is an offset from an entry of a table of addresses, whose first one is 0: so all
    are computed at once when arrays have moved.
    """

    def __init__(self, plan: Plan) -> None:
        groups = [
            plan.programs[step.program].launches if isinstance(step, Call) else ()
            for step in plan.steps
        ]
        own = (launch for launch in chain(*groups) if isinstance(launch, Launch))
        count = sum(len(launch.arguments) for launch in own)
        self._values = np.zeros(max(1, count), np.uint64)
        self._offsets = np.zeros_like(self._values)
        self._entries = np.zeros(self._values.shape, np.intp)
        self._begins: dict[str, int] = {}  # of bases in the table
        self._used = 0
        self._slots = [
            [self._taken(n) if isinstance(n, Launch) else None for n in group]
            for group in groups
        ]

    def _taken(self, launch: Launch) -> Slots:
        first, count = self._used, len(launch.arguments)
        self._used += count
        begin = self._values.ctypes.data + 8 * first
        places = (begin + 8 * number for number in range(count))
        return Slots(first, (c_void_p * max(1, count))(*places))

    def slots(self, step: int, place: int) -> Slots:
        """Those of a launch.

        Args:
            step: the number of the plan's; place: the launch's in its program.
        """
        found = self._slots[step][place]
        assert found is not None  # libraries have their own
        return found

    def put(self, slots: Slots, arguments: Sequence[Argument], bases: Bases) -> None:
        """Say what a launch gets, when sizes are known; descriptors are somebody else's.

        Args:
            bases: of any call: as many addresses are in those of every other.
        """
        if not self._begins:
            end = 1
            for base in BASES:
                self._begins[base] = end
                end += len(bases[base])
        entries, offsets = [0] * len(arguments), [0] * len(arguments)
        for place, argument in enumerate(arguments):
            if isinstance(argument, Pointer):
                entries[place] = self._begins[argument.base] + argument.number
                offsets[place] = argument.offset_bytes
            elif isinstance(argument, int):
                offsets[place] = argument % (1 << 64)
        end = slots.first + len(arguments)
        self._entries[slots.first : end] = entries
        self._offsets[slots.first : end] = np.array(offsets, np.uint64)

    def point(self, bases: Bases) -> None:
        """Let all addresses be those of a call."""
        table = [0, *chain.from_iterable(bases[base] for base in BASES)]
        found = np.array(table, np.uint64)[self._entries]
        np.add(found, self._offsets, out=self._values)
