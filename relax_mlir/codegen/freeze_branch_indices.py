"""Workaround for a miscompilation of LLVM's loop vectorizer: freezes phis in addresses."""

from collections.abc import Iterator
from ctypes import c_void_p

from relax_mlir.codegen import llvm_c

__all__ = ["freeze_branch_phis"]

_GET_ELEMENT_PTR, _PHI = 29, 44  # LLVMOpcode
# Integer arithmetic; casts; phi; calls such as llvm.smin; select.
_ARITHMETIC = {*range(8, 26), 30, 31, 32, _PHI, 45, 46}
_INTEGER = 8  # LLVMTypeKind


def freeze_branch_phis(code: object) -> None:
    """Freeze integer phis of branches in loops that addresses depend on.

    Scalar evolution simplifies a phi of ``2`` if ``x`` is 0, else ``x + 2``, to ``x + 2``.
    From this the loop vectorizer of LLVM 22 infers that a masked access is consecutive, and
    computes its address from the phi in lane 0. If that lane is masked off, the phi may
    take either value, and the other lanes access wrong addresses. Scalar evolution treats
    a frozen value as opaque.

    Args:
        code: an LLVM module.
    """
    llvm = llvm_c.llvm()
    with llvm_c.builder(code) as builder:
        for function in llvm_c.functions(code):
            phis = [phi for phi in _phis(function) if _is_used_in_address(phi)]
            headers = _loop_headers(function) if phis else set()
            for phi in phis:
                if llvm.LLVMGetInstructionParent(phi) not in headers:
                    _freeze(phi, builder)


def _phis(function: c_void_p) -> Iterator[c_void_p]:
    """The integer phis with several incoming values."""
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


def _is_used_in_address(phi: c_void_p) -> bool:
    """Whether an address depends on an integer through arithmetic."""
    llvm = llvm_c.llvm()
    worklist, visited = [phi], {phi.value}
    while worklist:
        for user in llvm_c.users(worklist.pop()):
            opcode = llvm.LLVMGetInstructionOpcode(user)
            if opcode == _GET_ELEMENT_PTR:
                return True
            if opcode in _ARITHMETIC and user.value not in visited:
                visited.add(user.value)
                worklist.append(user)
    return False


def _loop_headers(function: c_void_p) -> set[int]:
    """The targets of back edges, by depth-first search."""
    llvm = llvm_c.llvm()
    entry = llvm.LLVMGetFirstBasicBlock(function)
    headers: set[int] = set()
    visited, on_path = {entry}, {entry}
    path = [(entry, iter(_successors(entry)))]
    while path:
        block, successors = path[-1]
        successor = next(successors, None)
        if successor is None:
            path.pop()
            on_path.remove(block)
        elif successor in on_path:
            headers.add(successor)
        elif successor not in visited:
            visited.add(successor)
            on_path.add(successor)
            path.append((successor, iter(_successors(successor))))
    return headers


def _successors(block: int) -> list[int]:
    llvm = llvm_c.llvm()
    last = c_void_p(llvm.LLVMGetBasicBlockTerminator(c_void_p(block)))
    count = llvm.LLVMGetNumSuccessors(last)
    return [llvm.LLVMGetSuccessor(last, number) for number in range(count)]


def _freeze(phi: c_void_p, builder: c_void_p) -> None:
    """Replace all uses of a phi by a ``freeze`` of it."""
    llvm = llvm_c.llvm()
    insertion_point = phi
    while llvm.LLVMGetInstructionOpcode(insertion_point) == _PHI:
        insertion_point = c_void_p(llvm.LLVMGetNextInstruction(insertion_point))
    llvm.LLVMPositionBuilderBefore(builder, insertion_point)
    frozen = c_void_p(llvm.LLVMBuildFreeze(builder, phi, b""))
    llvm.LLVMReplaceAllUsesWith(phi, frozen)
    llvm.LLVMSetOperand(frozen, 0, phi)
