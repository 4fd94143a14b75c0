"""``LiftTransformParams``: hoists computations on weights into separate functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.compare.structural_equal import (
    structural_equal,
    structural_hash,
)
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Expr,
    ExternFunc,
    Id,
    MatchCast,
    Op,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.free_symbols import (
    definable_tir_vars_in_struct_info,
    free_symbolic_vars,
    tir_vars_in_struct_info,
)
from relax_mlir.objects.free_variables import free_vars
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import Var as SizeVar
from relax_mlir.rewrite.pass_context import PassContext
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.analysis.unused import remove_all_unused
from relax_mlir.tvm.relax.transform.grouping import with_fresh_vars
from relax_mlir.tvm.relax.transform.passes.bundle_model_params import bundle_parameters
from relax_mlir.tvm.relax.transform.passes.canonicalize_bindings import (
    canonicalize_function,
)
from relax_mlir.tvm.relax.transform.passes.lambda_lift import LambdaLift

__all__ = ["LiftTransformParams"]

_CONSUME = "relax.lift_transform_params.consume_params"
_STOP = Op.of("relax.builtin.stop_lift_params")
_SHARED = "transform_params"


@dataclass(frozen=True)
class LiftTransformParams(Pass):
    """Hoists what a function computes from its weights to ``<function>_transform_params``.

    Weights are the parameters after the first ``num_input``, an attribute of the function,
    which then takes the results of the other function instead. Values behind
    ``builtin.stop_lift_params`` are not hoisted. With ``consume_params``, or the context
    option of that name, each weight is released after it has been read.

    Args:
        shared_transform: the functions, or ``True`` for all, that share one such function,
            ``transform_params``, for common computations on corresponding weights.

    Raises:
        PassError: functions that share have weights of different types, or no weights.
    """

    opt_level = 1
    shared_transform: bool | Sequence[str] = False
    consume_params: bool = False

    def run(self, module: IRModule) -> None:
        listed = self.shared_transform
        names = [] if isinstance(listed, bool) else list(listed)
        targets = {name: _target(module, name) for name in names or _targets(module)}
        shared = _common_part(list(targets.values())) if listed and targets else None
        parts = {
            name: _partition(function, shared) for name, function in targets.items()
        }
        # Functions are views of the module: build all before replacing any.
        remainders = {
            n: with_fresh_vars(part.remaining_function(shared or part))
            for n, part in parts.items()
        }
        plans = {f"{name}_{_SHARED}": part for name, part in parts.items()}
        plans = plans if shared is None else {_SHARED: shared}
        transforms = {
            name: with_fresh_vars(plan.hoisted_function())
            for name, plan in plans.items()
        }
        for name, function in remainders.items():
            module.update_func(name, function)
            canonicalize_function(module, module.func_op(name))
        for name, function in transforms.items():
            _add(module, name, function)
        LambdaLift().run(module)
        config = PassContext.current().config
        if self.consume_params or config.get(_CONSUME, False):
            for var, function in list(module.functions.items()):
                if var.name_hint.endswith(_SHARED) and isinstance(function, Function):
                    module.update_func(var, _Consumer().visit_expr(function))


def _target(module: IRModule, name: str) -> Function:
    function = module[name] if name in module else None  # noqa: SIM401
    if not isinstance(function, Function) or "num_input" not in function.attrs:
        raise PassError(
            f"`LiftTransformParams`: `{name}`: expected a Relax function with the "
            "attribute `num_input`"
        )
    return function


def _targets(module: IRModule) -> list[str]:
    names = [
        var.name_hint
        for var, function in module.functions.items()
        if isinstance(function, Function) and "num_input" in function.attrs
    ]
    return [name for name in names if not name.endswith(_SHARED)]


def _add(module: IRModule, name: str, function: Function) -> None:
    module[name] = function.with_attr("global_symbol", name)
    bundle_parameters(module.func_op(name), 0)
    module.forget_scopes()
    canonicalize_function(module, module.func_op(name))
    module.forget_scopes()
    added = module[name]
    assert isinstance(added, Function)
    module.update_func(name, remove_all_unused(added))


@dataclass(frozen=True)
class _HoistedPart:
    """The hoisted part of one function, or the common part of several.

    Attributes:
        function: the function, or the first of several.
        bindings: the hoistable bindings, in order.
        weight_dependent: the weights, and variables that depend on them.
        needed: variables that the rest reads; symbols by their ``id``.
        corresponding: the corresponding variables here of those of other functions.
    """

    function: Function
    bindings: list[Binding] = field(default_factory=list)
    weight_dependent: set[Id] = field(default_factory=set)
    needed: set[Any] = field(default_factory=set)
    corresponding: dict[Id, Var] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of parameters that are not weights."""
        return int(self.function.attrs["num_input"])

    @property
    def weights(self) -> Sequence[Var]:
        """The weight parameters."""
        return self.function.params[self.count :]

    def outputs(self) -> list[Var]:
        """Returns what the rest reads: weights first, then hoisted variables."""
        hoisted = [b.var for b in self.bindings if b.var.vid in self.weight_dependent]
        return [v for v in (*self.weights, *hoisted) if v.vid in self.needed]

    def sizes(self) -> list[SizeVar]:
        """Returns the symbols that the rest reads and that only weights define."""
        inputs = self.function.params[: self.count]
        redefined = {id(v) for v in _definable((*inputs, *self.outputs()))}
        defined = _definable(self.weights)
        return [v for v in defined if id(v) in self.needed and id(v) not in redefined]

    def hoisted_function(self) -> Function:
        """Returns the hoisted function of the weights."""
        sizes, outputs = self.sizes(), self.outputs()
        copies = [DataflowVar(f"{v.name_hint}_output", v.struct_info) for v in outputs]
        fields: list[Expr] = [ShapeExpr(sizes)] if sizes else []
        output_tuple = Tuple([*fields, *copies])
        info = TupleStructInfo([part.struct_info for part in output_tuple.fields])
        result = Var("output_tuple", info)
        bindings = [VarBinding(a, b) for a, b in zip(copies, outputs, strict=True)]
        block = DataflowBlock(
            [*self.bindings, *bindings, VarBinding(result, output_tuple)]
        )
        body = SeqExpr([block], result)
        return Function(self.weights, body, info, True, {"num_input": 0})

    def remaining_function(self, plan: _HoistedPart) -> Function:
        """Returns the remaining function of the inputs and of the results of ``plan``."""
        inputs = list(self.function.params[: self.count])
        if sizes := plan.sizes():
            info = ShapeStructInfo(sizes)
            inputs.append(Var("vars_from_compile_time_params", info))
        new_params = {v.vid: Var(v.name_hint, v.struct_info) for v in plan.outputs()}
        names = {b.var.vid for b in self.bindings} | {w.vid for w in self.weights}
        renamed = {
            vid: new_params[
                plan.corresponding[vid].vid if vid in plan.corresponding else vid
            ]
            for vid in names
            if (plan.corresponding[vid].vid if vid in plan.corresponding else vid)
            in new_params
        }
        dropped = {
            b.var.vid for b in self.bindings if b.var.vid in self.weight_dependent
        }
        body = _HoistedRemover(renamed, dropped).visit_expr(self.function.body)
        old = self.function
        params = [*inputs, *new_params.values()]
        return Function(params, body, old.ret_struct_info, old.is_pure, dict(old.attrs))


