"""``tir-fuse-attention``: two products, and what lies between them, become one program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from relax_mlir.schedules.cpu.attention import Attention
from relax_mlir.schedules.nest import point_count, read_kernel
from relax_mlir.schedules.rule import Refusal, VectorUnit

__all__ = ["FuseAttention"]

_MOST_PRODUCTS = 512  # of a score; computing more hides bringing it from memory


@dataclass(frozen=True)
class FuseAttention(UnitPass):
    """Merge the products of an attention, and what lies between them, into one program.

    The blocks follow each other as they are, for the rule ``Attention``, which takes a
    few rows of scores through all of them. What it would not take stays apart, and so
    does what others read, too. Where it would not pay nothing changes either: for products
    with constants, which are packed ahead, for heads so large that products take all the
    time, and where the machine sums products of bf16 faster than the rule does.
    """

    def run(self, module: IRModule) -> None:
        chains = _Chains(module, self.unit)
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
        module: where they stand; unit: the vectors of the machine.

    Attributes:
        copies: the programs of the module.
    """

    def __init__(self, module: IRModule, unit: VectorUnit) -> None:
        self._module, self._unit = module, unit
        self.copies = ProgramCopies(module)
        self._products: dict[str, bool] = {}
        self._columns: dict[str, tuple[int, ...]] = {}
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
            key = str(primitive)
            if key not in self._columns:
                merge_in_order(primitive, self.copies.programs)
                erase(primitive)
                self._columns[key] = _columns_of(trial, self._unit)
        columns = self._columns[key]
        # Constants are packed when the model is compiled, for products of their own.
        return bool(columns) and not any(
            isinstance(inputs[number].owner, ConstantOp) for number in columns
        )


def _columns_of(trial: IRModule, unit: VectorUnit) -> tuple[int, ...]:
    """Which arguments of the one program of a module are keys and values.

    None, if the rule does not take it or does not pay.
    """
    ToLinalg().run(trial)
    (program,) = trial.func_ops()
    terminator = list(program.entry_block.operations)[-1]
    with ir.InsertionPoint(terminator):
        try:
            plan = Attention(unit).plan(read_kernel(program))
        except Refusal:
            return ()
    scores, values = plan.scores.anchor.extents, plan.values.anchor.extents
    sizes = [scores[axis] for axis in plan.scores.k]
    columns = [values[axis] for axis in plan.values.n]
    if point_count(sizes) + point_count(columns) > _MOST_PRODUCTS:
        return ()
    read = (plan.scores.b.buffer, plan.values.b.buffer)
    return tuple(ir.BlockArgument(buffer).arg_number for buffer in read)
