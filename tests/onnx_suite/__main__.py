"""Run ONNX's suite and print how many tests pass: ``make onnx-suite``.

With ``--write``, what does not pass is written to ``failures.tsv``: a test that was there
keeps its reason, another gets what it raised, to be put into words.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from os import environ

from relax_mlir.runtime.cpu import cpu_count
from tests.onnx_suite.suite import FAILURES, expected_failures, suite_tests


def _problem(name: str) -> str | None:
    """What a test raises, in one line; None if it passes."""
    try:
        suite_tests()[name].run()
    except BaseException as error:  # also what ends a process
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return text[:200]
    return None


def main() -> int:
    """Run all tests; 1 if a test fails of which no reason is stated."""
    with tempfile.TemporaryDirectory() as folder:
        environ["ONNX_HOME"] = folder
        with ProcessPoolExecutor(cpu_count()) as pool:
            problems = dict(
                zip(suite_tests(), pool.map(_problem, suite_tests()), strict=True)
            )
    known = expected_failures()
    failed = {n: known.get(n, p) for n, p in problems.items() if p is not None}
    if "--write" in sys.argv:
        FAILURES.write_text("".join(f"{n}\t{p}\n" for n, p in sorted(failed.items())))
    for key in (lambda test: test.category, lambda test: test.kind, lambda _: "all"):
        total = Counter(map(key, suite_tests().values()))
        lost = Counter(key(suite_tests()[name]) for name in failed)
        for name, count in total.items():
            print(f"{name:18} {count - lost[name]:5} of {count:5}")
        print()
    unexpected = {name for name in failed if name not in known}
    for name in sorted(unexpected):
        print(f"FAIL {name}: {failed[name]}")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main())
