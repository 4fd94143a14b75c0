"""The machine that a compilation target describes, with the features that kernels may use."""

import functools
import re

from mlir import ir
from mlir.passmanager import PassManager

from relax_mlir.runtime.cpu_features import Machine

__all__ = ["machine_of", "processor_features"]

# System, cache and cryptography instructions, which a virtual machine may hide: LLVM emits
# them only for intrinsics, and no kernel has any.
_NEVER_USED = re.compile(
    "aes|cldemote|clflushopt|clwb|clzero|enqcmd|fsgsbase|fxsr|hreset|invpcid|kl|lwp"
    "|mwaitx|pclmul|pconfig|pku|prefetchi|prfchw|ptwrite|rdpid|rdpru|rdrnd|rdseed|rtm"
    "|serialize|sgx|sha|sha512|shstk|sm3|sm4|tsxldtrk|uintr|usermsr|vaes|vpclmulqdq"
    "|waitpkg|wbnoinvd|widekl|xsave|xsavec|xsaveopt|xsaves"
)


def machine_of(triple: str, cpu: str, features: str) -> Machine:
    """The machine of a compilation target.

    Args:
        triple, cpu: as for LLVM.
        features: with signs, ``+avx2,-avx512f``; if empty, those of ``cpu``.
    """
    signed = features.split(",") if features else processor_features(triple, cpu)
    enabled = sorted(f[1:] for f in signed if f.startswith("+"))
    used = (f for f in enabled if not _NEVER_USED.fullmatch(f))
    return Machine(triple, cpu, tuple(used))


@functools.cache
def processor_features(triple: str, cpu: str) -> tuple[str, ...]:
    """The features with signs that LLVM enables for a processor."""
    context = ir.Context()
    context.enable_multithreading(False)
    with context:
        module = ir.Module.parse(
            f'module attributes {{llvm.target = #llvm.target<triple = "{triple}", '
            f'chip = "{cpu}">}} {{}}'
        )
        PassManager.parse("builtin.module(llvm-target-to-target-features)").run(
            module.operation
        )
        target = str(module.operation.attributes["llvm.target"])
    return tuple(re.findall(r'"(\+[^"]+)"', target))
