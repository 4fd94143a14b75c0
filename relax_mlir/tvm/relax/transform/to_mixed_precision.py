"""``ToMixedPrecision``: contractions in half precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowBlock,
    DataflowVar,
    Expr,
    Id,
    Op,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
)
from relax_mlir.objects.expr.struct_info import TensorStructInfo, TupleStructInfo
from relax_mlir.objects.expr_functor import PyExprMutator, PyExprVisitor
from relax_mlir.objects.function import Function
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.tvm.relax.transform.precision_policy import (
    ALWAYS_HALF,
    FOLLOW_OPERANDS,
    NestedDtypes,
    is_nested_tensor,
    join_dtypes,
    nested_dtypes,
    precision_policy,
    with_out_dtype,
)

__all__ = ["ToMixedPrecision"]

_MAX_HALF = 65504
_FLOATS = ("float16", "float32")


@dataclass(frozen=True)
class ToMixedPrecision(Pass):
    """Computes matmuls, convolutions and attention in half precision.

    In dataflow blocks, their operands become float16. Operators of the policy
    `FOLLOW_OPERANDS` compute in half precision if all operands are float16 or constants in
    its range; the rest computes in float32 as before. Outputs of a block keep their types.

    Args:
        out_dtype: the accumulation and result type of contractions.
        fp16_input_names: parameters that become float16.
    """

    out_dtype: str = "float32"
    fp16_input_names: Sequence[str] | None = None

    def run(self, module: IRModule) -> None:
        changed = IRModule(module.functions, attrs=module.attrs)
        for var, function in module.functions.items():
            if isinstance(function, Function):
                analysis = _DtypeRequirements(function.params)
                analysis.visit_expr(function)
                rewriter = _Rewriter(module, analysis.requirements, self)
                changed[var.name_hint] = rewriter.visit_expr(function)
        module.replace_contents(changed)


class _DtypeRequirements(PyExprVisitor):
    """Backward analysis of the element types in which variables are used.

    Attributes:
        requirements: the required types; float16 for tensors that only contractions use.
    """

    def __init__(self, params: Sequence[Var]) -> None:
        self.requirements: dict[Id, NestedDtypes] = {}
        self._params = {param.vid for param in params}
        self._in_dataflow = False

    def _require(self, expr: Expr, required: NestedDtypes) -> None:
        if isinstance(expr, Var):
            earlier = self.requirements.get(expr.vid, required)
            self.requirements[expr.vid] = join_dtypes(earlier, required)
        elif isinstance(expr, Tuple) and isinstance(required, tuple):
            for field, field_dtypes in zip(expr.fields, required, strict=True):
                self._require(field, field_dtypes)

    def visit_var_(self, op: Var) -> None:
        """Visits a use that requires the original type."""
        is_local = self._in_dataflow or op.vid not in self._params
        if is_local and is_nested_tensor(op.struct_info_or_none()):
            self._require(op, nested_dtypes(op.struct_info, "float32"))

    visit_dataflow_var_ = visit_var_

    def visit_seq_expr_(self, op: SeqExpr) -> None:
        """Visits the result first, then the blocks in reverse."""
        self._in_dataflow = True
        self.visit_expr(op.body)
        for block in reversed(op.blocks):
            self._in_dataflow = isinstance(block, DataflowBlock)
            for binding in reversed(block.bindings):
                self.visit_binding(binding)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Records the types that a binding requires of its operands."""
        value = binding.value
        if not self._in_dataflow:
            super().visit_var_binding_(binding)
        elif isinstance(value, Call) and precision_policy(value) is not None:
            required = (
                "float16" if precision_policy(value) == ALWAYS_HALF else "float32"
            )
            for arg in value.args:
                if is_nested_tensor(arg.struct_info_or_none()):
                    self._require(arg, nested_dtypes(arg.struct_info, required))
        elif isinstance(value, (Tuple, TupleGetItem)):
            self._require_fields(binding.var, value)
        else:
            super().visit_var_binding_(binding)

    def _require_fields(self, var: Var, value: Tuple | TupleGetItem) -> None:
        required = self.requirements.get(
            var.vid, nested_dtypes(var.struct_info_or_none(), "")
        )
        if isinstance(value, Tuple):
            self._require(value, required)
            return
        tuple_info = value.tuple_value.struct_info_or_none()
        if isinstance(tuple_info, TupleStructInfo):
            field_dtypes = [nested_dtypes(field, "") for field in tuple_info.fields]
            field_dtypes[value.index] = required
            self._require(value.tuple_value, tuple(field_dtypes))