def _definable(variables: Iterable[Var]) -> list[SizeVar]:
    infos: list[StructInfo] = [v.struct_info for v in variables]
    return definable_tir_vars_in_struct_info(TupleStructInfo(infos))


class _HoistedRemover(PyExprMutator):
    """Removes hoisted bindings from a function.

    Args:
        renamed: parameters that replace variables.
        dropped: hoisted variables.
    """

    def __init__(self, renamed: Mapping[Id, Var], dropped: set[Id]) -> None:
        super().__init__()
        self.dropped = dropped
        for vid, var in renamed.items():
            self.set_var_remap(vid, var)

    def visit_binding(self, binding: Binding) -> None:
        if binding.var.vid not in self.dropped:
            super().visit_binding(binding)

    def visit_call_(self, op: Call) -> Expr:
        if op.op == _STOP:
            return self.visit_expr(op.args[0])
        return super().visit_call_(op)


@dataclass
class _KnownValues:
    """The values that are known at compile time so far.

    Attributes:
        variables: variables with such values.
        sizes: such symbols, by their ``id``.
    """

    variables: set[Id] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)

    def can_hoist(self, binding: Binding, block: BindingBlock) -> bool:
        """Returns whether a binding can be hoisted."""
        value = binding.value
        if not isinstance(block, DataflowBlock) or isinstance(value, ExternFunc):
            return False
        if isinstance(value, Call) and value.op == _STOP:
            return False
        info = binding.var.struct_info_or_none()
        used = [] if info is None else tir_vars_in_struct_info(info)
        return all(v.vid in self.variables for v in free_vars(value)) and all(
            id(v) in self.sizes for v in used
        )


