"""Parts of the match of attention."""

import pytest

from relax_mlir.schedules.match_attention import row_scaled_input
from tests.schedules.kernels import kernel_in

_SCALED = """
func.func @f(%x: memref<2x8x8xf32>, %s: memref<2x8xf32>, %o: memref<2x8x8xf32>) {{
  linalg.generic {{
    indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>,
                     affine_map<(d0, d1, d2) -> ({scalar})>,
                     affine_map<(d0, d1, d2) -> (d0, d1, d2)>],
    iterator_types = ["parallel", "parallel", "parallel"]
  }} ins(%x, %s : memref<2x8x8xf32>, memref<2x8xf32>) outs(%o : memref<2x8x8xf32>) {{
  ^bb0(%a: f32, %b: f32, %old: f32):
    %y = arith.mulf {operands} : f32
    linalg.yield %y : f32
  }}
  return
}}
"""


@pytest.mark.parametrize(
    ("scalar", "operands", "number"),
    [
        ("d0, d1", "%a, %b", 0),
        ("d0, d1", "%b, %a", 0),
        ("d0, 0", "%a, %b", 0),
        ("d0, d2", "%a, %b", None),  # per key
        ("d0, d1 floordiv 2", "%a, %b", None),  # per two rows
        ("d0, d1 mod 2", "%a, %b", None),
    ],
)
def test_scalars_per_row(scalar: str, operands: str, number: int | None) -> None:
    with kernel_in(_SCALED.format(scalar=scalar, operands=operands)) as found:
        (statement,) = found.statements

        assert row_scaled_input(statement, depth=2) == number