class _Rewriter(PyExprMutator):
    """Inserts casts and rewrites operators in half precision."""

    def __init__(
        self,
        mod: IRModule,
        requirements: dict[Id, NestedDtypes],
        options: ToMixedPrecision,
    ) -> None:
        super().__init__(mod)
        self.requirements = requirements
        self.out_dtype = options.out_dtype
        self.half_inputs = frozenset(options.fp16_input_names or ())
        self.params: Sequence[Var] = ()

    def visit_function_(self, op: Function) -> Expr:
        """Visits a function and records its parameters."""
        outer, self.params = self.params, op.params
        new_function = super().visit_function_(_check_half_inputs(op, self.half_inputs))
        self.params = outer
        return new_function

    def visit_var_def_(self, var: Var) -> Var:
        """Changes the type of a parameter listed in ``fp16_input_names``."""
        info = var.struct_info_or_none()
        is_input = any(var is param for param in self.params)
        if is_input and var.name_hint in self.half_inputs:
            assert isinstance(info, TensorStructInfo)
            half = info.replace(dtype="float16")
            return Var(var.vid, half)
        return super().visit_var_def_(var)

    def visit_dataflow_block_(self, block: DataflowBlock) -> BindingBlock:
        """Visits a dataflow block; its casts are local to it."""
        before = dict(self._var_remap)
        self.builder_._begin_dataflow_block()
        for param in self.params:
            self._cast_to_half_if_allowed(param)
        for binding in block.bindings:
            self.visit_binding(binding)
        new_block = self.builder_._end_block()
        for binding in block.bindings:
            var = binding.var
            if not isinstance(var, DataflowVar):
                before[var.vid] = Var(var.vid, var.struct_info)
        self._var_remap = before
        return new_block

    def visit_var_(self, op: Var) -> Expr:
        """Returns a variable in its original type."""
        current = self._var_remap.get(op.vid, op)
        if not self.builder_.current_block_is_dataflow():
            return current
        return self._cast(current, nested_dtypes(op.struct_info_or_none()))

    visit_dataflow_var_ = visit_var_

    def visit_binding(self, binding: Binding) -> None:
        """Visits a binding, and casts its variable if all uses accept float16."""
        super().visit_binding(binding)
        if self.builder_.current_block_is_dataflow():
            self._cast_to_half_if_allowed(binding.var)

    def visit_var_binding_(self, binding: VarBinding) -> None:
        """Rewrites a binding according to its value."""
        value = binding.value
        if not self.builder_.current_block_is_dataflow():
            super().visit_var_binding_(binding)
        elif isinstance(value, Call) and precision_policy(value) is not None:
            self._bind(binding.var, self._call(value, binding.var))
        elif isinstance(value, Tuple):
            self._bind(
                binding.var, self._cast_output(self._remapped(value), binding.var)
            )
        elif isinstance(value, TupleGetItem):
            item = TupleGetItem(self._remapped(value.tuple_value), value.index)
            self._bind(binding.var, self._cast_output(item, binding.var))
        else:
            super().visit_var_binding_(binding)

    def _bind(self, var: Var, value: Expr) -> None:
        value = self.builder_.normalize(value)
        new_var = self.with_struct_info(self.visit_var_def(var), value.struct_info)
        if new_var is not var:
            self.set_var_remap(var.vid, new_var)
        self.builder_.emit_normalized(VarBinding(new_var, value))

    def _call(self, call: Call, var: Var) -> Expr:
        args = [self._remapped(arg) for arg in call.args]
        if call.op == Op.of("relax.wrap_param"):
            return args[0]
        policy = precision_policy(call)
        if policy not in (ALWAYS_HALF, FOLLOW_OPERANDS):
            return self._call_in_original_types(call, args)
        is_half = policy == ALWAYS_HALF or _fits_half(args)
        dtype = "float16" if is_half else "float32"
        args = [self._cast_all(arg, dtype) for arg in args]
        attrs = call.attrs
        if policy == ALWAYS_HALF:
            attrs = with_out_dtype(call, self.out_dtype)
        new_call = self.builder_.normalize(
            Call(call.op, args, attrs, call.sinfo_args, call.span)
        )
        if policy == ALWAYS_HALF and isinstance(var, DataflowVar):
            return self._cast_all(new_call, dtype)
        return self._cast_output(new_call, var)

    def _call_in_original_types(self, call: Call, args: Sequence[Expr]) -> Expr:
        """Returns a call with its arguments in their original types."""
        same = all(a is b for a, b in zip(args, call.args, strict=True))
        if same:
            return call
        cast = [
            self._cast(current, nested_dtypes(old.struct_info_or_none()))
            for current, old in zip(args, call.args, strict=True)
        ]
        new_call = Call(call.op, cast, call.attrs, call.sinfo_args, call.span)
        return new_call.with_struct_info(call.struct_info)

    def _cast_output(self, value: Expr, var: Var) -> Expr:
        """Casts outputs of the block to their original types."""
        if isinstance(var, DataflowVar):
            return value
        return self._cast(value, nested_dtypes(var.struct_info_or_none()))

    def _remapped(self, expr: Expr) -> Expr:
        """Returns an expression of the current variables."""
        if isinstance(expr, Var):
            return self._var_remap.get(expr.vid, expr)
        if isinstance(expr, Tuple):
            fields = [self._remapped(field) for field in expr.fields]
            same = all(a is b for a, b in zip(fields, expr.fields, strict=True))
            return expr if same else Tuple(fields)
        return expr

    def _cast_all(self, expr: Expr, dtype: str) -> Expr:
        info = expr.struct_info_or_none()
        if not is_nested_tensor(info):
            return expr
        return self._cast(expr, nested_dtypes(info, dtype))

    def _cast(self, expr: Expr, to: NestedDtypes) -> Expr:
        """Casts the floats of an expression to other types."""
        info = expr.struct_info_or_none()
        if isinstance(info, TupleStructInfo) and isinstance(to, tuple):
            return self._cast_fields(expr, to)
        if not isinstance(info, TensorStructInfo) or not isinstance(to, str):
            return expr
        if info.dtype == to or info.dtype not in _FLOATS or to not in _FLOATS:
            return expr
        return Call(Op.of("relax.astype"), [expr], {"dtype": to})

    def _cast_fields(self, expr: Expr, to: tuple[NestedDtypes, ...]) -> Expr:
        is_known = isinstance(expr, Tuple)
        if not is_known and nested_dtypes(expr.struct_info) == to:
            return expr
        tuple_value = (
            expr if isinstance(expr, (Tuple, Var)) else self.builder_.emit(expr)
        )
        fields = [
            tuple_value.fields[i]
            if isinstance(tuple_value, Tuple)
            else TupleGetItem(tuple_value, i)
            for i in range(len(to))
        ]
        cast = [
            self._cast(f, field_dtypes)
            for f, field_dtypes in zip(fields, to, strict=True)
        ]
        if all(a is b for a, b in zip(cast, fields, strict=True)):
            return tuple_value
        return Tuple(cast)

    def _cast_to_half_if_allowed(self, var: Var) -> None:
        """Casts a variable to float16 if no use requires more."""
        requirement = self.requirements.get(var.vid)
        current = self._var_remap.get(var.vid, var)
        if requirement is None:
            return
        cast = self._cast(
            current, _narrow_dtypes(nested_dtypes(current.struct_info), requirement)
        )
        if cast is not current:
            self.set_var_remap(var.vid, self.builder_.emit(cast))


