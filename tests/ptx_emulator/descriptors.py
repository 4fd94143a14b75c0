"""TMA tensor maps of the emulator; the hardware's 128-byte layout is undocumented.

Source: CUDA driver API, ``cuTensorMapEncodeTiled``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relax_mlir.runtime.cuda.tensor_maps import ELEMENT_BYTES, SWIZZLE_BYTES

__all__ = ["DESCRIPTOR_BYTES", "Descriptor"]

_LAYOUT = np.dtype(
    [
        ("address", "<u8"),
        ("element", "u1"),
        ("rank", "u1"),
        ("swizzle", "u1"),
        ("unused", "u1", 5),
        ("sizes", "<u8", 5),
        ("strides", "<u8", 4),
        ("box", "<u2", 5),
        ("steps", "u1", 5),
        ("rest", "u1", 25),
    ]
)

DESCRIPTOR_BYTES = _LAYOUT.itemsize


@dataclass(frozen=True)
class Descriptor:
    """A tensor map: a tensor, and the box that one copy loads.

    Attributes:
        address: of its first element; element: the driver's number of the type.
        sizes: innermost first; strides_bytes: of all dimensions but the innermost.
        box: extents of a box; steps: its element strides.
        swizzle: the driver's enumerator; 0 is none, 3 is 128 bytes.
    """

    address: int
    element: int
    sizes: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int

    @property
    def element_bytes(self) -> int:
        """Size of an element."""
        return list(ELEMENT_BYTES.values())[self.element]

    @property
    def swizzle_bytes(self) -> int:
        """Width of the swizzle; 0 for none."""
        return list(SWIZZLE_BYTES.values())[self.swizzle]

    def encoded(self) -> bytes:
        """The 128 bytes that kernels receive."""
        made = np.zeros((), _LAYOUT)
        made["address"], made["element"] = self.address, self.element
        made["rank"], made["swizzle"] = len(self.sizes), self.swizzle
        for name, values in (
            ("sizes", self.sizes),
            ("strides", self.strides_bytes),
            ("box", self.box),
            ("steps", self.steps),
        ):
            made[name][: len(values)] = values
        return made.tobytes()

    @staticmethod
    def decoded(bytes_: bytes) -> Descriptor:
        """The inverse of :meth:`encoded`."""
        found = np.frombuffer(bytes_, _LAYOUT)[0]
        rank = int(found["rank"])

        def numbers(name: str, count: int) -> tuple[int, ...]:
            values: Sequence[int] = found[name][:count].tolist()
            return tuple(values)

        return Descriptor(
            int(found["address"]),
            int(found["element"]),
            numbers("sizes", rank),
            numbers("strides", rank - 1),
            numbers("box", rank),
            numbers("steps", rank),
            int(found["swizzle"]),
        )
