"""Every test of ONNX's suite passes, but for those of which the reason is stated."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import pytest

from tests.onnx_suite.suite import expected_failures, suite_tests


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per test of the suite, which takes seconds to load: only if they run."""
    if "suite_name" in metafunc.fixturenames:
        names = ["all"]
        if metafunc.config.getoption("--run-slow"):
            names = [_marked(name) for name in suite_tests()]
        metafunc.parametrize("suite_name", names)


# Networks of operators that others have, which run with drawn weights in tests/models.
_LIKE_OTHERS = {
    *(
        "test_bvlc_alexnet",
        "test_densenet121",
        "test_inception_v1",
        "test_inception_v2",
    ),
    *("test_resnet50", "test_vgg19", "test_zfnet512", "test_shufflenet"),
    "test_squeezenet",
}
# Operators with dozens of tests, of which every second one runs.
_OFTEN = (
    *("attention", "linear_attention", "layer_normalization", "rotary_embedding"),
    *("sce", "nllloss", "cast", "castlike", "averagepool", "maxpool", "resize"),
    *("reduce", "causal_conv", "bitshift", "rms_normalization"),
)


def _marked(name: str) -> object:
    why = expected_failures().get(name)
    marks = [] if why is None else [pytest.mark.xfail(reason=why, strict=True)]
    # The expansions of a node are nodes that other tests have; one in eight of them runs.
    share = 8 if "_expanded" in name else 2 if _is_frequent(name) else 1
    if crc32(name.encode()) % share or name in _LIKE_OTHERS:
        marks.append(pytest.mark.every_case)
    return pytest.param(name, marks=marks)


def _is_frequent(name: str) -> bool:
    return name.startswith(tuple(f"test_{operator}_" for operator in _OFTEN))


@pytest.mark.slow
def test_suite(
    suite_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))  # where ONNX unpacks its models

    suite_tests()[suite_name].run()


@pytest.mark.slow
def test_only_tests_of_the_suite_have_reasons() -> None:
    assert set(expected_failures()) <= set(suite_tests())
