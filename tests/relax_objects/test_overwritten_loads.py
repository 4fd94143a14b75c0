"""What a program read is read before it is written over, in its script too."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.script import from_source

_SWAP = """
    %a = memref.load %o[%c0] : memref<2xf32>
    %b = memref.load %o[%c1] : memref<2xf32>
    memref.store %b, %o[%c0] : memref<2xf32>
    memref.store %a, %o[%c1] : memref<2xf32>
"""
_LOOP = """
    %a = memref.load %o[%c0] : memref<2xf32>
    scf.for %i = %c0 to %c2 step %c1 {
      %y = memref.load %o[%i] : memref<2xf32>
      %p = arith.addf %y, %a : f32
      memref.store %p, %o[%i] : memref<2xf32>
    }
"""
_CHOICE = """
    %v = scf.if %true -> f32 {
      %a = memref.load %o[%c0] : memref<2xf32>
      scf.yield %a : f32
    } else {
      scf.yield %seven : f32
    }
    memref.store %seven, %o[%c0] : memref<2xf32>
    %n = arith.negf %v : f32
    memref.store %n, %o[%c1] : memref<2xf32>
"""
_IN_ORDER = """
    %a = memref.load %o[%c0] : memref<2xf32>
    %n = arith.negf %a : f32
    memref.store %n, %o[%c0] : memref<2xf32>
"""


def _module(body: str) -> IRModule:
    """A program that copies two elements, and then works on the copy."""
    return IRModule.parse(f"""
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = builtin.unrealized_conversion_cast %x : tensor<2xf32> to tuple<tensor<2xf32>>
  %1 = "relax.call_tir"(%0) {{callee = @work, sizes = #relax.shape<[]>}}
    : (tuple<tensor<2xf32>>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}}
func.func private @work(%x: memref<2xf32>, %o: memref<2xf32>)
    attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %true = arith.constant true
  %seven = arith.constant 7.0 : f32
  scf.for %i = %c0 to %c2 step %c1 {{
    %v = memref.load %x[%i] : memref<2xf32>
    memref.store %v, %o[%i] : memref<2xf32>
  }}
  {body}
  return
}}""")


@pytest.mark.parametrize(
    ("body", "expected"),
    [(_SWAP, [5, 3]), (_LOOP, [6, 8]), (_CHOICE, [7, -3]), (_IN_ORDER, [-3, 5])],
    ids=["swap", "loop", "choice", "in order"],
)
def test_a_script_reads_what_the_program_read(body: str, expected: list[int]) -> None:
    module = _module(body)
    again = from_source(module.script())

    for program in (module, again):
        (actual,) = relax_mlir.compile(program, cache=False)(
            np.array([3, 5], np.float32)
        )
        assert actual.tolist() == expected


def test_a_load_that_only_a_store_follows_has_no_name() -> None:
    assert "arg1[0] = arg1[0] * T.float32(-1.0)" in _module(_IN_ORDER).script()
