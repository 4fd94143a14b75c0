"""Partition of a module between native code and the host interpreter."""

from __future__ import annotations

from collections.abc import Iterator

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.struct_info_base_check import (
    BaseCheckResult,
    struct_info_base_check,
)
from relax_mlir.objects.effects import may_stop
from relax_mlir.objects.expr import (
    Binding,
    Call,
    Constant,
    Expr,
    ExternFunc,
    GlobalVar,
    If,
    MatchCast,
    Op,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    as_sequence,
)
from relax_mlir.objects.expr.struct_info import (
    ShapeExpr,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.operators import STRUCTURAL, operation_class
from relax_mlir.objects.purity import detect_recursion

__all__ = ["NativePartition", "bindings_of", "is_tensors"]

_KERNEL_CALLS = frozenset(
    f"relax.{name}" for name in ("call_tir", "call_tir_with_grad", "call_dps_packed")
)
_IDENTITIES = frozenset(
    f"relax.{name}"
    for name in ("builtin.stop_lift_params", "hint_on_device", "wrap_param")
)


class NativePartition:
    """Analysis of the functions, and their bindings, that compile to native code.

    These are the side-effect-free computations from tensors to tensors of known shapes,
    which may be symbolic.
    """

    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._known: dict[str, bool] = {
            var.name_hint: False for group in detect_recursion(module) for var in group
        }

    def compiles(self, name: str) -> bool:
        """Whether a function compiles as a whole."""
        if name not in self._known:
            self._known[name] = False
            function = self._module[name]
            self._known[name] = isinstance(function, Function) and self._compiles_whole(
                function
            )
        return self._known[name]

    def _compiles_whole(self, function: Function) -> bool:
        cast: set[Expr] = {
            b.value
            for b in bindings_of(function.body)
            if isinstance(b, MatchCast) and isinstance(b.value, Var)
        }
        params = function.params
        if not all(p in cast or is_tensors(p.struct_info) for p in params):
            return False
        if any(p in cast and not is_tensors(p.struct_info) for p in params) and not (
            _are_read_by_casts(function, cast)
        ):
            return False
        inferred = function.body.struct_info_or_none()
        if inferred is None or not is_tensors(inferred):
            return False
        declared = function.ret_struct_info
        if struct_info_base_check(declared, inferred) is not BaseCheckResult.PASS:
            return False
        return self._is_sequence(function.body, cast)

    def _is_sequence(self, body: SeqExpr, cast: set[Expr] | None = None) -> bool:
        return self._is_value(body.body) and all(
            self.compiles_binding(binding)
            or _is_cast_of(binding, cast or set())
            or _is_cast_of_sizes(binding)
            for binding in bindings_of(body)
        )

    def compiles_binding(self, binding: Binding) -> bool:
        """Whether a binding compiles to native code."""
        if isinstance(binding, MatchCast):
            info = binding.value.struct_info_or_none()
            return info is not None and is_tensors(info)
        assert isinstance(binding, VarBinding)
        info = binding.var.struct_info_or_none()
        if info is None or not is_tensors(info):
            return False
        value = binding.value
        if isinstance(value, If):
            return self._is_select(value)
        return self._is_call(value) or self._is_value(value)

    def is_alias(self, binding: Binding) -> bool:
        """Whether a binding only names existing values."""
        return isinstance(binding, VarBinding) and self._is_value(binding.value)

    def _is_value(self, value: Expr) -> bool:
        """Whether an expression only refers to tensors, or tuples of them."""
        if isinstance(value, Tuple):
            return all(map(self._is_value, value.fields))
        if isinstance(value, TupleGetItem):
            return self._is_value(value.tuple_value)
        info = value.struct_info_or_none()
        return (
            isinstance(value, (Var, Constant)) and info is not None and is_tensors(info)
        )

    def _is_select(self, value: If) -> bool:
        """Whether an ``if`` can be converted to a select, which computes both branches."""
        branches = [as_sequence(b) for b in (value.true_branch, value.false_branch)]
        infos = [b.struct_info_or_none() for b in branches]
        return (
            infos[0] is not None
            and infos[0] == infos[1]
            and self._is_value(value.cond)
            and all(map(self._is_sequence, branches))
            and not any(map(self._may_stop_in, branches))
        )

    def _may_stop_in(self, body: SeqExpr) -> bool:
        return any(map(self.may_stop, bindings_of(body)))

    def may_stop(self, binding: Binding) -> bool:
        """Whether a binding may raise an error, itself or in its callees."""
        value = binding.value
        if isinstance(value, If):
            branches = value.true_branch, value.false_branch
            return any(self._may_stop_in(as_sequence(b)) for b in branches)
        if not isinstance(value, Call):
            return False
        if isinstance(value.op, GlobalVar):
            function = self._module[value.op.name_hint]
            return isinstance(function, Function) and self._may_stop_in(function.body)
        return isinstance(value.op, Op) and may_stop(value.op.name)

    def _is_call(self, value: Expr) -> bool:
        if not isinstance(value, Call):
            return False
        if isinstance(value.op, GlobalVar):
            return (
                value.op in self._module
                and self.compiles(value.op.name_hint)
                and all(map(self._is_value, value.args))
            )
        if not isinstance(value.op, Op):
            return False
        name = value.op.name
        if name in _KERNEL_CALLS:
            return self._is_kernel_call(value)
        if name in _IDENTITIES:
            return True
        if name in STRUCTURAL or operation_class(name) is None:
            return False
        return all(_is_static(a) or self._is_value(a) for a in value.args)

    def _is_kernel_call(self, value: Call) -> bool:
        callee, args, *rest = value.args
        is_defined = isinstance(callee, ExternFunc) or callee in self._module
        return is_defined and self._is_value(args) and all(map(_is_static, rest))


def _is_static(argument: Expr) -> bool:
    """Whether an argument is not a tensor, and known at compile time."""
    if isinstance(argument, Tuple):
        return all(map(_is_static, argument.fields))
    return not isinstance(argument, (Var, TupleGetItem, Call))


def _is_cast_of(binding: Binding, values: set[Expr]) -> bool:
    return (
        isinstance(binding, MatchCast)
        and binding.value in values
        and is_tensors(binding.struct_info)
    )


def _is_cast_of_sizes(binding: Binding) -> bool:
    """Whether a binding checks a literal shape, as ``LegalizeOps`` emits it."""
    return (
        isinstance(binding, MatchCast)
        and isinstance(binding.value, ShapeExpr)
        and isinstance(binding.struct_info, ShapeStructInfo)
        and binding.struct_info.values is not None
    )


def _are_read_by_casts(function: Function, cast: set[Expr]) -> bool:
    """Whether ``match_cast`` bindings are the only uses of the cast parameters."""
    from relax_mlir.objects.free_variables import used_vars

    for binding in bindings_of(function.body):
        if isinstance(binding, VarBinding) and not cast.isdisjoint(
            used_vars(binding.value)
        ):
            return False
    return cast.isdisjoint(used_vars(function.body.body))


def bindings_of(body: SeqExpr) -> Iterator[Binding]:
    """The bindings of a body, in order."""
    for block in body.blocks:
        yield from block.bindings


def is_tensors(info: StructInfo) -> bool:
    """Whether a value is a tensor of known shape and dtype, or a tuple of such."""
    if isinstance(info, TupleStructInfo):
        return all(map(is_tensors, info.fields))
    return (
        isinstance(info, TensorStructInfo)
        and isinstance(info.shape, ShapeExpr)
        and info.dtype not in ("", "void")
        and info.vdevice is None
    )
