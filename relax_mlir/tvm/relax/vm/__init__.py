"""``relax.vm``: compilation of Relax modules, and the virtual machine."""

from relax_mlir.runtime.host.archive import save
from relax_mlir.runtime.host.jit_model import JITModel
from relax_mlir.runtime.host.kernels import Kernel, KernelModule
from relax_mlir.runtime.host.timing import Timing
from relax_mlir.runtime.host.virtual_machine import VirtualMachine
from relax_mlir.runtime.host.vm_executable import VMExecutable
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.vm_build import build, build_any

# TVM's older names.
Executable = VMExecutable

__all__ = [
    "Executable",
    "JITModel",
    "Kernel",
    "KernelModule",
    "Timing",
    "VMExecutable",
    "VirtualMachine",
    "build",
    "build_any",
    "save",
]

check_exports(globals())
