"""tvm-ffi, imported without torch.

``import tvm_ffi`` imports torch wherever it is installed, which takes seconds and a gigabyte
of memory. tvm-ffi uses it for ``use_torch_stream`` and for types of torch in ``convert``;
tensors of torch are passed by DLPack. A program that wants these imports torch first.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["import_tvm_ffi", "tvm_ffi"]


class _NoTorch:  # a finder; its base class would import importlib.resources
    """Lets one thread find no torch; others may be importing it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname == "torch" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return None


def import_tvm_ffi() -> ModuleType:
    """Import tvm-ffi; torch only if the program has imported it already."""
    finder = _NoTorch()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module("tvm_ffi")
    finally:
        sys.meta_path.remove(finder)


if TYPE_CHECKING:
    import tvm_ffi
else:
    tvm_ffi = import_tvm_ffi()
