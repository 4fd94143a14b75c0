"""Legalization of masked loads of bf16 vectors, as loads of 16-bit integers."""

import re
from ctypes import c_void_p

from relax_mlir.codegen import llvm_c

__all__ = ["legalize_bf16_masked_loads"]

_NAME = re.compile(r"llvm\.masked\.load\.v\d+bf16\.p0")
_ALIGNMENT = 2  # bytes, of one element


def legalize_bf16_masked_loads(code: object) -> None:
    """Replace masked loads of bf16 in an LLVM module by loads of i16 and bitcasts.

    LLVM's SLP vectorizer creates them from strided loads, with any number of lanes. For CPUs
    with ``avx512bf16``, code generation of LLVM 22 aborts the process on some, such as one of
    34 lanes with a constant mask.
    """
    calls = llvm_c.calls_of(code, _NAME)
    if calls:
        with llvm_c.builder(code) as builder:
            for call in calls:
                _replace(code, builder, call)


def _replace(code: object, builder: c_void_p, call: c_void_p) -> None:
    llvm = llvm_c.llvm()
    context = c_void_p(llvm.LLVMGetModuleContext(code))
    pointer, mask, other = (
        c_void_p(llvm.LLVMGetOperand(call, number)) for number in range(3)
    )
    type_ = c_void_p(llvm.LLVMTypeOf(call))
    integer = c_void_p(llvm.LLVMInt16TypeInContext(context))
    wide = c_void_p(llvm.LLVMVectorType(integer, llvm.LLVMGetVectorSize(type_)))
    name = b"llvm.masked.load"
    number = llvm.LLVMLookupIntrinsicID(name, len(name))
    types = (c_void_p * 2)(wide, llvm.LLVMTypeOf(pointer))
    load = c_void_p(llvm.LLVMGetIntrinsicDeclaration(code, number, types, 2))
    signature = c_void_p(llvm.LLVMGlobalGetValueType(load))
    llvm.LLVMPositionBuilderBefore(builder, call)
    passed = llvm.LLVMBuildBitCast(builder, other, wide, b"")
    args = (c_void_p * 3)(pointer, mask, passed)
    loaded = c_void_p(llvm.LLVMBuildCall2(builder, signature, load, args, 3, b""))
    llvm.LLVMSetInstrParamAlignment(loaded, 1, _ALIGNMENT)
    back = c_void_p(llvm.LLVMBuildBitCast(builder, loaded, type_, b""))
    llvm.LLVMReplaceAllUsesWith(call, back)
    llvm.LLVMInstructionEraseFromParent(call)
