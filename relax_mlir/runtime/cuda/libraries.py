"""NVIDIA's libraries that a model calls on a device, found when it first needs them."""

from __future__ import annotations

from contextlib import ExitStack

from relax_mlir.runtime.cuda.convolver import Convolver
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.growing_memory import GrowingMemory
from relax_mlir.runtime.cuda.multiplier import Multiplier

__all__ = ["Libraries"]


class Libraries:
    """What computes products and convolutions, one after the other, in one workspace.

    The device is current when it is used, by one thread at a time.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._workspace = GrowingMemory(device, "workspace of libraries")
        self._multiplier: Multiplier | None = None
        self._convolver: Convolver | None = None

    def multiplier(self) -> Multiplier:
        """The one that computes products.

        Raises:
            DeviceError: it is not there.
            OutOfMemoryError: it needs more memory than there is.
        """
        if self._multiplier is None:
            self._multiplier = Multiplier(self._device, self._workspace)
        return self._multiplier

    def convolver(self) -> Convolver:
        """The one that computes convolutions.

        Raises:
            DeviceError: it is not there.
        """
        if self._convolver is None:
            self._convolver = Convolver(self._device, self._workspace)
        return self._convolver

    def close(self) -> None:
        """Give their memory back."""
        with ExitStack() as given_back:
            given_back.callback(self._workspace.close)
            if self._convolver is not None:
                given_back.callback(self._convolver.close)
            self._multiplier = self._convolver = None
