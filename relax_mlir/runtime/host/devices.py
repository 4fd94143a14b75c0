"""Placement of compiled models on devices."""

from __future__ import annotations

from relax_mlir.errors import CompileError
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.ndarray import Device

__all__ = ["check_device", "model_on_device"]


def model_on_device(code: CompiledModel, device: Device) -> CompiledModel:
    """A model on a device.

    Raises:
        CompileError: the model is compiled for another type of device.
    """
    if not isinstance(code, CudaExecutable):
        check_device(device, "cpu")
        return code
    check_device(device, "cuda")
    return code if code.ordinal == device.index else code.on(device.index)


def check_device(device: Device, kind: str) -> None:
    """Check that a device has the type that code is compiled for.

    Raises:
        CompileError: its type differs.
    """
    if kind != device.type:
        raise CompileError(
            f"device `{device}`: expected `{kind}`, for which the code is compiled. Hint: "
            f'pass `{kind}(0)`, or `build(mod, target="{device.type}")`.'
        )
