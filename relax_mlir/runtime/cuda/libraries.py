"""NVIDIA's libraries for a model on a device, loaded on demand."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TypeAlias

from relax_mlir.runtime.cuda.cublaslt_matmul import CublasLtContext, MatmulPlan
from relax_mlir.runtime.cuda.cudnn_conv import ConvolutionPlan, CudnnContext
from relax_mlir.runtime.cuda.devices import Device
from relax_mlir.runtime.cuda.matmul_descriptors import Matmul
from relax_mlir.runtime.cuda.plan import LibraryCall
from relax_mlir.runtime.cuda.virtual_memory import GrowableWorkspace

__all__ = ["Libraries", "LibraryPlan"]

LibraryPlan: TypeAlias = MatmulPlan | ConvolutionPlan


class Libraries:
    """Library contexts of a model, with a shared workspace.

    Not thread-safe; the device must be current.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._workspace = GrowableWorkspace(device, "workspace of libraries")
        self._cublaslt: CublasLtContext | None = None
        self._cudnn: CudnnContext | None = None

    def cublaslt(self) -> CublasLtContext:
        """The context for matmuls.

        Raises:
            DeviceError: the library cannot be loaded.
            OutOfMemoryError: its workspace cannot be allocated.
        """
        if self._cublaslt is None:
            self._cublaslt = CublasLtContext(self._device, self._workspace)
        return self._cublaslt

    def cudnn(self) -> CudnnContext:
        """The context for convolutions.

        Raises:
            DeviceError: the library cannot be loaded.
        """
        if self._cudnn is None:
            self._cudnn = CudnnContext(self._device, self._workspace)
        return self._cudnn

    def prepared(self, call: LibraryCall, what: str, kernel: int) -> LibraryPlan:
        """Prepare a library call.

        Args:
            call: with bound sizes, not empty.
            what: description for errors; kernel: index of the model's kernel call.

        Raises:
            DeviceError: the library cannot be loaded, or does not support the call.
            OutOfMemoryError: its workspace cannot be allocated.
        """
        if isinstance(call, Matmul):
            return MatmulPlan(self.cublaslt(), call, what, kernel)
        return ConvolutionPlan(self.cudnn(), call, what, kernel)

    def close(self) -> None:
        """Free the memory of the contexts."""
        with ExitStack() as cleanup:
            cleanup.callback(self._workspace.close)
            if self._cudnn is not None:
                cleanup.callback(self._cudnn.close)
            self._cublaslt = self._cudnn = None
