"""ONNX's suite on GPUs: models run on the stub driver, their kernels in the emulator."""

from pathlib import Path

import pytest

from relax_mlir.integrations.onnx_backend import RelaxBackend
from tests.frontends.onnx.differential import parse
from tests.gpu.stub import Emulation, Stub
from tests.onnx_suite.suite import expected_failures, suite_tests

_EVERY = 64  # of which CI runs one; all take a quarter of an hour
_PASS_HERE = {"test_attention_4d_causal_fp16"}  # but not on CPUs


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "suite_name" not in metafunc.fixturenames:
        return
    names = ["all"]
    if metafunc.config.getoption("--whole-suite"):
        names = list(suite_tests())
    elif metafunc.config.getoption("--run-slow"):
        quick = [n for n, test in suite_tests().items() if test.category != "real"]
        names = quick[::_EVERY]
    metafunc.parametrize("suite_name", [_marked(name) for name in names])


def _marked(name: str) -> object:
    why = None if name in _PASS_HERE else expected_failures().get(name)
    marks = [] if why is None else [pytest.mark.xfail(reason=why, strict=True)]
    return pytest.param(name, marks=marks)


@pytest.mark.slow
def test_suite(
    suite_name: str,
    emulation: Emulation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))  # where ONNX unpacks its models

    suite_tests("cuda")[suite_name].run()


def test_devices_are_known_by_name(stub: Stub) -> None:
    names = ["CPU", "CUDA", "CUDA:0", "CUDA:1", "CUDA:x", "TPU", "CPU:1"]
    assert list(filter(RelaxBackend.supports_device, names)) == names[:3]
    with pytest.raises(ValueError, match="`TPU`: expected CPU or CUDA"):
        RelaxBackend.prepare(
            parse("g (float[2] x) => (float[2] y) { y = Abs (x) }"), "TPU"
        )
