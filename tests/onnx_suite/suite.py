"""The tests of ONNX's suite: their names, categories, and those that do not pass."""

from __future__ import annotations

import re
import unittest
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from onnx.backend.test import BackendTest

from relax_mlir import onnx_backend

__all__ = ["EXPECTED_FAILURES", "SuiteTest", "reason", "suite_tests"]

# Why tests do not pass, by a pattern of their names; the first that fits counts.
EXPECTED_FAILURES: Mapping[str, str] = {
    r"image_decoder": "pictures are not decoded",
}

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
        run: raises what is wrong.
    """

    name: str
    category: str
    run: Callable[[], None]


@cache
def suite_tests() -> Mapping[str, SuiteTest]:
    """All tests for the CPU, by name."""
    found: dict[str, SuiteTest] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX's own arithmetic overflows here
        cases = BackendTest(onnx_backend, __name__).test_cases
    for name, case in cases.items():
        for method in sorted(filter(_is_for_cpu, dir(case))):
            short = method.removesuffix("_cpu")
            found[short] = SuiteTest(short, _CATEGORIES[name], _runner(case, method))
    return found


def reason(name: str) -> str | None:
    """Why a test does not pass; None if it does."""
    texts = (t for p, t in EXPECTED_FAILURES.items() if re.search(p, name))
    return next(texts, None)


def _is_for_cpu(method: str) -> bool:
    return method.startswith("test_") and method.endswith("_cpu")


def _runner(case: type[unittest.TestCase], method: str) -> Callable[[], None]:
    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(case(method), method)()

    return run
