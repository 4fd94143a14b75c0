"""``LegalizeOps``: replaces operators by calls of tensor programs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from relax_mlir.errors import PassError
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import Call, Expr, GlobalVar, Op, ShapeExpr
from relax_mlir.objects.expr.struct_info import (
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    VDevice,
)
from relax_mlir.objects.expr_functor import PyExprMutator
from relax_mlir.objects.function import Function
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.passes.relax.legalize import Legalize
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.legalize_ops import LEGALIZE_RULES, LegalizeFunc

__all__ = ["LegalizeFunc", "LegalizeOps"]

# Output shapes depend on values.
_DATA_DEPENDENT = frozenset({"relax.dynamic_strided_slice"})


def LegalizeOps(  # noqa: N802  Relax's name
    customize_legalize_map: Mapping[str, LegalizeFunc] | None = None,
    skip_ops: Sequence[str] | None = None,
    enable_warning: bool = False,
) -> Pass:
    """Replaces operators by calls of the tensor programs that ``topi`` defines for them.

    An operator without a program in ``topi`` gets the compiler's own program. It stays if
    there is none, or if shapes are unknown. A registered ``FLegalize`` attribute takes
    precedence over both.

    Args:
        customize_legalize_map: per operator, such as ``relax.add``, a function from a
            builder and a call to the replacement of the call.
        skip_ops: operators that stay.
        enable_warning: has no effect: operators without a program stay silently.
    """
    rules = {**Op.with_attr("FLegalize"), **(customize_legalize_map or {})}
    unregistered = (op for op in LEGALIZE_RULES if op not in rules)
    kept = () if skip_ops is None else skip_ops
    skipped = tuple(str(getattr(op, "name", op)) for op in (*kept, *unregistered))
    enabled = {op: rule for op, rule in rules.items() if op not in skipped}
    return Legalize(
        keep_views=False,
        inline_scalars=True,
        skip_ops=skipped,
        before=partial(_apply, enabled),
    )


class _Legalizer(PyExprMutator):
    """Replaces calls of operators by the results of their rules.

    Args:
        rules: by operator name.
        mod: the module before legalization.
    """

    def __init__(self, rules: Mapping[str, LegalizeFunc], mod: IRModule) -> None:
        super().__init__(mod)
        self.rules = rules
        self._original_names = {var.name_hint for var in mod.get_global_vars()}
        self._device: VDevice | None = None
        self._function = ""
        # Programs with a target attribute, by original name and target.
        self.targeted: dict[tuple[str, str], GlobalVar] = {}

    def legalize(self, name: str, function: Function) -> Any:  # Any: as visit_expr
        """Legalizes a function of the module."""
        self._function = name
        return self.visit_expr(function)

    def visit_call_(self, op: Call) -> Expr:
        """Legalizes a call of an operator, and its replacement in turn."""
        call = self.visit_expr_post_order(op)
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return call
        if call.op.name == "relax.call_tir":
            return self._for_device(call)
        rule = self.rules.get(call.op.name)
        if rule is None or not _has_known_shapes(call):
            return call
        builder = self.builder_
        if builder.current_block_is_dataflow():
            builder._begin_dataflow_block()
        else:
            builder._begin_binding_block()
        try:
            replacement = rule(builder, call)
        except ValueError as error:
            raise PassError(
                f"`{self._function}`: `{call.op.name}`: cannot be legalized: {error}"
            ) from error
        outer, self._device = self._device, _device_of(call.struct_info_or_none())
        for binding in builder._end_block().bindings:
            self.visit_binding(binding)
        result = call if replacement is call else self.visit_expr(replacement)
        self._device = outer
        return result

    def _for_device(self, call: Call) -> Call:
        """Redirects a call of a new program to a copy for the target of its device."""
        callee, *others = call.args
        if self._device is None or self._device.target is None:
            return call
        if (
            not isinstance(callee, GlobalVar)
            or callee.name_hint in self._original_names
        ):
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
    """Returns the virtual device of a tensor, or of the first one of a tuple."""
    if isinstance(info, TupleStructInfo):
        return _device_of(info.fields[0]) if info.fields else None
    return info.vdevice if isinstance(info, TensorStructInfo) else None


def _has_known_shapes(call: Call) -> bool:
    """Returns whether the shapes of all tensor arguments and results are known."""
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
    """Applies the legalization rules to every function that no fusion created."""
    legalizer = _Legalizer(rules, module)
    for name, function in module.functions.items():
        if isinstance(function, Function) and not function.attrs.get("Primitive"):
            new_function = legalizer.legalize(name.name_hint, function)
            if new_function is not function:
                legalizer.builder_.update_func(name, new_function)
    module.replace_contents(legalizer.builder_.get())
    replaced = {name for name, _ in legalizer.targeted}
    if replaced:
        every = [f.name.value for f in module.func_ops()]
        erase_unreachable(module, tuple(name for name in every if name not in replaced))
