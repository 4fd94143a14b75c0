"""Calling compiled modules: ``tvm.runtime.vm``."""

from relax_mlir.relax.vm import VirtualMachine, VMExecutable

__all__ = ["VMExecutable", "VirtualMachine"]
