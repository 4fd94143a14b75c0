"""``tir-fuse-attention``: two products, and what lies between them, become one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeGuard

from mlir import ir

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, ConstantOp
from relax_mlir.graphs import function_of_calls, outline_calls, users_of
from relax_mlir.module import IRModule
from relax_mlir.passes.tir.fuse import fuse_primitives, merge_in_order
from relax_mlir.passes.tir.program_copies import ProgramCopies
from relax_mlir.passes.tir.sums import sum_of_products
from relax_mlir.passes.tir.to_linalg import ToLinalg
from relax_mlir.passes.unit_pass import UnitPass
from relax_mlir.rewriting import erase
from relax_mlir.schedules.cpu.attention import Attention as CpuAttention
from relax_mlir.schedules.gpu.attention import Attention as GpuAttention
from relax_mlir.schedules.gpu.rule import Gpu
from relax_mlir.schedules.nest import read_kernel
from relax_mlir.schedules.rule import Refusal
from relax_mlir.traversal import own_operations

__all__ = ["FuseAttention"]


@dataclass(frozen=True)
class FuseAttention(UnitPass):
    """Merge the products of an attention, and what lies between them, into one program.

    The blocks follow each other as they are, for the rule ``Attention``, which takes a
    few rows of scores through all of them. What it would not take stays apart, and so
    does what others read, too. Where it would not pay nothing changes either: on a CPU for
    products with constants, which are packed ahead, for heads so large that products take
    all the time, and where the machine sums products of bf16 faster than the rule does.

    Args:
        sm: compute capability of the GPU whose rule is asked; 0 for a CPU.
        tf32: whether that may round factors in f32 to 11 bits.
    """

    sm: int = 0
    tf32: bool = False

    def run(self, module: IRModule) -> None:
        gpu = Gpu(self.sm, self.tf32)
        rule = GpuAttention(gpu) if self.sm else CpuAttention(self.unit)
        chains = _Chains(module, rule)
        found = [chain for call in chains.copies.calls() if (chain := chains.to(call))]
        for chain in found:
            names = [c.attributes["callee"].value for c in chain]
            name = chains.copies.fresh_name("_".join(["fused", *names])[:80])
            outline_calls(module, chain, name)
        if found:
            chains.copies.drop_unread()
            fuse_primitives(module, merge_in_order)


class _Chains:
    """Finds calls that may become one, in order.

    Args:
        module: where they stand; rule: what takes them.

    Attributes:
        copies: the programs of the module.
    """

    def __init__(self, module: IRModule, rule: CpuAttention | GpuAttention) -> None:
        self._module, self._rule = module, rule
        self.copies = ProgramCopies(module)
        self._products: dict[str, bool] = {}
        self._answers: dict[tuple[str, frozenset[int]], bool] = {}
        self._used: set[CallTirOp] = set()

    def to(self, last: CallTirOp) -> list[CallTirOp] | None:
        """The calls from the first product to ``last``, if that is the second.

        None of them is in a chain that was found before.
        """
        if not self._is_product(last):
            return None
        found = next(filter(self._is_taken, self._leading_to(last)), None)
        self._used.update(found or ())
        return found

    def _leading_to(self, last: CallTirOp) -> Iterator[list[CallTirOp]]:
        """Chains from a product to ``last``, each link read by the next alone."""
        unfinished = [[last]]
        while unfinished:
            chain = unfinished.pop()
            for value in tensors.elements(chain[0].args):
                source = value.owner
                if not self._is_link(source) or list(users_of(value)) != chain[:1]:
                    continue
                longer = [source, *chain]
                if self._is_product(source):
                    yield longer
                else:
                    unfinished.append(longer)

    def _is_link(self, source: object) -> TypeGuard[CallTirOp]:
        """Whether a value's owner may be in a chain: it calls a program that is known."""
        if not isinstance(source, CallTirOp) or source in self._used:
            return False
        return self.copies.called(source) is not None

    def _is_product(self, call: CallTirOp) -> bool:
        name = call.attributes["callee"].value
        if name not in self._products:
            program = self.copies.called(call)
            is_one = program is not None and sum_of_products(program) is not None
            self._products[name] = is_one
        return self._products[name]

    def _is_taken(self, chain: Sequence[CallTirOp]) -> bool:
        """Whether the rule takes the program that calls would become, and it pays."""
        trial = self._module.alone()
        with ir.InsertionPoint(trial.mlir.body):
            primitive, inputs = function_of_calls(chain, "attention")
            constants = frozenset(
                number
                for number, value in enumerate(inputs)
                if isinstance(value.owner, ConstantOp)
            )
            key = str(primitive), constants
            if key not in self._answers:
                merge_in_order(primitive, self.copies.programs)
                erase(primitive)
                self._answers[key] = _pays(trial, self._rule, constants)
        return self._answers[key]


def _pays(
    trial: IRModule, rule: CpuAttention | GpuAttention, constants: AbstractSet[int]
) -> bool:
    """Whether a rule takes the one program of a module, and gains by it.

    Args:
        constants: the numbers of its arguments that are constants.
    """
    ToLinalg().run(trial)
    (program,) = trial.func_ops()
    terminator = list(own_operations(program.entry_block))[-1]
    with ir.InsertionPoint(terminator):
        try:
            plan = rule.plan(read_kernel(program))
        except Refusal:
            return False
    return rule.pays(plan, {program.arguments[number] for number in constants})
