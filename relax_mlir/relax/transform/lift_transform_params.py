"""``LiftTransformParams``: what depends on weights alone is computed ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
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
from relax_mlir.objects.function import Function
from relax_mlir.objects.prim import Var as SizeVar
from relax_mlir.objects.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.structure import structural_equal, structural_hash
from relax_mlir.pass_context import PassContext
from relax_mlir.passes.relax.bundle_model_params import bundle_parameters
from relax_mlir.passes.relax.canonicalize_bindings import canonicalize
from relax_mlir.passes.relax.lambda_lift import LambdaLift
from relax_mlir.relax.analysis.symbols import (
    definable_tir_vars_in_struct_info,
    free_symbolic_vars,
    tir_vars_in_struct_info,
)
from relax_mlir.relax.analysis.unused import remove_all_unused
from relax_mlir.relax.analysis.variables import free_vars
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.grouping import renewed
from relax_mlir.rewriting import Pass

__all__ = ["LiftTransformParams"]

_CONSUME = "relax.lift_transform_params.consume_params"
_STOP = Op.of("relax.builtin.stop_lift_params")
_SHARED = "transform_params"


@dataclass(frozen=True)
class LiftTransformParams(Pass):
    """Move what a function computes of its weights to ``<function>_transform_params``.

    Weights are the parameters after the first ``num_input``, an attribute of the function,
    which from then on takes what the other function gives. What stands behind
    ``builtin.stop_lift_params`` stays. With the option ``consume_params``, or the one of
    that name in the context, a weight is given up once it has been read.

    Args:
        shared_transform: the functions, or ``True`` for all, that have one such function
            together, ``transform_params``, for what they compute alike of equal weights.

    Raises:
        PassError: functions that share have weights of other types, or no weights.
    """

    opt_level = 1
    shared_transform: bool | Sequence[str] = False
    consume_params: bool = False

    def run(self, module: IRModule) -> None:
        listed = self.shared_transform
        names = [] if isinstance(listed, bool) else list(listed)
        targets = {name: _target(module, name) for name in names or _targets(module)}
        shared = _shared_plan(list(targets.values())) if listed and targets else None
        lifts = {name: _lift(function, shared) for name, function in targets.items()}
        # Functions of the module change with it: all are made before any is replaced.
        rests = {n: renewed(lift.rest(shared or lift)) for n, lift in lifts.items()}
        plans = {f"{name}_{_SHARED}": lift for name, lift in lifts.items()}
        plans = plans if shared is None else {_SHARED: shared}
        heads = {name: renewed(plan.ahead()) for name, plan in plans.items()}
        for name, function in rests.items():
            module.update_func(name, function)
            canonicalize(module, module.func_op(name))
        for name, function in heads.items():
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
            f"`LiftTransformParams`: `{name}`: expected a function of Relax with the "
            "attribute `num_input`"
        )
    return function


def _targets(module: IRModule) -> list[str]:
    found = [
        var.name_hint
        for var, function in module.functions.items()
        if isinstance(function, Function) and "num_input" in function.attrs
    ]
    return [name for name in found if not name.endswith(_SHARED)]


def _add(module: IRModule, name: str, function: Function) -> None:
    module[name] = function.with_attr("global_symbol", name)
    bundle_parameters(module.func_op(name), 0)
    module.forget_scopes()
    canonicalize(module, module.func_op(name))
    module.forget_scopes()
    made = module[name]
    assert isinstance(made, Function)
    module.update_func(name, remove_all_unused(made))


@dataclass(frozen=True)
class _Lift:
    """What is computed ahead, of one function or of several.

    Attributes:
        function: the one, or the first of several.
        bindings: what can be computed ahead, in order.
        weighty: the weights, and what is computed of them.
        needed: what the rest of the function reads, variables of sizes by their ``id``.
        known: what variables of other functions are called here.
    """

    function: Function
    bindings: list[Binding] = field(default_factory=list)
    weighty: set[Id] = field(default_factory=set)
    needed: set[Any] = field(default_factory=set)
    known: dict[Id, Var] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many parameters are no weights."""
        return int(self.function.attrs["num_input"])

    @property
    def weights(self) -> Sequence[Var]:
        """The parameters that are known ahead."""
        return self.function.params[self.count :]

    def outputs(self) -> list[Var]:
        """What the rest reads: weights first, then what is computed of them."""
        made = [b.var for b in self.bindings if b.var.vid in self.weighty]
        return [v for v in (*self.weights, *made) if v.vid in self.needed]

    def sizes(self) -> list[SizeVar]:
        """Variables of sizes that the rest reads and that only the weights define."""
        inputs = self.function.params[: self.count]
        given = {id(v) for v in _definable((*inputs, *self.outputs()))}
        defined = _definable(self.weights)
        return [v for v in defined if id(v) in self.needed and id(v) not in given]

    def ahead(self) -> Function:
        """The function of the weights alone."""
        sizes, outputs = self.sizes(), self.outputs()
        copies = [DataflowVar(f"{v.name_hint}_output", v.struct_info) for v in outputs]
        fields: list[Expr] = [ShapeExpr(sizes)] if sizes else []
        whole = Tuple([*fields, *copies])
        info = TupleStructInfo([part.struct_info for part in whole.fields])
        result = Var("output_tuple", info)
        bindings = [VarBinding(a, b) for a, b in zip(copies, outputs, strict=True)]
        block = DataflowBlock([*self.bindings, *bindings, VarBinding(result, whole)])
        body = SeqExpr([block], result)
        return Function(self.weights, body, info, True, {"num_input": 0})

    def rest(self, plan: _Lift) -> Function:
        """The function of its inputs and of what ``plan`` gives."""
        inputs = list(self.function.params[: self.count])
        if sizes := plan.sizes():
            info = ShapeStructInfo(sizes)
            inputs.append(Var("vars_from_compile_time_params", info))
        given = {v.vid: Var(v.name_hint, v.struct_info) for v in plan.outputs()}
        names = {b.var.vid for b in self.bindings} | {w.vid for w in self.weights}
        renamed = {
            vid: given[plan.known[vid].vid if vid in plan.known else vid]
            for vid in names
            if (plan.known[vid].vid if vid in plan.known else vid) in given
        }
        dropped = {b.var.vid for b in self.bindings if b.var.vid in self.weighty}
        body = _Rest(renamed, dropped).visit_expr(self.function.body)
        old = self.function
        params = [*inputs, *given.values()]
        return Function(params, body, old.ret_struct_info, old.is_pure, dict(old.attrs))


