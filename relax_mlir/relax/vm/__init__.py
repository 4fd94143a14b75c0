"""Compile the functions of a module, and call them by name."""

from relax_mlir.argument_types import check_exports
from relax_mlir.relax.vm.archive import save
from relax_mlir.relax.vm.build import build, build_any, compile_any
from relax_mlir.relax.vm.executable import VMExecutable
from relax_mlir.relax.vm.kernels import Kernel, KernelModule
from relax_mlir.relax.vm.machine import VirtualMachine
from relax_mlir.relax.vm.staged_model import StagedModel
from relax_mlir.relax.vm.timing import Timing

# TVM's older names.
Executable = VMExecutable

__all__ = [
    "Executable",
    "Kernel",
    "KernelModule",
    "StagedModel",
    "Timing",
    "VMExecutable",
    "VirtualMachine",
    "build",
    "build_any",
    "compile_any",
    "save",
]

check_exports(globals())
