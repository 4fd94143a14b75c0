"""Runs PTX in numpy, thread by thread: the very text that a driver would get."""

from relax_mlir.emulator.model import emulate
from relax_mlir.emulator.traffic import Accesses, Traffic

__all__ = ["Accesses", "Traffic", "emulate"]
