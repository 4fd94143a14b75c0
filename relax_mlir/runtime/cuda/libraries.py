"""NVIDIA's libraries that a model calls on a device, found when it first needs them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TypeAlias

from relax_mlir.runtime.cuda.convolver import Convolver, PreparedConvolution
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.growing_memory import GrowingMemory
from relax_mlir.runtime.cuda.multiplier import Multiplier, PreparedProduct
from relax_mlir.runtime.cuda.plan import LibraryCall
from relax_mlir.runtime.cuda.products import Product

__all__ = ["Libraries", "PreparedCall"]

PreparedCall: TypeAlias = PreparedProduct | PreparedConvolution


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

    def prepared(self, call: LibraryCall, what: str, kernel: int) -> PreparedCall:
        """What a library computes, described to it.

        Args:
            call: when sizes are known, and is not empty.
            what: it is, for errors; kernel: which of those that the model names.

        Raises:
            DeviceError: the library is not there, or does not compute it.
            OutOfMemoryError: it needs more memory than there is.
        """
        if isinstance(call, Product):
            return PreparedProduct(self.multiplier(), call, what, kernel)
        return PreparedConvolution(self.convolver(), call, what, kernel)

    def close(self) -> None:
        """Give their memory back."""
        with ExitStack() as given_back:
            given_back.callback(self._workspace.close)
            if self._convolver is not None:
                given_back.callback(self._convolver.close)
            self._multiplier = self._convolver = None
