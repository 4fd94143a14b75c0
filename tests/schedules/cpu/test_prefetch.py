"""Software prefetch of prepacked weights: the next panel, or a stream at a fixed distance."""

import re

import numpy as np
import pytest

import relax_mlir
from tests.frontends.onnx.differential import parse

_STREAM = (1 << 16) // 4  # elements


def _loops(rows: int, columns: int) -> str:
    """The loops of a matmul with a constant, for vectors of 16."""
    text = f"""g (float[{rows},768] x, float[768,{columns}] w) => (float[{rows},{columns}] y) {{
        y = MatMul (x, w)
    }}"""
    weight = np.zeros((768, columns), np.float32)
    module = relax_mlir.import_onnx(parse(text, opset=19), values={"w": weight})
    return str(relax_mlir.lower(module, to="loops", target="cpu:x86-64-v4"))


def _width(loops: str) -> int:
    """Width of a panel in columns."""
    (found,) = re.findall(r"%arg1: memref<\d+x768x(\d+)xf32>", loops)
    return int(found)


@pytest.mark.parametrize("rows", [1, 26])
def test_the_next_panel_or_a_stream_is_prefetched(rows: int) -> None:
    loops = _loops(rows, 4096)
    assert "memref.prefetch" in loops
    width = _width(loops)
    panel = 768 * width
    # SSA names are local: match the definition and its use on consecutive lines.
    begin = rf"%(\d+) = arith.muli %\w+, %c{panel} : index"
    found = re.findall(rf"{begin}\n *%\d+ = arith.addi %\1, %c(\d+) : index", loops)
    ahead = {int(distance) for _, distance in found}
    within = {d for d in ahead if d < width}  # vectors of the first k
    assert ahead - within == {_STREAM if rows == 1 else panel}


def test_weights_that_stay_in_l2_are_not_prefetched() -> None:
    assert "memref.prefetch" not in _loops(1, 64)
