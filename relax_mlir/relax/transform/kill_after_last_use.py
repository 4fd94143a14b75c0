"""``KillAfterLastUse``: tensors and memory are given up where they are used last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from relax_mlir.module import IRModule
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
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
)
from relax_mlir.passes.relax.canonicalize_bindings import CanonicalizeBindings
from relax_mlir.relax.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.relax.op.storage import memory, vm
from relax_mlir.relax.transform.function_rewriting import rewrite_functions
from relax_mlir.rewriting import Pass

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
    """Give up tensors, memory and other objects after the binding that reads them last.

    Parameters, constants, sizes and what the function gives are never given up, nor is
    what is given up already.
    """

    def run(self, module: IRModule) -> None:
        CanonicalizeBindings().run(module)
        module.forget_scopes()
        rewrite_functions(module, lambda function: _Killer().visit_expr(function))


@dataclass
class _Bindings(PyExprVisitor):
    """The variables of a sequence and where they are read last, in order.

    What reads a variable in a branch or in a function inside is the binding of that.
    """

    last_use: dict[Id, Id | None] = field(default_factory=dict)
    bound: dict[Id, Binding] = field(default_factory=dict)
    killed: set[Id] = field(default_factory=set)
    current: Id | None = None  # outside of bindings: what the sequence gives

    def visit_binding(self, binding: Binding) -> None:
        outer, value = self.current, binding.value
        if outer is None:
            self.bound[binding.var.vid] = binding
            self.current = binding.var.vid
        if isinstance(value, Call) and value.op in _KILLS and len(value.args) == 1:
            (given_up,) = value.args
            assert isinstance(given_up, Var)
            self.killed.add(given_up.vid)
        else:
            super().visit_binding(binding)
        self.current = outer

    def visit_var_(self, op: Var) -> None:
        self.last_use[op.vid] = self.current

    visit_dataflow_var_ = visit_var_

    def ends(self) -> dict[Id, list[Expr]]:
        """What to do behind a binding, by its variable."""
        order = (_kill_tensor, _kill_storage, _kill_object)
        found: dict[Id, dict[Callable[[Var], Expr], list[Var]]] = {}
        for vid, binding in self.bound.items():
            user = self.last_use.get(vid)
            kill = _kill_of(binding)
            if user is not None and vid not in self.killed and kill is not None:
                kinds = found.setdefault(user, {each: [] for each in order})
                kinds[kill].append(binding.var)
        return {
            vid: [kill(var) for kill, each in kinds.items() for var in each]
            for vid, kinds in found.items()
        }


def _kill_tensor(var: Var) -> Expr:
    return memory.kill_tensor(var)


def _kill_storage(var: Var) -> Expr:
    return memory.kill_storage(var)


def _kill_object(var: Var) -> Expr:
    return vm.kill_object(var)


def _kill_of(binding: Binding) -> Callable[[Var], Expr] | None:
    """What gives up the variable of a binding; None for what is never given up."""
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
        self.ends: dict[Id, list[Expr]] = {}
        self.unread: set[Id] = set()

    def visit_seq_expr_(self, op: SeqExpr) -> Expr:
        """A sequence; names that only repeat another one and are not read go away."""
        outer = self.ends
        uses = _Bindings()
        uses.visit_expr(op)
        self.ends = uses.ends()
        self.unread |= {
            vid
            for vid, binding in uses.bound.items()
            if _is_second_name(binding) and vid not in uses.last_use
        }
        made = super().visit_seq_expr_(op)
        self.ends = outer
        return made

    def visit_binding(self, binding: Binding) -> None:
        """A binding, and behind it the end of what it read last."""
        vid = binding.var.vid
        if vid in self.unread:
            return
        super().visit_binding(binding)
        for kill in self.ends.get(vid, ()):
            self.builder_.emit(kill, "_")


def _is_second_name(binding: Binding) -> bool:
    """Whether a binding says no more of its value than another variable does."""
    value = binding.value
    if not isinstance(value, Var):
        return False
    if isinstance(binding, VarBinding):
        return True
    return binding.var.struct_info_or_none() == value.struct_info_or_none()
