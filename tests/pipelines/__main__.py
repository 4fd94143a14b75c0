"""Compile pipelines of scikit-learn, LightGBM and XGBoost: ``make pipelines``.

``python -m tests.pipelines [NAME ...]`` takes those whose names begin so. Labels have to be
those of the pipeline's own ``predict``, numbers to agree to 1e-4 of the largest. The exit
status is 1 if one differs or fails.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import relax_mlir
from tests.pipelines.cases import Case, cases

_MOST = 1e-4  # difference relative to the largest number, or to 1


def main(arguments: Sequence[str]) -> int:
    """Run all, or those that the command line names; 1 if anything is different."""
    warnings.simplefilter("ignore")  # of the libraries, about each other
    wanted = tuple(arguments) or ("",)
    print(f"{'pipeline':32}{'compile s':>11}{'run ms':>9}  difference of each output")
    good = [_check(case) for case in cases() if case.name.startswith(wanted)]
    print(f"\n{good.count(True)} of {len(good)} good")
    return int(not all(good))


def _check(case: Case) -> bool:
    """Print a row."""
    start = time.perf_counter()
    try:
        model = relax_mlir.compile(case.model, cache=False)
        compiled = time.perf_counter()
        outputs = model(dict(case.inputs))
        ended = time.perf_counter()
        found = [
            _difference(a, b) for a, b in zip(outputs, case.expected, strict=False)
        ]
    except Exception as error:  # the other rows shall be seen
        print(f"{case.name:32}  FAIL {type(error).__name__}: {error}")
        return False
    is_good = len(outputs) >= len(case.expected) and max(found) <= _MOST
    shown = " ".join(f"{difference:.0e}" for difference in found)
    times = f"{compiled - start:11.2f}{1e3 * (ended - compiled):9.1f}"
    print(f"{case.name:32}{times}  {shown}{'' if is_good else '  FAIL'}", flush=True)
    return is_good


def _difference(actual: Any, expected: np.ndarray) -> float:
    """The share of wrong labels, or the largest difference relative to the largest number."""
    if isinstance(actual, list):  # a dictionary for each row
        actual = np.array([[row[key] for key in sorted(row)] for row in actual])
    values = np.asarray(actual).reshape(expected.shape)
    if expected.dtype.kind != "f":
        return float((values.astype(str) != expected.astype(str)).mean())
    largest = max(1.0, float(np.abs(expected).max()))
    return float(np.abs(values - expected).max()) / largest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
