"""Legalization of masked stores whose mask is a constant, as stores of single elements."""

import re
from collections.abc import Iterator
from ctypes import c_void_p

from relax_mlir.codegen import llvm_c

__all__ = ["scalarize_truncated_masked_stores"]

_NAME = re.compile(r"llvm\.masked\.store\.v\d+i(8|16|32)\.p0")
_TRUNC = 30  # LLVMOpcode


def scalarize_truncated_masked_stores(code: object) -> None:
    """Replace masked stores that code generation of LLVM 22 makes too wide.

    For CPUs with AVX-512 it takes the truncation of a vector into the masked store of it.
    Where the mask is a constant of a single lane, it then stores that lane as wide as it
    was before: eight bytes of an i64 that becomes an i32, of which four belong to another
    element, or to none. Stores of more lanes may be divided into such ones, so all of
    truncated vectors are replaced.
    """
    calls = llvm_c.calls_of(code, _NAME)
    if calls:
        with llvm_c.builder(code) as builder:
            for call in calls:
                _replace(code, builder, call)


def _replace(code: object, builder: c_void_p, call: c_void_p) -> None:
    llvm = llvm_c.llvm()
    value, pointer, mask = (
        c_void_p(llvm.LLVMGetOperand(call, number)) for number in range(3)
    )
    if not llvm.LLVMIsConstant(mask):
        return
    lanes = list(_lanes_of(mask))
    if len(lanes) != 1 and not _is_truncated(value):
        return
    context = c_void_p(llvm.LLVMGetModuleContext(code))
    index = c_void_p(llvm.LLVMInt64TypeInContext(context))
    element = c_void_p(llvm.LLVMGetElementType(llvm.LLVMTypeOf(value)))
    llvm.LLVMPositionBuilderBefore(builder, call)
    for lane in lanes:
        number = c_void_p(llvm.LLVMConstInt(index, lane, 0))
        stored = llvm.LLVMBuildExtractElement(builder, value, number, b"")
        offsets = (c_void_p * 1)(number)
        place = llvm.LLVMBuildGEP2(builder, element, pointer, offsets, 1, b"")
        store = llvm.LLVMBuildStore(builder, stored, place)
        llvm.LLVMSetAlignment(store, 1)
    llvm.LLVMInstructionEraseFromParent(call)


def _lanes_of(mask: c_void_p) -> Iterator[int]:
    """The lanes that hold in a constant mask; those that are undefined do not."""
    llvm = llvm_c.llvm()
    for lane in range(llvm.LLVMGetVectorSize(llvm.LLVMTypeOf(mask))):
        bit = llvm.LLVMGetAggregateElement(mask, lane)
        if llvm.LLVMIsAConstantInt(bit) and llvm.LLVMConstIntGetZExtValue(bit):
            yield lane


def _is_truncated(value: c_void_p) -> bool:
    llvm = llvm_c.llvm()
    if not llvm.LLVMIsAInstruction(value):
        return False
    return llvm.LLVMGetInstructionOpcode(value) == _TRUNC
