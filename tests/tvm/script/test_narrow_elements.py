"""Scripts keep the bits of elements that memory pads to a byte."""

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir import IRModule
from relax_mlir.dialects import dtypes
from relax_mlir.objects.expr import Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.tvm.relax.op import operator_function
from relax_mlir.tvm.relax.transform import LegalizeOps
from relax_mlir.tvm.script import from_source
from tests.tvm.relax.transform.graphs import program

_FLOAT4 = np.dtype(ml_dtypes.float4_e2m1fn)
_UINT4 = np.dtype(ml_dtypes.uint4)
_BITS = np.arange(16, dtype=np.uint8)
_AS_FLOATS = _BITS.view(_FLOAT4)

# The types of elements and what is done to %v, which is loaded, to make %r.
_PROGRAMS = {
    "bits of an integer as a float": (
        ("uint4", "float4_e2m1fn"),
        """%t = arith.trunci %v : i8 to i4
    %f = arith.bitcast %t : i4 to f4E2M1FN
    %b = arith.bitcast %f : f4E2M1FN to i4
    %r = arith.extui %b : i4 to i8""",
        (_BITS.astype(_UINT4), _AS_FLOATS),
    ),
    "bits of a float as an integer": (
        ("float4_e2m1fn", "uint4"),
        """%t = arith.trunci %v : i8 to i4
    %f = arith.bitcast %t : i4 to f4E2M1FN
    %b = arith.bitcast %f : f4E2M1FN to i4
    %r = arith.extui %b : i4 to i8""",
        (_AS_FLOATS, _BITS.astype(_UINT4)),
    ),
    "bits of a float that nothing makes one": (
        ("float4_e2m1fn", "uint4"),
        """%t = arith.trunci %v : i8 to i4
    %one = arith.constant 1 : i4
    %b = arith.xori %t, %one : i4
    %r = arith.extui %b : i4 to i8""",
        (_AS_FLOATS, (_BITS ^ 1).astype(_UINT4)),
    ),
    "bits that are computed, as a float": (
        ("uint4", "float4_e2m1fn"),
        """%t = arith.trunci %v : i8 to i4
    %one = arith.constant 1 : i4
    %b = arith.xori %t, %one : i4
    %r = arith.extui %b : i4 to i8""",
        (_BITS.astype(_UINT4), (_BITS ^ 1).view(_FLOAT4)),
    ),
    "the byte of an integer as that of a float": (
        ("uint4", "float4_e2m1fn"),
        """%zero = arith.constant 0 : i8
    %r = arith.ori %v, %zero : i8""",
        (_BITS.astype(_UINT4), _AS_FLOATS),
    ),
    "a copy of bytes": (
        ("float4_e2m1fn", "uint4"),
        """%t = arith.trunci %v : i8 to i4
    %r = arith.extui %t : i4 to i8""",
        (_AS_FLOATS, _BITS.astype(_UINT4)),
    ),
    "truth values that differ from one": (
        ("bool", "bool"),
        """%zero = arith.constant 0 : i8
    %t = arith.cmpi ne, %v, %zero : i8
    %true = arith.constant true
    %b = arith.cmpi ne, %t, %true : i1
    %r = arith.extui %b : i1 to i8""",
        (_BITS % 3 == 0, _BITS % 3 != 0),
    ),
}


def _module(names: tuple[str, str], operations: str) -> IRModule:
    source, target = (
        {"uint4": "ui4", "float4_e2m1fn": "f4E2M1FN", "bool": "i1"}[d] for d in names
    )
    return IRModule.parse(f"""
func.func @main(%x: tensor<16x{source}>) -> tensor<16x{target}> {{
  %0 = builtin.unrealized_conversion_cast %x
    : tensor<16x{source}> to tuple<tensor<16x{source}>>
  %1 = "relax.call_tir"(%0) {{callee = @work, sizes = #relax.shape<[]>}}
    : (tuple<tensor<16x{source}>>) -> tensor<16x{target}>
  return %1 : tensor<16x{target}>
}}
func.func private @work(%x: memref<16xi8> {{tir.dtype = "{names[0]}"}},
                        %o: memref<16xi8> {{tir.dtype = "{names[1]}"}})
    attributes {{tir.prim_func, tir.num_outputs = 1 : i64}} {{
  "tir.block"() ({{}}, {{
  ^bb0(%i: index):
    %v = memref.load %x[%i] : memref<16xi8>
    {operations}
    memref.store %r, %o[%i] : memref<16xi8>
    gpu.yield
  }}) {{name = "work", kinds = "S", static_extents = array<i64: 16>,
      operandSegmentSizes = array<i32: 0, 0>}} : () -> ()
  return
}}""")


@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_script_keeps_the_bits_of_elements(name: str) -> None:
    names, operations, (given, expected) = _PROGRAMS[name]
    module = _module(names, operations)

    for each in (module, from_source(module.script())):
        (actual,) = relax_mlir.compile(each, cache=False)(given)
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize(
    ("operator", "source", "target"),
    [
        ("relax.astype", "float6_e2m3fn", "float32"),
        ("relax.astype", "float32", "float6_e3m2fn"),
        ("relax.bitcast", "float16", "bfloat16"),
    ],
)
def test_a_script_keeps_casts_and_bits(operator: str, source: str, target: str) -> None:
    x = Var("x", TensorStructInfo((16,), source))
    module = LegalizeOps()(program([x], operator_function(operator)(x, target)))
    given = np.linspace(-2, 2, 16).astype(dtypes.dtype(source).numpy)
    bits = given.view(dtypes.dtype(target).numpy) if "bitcast" in operator else None

    (actual,) = relax_mlir.compile(from_source(module.script()), cache=False)(given)

    expected = given.astype(dtypes.dtype(target).numpy) if bits is None else bits
    np.testing.assert_array_equal(
        actual.astype(np.float32), expected.astype(np.float32)
    )
