"""Every test of ONNX's suite passes, but for those of which the reason is stated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.onnx_suite.suite import reason, suite_tests


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per test of the suite, which takes seconds to load: only if they run."""
    if "suite_name" in metafunc.fixturenames:
        is_run = metafunc.config.getoption("--run-slow")
        names = [_marked(name) for name in suite_tests()] if is_run else ["all"]
        metafunc.parametrize("suite_name", names)


def _marked(name: str) -> object:
    why = reason(name)
    marks = [] if why is None else [pytest.mark.xfail(reason=why, strict=True)]
    return pytest.param(name, marks=marks)


@pytest.mark.slow
def test_suite(
    suite_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))  # where ONNX unpacks its models

    suite_tests()[suite_name].run()