def _definable(variables: Iterable[Var]) -> list[SizeVar]:
    infos: list[StructInfo] = [v.struct_info for v in variables]
    return definable_tir_vars_in_struct_info(TupleStructInfo(infos))


class _Rest(PyExprMutator):
    """What is left of a function.

    Args:
        renamed: parameters in place of variables.
        dropped: variables that are computed ahead.
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
class _Liftable:
    """What is known ahead so far.

    Attributes:
        variables: values.
        sizes: variables of sizes, by their ``id``.
    """

    variables: set[Id] = field(default_factory=set)
    sizes: set[int] = field(default_factory=set)

    def takes(self, binding: Binding, block: BindingBlock) -> bool:
        """Whether a binding can be computed ahead."""
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


def _lift(function: Function, shared: _Lift | None) -> _Lift:
    """What one function computes ahead; ``shared`` learns what it needs."""
    lift = _Lift(function)
    lift.weighty.update(w.vid for w in lift.weights)
    known = _Liftable(set(lift.weighty), {id(v) for v in _definable(lift.weights)})
    for binding, block in _bindings(function):
        var, used = binding.var, free_vars(binding.value)
        is_wanted = shared is None or var.vid in shared.known
        if is_wanted and known.takes(binding, block):
            lift.bindings.append(binding)
            known.variables.add(var.vid)
            if any(v.vid in lift.weighty for v in used):
                lift.weighty.add(var.vid)
        else:
            lift.needed.update(v.vid for v in (var, *used))
            lift.needed.update(map(id, free_symbolic_vars(binding.value)))
    lift.needed.update(v.vid for v in free_vars(function.body.body))
    if shared is not None:
        for mine, theirs in (
            (lift.weighty, shared.weighty),
            (lift.needed, shared.needed),
        ):
            theirs.update(shared.known[k].vid if k in shared.known else k for k in mine)
    return lift


def _shared_plan(functions: Sequence[Function]) -> _Lift:
    """What all functions compute alike of weights that are the same for all."""
    shared = _Lift(functions[0])
    renamed: dict[Id, Var] = {}
    known = _Liftable()
    for function in functions:
        weights = _Lift(function).weights
        _check_alike(shared.weights, weights, function)
        renamed.update((a.vid, b) for a, b in zip(weights, shared.weights, strict=True))
        known.variables.update(w.vid for w in weights)
    found: dict[int, tuple[Binding, list[Var]]] = {}
    for function in functions:
        for binding, block in _bindings(function):
            if known.takes(binding, block):
                known.variables.add(binding.var.vid)
                value = _Rest(renamed, set()).visit_expr(binding.value)
                entry = (_with_value(binding, value), [])
                first, variables = found.setdefault(structural_hash(value), entry)
                variables.append(binding.var)
                renamed[binding.var.vid] = first.var
    shared.known.update(
        (w.vid, renamed[w.vid]) for f in functions for w in _Lift(f).weights
    )
    for binding, variables in found.values():
        if len(variables) == len(functions):
            shared.bindings.append(binding)
            shared.known.update((v.vid, binding.var) for v in variables)
    return shared


def _with_value(binding: Binding, value: Expr) -> Binding:
    if isinstance(binding, MatchCast):
        raise PassError(
            f"`LiftTransformParams`: `{binding.var.name_hint}`: functions that share what "
            "they compute ahead have no casts there"
        )
    return VarBinding(binding.var, value)


def _check_alike(
    first: Sequence[Var], weights: Sequence[Var], function: Function
) -> None:
    if len(first) != len(weights) or not all(
        structural_equal(a.struct_info, b.struct_info, map_free_vars=True)
        for a, b in zip(first, weights, strict=True)
    ):
        raise PassError(
            f"`LiftTransformParams`: function `{function.name}`: expected as many weights "
            "as the first of the functions that share, of the same types"
        )


class _Consumer(PyExprMutator):
    """Gives up each element of the tuple of weights after it has been read."""

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
