"""``DataflowUseInplaceCalls``: elementwise operators overwrite dead arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    GlobalVar,
    Id,
    Op,
    VarBinding,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.objects.stmt.functor import substitute
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.analysis.inplace import find_inplace_opportunities

__all__ = ["DataflowUseInplaceCalls", "InplaceCalls"]


@dataclass(frozen=True)
class DataflowUseInplaceCalls(Pass):
    """Makes elementwise operators of dataflow blocks overwrite a dead argument.

    They become calls of tensor programs, by ``call_tir_inplace``. The argument must have
    the shape of the result; parameters are never overwritten.
    """

    def run(self, module: IRModule) -> None:
        rewriter = InplaceCalls(module)
        for var, function in module.functions.items():
            if isinstance(function, Function):
                rewriter.builder_.update_func(var, rewriter.visit_expr(function))
        module.replace_contents(rewriter.finished())


class InplaceCalls(PyExprMutator):
    """Replaces calls of operators by calls of programs that overwrite an argument."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.known = {var.name_hint for var in mod.get_global_vars()}
        self.out_of_place: set[str] = set()  # programs that write to new tensors
        self.chosen: dict[Id, int] = {}

    def finished(self) -> IRModule:
        """Returns the module, without intermediate out-of-place programs."""
        module = self.builder_.get().clone()
        for name in self.out_of_place:
            del module[name]
        return module

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Visits a block; calls overwrite dead arguments where they can."""
        outer = self.chosen
        exact = find_inplace_opportunities(block, ())[1]
        # Of several arguments that fit, TVM takes the last.
        self.chosen = {
            block.bindings[opportunity.binding_idx].var.vid: opportunity.arg_idxs[-1]
            for opportunity in exact
        }
        new_block = super().visit_dataflow_block_(block)
        self.chosen = outer
        return new_block

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Visits a binding; its call becomes in-place if an argument was chosen."""
        arg_index = self.chosen.get(binding.var.vid)
        if arg_index is not None and isinstance(binding.value, Call):
            call = self.inplace(binding.value, [arg_index])
            binding = VarBinding(binding.var, call, binding.span)
        super().visit_var_binding_(binding)

    def inplace(self, call: Call, inplace_indices: Sequence[int]) -> Call:
        """Returns the call that writes its results over these arguments.

        Raises:
            PassError: the operator is not legalized to one tensor program.
        """
        name = call.op.name if isinstance(call.op, Op) else str(call.op)
        rule = Op.with_attr("FLegalize").get(name)
        legalized = None if rule is None else rule(self.builder_, call)
        if not isinstance(legalized, Call) or legalized.op != Op.of("relax.call_tir"):
            raise PassError(
                f"`{name}`: expected an operator that becomes one tensor program"
            )
        out_of_place = legalized.args[0]
        assert isinstance(out_of_place, GlobalVar)
        if out_of_place.name_hint not in self.known:
            self.out_of_place.add(out_of_place.name_hint)
        program = _alias_outputs(self.builder_.get()[out_of_place], inplace_indices)
        callee = self.builder_.add_func(program, f"{out_of_place.name_hint}_inplace")
        attrs = {"inplace_indices": list(inplace_indices)}
        return Call(
            Op.of("relax.call_tir_inplace"),
            [callee, *legalized.args[1:]],
            attrs,
            legalized.sinfo_args,
        )


def _alias_outputs(program: PrimFunc, inplace_indices: Sequence[int]) -> PrimFunc:
    """Returns the program with its outputs aliased to these parameters."""
    reader, body = program.read()
    count = len(reader.params) - len(inplace_indices)
    replaced = {
        id(reader.buffer_map[out]): reader.buffer_map[reader.params[index]]
        for out, index in zip(reader.params[count:], inplace_indices, strict=True)
    }
    new_body = substitute(body, {}, replaced)
    params, buffers = reader.params[:count], reader.buffer_map
    return PrimFunc(params, new_body, program.ret_type, buffers, program.attrs)
