"""The virtual machine and its executables: ``tvm.runtime.vm``."""

from relax_mlir.tvm.relax.vm import VirtualMachine, VMExecutable

__all__ = ["VMExecutable", "VirtualMachine"]
