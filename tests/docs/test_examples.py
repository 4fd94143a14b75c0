"""The examples run, and print what their texts say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOWN = {
    "customize_pipeline": ["operators: 7", "cls.fused_matmul_add_relu"],
    "fuse_relay": ["%0 = fn(%p0: Tensor[(10, 20), float32])", "add(%p0, 1f)"],
    "rewrite_graphs": ["R.ewise_fma(x, y, y)", "def fused_dense_add1(", "T_matmul_NT"],
    "run_with_libraries": ["remaining parameters: [x]"],
    "write_tensor_programs": ["numpy, loops and compiled code agree"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWN)
def test_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for text in SHOWN[name]:
        assert text in printed
