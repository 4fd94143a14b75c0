"""PTX emulator in numpy: runs the same text that the CUDA driver would load."""

from tests.ptx_emulator.model import emulate
from tests.ptx_emulator.traffic import Accesses, Traffic

__all__ = ["Accesses", "Traffic", "emulate"]
