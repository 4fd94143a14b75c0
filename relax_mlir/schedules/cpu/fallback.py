"""Fallback: one tile, scalar loops; takes any kernel."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.schedules.emit import parallel_loop
from relax_mlir.schedules.nest import Kernel

__all__ = ["Fallback"]


@dataclass(frozen=True)
class Fallback:
    """The kernel as it stands, as a single tile; linalg operations become scalar loops."""

    vector_bits: int = 256

    def matches(self, kernel: Kernel) -> bool:
        """Always."""
        return True

    def emit(self, kernel: Kernel) -> None:
        """Move all operations into the loop over tiles, but for sizes."""
        operations = [
            o
            for o in list(kernel.block.operations)[:-1]
            if not o.operation.name.startswith("arith.")
        ]

        def tile(_: ir.Value) -> None:
            inside = ir.InsertionPoint.current.block
            for operation in operations:
                inside.append(operation)

        parallel_loop(1, tile)
