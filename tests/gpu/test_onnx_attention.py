"""ONNX Attention on a GPU: one kernel for all head layouts, masks and KV caches."""

from typing import Any

import numpy as np
import pytest

from relax_mlir import import_onnx
from relax_mlir.compiler.driver import target_of
from relax_mlir.schedules.gpu.attention import Attention
from relax_mlir.schedules.target_features import Gpu
from tests.frontends.onnx.test_attention import Form, wanted
from tests.gpu.test_attention import BOUNDS
from tests.gpu.test_gemm import run
from tests.schedules.cpu.test_attention import refusal

_KERNELS = {"Attention", "AttentionWgmma"}
_WIDE: dict[str, Any] = {"depth": 32, "width": 32}
_SHARED: dict[str, Any] = {"heads": 4, "shared": 2}
_LONG: dict[str, Any] = {"queries": 70, "keys": 70, **_WIDE}
_LATER: dict[str, Any] = {"queries": 9, "keys": 9, "past": 40, **_WIDE}
_NEXT: dict[str, Any] = {"queries": 1, "keys": 1, "past": 40, **_WIDE}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("form", "attrs", "others"),
    [
        (Form(**_LONG), {"is_causal": 1}, set()),
        (Form(**_LONG, is_flat=True), {"is_causal": 1, "softcap": 2.0}, set()),
        (Form(**_LONG, **_SHARED), {"is_causal": 1}, set()),
        (Form(**_LONG, **_SHARED, is_flat=True), {"is_causal": 1}, set()),
        (Form(**_LONG, mask="bool", mask_shape=(2, 1, 1, 70)), {}, {"RowReduction"}),
        (
            Form(**_LONG, **_SHARED, mask="float", mask_shape=(70, 70)),
            {"is_causal": 1},
            {"RowReduction"},
        ),
        (Form(**_LATER), {"is_causal": 1}, {"MultiOutput"}),
        (Form(**_NEXT), {"is_causal": 1}, {"MultiOutput"}),
        (Form(**_NEXT, **_SHARED), {"is_causal": 1}, {"MultiOutput"}),
        (Form(**_LATER, names=("s", "p")), {"is_causal": 1}, set()),
        (Form(**_LONG, lengths=(9, 64)), {"is_causal": 1}, {"RowReduction"}),
    ],
)
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90"])
@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_attention_is_one_kernel(
    form: Form, attrs: dict[str, Any], others: set[str], target: str, precision: str
) -> None:
    model = form.model(**attrs)
    arrays = list(form.arrays().values())

    y, rules = run(
        import_onnx(model), *arrays, precision=precision, target=target_of(target)
    )

    assert rules & _KERNELS
    assert others <= rules
    assert not any(rule.startswith("Gem") for rule in rules)
    expected = wanted(model, form)[0]
    bound = BOUNDS[precision] * np.abs(expected).max()
    np.testing.assert_allclose(y, expected, rtol=0, atol=bound)


def test_warpgroups_take_half_precision() -> None:
    form = Form(**_LONG, **_SHARED, dtype=np.float16, is_flat=True)
    model = form.model(is_causal=1)

    y, rules = run(
        import_onnx(model), *form.arrays().values(), target=target_of("cuda:sm_90")
    )

    assert rules == {"AttentionWgmma"}
    expected = wanted(model, form)[0].astype("f4")
    np.testing.assert_allclose(y.astype("f4"), expected, rtol=0, atol=4e-3)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "s = MatMul (q, k) w = LpNormalization <p = 1> (s) y = MatMul (w, v)",
            "it has no softmax of rows",
        ),
        (
            "s = MatMul (q, k) w = LogSoftmax (s) y = MatMul (w, v)",
            "it has no softmax of rows",
        ),
        (
            "s = MatMul (q, k) w = Softmax (s) z = Mul (w, w) y = MatMul (z, v)",
            "its weights are not normalized exponentials",
        ),
    ],
)
def test_other_softmaxes_are_refused(body: str, reason: str) -> None:
    assert refusal(body, rule=Attention(Gpu(90))) == reason
