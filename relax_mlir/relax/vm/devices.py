"""Which device compiled code runs on."""

from __future__ import annotations

from relax_mlir.errors import CompileError
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.cuda.executable import CudaExecutable
from relax_mlir.runtime.ndarray import Device

__all__ = ["check_device", "code_on"]


def code_on(code: CompiledModel, device: Device) -> CompiledModel:
    """A model where it runs on a device.

    Raises:
        CompileError: it is compiled for another kind of device.
    """
    if not isinstance(code, CudaExecutable):
        check_device(device, "cpu")
        return code
    check_device(device, "cuda")
    return code if code.ordinal == device.index else code.on(device.index)


def check_device(device: Device, kind: str) -> None:
    """Refuse a device that code for a kind of devices does not run on.

    Raises:
        CompileError: it is of another kind.
    """
    if kind != device.type:
        raise CompileError(
            f"device `{device}`: expected `{kind}`, for which the code is compiled. Hint: "
            f'pass `{kind}(0)`, or `build(mod, target="{device.type}")`.'
        )
