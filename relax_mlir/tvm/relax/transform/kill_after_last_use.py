"""``KillAfterLastUse``: frees tensors and storages after their last use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    Binding,
    Call,
    Constant,
    Expr,
    Id,
    MatchCast,
    Op,
    SeqExpr,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.op.storage import memory, vm
from relax_mlir.tvm.relax.transform.function_rewriting import rewrite_functions
from relax_mlir.tvm.relax.transform.passes.canonicalize_bindings import (
    CanonicalizeBindings,
)

__all__ = ["KillAfterLastUse"]

_STORAGE = tuple(Op.of(f"relax.{name}.alloc_storage") for name in ("memory", "vm"))
_KILLS = tuple(
    Op.of(f"relax.{name}")
    for name in ("memory.kill_tensor", "memory.kill_storage", "vm.kill_object")
)
_NULL = Op.of("relax.null_value")
_UNKILLED = (FuncStructInfo, ShapeStructInfo, PrimStructInfo)  # plain values


@dataclass(frozen=True)
class KillAfterLastUse(Pass):
    """Inserts kills of tensors, storages and other objects after their last use.

    Parameters, constants, shapes and results of the function are never killed, nor are
    values with an explicit kill.
    """

    def run(self, module: IRModule) -> None:
        CanonicalizeBindings().run(module)
        module.forget_scopes()
        rewrite_functions(module, lambda function: _Killer().visit_expr(function))


@dataclass
class _Liveness(PyExprVisitor):
    """Liveness of the variables of a sequence: the last use of each, in order.

    A use in a branch or in a nested function counts as a use by its outer binding.
    """

    last_use: dict[Id, Id | None] = field(default_factory=dict)
    bound: dict[Id, Binding] = field(default_factory=dict)
    killed: set[Id] = field(default_factory=set)
    current: Id | None = None  # None while visiting the result of the sequence

    def visit_binding(self, binding: Binding) -> None:
        outer, value = self.current, binding.value
        if outer is None:
            self.bound[binding.var.vid] = binding
            self.current = binding.var.vid
        if isinstance(value, Call) and value.op in _KILLS and len(value.args) == 1:
            (operand,) = value.args
            assert isinstance(operand, Var)
            self.killed.add(operand.vid)
        else:
            super().visit_binding(binding)
        self.current = outer

    def visit_var_(self, op: Var) -> None:
        self.last_use[op.vid] = self.current

    visit_dataflow_var_ = visit_var_

    def kills(self) -> dict[Id, list[Expr]]:
        """Returns the kills to insert after each binding, by its variable."""
        order = (_kill_tensor, _kill_storage, _kill_object)
        killed_by_user: dict[Id, dict[Callable[[Var], Expr], list[Var]]] = {}
        for vid, binding in self.bound.items():
            user = self.last_use.get(vid)
            kill = _kill_for(binding)
            if user is not None and vid not in self.killed and kill is not None:
                vars_by_kill = killed_by_user.setdefault(
                    user, {kill_op: [] for kill_op in order}
                )
                vars_by_kill[kill].append(binding.var)
        return {
            vid: [
                kill(var)
                for kill, killed_vars in vars_by_kill.items()
                for var in killed_vars
            ]
            for vid, vars_by_kill in killed_by_user.items()
        }


def _kill_tensor(var: Var) -> Expr:
    return memory.kill_tensor(var)


def _kill_storage(var: Var) -> Expr:
    return memory.kill_storage(var)


def _kill_object(var: Var) -> Expr:
    return vm.kill_object(var)


def _kill_for(binding: Binding) -> Callable[[Var], Expr] | None:
    """Returns the kill operation for the variable of a binding, or None."""
    value = binding.value
    if isinstance(value, Call) and value.op in _STORAGE:
        return _kill_storage
    is_plain = isinstance(value, Constant) and not isinstance(binding, MatchCast)
    info = binding.var.struct_info_or_none()
    if is_plain or isinstance(info, _UNKILLED):
        return None
    if isinstance(value, Call) and value.op == _NULL:
        return None
    return _kill_tensor if isinstance(info, TensorStructInfo) else _kill_object


class _Killer(PyExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.kills: dict[Id, list[Expr]] = {}
        self.unread: set[Id] = set()

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        """Visits a sequence; drops unread aliases of variables."""
        outer = self.kills
        liveness = _Liveness()
        liveness.visit_expr(op)
        self.kills = liveness.kills()
        self.unread |= {
            vid
            for vid, binding in liveness.bound.items()
            if _is_alias(binding) and vid not in liveness.last_use
        }
        new_seq = super().visit_seq_expr_(op)
        self.kills = outer
        return new_seq

    def visit_binding(self, binding: Binding) -> None:
        """Emits a binding, then kills the values that it uses last."""
        vid = binding.var.vid
        if vid in self.unread:
            return
        super().visit_binding(binding)
        for kill in self.kills.get(vid, ()):
            self.builder_.emit(kill, "_")


def _is_alias(binding: Binding) -> bool:
    """Returns whether a binding is a mere alias of another variable."""
    value = binding.value
    if not isinstance(value, Var):
        return False
    if isinstance(binding, VarBinding):
        return True
    return binding.var.struct_info_or_none() == value.struct_info_or_none()
