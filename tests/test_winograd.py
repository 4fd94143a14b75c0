"""Winograd convolutions: what they read, and how exact they are."""

from collections.abc import Sequence

import numpy as np
import pytest

from relax_mlir import compile, import_onnx
from relax_mlir.runtime.executable import Executable
from tests.frontends.differential import parse
from tests.products import assert_close, convolved, drawn

SLICES = [
    pytest.param(axis, begin, id=f"{name} from {begin}")
    for axis, name in enumerate(("images", "channels", "rows", "columns"))
    for begin in (0, 1, 16)
    if begin < 16 or axis == 1
]


@pytest.mark.slow
@pytest.mark.parametrize(("axis", "begin"), SLICES)
def test_convolution_of_a_slice(axis: int, begin: int) -> None:
    shape = (3, 48, 21, 22)
    count = 32 if axis == 1 else shape[axis] - 1
    x, w = drawn(*shape), drawn(32, 32 if axis == 1 else 48, 3, 3) / 17
    ends = f"<int64[1] b = {{{begin}}}, int64[1] e = {{{begin + count}}}, int64[1] a = {{{axis}}}>"
    text = f"""g (float{list(shape)} x, float[48, 48, 1, 1] i, float{list(w.shape)} w)
        => (float[k, l, m, n] y) {ends} {{
        c = Conv (x, i)
        s = Slice (c, b, e, a)
        y = Conv <pads = [1, 1, 1, 1]> (s, w) }}"""
    identity = np.eye(48, dtype=np.float32)[:, :, None, None]
    module = import_onnx(parse(text), values={"w": w, "i": identity})

    made = compile(module, cache=False)
    (y,) = made(x)

    assert "Winograd" in rules(made)
    assert_close(y, convolved(x.take(range(begin, begin + count), axis), w))


def rules(made: object) -> Sequence[str]:
    assert isinstance(made, Executable)
    return [kernel.rule for kernel in made.kernels]
