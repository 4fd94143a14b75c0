"""Benchmark results as a Markdown page of the documentation."""

import platform
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from benchmarks import child
from benchmarks.baselines import F32, OURS
from benchmarks.report import Report
from relax_mlir.compiler.driver import target_of

__all__ = ["write_page"]


def write_page(
    path: Path, reports: Sequence[Report], baselines: Sequence[str], command: str
) -> None:
    """Write the results, the machine, the baselines' versions and the command."""
    sections = "\n".join(report.markdown() for report in reports)
    path.write_text(f"{_head(baselines, command)}\n{sections}", encoding="utf-8")


def _head(baselines: Sequence[str], command: str) -> str:
    target = target_of("cpu")
    versions = ", ".join(f"{name} {_version(name)}" for name in (OURS, *baselines))
    return f"""# Benchmarks

The last run of `make bench`, which writes this page; `python -m benchmarks --help` has its options. Absolute times say little
about other machines: what counts are ratios to baselines that were measured in interleaved rounds, and shares of peak.

| | |
|---|---|
| command | `{command}` |
| date | {datetime.now(timezone.utc):%Y-%m-%d} |
| processor | {_processor()}, `{target.cpu}` to LLVM, {target.unit.vector_bits} bits a vector, {len(child.usable_cpus())} usable |
| versions | Python {platform.python_version()}, {versions} |
"""


def _version(runtime: str) -> str:
    """The installed version, from a separate process, because some runtimes conflict."""
    try:
        return child.call(version_of, runtime)
    except child.ChildError:
        return "(not installed)"


def version_of(runtime: str) -> str:
    """The version of a runtime."""
    return F32[runtime].version()


def _processor() -> str:
    """The processor's name."""
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
