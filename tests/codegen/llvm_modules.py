"""Object files of modules in the LLVM dialect, for tests of code and its loading."""

import resource
from pathlib import Path
from typing import Any

from mlir import ir

from relax_mlir.codegen import object_code

__all__ = ["DOUBLE", "HOST", "compile_text", "resident_kib"]

DOUBLE = """
llvm.func @double(%x: f32) -> f32 {
  %y = llvm.fadd %x, %x : f32
  llvm.return %y : f32
}
"""

# Any: keyword arguments of several types come from dictionaries.
HOST: dict[str, Any] = dict(
    zip(("triple", "cpu", "features"), object_code.host_cpu(), strict=True)
)


def compile_text(source: str, **options: Any) -> bytes:
    context = ir.Context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        module = ir.Module.parse(source)
        return object_code.compile_object(module, **{**HOST, **options})


def resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024
