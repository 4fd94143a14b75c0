"""Target machine of object code: CPU features, and whether this machine supports them."""

import functools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from relax_mlir.codegen import object_code

__all__ = ["Machine", "memory_bytes"]

# Memory limits of cgroups v2 and v1.
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64"}
_SHOWN = 8  # features per message
# System, cache and cryptography instructions, which a virtual machine may hide: LLVM emits
# them only for intrinsics, and no kernel has any.
_NEVER_USED = re.compile(
    "aes|cldemote|clflushopt|clwb|clzero|enqcmd|fsgsbase|fxsr|hreset|invpcid|kl|lwp"
    "|mwaitx|pclmul|pconfig|pku|prefetchi|prfchw|ptwrite|rdpid|rdpru|rdrnd|rdseed|rtm"
    "|serialize|sgx|sha|sha512|shstk|sm3|sm4|tsxldtrk|uintr|usermsr|vaes|vpclmulqdq"
    "|waitpkg|wbnoinvd|widekl|xsave|xsavec|xsaveopt|xsaves"
)


@dataclass(frozen=True)
class Machine:
    """A target machine in LLVM's terms.

    Attributes:
        triple: such as ``x86_64-unknown-linux-gnu``.
        cpu: such as ``znver3``.
        features: instruction set extensions available to kernels, such as ``avx2``.
    """

    triple: str
    cpu: str
    features: tuple[str, ...]

    @staticmethod
    def of(triple: str, cpu: str, features: str) -> "Machine":
        """The machine of a compilation target.

        Args:
            features: with signs, ``+avx2,-avx512f``; if empty, those of ``cpu``.
        """
        signed = features.split(",") if features else _features_of(triple, cpu)
        enabled = sorted(f[1:] for f in signed if f.startswith("+"))
        used = (f for f in enabled if not _NEVER_USED.fullmatch(f))
        return Machine(triple, cpu, tuple(used))

    def obstacle(self) -> str | None:
        """Reason why this machine cannot run such code; None if it can."""
        triple, cpu, features = object_code.host_cpu()
        if _platform(self.triple) != _platform(triple):
            return f"compiled for {self.triple}, this machine is {triple}"
        # Features that no host reports are tuning flags, not instructions.
        absent = {f[1:] for f in features.split(",") if f.startswith("-")}
        missing = [f for f in self.features if f in absent]
        if not missing:
            return None
        if object_code.unsupported_features().issuperset(missing):
            return (
                f"compiled for {self.cpu}, and the system does not let this process use "
                f"{', '.join(missing)}. Linux denies it to a process with small "
                "signal stacks, and before version 5.16"
            )
        more = ", ..." if len(missing) > _SHOWN else ""
        names = ", ".join(missing[:_SHOWN])
        return (
            f"compiled for {self.cpu}, this machine ({cpu}) lacks {names}{more}. "
            "Compile it again here, or with `--target` for both machines"
        )


def _platform(triple: str) -> tuple[str, bool]:
    """Architecture, and whether the system is Apple's."""
    architecture, _, rest = triple.partition("-")
    return _ARCHITECTURES.get(architecture, architecture), "apple" in rest


@functools.cache
def _features_of(triple: str, cpu: str) -> tuple[str, ...]:
    """The features with signs that LLVM enables for a processor."""
    # Imported late: loading compiled models does not need MLIR.
    from mlir import ir
    from mlir.passmanager import PassManager

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


@functools.cache
def memory_bytes() -> int:
    """Memory of this machine, or the limit of its container if that is smaller."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    texts = [path.read_text().strip() for path in _LIMITS if path.is_file()]
    limits += [int(text) for text in texts if text.isdigit()]
    return min(limits)
