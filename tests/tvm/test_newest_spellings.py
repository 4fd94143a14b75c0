"""Semantics of TVM's newest names where they differ from older ones."""

import pytest

from relax_mlir.errors import IRError
from relax_mlir.objects import prim
from relax_mlir.objects.expr import PrimValue, ShapeExpr, StringImm
from relax_mlir.objects.expr.struct_info import PrimStructInfo
from relax_mlir.tvm import ffi


def test_the_type_of_a_scalar_does_not_say_its_value() -> None:
    n = prim.Var("n", "int64")
    value = PrimValue(n + 1)

    assert value.ty == PrimStructInfo("int64")
    assert value.struct_info == PrimStructInfo(value=n + 1)


def test_objects_are_compared_by_their_structure() -> None:
    same, other = StringImm("a"), StringImm("b")

    assert ffi.structural_equal(StringImm("a"), same)
    assert not ffi.structural_equal(other, same)
    assert ffi.structural_hash(StringImm("a")) == ffi.structural_hash(same)
    assert ffi.structural_hash(other) != ffi.structural_hash(same)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_sizes_are_int64(dtype: str) -> None:
    with pytest.raises(IRError, match=f"can only have dtype of int64, got {dtype}"):
        ShapeExpr([prim.Var("n", dtype), 3])