def _check_half_inputs(function: Function, half: frozenset[str]) -> Function:
    """Checks that the parameters that become float16 are tensors.

    Raises:
        ValueError: one is not.
    """
    for param in function.params:
        info = param.struct_info_or_none()
        if param.name_hint in half and not isinstance(info, TensorStructInfo):
            raise ValueError(
                f"`ToMixedPrecision`: parameter `{param.name_hint}`: expected a tensor, "
                f"got {info}"
            )
    return function


def _narrow_dtypes(current: NestedDtypes, requirement: NestedDtypes) -> NestedDtypes:
    """Returns float16 where nothing more is required, else the current type."""
    if isinstance(current, tuple) and isinstance(requirement, tuple):
        return tuple(
            _narrow_dtypes(k, d) for k, d in zip(current, requirement, strict=True)
        )
    return requirement if requirement == "float16" else current


def _fits_half(args: Sequence[Expr]) -> bool:
    """Returns whether all arguments are float16, or constants in its range."""
    return all(map(_is_half, args))


def _is_half(arg: Expr) -> bool:
    info = arg.struct_info_or_none()
    if not is_nested_tensor(info):
        return True
    if isinstance(arg, Tuple):
        return _fits_half(arg.fields)
    if isinstance(arg, Constant):
        return bool((np.abs(arg.array.astype(np.float64)) <= _MAX_HALF).all())
    return isinstance(info, TensorStructInfo) and info.dtype == "float16"
