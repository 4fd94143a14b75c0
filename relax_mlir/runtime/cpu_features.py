"""Target machine of object code: CPU features, and whether this machine supports them."""

import functools
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from relax_mlir.runtime import cpu

__all__ = ["Machine", "memory_bytes", "refused_features"]

# Memory limits of cgroups v2 and v1.
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

_ARCHITECTURES = {"arm64": "aarch64", "amd64": "x86_64"}
_SHOWN = 8  # features per message


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

    def obstacle(self) -> str | None:
        """Reason why this machine cannot run such code; None if it can."""
        host = f"{platform.machine().lower()}-{sys.platform}"
        if _platform(self.triple) != _platform(host):
            return f"compiled for {self.triple}, this machine is {host}"
        refused = refused_features()
        # Features that no host reports are tuning flags, not instructions.
        missing = [f for f in self.features if f in _absent_features() or f in refused]
        if not missing:
            return None
        if refused.issuperset(missing):
            return (
                f"compiled for {self.cpu}, and the system does not let this process use "
                f"{', '.join(missing)}. Linux denies it to a process with small "
                "signal stacks, and before version 5.16"
            )
        more = ", ..." if len(missing) > _SHOWN else ""
        names = ", ".join(missing[:_SHOWN])
        return (
            f"compiled for {self.cpu}, this machine lacks {names}{more}. Compile it "
            "again here, or with `--target` for both machines"
        )


def _platform(triple: str) -> tuple[str, bool]:
    """Architecture, and whether the system is Apple's."""
    architecture, _, rest = triple.partition("-")
    is_apple = "apple" in rest or "darwin" in rest
    return _ARCHITECTURES.get(architecture, architecture), is_apple


@functools.cache
def refused_features() -> frozenset[str]:
    """Features of the processor that the operating system denies to this process.

    On Linux a process has to request permission for AMX before its first use.
    """
    tiles = {f[1:] for f in cpu.cpu_features().split(",") if f.startswith("+amx-")}
    is_refused = bool(tiles) and not cpu.request_amx_tiles()
    return frozenset(tiles if is_refused else ())


@functools.cache
def _absent_features() -> frozenset[str]:
    return frozenset(f[1:] for f in cpu.cpu_features().split(",") if f[:1] == "-")


@functools.cache
def memory_bytes() -> int:
    """Memory of this machine, or the limit of its container if that is smaller."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    texts = [path.read_text().strip() for path in _LIMITS if path.is_file()]
    limits += [int(text) for text in texts if text.isdigit()]
    return min(limits)