def _bindings(function: Function) -> Iterator[tuple[Binding, BindingBlock]]:
    for block in function.body.blocks:
        for binding in block.bindings:
            yield binding, block


def _partition(function: Function, shared: _HoistedPart | None) -> _HoistedPart:
    """Partitions one function; records its dependencies in ``shared``, too."""
    part = _HoistedPart(function)
    part.weight_dependent.update(w.vid for w in part.weights)
    compile_time = _KnownValues(
        set(part.weight_dependent), {id(v) for v in _definable(part.weights)}
    )
    for binding, block in _bindings(function):
        var, used = binding.var, free_vars(binding.value)
        is_candidate = shared is None or var.vid in shared.corresponding
        if is_candidate and compile_time.can_hoist(binding, block):
            part.bindings.append(binding)
            compile_time.variables.add(var.vid)
            if any(v.vid in part.weight_dependent for v in used):
                part.weight_dependent.add(var.vid)
        else:
            part.needed.update(v.vid for v in (var, *used))
            part.needed.update(map(id, free_symbolic_vars(binding.value)))
    part.needed.update(v.vid for v in free_vars(function.body.body))
    if shared is not None:
        for own, common in (
            (part.weight_dependent, shared.weight_dependent),
            (part.needed, shared.needed),
        ):
            common.update(
                shared.corresponding[k].vid if k in shared.corresponding else k
                for k in own
            )
    return part


def _common_part(functions: Sequence[Function]) -> _HoistedPart:
    """Returns the common computations of all functions on corresponding weights."""
    shared = _HoistedPart(functions[0])
    renamed: dict[Id, Var] = {}
    compile_time = _KnownValues()
    for function in functions:
        weights = _HoistedPart(function).weights
        _check_weights(shared.weights, weights, function)
        renamed.update((a.vid, b) for a, b in zip(weights, shared.weights, strict=True))
        compile_time.variables.update(w.vid for w in weights)
    values_by_hash: dict[int, tuple[Binding, list[Var]]] = {}
    for function in functions:
        for binding, block in _bindings(function):
            if compile_time.can_hoist(binding, block):
                compile_time.variables.add(binding.var.vid)
                value = _HoistedRemover(renamed, set()).visit_expr(binding.value)
                entry = (_with_value(binding, value), [])
                first, variables = values_by_hash.setdefault(
                    structural_hash(value), entry
                )
                variables.append(binding.var)
                renamed[binding.var.vid] = first.var
    shared.corresponding.update(
        (w.vid, renamed[w.vid]) for f in functions for w in _HoistedPart(f).weights
    )
    for binding, variables in values_by_hash.values():
        if len(variables) == len(functions):
            shared.bindings.append(binding)
            shared.corresponding.update((v.vid, binding.var) for v in variables)
    return shared


def _with_value(binding: Binding, value: Expr) -> Binding:
    if isinstance(binding, MatchCast):
        raise PassError(
            f"`LiftTransformParams`: `{binding.var.name_hint}`: expected no casts "
            "in functions that share a transform"
        )
    return VarBinding(binding.var, value)


def _check_weights(
    first: Sequence[Var], weights: Sequence[Var], function: Function
) -> None:
    if len(first) != len(weights) or not all(
        structural_equal(a.struct_info, b.struct_info, map_free_vars=True)
        for a, b in zip(first, weights, strict=True)
    ):
        raise PassError(
            f"`LiftTransformParams`: function `{function.name}`: expected weights of "
            "the same number and types as the first function that shares a transform"
        )


class _Consumer(PyExprMutator):
    """Releases each element of the tuple of weights after it has been read."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[int, Var] = {}
        self._weights: Var | None = None

    def visit_function_(self, op: Function) -> Expr:
        self._weights = op.params[-1]
        return super().visit_function_(op)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        value = binding.value
        if not isinstance(value, TupleGetItem) or value.tuple_value != self._weights:
            super().visit_var_binding_(binding)
            return
        if value.index in self._read:
            again = VarBinding(binding.var, self._read[value.index])
            super().visit_var_binding_(again)
            return
        super().visit_var_binding_(binding)
        self._read[value.index] = binding.var
        reset = [ExternFunc("vm.builtin.tuple_reset_item"), self._weights]
        call = [*reset, PrimValue(value.index)]
        packed = Op.of("relax.call_pure_packed")
        self.builder_.emit(Call(packed, call, None, [TupleStructInfo([])]))
