"""Legalization: calls of tensor programs in place of operators."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, Expr, GlobalVar, Op, ShapeExpr
from relax_mlir.objects.function import Function
from relax_mlir.objects.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.passes.relax.legalize import Legalize
from relax_mlir.relax.expr_functor import PyExprMutator
from relax_mlir.relax.transform.legalize_ops import RULES, LegalizeFunc
from relax_mlir.rewriting import Pass

__all__ = ["LegalizeFunc", "LegalizeOps"]

# Their results have sizes that only values tell.
_DATA_DEPENDENT = frozenset({"relax.dynamic_strided_slice"})


def LegalizeOps(  # noqa: N802  Relax's name
    customize_legalize_map: Mapping[str, LegalizeFunc] | None = None,
    skip_ops: Sequence[str] | None = None,
    enable_warning: bool = False,
) -> Pass:
    """Replace operators by calls of the tensor programs that ``topi`` makes of them.

    An operator of which ``topi`` has no program gets the one that the compiler has, and
    stays if there is none, or if the shapes are not known. What is registered of an
    operator as ``FLegalize`` counts before either.

    Args:
        customize_legalize_map: per operator, such as ``relax.add``, a function from a
            builder and a call to what replaces the call.
        skip_ops: operators that stay.
        enable_warning: has no effect: what has no program stays without a word.
    """
    rules = {**Op.with_attr("FLegalize"), **(customize_legalize_map or {})}
    given_up = (op for op in RULES if op not in rules)
    left = () if skip_ops is None else skip_ops
    skipped = tuple(str(getattr(op, "name", op)) for op in (*left, *given_up))
    wanted = {op: rule for op, rule in rules.items() if op not in skipped}
    return Legalize(
        keep_views=False,
        inline_scalars=True,
        skip_ops=skipped,
        before=partial(_apply, wanted),
    )


class _Legalizer(PyExprMutator):
    """Replaces calls of operators by what their rules make of them.

    Args:
        rules: by the names of operators.
        mod: functions that are there.
    """

    def __init__(self, rules: Mapping[str, LegalizeFunc], mod: IRModule) -> None:
        super().__init__(mod)
        self.rules = rules
        self._given = {var.name_hint for var in mod.get_global_vars()}
        self._device: VDevice | None = None
        self._function = ""
        # The programs for a target, by their names without it.
        self.targeted: dict[tuple[str, str], GlobalVar] = {}

    def legalized(self, name: str, function: Function) -> Any:  # Any: as visit_expr
        """A function of the module, with its operators replaced."""
        self._function = name
        return self.visit_expr(function)

    def visit_call_(self, op: Call) -> Expr:
        """A call of an operator, replaced; so is what replaces it."""
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return call
        if call.op.name == "relax.call_tir":
            return self._for_device(call)
        rule = self.rules.get(call.op.name)
        if rule is None or not _knows_shapes(call):
            return call
        builder = self.builder_
        if builder.current_block_is_dataflow():
            builder._begin_dataflow_block()
        else:
            builder._begin_binding_block()
        try:
            made = rule(builder, call)
        except ValueError as error:
            raise PassError(
                f"`{self._function}`: `{call.op.name}`: cannot be legalized: {error}"
            ) from error
        outer, self._device = self._device, _device_of(call.struct_info_or_none())
        for binding in builder._end_block().bindings:
            self.visit_binding(binding)
        replaced = call if made is call else self.visit_expr(made)
        self._device = outer
        return replaced

    def _for_device(self, call: Call) -> Call:
        """A call of a program that was just made, of one for the target of its device."""
        callee, *others = call.args
        if self._device is None or self._device.target is None:
            return call
        if not isinstance(callee, GlobalVar) or callee.name_hint in self._given:
            return call
        if callee in self.targeted.values():
            return call
        target = str(self._device.target)
        key = (callee.name_hint, target)
        if key not in self.targeted:
            program = self.builder_.get()[callee].with_attr("target", target)
            name = f"{callee.name_hint}_{target.split()[0]}"
            self.targeted[key] = self.builder_.add_func(program, name)
        return Call(call.op, [self.targeted[key], *others], call.attrs, call.sinfo_args)


def _device_of(info: StructInfo | None) -> VDevice | None:
    """Where a tensor, or the first one of a tuple, is."""
    if isinstance(info, TupleStructInfo):
        return _device_of(info.fields[0]) if info.fields else None
    return info.vdevice if isinstance(info, TensorStructInfo) else None


def _knows_shapes(call: Call) -> bool:
    """Whether the sizes are known of every tensor that a call takes and gives."""
    assert isinstance(call.op, Op)
    infos = [arg.struct_info_or_none() for arg in call.args]
    if call.op.name not in _DATA_DEPENDENT:
        infos.append(call.struct_info_or_none())
    return all(map(_has_shapes, infos))


def _has_shapes(info: StructInfo | None) -> bool:
    if isinstance(info, TupleStructInfo):
        return all(map(_has_shapes, info.fields))
    return not isinstance(info, TensorStructInfo) or isinstance(info.shape, ShapeExpr)


def _apply(rules: Mapping[str, LegalizeFunc], module: IRModule) -> None:
    """Let the rules replace what they want to."""
    legalizer = _Legalizer(rules, module)
    for name, function in module.functions.items():
        if isinstance(function, Function) and not function.attrs.get("Primitive"):
            legalized = legalizer.legalized(name.name_hint, function)
            if legalized is not function:
                legalizer.builder_.update_func(name, legalized)
    module.become(legalizer.builder_.get())
    replaced = {name for name, _ in legalizer.targeted}
    if replaced:
        every = [f.name.value for f in module.func_ops()]
        erase_unreachable(module, tuple(name for name in every if name not in replaced))
