"""Masked stores with constant masks write their lanes, and nothing beside."""

from ctypes import byref, c_void_p

import ml_dtypes
import numpy as np
import pytest

import relax_mlir
from relax_mlir.codegen import llvm_c
from relax_mlir.codegen.masked_stores import scalarize_truncated_masked_stores
from relax_mlir.tvm.script import from_source
from tests.differential.check import TARGETS, guarded

_SIZES = (1, 3, 9, 17, 33, 65)
_NARROWER = [
    *(("int64", narrow) for narrow in ("int32", "int16", "int8", "bool")),
    *(("int32", narrow) for narrow in ("int16", "uint8")),
    ("int16", "int8"),
    ("float64", "int32"),
    ("float32", "bfloat16"),
]
_STORE = """
define void @store(ptr %p, <4 x i64> %wide) {
  %v = VALUE
  call void @llvm.masked.store.v4i32.p0(<4 x i32> %v, ptr align 4 %p, <4 x i1> <MASK>)
  ret void
}
"""
_CALL, _STORED = 45, 28  # LLVMOpcode


@pytest.mark.slow
@pytest.mark.parametrize(
    "bits",
    [
        pytest.param(b, marks=[] if b == 512 else pytest.mark.every_case)
        for b in TARGETS
    ],
)
@pytest.mark.parametrize(("source", "target"), _NARROWER)
def test_casts_of_any_size_write_their_own_elements(
    source: str, target: str, bits: int
) -> None:
    """One cast of each size, between guard pages."""
    params = ", ".join(f'x{n}: R.Tensor(({n},), "{source}")' for n in _SIZES)
    casts = ", ".join(f'R.astype(x{n}, "{target}")' for n in _SIZES)
    module = from_source(
        "@I.ir_module\nclass Module:\n    @R.function\n"
        f"    def main({params}):\n        return ({casts})\n"
    )
    arrays = [np.arange(n).astype(source) % 100 for n in _SIZES]
    kind = ml_dtypes.bfloat16 if target == "bfloat16" else target

    with guarded(True):
        found = relax_mlir.compile(module, TARGETS[bits], cache=False)(*arrays)

    for array, result in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(np.asarray(result), array.astype(kind))


@pytest.mark.parametrize(
    ("value", "mask", "stored"),
    [
        ("trunc <4 x i64> %wide to <4 x i32>", "i1 1, i1 0, i1 0, i1 0", 1),
        ("trunc <4 x i64> %wide to <4 x i32>", "i1 0, i1 0, i1 1, i1 undef", 1),
        ("trunc <4 x i64> %wide to <4 x i32>", "i1 1, i1 1, i1 1, i1 0", 3),
        ("trunc <4 x i64> %wide to <4 x i32>", "i1 0, i1 0, i1 0, i1 0", 0),
        ("load <4 x i32>, ptr %p", "i1 0, i1 1, i1 0, i1 0", 1),
        ("load <4 x i32>, ptr %p", "i1 1, i1 1, i1 0, i1 0", None),
    ],
)
def test_stores_that_become_stores_of_elements(
    value: str, mask: str, stored: int | None
) -> None:
    with llvm_c.parsed(_STORE.replace("VALUE", value).replace("MASK", mask)) as code:
        scalarize_truncated_masked_stores(code)

        assert not llvm_c.llvm().LLVMVerifyModule(code, 2, byref(c_void_p()))
        opcodes = _opcodes(code)
        assert (_CALL in opcodes) == (stored is None)
        assert opcodes.count(_STORED) == (stored or 0)


def _opcodes(code: object) -> list[int]:
    """The opcodes of the instructions of a module."""
    llvm = llvm_c.llvm()
    found: list[int] = []
    for function in llvm_c.functions(code):
        block = llvm.LLVMGetFirstBasicBlock(function)
        op = llvm.LLVMGetFirstInstruction(c_void_p(block)) if block else None
        while op:
            found.append(llvm.LLVMGetInstructionOpcode(c_void_p(op)))
            op = llvm.LLVMGetNextInstruction(c_void_p(op))
    return found
