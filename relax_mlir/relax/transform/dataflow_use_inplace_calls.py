"""``DataflowUseInplaceCalls``: results are written over arguments that are done with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    GlobalVar,
    Id,
    Op,
    VarBinding,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.stmt_functor import substitute
from relax_mlir.relax.analysis.inplace import find_inplace_opportunities
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.rewriting import Pass

__all__ = ["DataflowUseInplaceCalls", "InplaceCalls"]


@dataclass(frozen=True)
class DataflowUseInplaceCalls(Pass):
    """Let elementwise operators write over an argument that nothing needs any more.

    They become calls of tensor programs, by ``call_tir_inplace``. Only operators in dataflow
    blocks whose argument has the shape of the result are changed; parameters are not
    written to.
    """

    def run(self, module: IRModule) -> None:
        rewriter = InplaceCalls(module)
        for var, function in module.functions.items():
            if isinstance(function, Function):
                rewriter.builder_.update_func(var, rewriter.visit_expr(function))
        module.become(rewriter.finished())


class InplaceCalls(PyExprMutator):
    """Replaces calls of operators by calls of programs that write over an argument."""

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.known = {var.name_hint for var in mod.get_global_vars()}
        self.plain: set[str] = set()  # programs that write to new tensors
        self.chosen: dict[Id, int] = {}

    def finished(self) -> IRModule:
        """The module, without the programs that it was made by."""
        module = self.builder_.get().clone()
        for name in self.plain:
            del module[name]
        return module

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """A block, whose calls write over arguments where they may."""
        outer = self.chosen
        exact = find_inplace_opportunities(block, ())[1]
        # Of several arguments that fit, TVM takes the last.
        self.chosen = {
            block.bindings[found.binding_idx].var.vid: found.arg_idxs[-1]
            for found in exact
        }
        made = super().visit_dataflow_block_(block)
        self.chosen = outer
        return made

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """A binding, to what is written over an argument if that was chosen."""
        number = self.chosen.get(binding.var.vid)
        if number is not None and isinstance(binding.value, Call):
            call = self.inplace(binding.value, [number])
            binding = VarBinding(binding.var, call, binding.span)
        super().visit_var_binding_(binding)

    def inplace(self, call: Call, inplace_indices: Sequence[int]) -> Call:
        """The call that writes its results over these arguments.

        Raises:
            PassError: nothing says which program the operator becomes.
        """
        name = call.op.name if isinstance(call.op, Op) else str(call.op)
        rule = Op.with_attr("FLegalize").get(name)
        made = None if rule is None else rule(self.builder_, call)
        if not isinstance(made, Call) or made.op != Op.of("relax.call_tir"):
            raise PassError(
                f"`{name}`: expected an operator that becomes one tensor program"
            )
        plain = made.args[0]
        assert isinstance(plain, GlobalVar)
        if plain.name_hint not in self.known:
            self.plain.add(plain.name_hint)
        program = _over(self.builder_.get()[plain], inplace_indices)
        callee = self.builder_.add_func(program, f"{plain.name_hint}_inplace")
        attrs = {"inplace_indices": list(inplace_indices)}
        return Call(
            Op.of("relax.call_tir_inplace"),
            [callee, *made.args[1:]],
            attrs,
            made.sinfo_args,
        )


def _over(program: PrimFunc, inplace_indices: Sequence[int]) -> PrimFunc:
    """The program whose results are written over these parameters."""
    reader, body = program.read()
    count = len(reader.params) - len(inplace_indices)
    replaced = {
        id(reader.buffer_map[out]): reader.buffer_map[reader.params[number]]
        for out, number in zip(reader.params[count:], inplace_indices, strict=True)
    }
    new = substitute(body, {}, replaced)
    kept, buffers = reader.params[:count], reader.buffer_map
    return PrimFunc(kept, new, program.ret_type, buffers, program.attrs)
