"""Indices that branches choose, of which LLVM's loop vectorizer makes wrong addresses."""

from collections.abc import Iterator
from ctypes import c_void_p

from relax_mlir.runtime import llvm_c

__all__ = ["freeze_chosen"]

_GET_ELEMENT_PTR, _PHI = 29, 44  # LLVMOpcode
# On integers; casts; calls, of which some are minima and maxima; select.
_ARITHMETIC = {*range(8, 26), 30, 31, 32, _PHI, 45, 46}
_INTEGER = 8  # LLVMTypeKind


def freeze_chosen(code: object) -> None:
    """Freeze integers that a branch in a loop chooses, and that addresses are made of.

    Scalar evolution takes a phi of ``2`` where ``x`` is 0, and of ``x + 2`` elsewhere, for
    ``x + 2``. By that the loop vectorizer of LLVM 22 proves a masked access consecutive, and
    computes its address of the phi's value in the first lane. Where the mask leaves that
    lane out, that value is any of the two, and the other lanes access memory elsewhere.
    Scalar evolution knows nothing of a frozen value.
    """
    llvm = llvm_c.llvm()
    with llvm_c.builder(code) as builder:
        for function in llvm_c.functions(code):
            found = [phi for phi in _phis(function) if _makes_addresses(phi)]
            heads = _loop_heads(function) if found else set()
            for phi in found:
                if llvm.LLVMGetInstructionParent(phi) not in heads:
                    _freeze(phi, builder)


def _phis(function: c_void_p) -> Iterator[c_void_p]:
    """The phis of integers, of several values."""
    llvm = llvm_c.llvm()
    block = llvm.LLVMGetFirstBasicBlock(function)
    while block:
        op = c_void_p(llvm.LLVMGetFirstInstruction(c_void_p(block)))
        while llvm.LLVMGetInstructionOpcode(op) == _PHI:
            kind = llvm.LLVMGetTypeKind(c_void_p(llvm.LLVMTypeOf(op)))
            if kind == _INTEGER and llvm.LLVMCountIncoming(op) > 1:
                yield op
            op = c_void_p(llvm.LLVMGetNextInstruction(op))
        block = llvm.LLVMGetNextBasicBlock(c_void_p(block))


def _makes_addresses(phi: c_void_p) -> bool:
    """Whether arithmetic makes an address of an integer."""
    llvm = llvm_c.llvm()
    waiting, seen = [phi], {phi.value}
    while waiting:
        for user in llvm_c.users(waiting.pop()):
            opcode = llvm.LLVMGetInstructionOpcode(user)
            if opcode == _GET_ELEMENT_PTR:
                return True
            if opcode in _ARITHMETIC and user.value not in seen:
                seen.add(user.value)
                waiting.append(user)
    return False


def _loop_heads(function: c_void_p) -> set[int]:
    """The blocks that a block inside of their loop leads back to."""
    llvm = llvm_c.llvm()
    entry = llvm.LLVMGetFirstBasicBlock(function)
    heads: set[int] = set()
    seen, open_blocks = {entry}, {entry}
    path = [(entry, iter(_successors(entry)))]
    while path:
        block, left = path[-1]
        following = next(left, None)
        if following is None:
            path.pop()
            open_blocks.remove(block)
        elif following in open_blocks:
            heads.add(following)
        elif following not in seen:
            seen.add(following)
            open_blocks.add(following)
            path.append((following, iter(_successors(following))))
    return heads


def _successors(block: int) -> list[int]:
    llvm = llvm_c.llvm()
    last = c_void_p(llvm.LLVMGetBasicBlockTerminator(c_void_p(block)))
    count = llvm.LLVMGetNumSuccessors(last)
    return [llvm.LLVMGetSuccessor(last, number) for number in range(count)]


def _freeze(phi: c_void_p, builder: c_void_p) -> None:
    """Let all users of a phi use a frozen copy."""
    llvm = llvm_c.llvm()
    place = phi
    while llvm.LLVMGetInstructionOpcode(place) == _PHI:
        place = c_void_p(llvm.LLVMGetNextInstruction(place))
    llvm.LLVMPositionBuilderBefore(builder, place)
    frozen = c_void_p(llvm.LLVMBuildFreeze(builder, phi, b""))
    llvm.LLVMReplaceAllUsesWith(phi, frozen)
    llvm.LLVMSetOperand(frozen, 0, phi)
