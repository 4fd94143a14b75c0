"""Lowering goes down: a level that a module has passed is refused."""

import pytest

import relax_mlir
from relax_mlir.errors import IRError
from relax_mlir.ir.module import IRModule
from relax_mlir.targets import LEVELS

_TEXT = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = "relax.matmul"(%x, %w) {out_dtype = unit} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = "relax.nn_relu"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
"""
_COPY = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
"""
_ALL = [level for level in LEVELS if level != "ptx"]


@pytest.mark.parametrize("level", _ALL)
def test_a_level_that_was_passed_is_refused(level: str) -> None:
    lowered = relax_mlir.lower(IRModule.parse(_TEXT), to=level)
    text = str(lowered)

    for above in _ALL[: _ALL.index(level)]:
        with pytest.raises(IRError, match=f"at level `{level}`.*got `{above}`.*Hint"):
            relax_mlir.lower(lowered, to=above)
    assert str(relax_mlir.lower(lowered, to=level)) == text


def test_a_level_of_another_target_is_refused() -> None:
    with pytest.raises(IRError, match=r"level of the target .*`llvm`\), got `ptx`"):
        relax_mlir.lower(IRModule.parse(_TEXT), to="ptx")


@pytest.mark.parametrize("level", _ALL)
def test_a_module_without_kernels_is_lowered_twice(level: str) -> None:
    """Nothing tells some of its levels apart."""
    lowered = relax_mlir.lower(IRModule.parse(_COPY), to=level)

    assert str(relax_mlir.lower(lowered, to=level)) == str(lowered)
