"""``tir-fuse-attention``: fuses attention (matmul, softmax, matmul) into one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeGuard

from mlir import ir

from relax_mlir.analysis.contraction import match_contraction
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.ir.use_def import users_of
from relax_mlir.passes.tir.fuse import concatenate_programs, fuse_primitives
from relax_mlir.passes.tir.prim_func_copies import PrimFuncCopies
from relax_mlir.passes.tir.to_linalg import ToLinalg
from relax_mlir.rewrite.functions import build_primitive, outline_calls
from relax_mlir.rewrite.patterns import Pass, erase
from relax_mlir.schedules.cpu.attention import Attention as CpuAttention
from relax_mlir.schedules.gpu.attention import Attention as GpuAttention
from relax_mlir.schedules.kernel_view import read_kernel
from relax_mlir.schedules.rule import NotApplicable
from relax_mlir.schedules.target_features import Gpu, VectorUnit

__all__ = ["FuseAttention"]


@dataclass(frozen=True)
class FuseAttention(Pass):
    """Merge the two matmuls of an attention, and everything between them, into one program.

    The blocks are concatenated for the rule ``Attention``, which runs all of them on tiles of
    a few rows of scores. Chains that the rule does not accept, or whose intermediate values
    have other users, stay as they are, as do those where fusion does not pay: on a CPU,
    matmuls with constants, which are prepacked, heads so large that the matmuls dominate, and
    machines whose bf16 matmuls are faster than the rule.

    Args:
        unit: vector features of a CPU.
        gpu: the target device; with ``sm`` 0, the target is a CPU.
    """

    unit: VectorUnit = VectorUnit()
    gpu: Gpu = Gpu(sm=0)

    def run(self, module: IRModule) -> None:
        rule = GpuAttention(self.gpu) if self.gpu.sm else CpuAttention(self.unit)
        chains = _Chains(module, rule)
        found = [chain for call in chains.copies.calls() if (chain := chains.to(call))]
        for chain in found:
            names = [c.attributes["callee"].value for c in chain]
            name = chains.copies.fresh_name("_".join(["fused", *names])[:80])
            outline_calls(module, chain, name)
        if found:
            chains.copies.erase_dead()
            fuse_primitives(module, concatenate_programs)


class _Chains:
    """Finds chains of calls from one matmul to another.

    Args:
        module: the module; rule: the schedule rule that must accept the fused program.

    Attributes:
        copies: the programs of the module.
    """

    def __init__(self, module: IRModule, rule: CpuAttention | GpuAttention) -> None:
        self._module, self._rule = module, rule
        self.copies = PrimFuncCopies(module)
        self._matmuls: dict[str, bool] = {}
        self._answers: dict[tuple[str, frozenset[int]], bool] = {}
        self._used: set[CallTirOp] = set()

    def to(self, last: CallTirOp) -> list[CallTirOp] | None:
        """The calls from the first matmul to ``last``, if that is the second; else None.

        None of them belongs to a chain found earlier.
        """
        if not self._is_matmul(last):
            return None
        found = next(filter(self._is_profitable, self._leading_to(last)), None)
        self._used.update(found or ())
        return found

    def _leading_to(self, last: CallTirOp) -> Iterator[list[CallTirOp]]:
        """Chains from a matmul to ``last``, each of whose links has a single user."""
        unfinished = [[last]]
        while unfinished:
            chain = unfinished.pop()
            for value in tensors.tuple_elements(chain[0].args):
                source = value.owner
                if not self._is_link(source) or list(users_of(value)) != chain[:1]:
                    continue
                longer = [source, *chain]
                if self._is_matmul(source):
                    yield longer
                else:
                    unfinished.append(longer)

    def _is_link(self, source: object) -> TypeGuard[CallTirOp]:
        """Whether a value's owner may be in a chain: a call of a known program."""
        if not isinstance(source, CallTirOp) or source in self._used:
            return False
        return self.copies.callee(source) is not None

    def _is_matmul(self, call: CallTirOp) -> bool:
        name = call.attributes["callee"].value
        if name not in self._matmuls:
            program = self.copies.callee(call)
            is_one = program is not None and match_contraction(program) is not None
            self._matmuls[name] = is_one
        return self._matmuls[name]

    def _is_profitable(self, chain: Sequence[CallTirOp]) -> bool:
        """Whether the rule accepts the fused program, and fusion is expected to be faster."""
        trial = self._module.alone()
        with ir.InsertionPoint(trial.mlir.body):
            primitive, inputs = build_primitive(chain, "attention")
            constants = frozenset(
                number
                for number, value in enumerate(inputs)
                if isinstance(value.owner, ConstantOp)
            )
            key = str(primitive), constants
            if key not in self._answers:
                concatenate_programs(primitive, self.copies.programs)
                erase(primitive)
                self._answers[key] = _pays(trial, self._rule, constants)
        return self._answers[key]


def _pays(
    trial: IRModule, rule: CpuAttention | GpuAttention, constants: AbstractSet[int]
) -> bool:
    """Whether a rule accepts the single program of a module, and is expected to be faster.

    Args:
        constants: the indices of its constant arguments.
    """
    ToLinalg().run(trial)
    (program,) = trial.func_ops()
    terminator = list(own_operations(program.entry_block))[-1]
    with ir.InsertionPoint(terminator):
        try:
            plan = rule.plan(read_kernel(program))
        except NotApplicable:
            return False
    return rule.pays(plan, {program.arguments[number] for number in constants})
