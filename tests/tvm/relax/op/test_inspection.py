"""Operators that inspect a tensor at run time."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir.errors import OperatorError
from relax_mlir.objects.expr import Call
from relax_mlir.tvm import relax

X = relax.Var("x", relax.TensorStructInfo(dtype="", ndim=-1))


@pytest.mark.parametrize(
    ("asked", "name", "dtype"),
    [
        (X.dtype.type_code, "tensor_dtype_code", "uint8"),
        (X.dtype.bits, "tensor_dtype_bits", "uint8"),
        (X.dtype.lanes, "tensor_dtype_lanes", "uint16"),
        (X.ndim, "tensor_ndim", "int32"),
        (X.shape[1], "tensor_shape_i", "int64"),
        (X.strides[1], "tensor_stride_i", "int64"),
        (X.byte_offset, "tensor_byte_offset", "uint64"),
        (X.elem_offset, "tensor_elem_offset", "uint64"),
    ],
)
def test_what_a_tensor_is_asked_is_a_scalar(asked: Call, name: str, dtype: str) -> None:
    assert asked.op == relax_mlir.tvm.ir.Op.get(f"relax.inspect.{name}")
    known = relax.BlockBuilder().normalize(asked).struct_info
    assert known == relax.PrimStructInfo(dtype)


def test_a_tensor_has_its_axes_only() -> None:
    x = relax.Var("x", relax.TensorStructInfo((5, 3)))

    with pytest.raises(OperatorError, match="expected an axis of 2, got 2"):
        relax.BlockBuilder().normalize(relax.op.inspect.tensor_shape_i(x, 2))


def test_the_answers_are_those_of_the_array() -> None:
    builder = relax.BlockBuilder()
    with builder.function("main", [X]):
        asked = [X.ndim, X.shape[0], X.strides[0], X.dtype.bits]
        builder.emit_func_output(relax.Tuple(list(map(builder.emit, asked))))
    machine = relax.VirtualMachine(
        relax_mlir.compile(builder.get()), relax_mlir.tvm.cpu()
    )

    found = machine["main"](relax_mlir.tvm.nd.array(np.zeros((5, 3), "int16")))

    assert [int(answer) for answer in found] == [2, 5, 3, 16]
