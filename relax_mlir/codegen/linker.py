"""Linking of object files to a shared library, by the system's linker or that of a wheel."""

from __future__ import annotations

import functools
import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from relax_mlir.errors import CompileError
from relax_mlir.runtime.machine_code import LINK, MachineCode

__all__ = ["LINK_OPTIONS", "link", "linker_command", "run_tool"]

_TIMEOUT_S = 120.0
# Nothing that depends on the time or the folder; no stack that is executable; addresses are
# resolved when the library is loaded, and read-only afterwards.
LINK_OPTIONS = (
    *("-shared", "--build-id=none", "--hash-style=gnu", "-Bsymbolic", "-O1"),
    *("-z", "noexecstack", "-z", "now", "-z", "relro"),
)


def link(code: MachineCode, triple: str, symbols: Sequence[str]) -> MachineCode | None:
    """Link object files to a shared library that exports some of their symbols.

    Undefined symbols stay so, for the loader: those of libc, libm and the native runtime.

    Args:
        code: the object files.
        triple: of their machine.
        symbols: what the library exports.

    Returns:
        The library; None if there is no linker for the machine.

    Raises:
        CompileError: the objects cannot be linked.
    """
    command = linker_command(triple)
    if command is None:
        return None
    with tempfile.TemporaryDirectory(prefix="relax_mlir-link-") as folder:
        script, output = Path(folder, "exports"), Path(folder, "code.so")
        script.write_text(f"{{ global: {'; '.join(symbols)}; local: *; }};\n")
        names: list[str] = []
        for number, data in enumerate(code.objects):
            names.append(f"{number}.o")
            Path(folder, names[-1]).write_bytes(data)
        options = [*LINK_OPTIONS, f"--version-script={script}", "-o", str(output)]
        run_tool([*command, *options, *names], Path(folder))
        return MachineCode(library=output.read_bytes())


def run_tool(
    command: Sequence[str], folder: Path, timeout_s: float = _TIMEOUT_S
) -> None:
    """Run a linker, or another tool for object files, in a folder.

    Raises:
        CompileError: it fails.
    """
    made = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if made.returncode:
        raise CompileError(f"`{command[0]}`: {made.stderr.strip()[:2000]}")


@functools.cache
def linker_command(triple: str) -> tuple[str, ...] | None:
    """The command of a linker of ELF files for a machine."""
    architecture = triple.partition("-")[0]
    if "linux" not in triple:
        return None
    if lld := shutil.which("ld.lld"):
        return (lld,)
    is_host = sys.platform == "linux" and architecture == platform.machine()
    if (ld := shutil.which("ld")) and is_host:
        return (ld,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "ld.lld")
    return None


LINK.set(link)
