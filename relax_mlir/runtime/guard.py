"""Guarded execution: detects out-of-bounds accesses of kernels by guard pages.

Models that are compiled with ``RELAX_MLIR_GUARD=1`` in the environment run every kernel on
buffers between inaccessible pages (``native/guard.h``). For tests only: a call copies all
buffers of every kernel twice.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.errors import OutOfBoundsError
from relax_mlir.runtime.cpu import load_library
from relax_mlir.runtime.profile import KernelCall
from relax_mlir.support.ffi import tvm_ffi

__all__ = ["MaskedAccess", "is_requested", "take_masked_accesses", "with_kernel_name"]

_REPORT = re.compile(r"^`[^`]*`: kernel (\d+): (.*)$", re.DOTALL)


def is_requested() -> bool:
    """Whether guarded execution is enabled by ``RELAX_MLIR_GUARD``."""
    return os.environ.get("RELAX_MLIR_GUARD", "") not in ("", "0")


@dataclass(frozen=True)
class MaskedAccess:
    """Masked loads or stores of a kernel with inactive lanes outside of a buffer.

    Such an access is legal, but slow on unmapped pages, and a fault on machines whose
    masked instructions do not suppress faults.

    Attributes:
        kernel: index of the kernel's call in ``main``.
        buffer: such as ``input 0`` or ``intermediate result 2``.
        before_bytes: the largest distance before the start of the buffer.
        past_bytes: the largest distance past its end.
    """

    kernel: int
    buffer: str
    before_bytes: int
    past_bytes: int


def take_masked_accesses() -> list[MaskedAccess]:
    """Take the masked accesses of all guarded calls since the last call of this."""
    load_library()
    fields = list(tvm_ffi.get_global_func("relax_mlir.take_masked_accesses")())
    return [
        MaskedAccess(int(kernel), str(buffer), int(before), int(past))
        for kernel, buffer, before, past in zip(*[iter(fields)] * 4, strict=True)
    ]


def with_kernel_name(
    error: RuntimeError, kernels: Sequence[KernelCall]
) -> RuntimeError:
    """The error of a call; an error of a guarded kernel gets the kernel's name and rule."""
    match = _REPORT.match(str(error))
    if match is None:
        return error
    number = int(match[1])
    if number >= len(kernels):
        return OutOfBoundsError(str(error))
    kernel = kernels[number]
    return OutOfBoundsError(f"kernel `{kernel.name}` ({kernel.rule}): {match[2]}")
