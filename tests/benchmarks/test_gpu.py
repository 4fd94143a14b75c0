"""GPU benchmark cases: their files, and the schedule rules of their kernels."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu.__main__ import compile_case
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.measure import _with_random_weights
from relax_mlir import import_onnx, lower
from relax_mlir.runtime.cuda.loading import load
from tests.gpu.test_models import rules_of

_BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("gemm_bf16_4096", {"GemmWgmma"}),
        ("gemm_bf16_8192", {"GemmWgmma"}),
        ("gemv_f16_8192", {"Gemv"}),
        ("softmax_f32", {"RowReduction"}),
        ("layernorm_f32", {"RowReduction"}),
        ("attention_f16", {"AttentionWgmma"}),
        ("attention_causal_f16", {"AttentionWgmma"}),
        ("attention_grouped_f16", {"AttentionWgmma"}),
    ],
)
def test_kernels_use_the_intended_rule(name: str, rules: set[str]) -> None:
    module = import_onnx(_BY_NAME[name].build())
    loops = lower(module, target="cuda:sm_90", to="loops")
    assert set(rules_of(loops)) == rules


@pytest.mark.every_case
@pytest.mark.parametrize("name", ["bert_base", "gpt2_decode"])
def test_networks_use_tensor_cores_or_are_memory_bound(name: str) -> None:
    module = import_onnx(_BY_NAME[name].build())
    loops = lower(module, target="cuda:sm_90", to="loops")
    assert not {"Fallback", "GemmSimt", "GemmMmaSync"} & set(rules_of(loops))


@pytest.mark.every_case
def test_files_contain_no_weights(tmp_path: Path) -> None:
    """Large weights are generated on the GPU machine; index constants are included."""
    path = compile_case(_BY_NAME["gpt2_decode"], tmp_path)

    assert path.stat().st_size < 4 << 20
    with zipfile.ZipFile(path) as archive:
        (name,) = archive.namelist()
        contents = load(archive.extract(name, tmp_path)).contents
    drawn = _with_random_weights(contents)
    assert drawn.keys() == contents.constants.keys()
    assert sum(array.nbytes for array in drawn.values()) > 200 << 20
    for key, array in contents.constants.items():
        is_drawn = not array.any()
        assert drawn[key].any() or array.size == 1
        assert is_drawn or np.array_equal(drawn[key], array)
