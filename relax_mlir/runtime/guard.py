"""Guarded execution: what kernels that run between guard pages do wrong.

Models that are compiled with ``RELAX_MLIR_GUARD=1`` in the environment run every kernel
between pages without access (``native/guard.h``). This is for tests: a call copies all
buffers of every kernel, twice.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import tvm_ffi

from relax_mlir.errors import OutOfBoundsError
from relax_mlir.runtime.cpu import load_library
from relax_mlir.runtime.profile import KernelCall

__all__ = ["MaskedAccess", "is_requested", "located", "take_masked_accesses"]

_REPORT = re.compile(r"^`[^`]*`: kernel (\d+): (.*)$", re.DOTALL)


def is_requested() -> bool:
    """Whether models that are compiled now are to run guarded."""
    return os.environ.get("RELAX_MLIR_GUARD", "") not in ("", "0")


@dataclass(frozen=True)
class MaskedAccess:
    """A buffer that masked loads or stores of a kernel reach out of, in lanes that are off.

    Such an access is no error, but it is slow on pages that are not mapped, and a fault on
    machines whose masked instructions do not suppress faults.

    Attributes:
        kernel: the number of the kernel's call in ``main``.
        buffer: such as ``input 0`` or ``intermediate result 2``.
        before_bytes: the most in front of the buffer.
        past_bytes: the most past its end.
    """

    kernel: int
    buffer: str
    before_bytes: int
    past_bytes: int


def take_masked_accesses() -> list[MaskedAccess]:
    """The masked accesses of all guarded calls since this was last asked for."""
    load_library()
    fields = list(tvm_ffi.get_global_func("relax_mlir.take_masked_accesses")())
    return [
        MaskedAccess(int(kernel), str(buffer), int(before), int(past))
        for kernel, buffer, before, past in zip(*[iter(fields)] * 4, strict=True)
    ]


def located(error: RuntimeError, kernels: Sequence[KernelCall]) -> RuntimeError:
    """The error of a call; of a guarded kernel, with the kernel's name and rule."""
    found = _REPORT.match(str(error))
    if found is None:
        return error
    number = int(found[1])
    if number >= len(kernels):
        return OutOfBoundsError(str(error))
    kernel = kernels[number]
    return OutOfBoundsError(f"kernel `{kernel.name}` ({kernel.rule}): {found[2]}")
