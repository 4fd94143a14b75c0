"""Features of this machine, and code that needs others."""

import platform
import re
import sys

import pytest

from relax_mlir.codegen import object_code
from relax_mlir.codegen.target_machines import _NEVER_USED, machine_of
from relax_mlir.runtime import cpu
from relax_mlir.runtime.cpu_features import Machine

_HOST = object_code.host_cpu()


@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux",
    reason="on other machines LLVM's list has features that kernels never use",
)
def test_features_are_those_that_llvm_detects() -> None:
    _, _, detected = object_code._system_cpu()
    theirs = {f for f in detected.split(",") if not _NEVER_USED.fullmatch(f[1:])}

    assert set(cpu.cpu_features().split(",")) == theirs


def test_code_of_this_machine_runs_here() -> None:
    assert machine_of(*_HOST).obstacle() is None


# Features of processors in LLVM's list that are no instructions, or that every x86-64 has.
_TUNING = re.compile(
    "allow-.*|.*-fast|fast-.*|faster-.*|false-.*|idiv.*|no-bypass.*|prefer-.*|slow-.*|tuning-.*"
    "|branch-hint|branchfusion|ermsb|fsrm|macrofusion|sbb-dep-breaking|vzeroupper|nopl|x87|64bit-mode|evex512|inline-.*"
)


@pytest.mark.parametrize("name", ["znver3", "diamondrapids", "bdver4"])
def test_all_instructions_of_a_processor_are_known(name: str) -> None:
    """What no machine reports is taken for tuning, and never an obstacle."""
    known = {f[1:] for f in cpu.cpu_features().split(",")}
    if "avx2" not in known:
        pytest.skip("this machine is no x86-64")

    machine = machine_of("x86_64-unknown-linux-gnu", name, "")

    unknown = [f for f in machine.features if f not in known]
    assert [f for f in unknown if not _TUNING.fullmatch(f)] == []


@pytest.mark.parametrize(
    ("triple", "reason"),
    [
        ("aarch64-unknown-linux-gnu", "this machine is"),
        ("x86_64-unknown-linux-gnu", "this machine"),
        ("x86_64-apple-darwin", "this machine is"),
    ],
)
def test_what_is_missing_is_named(triple: str, reason: str) -> None:
    lacking = [f[1:] for f in cpu.cpu_features().split(",") if f.startswith("-")]
    machine = Machine(triple, "some-cpu", tuple(lacking))

    obstacle = machine.obstacle()

    assert obstacle is not None
    assert reason in obstacle
