"""The tests of ONNX's suite: their names, categories, and those that do not pass."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from onnx.backend.test import BackendTest

from relax_mlir.integrations.onnx_backend import RelaxBackend
from tests.onnx_suite.kinds import CORE, kinds

__all__ = ["FAILURES", "SuiteTest", "expected_failures", "suite_tests"]

# A line for each test that does not pass: its name, a tab, and why.
FAILURES = Path(__file__).parent / "failures.tsv"

_CATEGORIES: Mapping[str, str] = {
    "OnnxBackendNodeModelTest": "node",
    "OnnxBackendRealModelTest": "real",
    "OnnxBackendSimpleModelTest": "simple",
    "OnnxBackendPyTorchConvertedModelTest": "pytorch-converted",
    "OnnxBackendPyTorchOperatorModelTest": "pytorch-operator",
}


@dataclass(frozen=True)
class SuiteTest:
    """One test.

    Attributes:
        name: of the method, without the device.
        category: as ONNX sorts its tests.
        kind: what it is about; see :data:`tests.onnx_suite.kinds.KINDS`.
        run: raises what is wrong.
    """

    name: str
    category: str
    kind: str
    run: Callable[[], None]


@cache
def suite_tests(device: str = "cpu") -> Mapping[str, SuiteTest]:
    """All tests for a device, by name.

    Args:
        device: ``cpu`` or ``cuda``, of which this machine has one now.
    """
    found: dict[str, SuiteTest] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX's own arithmetic overflows here
        cases = BackendTest(RelaxBackend, __name__).test_cases
    for name, case in cases.items():
        methods = (name for name in dir(case) if name.startswith("test_"))
        for method in sorted(m for m in methods if m.endswith(f"_{device}")):
            short = method.removesuffix(f"_{device}")
            kind = kinds().get(short, CORE)
            run = _runner(case, method)
            found[short] = SuiteTest(short, _CATEGORIES[name], kind, run)
    return found


def expected_failures() -> dict[str, str]:
    """Why tests do not pass, by their names."""
    lines = FAILURES.read_text().splitlines()
    return dict(line.split("\t", 1) for line in lines)


def _runner(case: type[unittest.TestCase], method: str) -> Callable[[], None]:
    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(case(method), method)()

    return run
