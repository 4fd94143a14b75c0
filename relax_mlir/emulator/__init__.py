"""Runs the kernels of a GPU in numpy, thread by thread, on machines that have none."""

from relax_mlir.emulator.host import emulate, emulate_kernel
from relax_mlir.emulator.memory import EmulationError

__all__ = ["EmulationError", "emulate", "emulate_kernel"]
