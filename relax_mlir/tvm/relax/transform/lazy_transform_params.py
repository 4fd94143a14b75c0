"""``LazyTransformParams``: fetches parameters on demand and releases them after use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
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
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.objects.free_symbols import defined_symbolic_vars
from relax_mlir.objects.function import Function
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.op.storage import vm
from relax_mlir.tvm.relax.transform.function_rewriting import (
    num_input,
    rewrite_functions,
)

__all__ = ["LazyTransformParams"]

_FORCE_PURE = "relax.force_pure"


@dataclass(frozen=True)
class LazyTransformParams(Pass):
    """Makes ``..transform_params`` functions fetch parameters and store results lazily.

    Each parameter is fetched before its first use by a packed function of its index, and
    released after its last use; each result is stored by another one, of its index and
    value. Runs after `ToNonDataflow` and `RemovePurityChecking`.

    Args:
        fget_item: the packed function that fetches a parameter.
        fset_item: the packed function that stores a result; None: results are returned.
        extra_get_item_params: extra parameters of the new function, which it passes to
            ``fget_item`` before the index.
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
                _store_inline_results(body, self, uses)
            )
        params = [*inputs, *self.get_params, *self.set_params]
        if defined_symbolic_vars(function):
            weight_infos = [
                info for weight in weights for info in _parts(weight.struct_info)
            ]
            holders = [
                i
                for i in weight_infos
                if isinstance(i, PrimStructInfo | ShapeStructInfo)
            ]
            params += [Var("symbolic_var_holder", info) for info in holders]
        attrs = {k: v for k, v in function.attrs.items() if k != _FORCE_PURE}
        return Function(params, body, None, is_pure=False, attrs=attrs)

    @property
    def get_params(self) -> Sequence[Var]:
        """The arguments of ``fget_item`` before the index."""
        return self.extra_get_item_params or ()

    @property
    def set_params(self) -> Sequence[Var]:
        """The arguments of ``fset_item`` before the index."""
        return self.extra_set_item_params or ()

    def fetch(self, index: int) -> Call:
        """Returns the call that fetches a parameter."""
        args = [*self.get_params, PrimValue(index)]
        return Call(ExternFunc(self.fget_item), args, None, [ObjectStructInfo()])

    def store(self, index: int, value: Expr) -> Call:
        """Returns the call that stores a result.

        Raises:
            PassError: ``fset_item`` is None.
        """
        if self.fset_item is None:
            raise PassError("`LazyTransformParams`: expected `fset_item`, got None")
        args = [*self.set_params, PrimValue(index), value]
        return Call(ExternFunc(self.fset_item), args, None, [ObjectStructInfo()])


def _parts(info: StructInfo) -> Iterator[StructInfo]:
    if isinstance(info, TupleStructInfo):
        for part in info.fields:
            yield from _parts(part)
    else:
        yield info


@dataclass
class _Uses(PyExprVisitor):
    """Results of a function, and last uses of its variables.

    Attributes:
        result: the variable of the result tuple.
        tuple_param: the parameter that holds the tuple of weights, if any.
        outputs: the result indices of each variable.
        inline_results: results that are not variables, with their indices.
        fetched: variables that are projections of the weight tuple.
        last_uses: for each binding, the variables that it uses last.
    """

    result: Expr
    tuple_param: Var | None
    outputs: dict[Id, list[int]] = field(default_factory=dict)
    inline_results: list[tuple[int, Expr]] = field(default_factory=list)
    fetched: set[Id] = field(default_factory=set)
    last_uses: dict[Id, list[Var]] = field(default_factory=dict)
    visited: set[Id] = field(default_factory=set)
    found: list[Var] = field(default_factory=list)

    @classmethod
    def of(cls, function: Function, weights: Sequence[Var]) -> _Uses:
        """Analyzes a function."""
        uses = cls(function.body.body, weights[0] if len(weights) else None)
        bindings = [b for block in function.body.blocks for b in block.bindings]
        for binding in reversed(bindings):
            uses._read(binding)
        return uses

    def _read(self, binding: Binding) -> None:
        value = binding.value
        if binding.var == self.result:
            fields = value.fields if isinstance(value, Tuple) else ()
            for index, field_value in enumerate(fields):
                if isinstance(field_value, Var):
                    self.outputs.setdefault(field_value.vid, []).append(index)
                else:
                    self.inline_results.append((index, field_value))
            return
        if isinstance(value, TupleGetItem) and value.tuple_value == self.tuple_param:
            self.fetched.add(binding.var.vid)
        self.found = []
        self.visit_expr(value)
        self._record(binding.var)
        self.last_uses[binding.var.vid] = self.found

    def _record(self, var: Var) -> None:
        if var.vid not in self.visited:
            self.visited.add(var.vid)
            self.found.append(var)

    def visit_var_(self, op: Var) -> None:
        self._record(op)

    visit_dataflow_var_ = visit_var_


def _store_inline_results(
    body: SeqExpr, pass_: LazyTransformParams, uses: _Uses
) -> SeqExpr:
    """Returns a body that also stores results that are not variables."""
    if not uses.inline_results:
        return body
    stores = [pass_.store(index, value) for index, value in uses.inline_results]
    bindings = [VarBinding(Var("_", ObjectStructInfo()), store) for store in stores]
    return SeqExpr([*body.blocks, BindingBlock(bindings)], body.body)


class _Fetching(PyExprMutator):
    """Fetches each weight before its first use."""

    def __init__(self, pass_: LazyTransformParams, weights: Sequence[Var]) -> None:
        super().__init__()
        self.pass_ = pass_
        only = weights[0] if len(weights) == 1 else None
        is_tuple = only is not None and isinstance(only.struct_info, TupleStructInfo)
        self.tuple_param = only if is_tuple else None
        numbered = () if is_tuple else enumerate(weights)
        self.unfetched = {weight.vid: index for index, weight in numbered}

    def visit_var_(self, op: Var) -> Expr:
        """Visits a use; the first one of a weight fetches it and casts it to its type."""
        index = self.unfetched.pop(op.vid, None)
        if index is not None:
            fetched = self.builder_.emit(self.pass_.fetch(index))
            self.builder_.emit_normalized(MatchCast(op, fetched, op.struct_info))
        return super().visit_var_(op)

    def visit_tuple_getitem_(self, op: TupleGetItem) -> Expr:
        """Replaces a projection of the weight tuple by a fetch."""
        if self.tuple_param is None or op.tuple_value != self.tuple_param:
            return super().visit_tuple_getitem_(op)
        fetched = self.builder_.emit(self.pass_.fetch(op.index))
        return self.builder_.match_cast(fetched, op.struct_info)


class _Storing(PyExprMutator):
    """Stores each result and releases each weight after its last use."""

    def __init__(self, pass_: LazyTransformParams, uses: _Uses) -> None:
        super().__init__()
        self.pass_ = pass_
        self.uses = uses

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Emits a binding, then stores and releases; the result tuple becomes empty."""
        if binding.var == self.uses.result:
            self.set_var_remap(binding.var.vid, self.builder_.emit(Tuple([])))
            return
        super().visit_var_binding_(binding)
        for var in self.uses.last_uses.get(binding.var.vid, ()):
            value: Any = self.visit_expr(var)
            for index in self.uses.outputs.get(var.vid, ()):
                self.builder_.emit(self.pass_.store(index, value), "_")
            if var.vid in self.uses.fetched:
                self.builder_.emit(vm.kill_object(value), "_")
