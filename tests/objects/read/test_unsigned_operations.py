"""Scripts keep unsigned operations on signed integers."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.tvm.script import from_source

_BITS = np.array([-7, 5, -(1 << 31), (1 << 31) - 1, 0], np.int32)
_UNSIGNED = _BITS.view(np.uint32)

_OPERATIONS = {
    "arith.shrui %v, %three : i32": _UNSIGNED >> 3,
    "arith.divui %v, %three : i32": _UNSIGNED // 3,
    "arith.remui %v, %three : i32": _UNSIGNED % 3,
    "arith.minui %v, %three : i32": np.minimum(_UNSIGNED, 3),
    "arith.maxui %v, %three : i32": np.maximum(_UNSIGNED, 3),
    "arith.extui %v : i32 to i64": _UNSIGNED.astype(np.int64),
    "arith.uitofp %v : i32 to f64": _UNSIGNED.astype(np.float64),
    "arith.cmpi ult, %v, %three : i32": _UNSIGNED < 3,
    "arith.cmpi ugt, %v, %three : i32": _UNSIGNED > 3,
    "arith.shrsi %v, %three : i32": _BITS >> 3,
    "arith.sitofp %v : i32 to f64": _BITS.astype(np.float64),
}


def _module(operation: str) -> IRModule:
    result = operation.split()[-1]
    is_test = operation.startswith("arith.cmpi")
    extended = "%r = arith.extui %t : i1 to i32" if is_test else ""
    return IRModule.parse(f"""
func.func @main(%x: tensor<5xi32>) -> tensor<5x{result}> {{
  %0 = builtin.unrealized_conversion_cast %x : tensor<5xi32> to tuple<tensor<5xi32>>
  %1 = "relax.call_tir"(%0) {{callee = @work, sizes = #relax.shape<[]>}}
    : (tuple<tensor<5xi32>>) -> tensor<5x{result}>
  return %1 : tensor<5x{result}>
}}
func.func private @work(%x: memref<5xi32>, %o: memref<5x{result}>)
    attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
  "tir.block"() ({{}}, {{
  ^bb0(%i: index):
    %three = arith.constant 3 : i32
    %v = memref.load %x[%i] : memref<5xi32>
    {"%t" if is_test else "%r"} = {operation}
    {extended}
    memref.store %r, %o[%i] : memref<5x{result}>
    gpu.yield
  }}) {{name = "work", kinds = "S", static_extents = array<i64: 5>,
      operandSegmentSizes = array<i32: 0, 0>}} : () -> ()
  return
}}""")


@pytest.mark.parametrize("operation", _OPERATIONS)
def test_a_script_computes_what_the_program_does(operation: str) -> None:
    module = _module(operation)
    again = from_source(module.script())
    expected = _OPERATIONS[operation]

    for program in (module, again):
        (actual,) = relax_mlir.compile(program, cache=False)(_BITS)
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype))
