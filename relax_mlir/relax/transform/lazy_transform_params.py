"""``LazyTransformParams``: parameters are read one by one, and given up after their use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    ExternFunc,
    Id,
    MatchCast,
    PrimValue,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.relax.analysis.symbols import defined_symbolic_vars
from relax_mlir.relax.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.relax.op.storage import vm
from relax_mlir.relax.transform.function_rewriting import num_input, rewrite_functions
from relax_mlir.rewriting import Pass

__all__ = ["LazyTransformParams"]

_FORCE_PURE = "relax.force_pure"


@dataclass(frozen=True)
class LazyTransformParams(Pass):
    """Let functions named ``..transform_params`` fetch each parameter, and store results.

    A parameter is fetched in front of its first use by a packed function, which takes its
    number, and given up after its last use; a result is stored by another one, which takes
    its number and the value. `ToNonDataflow` and `RemovePurityChecking` come first.

    Args:
        fget_item: the function that fetches.
        fset_item: the function that stores; None: the results are returned.
        extra_get_item_params: parameters of the new function that go to ``fget_item`` in
            front of the number.
        extra_set_item_params: the same for ``fset_item``.
    """

    fget_item: str = "get_item"
    fset_item: str | None = "set_item"
    extra_get_item_params: Sequence[Var] | None = field(
        default=None, metadata={"text": False}
    )
    extra_set_item_params: Sequence[Var] | None = field(
        default=None, metadata={"text": False}
    )

    def run(self, module: IRModule) -> None:
        rewrite_functions(module, self._lazy)

    def _lazy(self, function: Function) -> Function:
        if not function.name.endswith("transform_params"):
            return function
        count = num_input(function) or 0
        inputs, weights = function.params[:count], function.params[count:]
        uses = _Uses.of(function, weights)
        body = _Fetching(self, weights).visit_with_new_scope(function.body)
        if self.fset_item is not None:
            body = _Storing(self, uses).visit_with_new_scope(
                _with_leaves(body, self, uses)
            )
        params = [*inputs, *self.get_params, *self.set_params]
        if defined_symbolic_vars(function):
            known = [info for weight in weights for info in _parts(weight.struct_info)]
            holders = [
                i for i in known if isinstance(i, PrimStructInfo | ShapeStructInfo)
            ]
            params += [Var("symbolic_var_holder", info) for info in holders]
        attrs = {k: v for k, v in function.attrs.items() if k != _FORCE_PURE}
        return Function(params, body, None, is_pure=False, attrs=attrs)

    @property
    def get_params(self) -> Sequence[Var]:
        """What ``fget_item`` takes in front of the number."""
        return self.extra_get_item_params or ()

    @property
    def set_params(self) -> Sequence[Var]:
        """What ``fset_item`` takes in front of the number."""
        return self.extra_set_item_params or ()

    def fetch(self, number: int) -> Call:
        """The call that fetches a parameter."""
        args = [*self.get_params, PrimValue(number)]
        return Call(ExternFunc(self.fget_item), args, None, [ObjectStructInfo()])

    def store(self, number: int, value: Expr) -> Call:
        """The call that stores a result.

        Raises:
            PassError: ``fset_item`` is not given.
        """
        if self.fset_item is None:
            raise PassError("`LazyTransformParams`: expected `fset_item`, got None")
        args = [*self.set_params, PrimValue(number), value]
        return Call(ExternFunc(self.fset_item), args, None, [ObjectStructInfo()])


def _parts(info: StructInfo) -> Iterator[StructInfo]:
    if isinstance(info, TupleStructInfo):
        for part in info.fields:
            yield from _parts(part)
    else:
        yield info


@dataclass
class _Uses(PyExprVisitor):
    """What a function gives, and where its variables are used last.

    Attributes:
        result: the variable that holds the tuple of results.
        tuple_param: the parameter of which the weights are elements, if there is one.
        outputs: the numbers of the results that a variable is.
        leaves: the results that are no variables.
        fetched: the variables that are elements of the parameter.
        ends: variables by the binding that uses them last.
    """

    result: Expr
    tuple_param: Var | None
    outputs: dict[Id, list[int]] = field(default_factory=dict)
    leaves: list[tuple[int, Expr]] = field(default_factory=list)
    fetched: set[Id] = field(default_factory=set)
    ends: dict[Id, list[Var]] = field(default_factory=dict)
    seen: set[Id] = field(default_factory=set)
    found: list[Var] = field(default_factory=list)

    @classmethod
    def of(cls, function: Function, weights: Sequence[Var]) -> _Uses:
        """The uses in a function."""
        made = cls(function.body.body, weights[0] if len(weights) else None)
        bindings = [b for block in function.body.blocks for b in block.bindings]
        for binding in reversed(bindings):
            made._read(binding)
        return made

    def _read(self, binding: Binding) -> None:
        value = binding.value
        if binding.var == self.result:
            fields = value.fields if isinstance(value, Tuple) else ()
            for number, part in enumerate(fields):
                if isinstance(part, Var):
                    self.outputs.setdefault(part.vid, []).append(number)
                else:
                    self.leaves.append((number, part))
            return
        if isinstance(value, TupleGetItem) and value.tuple_value == self.tuple_param:
            self.fetched.add(binding.var.vid)
        self.found = []
        self.visit_expr(value)
        self._meet(binding.var)
        self.ends[binding.var.vid] = self.found

    def _meet(self, var: Var) -> None:
        if var.vid not in self.seen:
            self.seen.add(var.vid)
            self.found.append(var)

    def visit_var_(self, op: Var) -> None:
        self._meet(op)

    visit_dataflow_var_ = visit_var_


def _with_leaves(body: SeqExpr, pass_: LazyTransformParams, uses: _Uses) -> SeqExpr:
    """A body that also stores the results that are no variables."""
    if not uses.leaves:
        return body
    stores = [pass_.store(number, value) for number, value in uses.leaves]
    bindings = [VarBinding(Var("_", ObjectStructInfo()), store) for store in stores]
    return SeqExpr([*body.blocks, BindingBlock(bindings)], body.body)


class _Fetching(PyExprMutator):
    """Fetches each weight where it is used first."""

    def __init__(self, pass_: LazyTransformParams, weights: Sequence[Var]) -> None:
        super().__init__()
        self.pass_ = pass_
        only = weights[0] if len(weights) == 1 else None
        is_tuple = only is not None and isinstance(only.struct_info, TupleStructInfo)
        self.tuple_param = only if is_tuple else None
        numbered = () if is_tuple else enumerate(weights)
        self.waiting = {weight.vid: number for number, weight in numbered}

    def visit_var_(self, op: Var) -> Expr:
        """A weight that was not fetched yet is; it is cast to what it is."""
        number = self.waiting.pop(op.vid, None)
        if number is not None:
            fetched = self.builder_.emit(self.pass_.fetch(number))
            self.builder_.emit_normalized(MatchCast(op, fetched, op.struct_info))
        return super().visit_var_(op)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Expr:
        """An element of the tuple of weights is fetched."""
        if self.tuple_param is None or op.tuple_value != self.tuple_param:
            return super().visit_tuple_getitem_(op)
        fetched = self.builder_.emit(self.pass_.fetch(op.index))
        return self.builder_.match_cast(fetched, op.struct_info)


class _Storing(PyExprMutator):
    """Stores each result and gives up each weight after its last use."""

    def __init__(self, pass_: LazyTransformParams, uses: _Uses) -> None:
        super().__init__()
        self.pass_ = pass_
        self.uses = uses

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """A binding, and behind it what ends there; the tuple of results is empty."""
        if binding.var == self.uses.result:
            self.set_var_remap(binding.var.vid, self.builder_.emit(Tuple([])))
            return
        super().visit_var_binding_(binding)
        for var in self.uses.ends.get(binding.var.vid, ()):
            value: Any = self.visit_expr(var)
            for number in self.uses.outputs.get(var.vid, ()):
                self.builder_.emit(self.pass_.store(number, value), "_")
            if var.vid in self.uses.fetched:
                self.builder_.emit(vm.kill_object(value), "_")
