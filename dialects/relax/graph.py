"""Non-operator expressions of Relax: bindings, functions, conditionals, shape values.

The front ends emit these; ``relax-normalize`` removes them before compilation. A value
with the attribute ``relax.name`` is a variable of the script.
"""

from collections.abc import Mapping

from mlir import ir
from mlir.ir import DictAttr, FlatSymbolRefAttr, StringAttr, TupleType

from relax_mlir.dialects.effects import Effects
from relax_mlir.dialects.ext import Attr, Operand, Region, Result
from relax_mlir.dialects.relax.core import Relax

__all__ = [
    "OPERATOR_EFFECTS",
    "BindOp",
    "CallExternOp",
    "CallOp",
    "CallOperatorOp",
    "CallValueOp",
    "DataTypeOp",
    "ExternFuncOp",
    "FreeVarOp",
    "FunctionOp",
    "GlobalVarOp",
    "IfOp",
    "MatchCastOp",
    "PrimValueOp",
    "ShapeExprOp",
    "StringOp",
]


# Effects of all operators without an operation of their own (`relax.call_operator`).
OPERATOR_EFFECTS: Mapping[str, Effects] = {
    f"relax.{name}": effects
    for effects, names in (
        (
            Effects.NONE,
            (
                *("call_tir", "call_tir_with_grad", "make_closure", "null_value"),
                *("shape_of", "tensor_to_shape", "builtin.stop_lift_params"),
                *("memory.view", "memory.ensure_zero_offset", "to_vdevice"),
                *("hint_on_device", "wrap_param", "size"),
                *("inspect.tensor_byte_offset", "inspect.tensor_elem_offset"),
                *("inspect.tensor_dtype_bits", "inspect.tensor_dtype_code"),
                *("inspect.tensor_dtype_lanes", "inspect.tensor_ndim"),
                *("inspect.tensor_shape_i", "inspect.tensor_stride_i"),
            ),
        ),
        (
            Effects.ALLOCATES,
            (
                *("builtin.alloc_tensor", "memory.alloc_storage"),
                *("memory.alloc_tensor", "vm.alloc_storage", "vm.alloc_tensor"),
            ),
        ),
        (
            Effects.CALLS,
            ("call_dps_packed", "call_pure_packed", "call_py_func"),
        ),
        (Effects.CALLS | Effects.ALLOCATES, ("invoke_pure_closure",)),
        (Effects.OVERWRITES, ("call_tir_inplace",)),
        (Effects.CALLS | Effects.OVERWRITES, ("call_inplace_packed",)),
        (
            Effects.WRITES,
            (
                *("memory.kill_storage", "memory.kill_tensor", "vm.kill_object"),
                "vm.call_tir_dyn",
            ),
        ),
        (Effects.OBSERVED, ("print",)),
        (Effects.CHECKS | Effects.OBSERVED, ("assert_op",)),
        (Effects.UNKNOWN, ("call_builtin_with_ctx", "invoke_closure")),
    )
    for name in names
}


class BindOp(Relax.Operation, name="bind"):
    """A variable binding: another name for a value."""

    value: Operand[ir.Type]
    result: Result[ir.Type]


class MatchCastOp(Relax.Operation, name="match_cast"):
    """Refines the type of a value (``R.match_cast``); checked at run time.

    New symbols in the result type are defined here.
    """

    effects = Effects.CHECKS

    value: Operand[ir.Type]
    result: Result[ir.Type]


class ShapeExprOp(Relax.Operation, name="shape_expr"):
    """A shape value; the sizes are in its type."""

    result: Result[ir.Type]


class PrimValueOp(Relax.Operation, name="prim_value"):
    """A scalar value (``R.prim_value``).

    Attributes:
        value: the number, or ``unit`` if the type holds an expression.
    """

    result: Result[ir.Type]
    value: Attr


class StringOp(Relax.Operation, name="string"):
    """A string value (``R.str``)."""

    result: Result[ir.Type]
    value: StringAttr


class DataTypeOp(Relax.Operation, name="data_type"):
    """An element type as a value (``R.dtype``), given by name."""

    result: Result[ir.Type]
    value: StringAttr


class GlobalVarOp(Relax.Operation, name="global_var"):
    """A reference to a function of the module, as a value."""

    result: Result[ir.Type]
    callee: FlatSymbolRefAttr


class ExternFuncOp(Relax.Operation, name="extern_func"):
    """A reference to a packed function (``R.ExternFunc``), given by name."""

    result: Result[ir.Type]
    callee: StringAttr


class FreeVarOp(Relax.Operation, name="free_var"):
    """A free variable, in a function that is not closed.

    A program with free variables cannot be compiled.

    Attributes:
        called: the variable's name.
    """

    result: Result[ir.Type]
    called: StringAttr


class FunctionOp(Relax.Operation, name="function"):
    """A local function (closure), which may use values of the enclosing function.

    The arguments of its region are its parameters; ``gpu.yield`` returns the result (IRDL
    cannot define a terminator).

    Attributes:
        attrs: the function's attributes and ``is_pure``.
    """

    result: Result[ir.Type]
    attrs: DictAttr
    body: Region


class IfOp(Relax.Operation, name="if"):
    """A conditional; each branch ends with a ``gpu.yield`` of its result."""

    condition: Operand[ir.Type]
    result: Result[ir.Type]
    then_branch: Region
    else_branch: Region


class CallOp(Relax.Operation, name="call"):
    """Calls a function of the module.

    Attributes:
        callee: the function.
    """

    effects = Effects.UNKNOWN  # those of the callee

    args: Operand[TupleType]
    result: Result[ir.Type]
    callee: FlatSymbolRefAttr


class CallValueOp(Relax.Operation, name="call_value"):
    """Calls a function value."""

    effects = Effects.UNKNOWN  # the type of the callee may bound them

    function: Operand[ir.Type]
    args: Operand[TupleType]
    result: Result[ir.Type]


class CallExternOp(Relax.Operation, name="call_extern"):
    """Calls a packed function that returns a new object.

    Attributes:
        callee: name of a tvm-ffi global function.
        attrs: named arguments.
    """

    effects = Effects.UNKNOWN

    args: Operand[TupleType]
    result: Result[ir.Type]
    callee: StringAttr
    attrs: DictAttr


class CallOperatorOp(Relax.Operation, name="call_operator"):
    """A generic call of a Relax operator by name.

    Used where the types of the operands are not known precisely enough, where a size is
    computed, and for operators without an operation of their own.

    Attributes:
        operator: Relax's name, such as ``relax.add``.
        attrs: the operator's attributes.
        types: the type arguments (``sinfo_args``).
    """

    effects = Effects.UNKNOWN  # those of the operator

    args: Operand[TupleType]
    result: Result[ir.Type]
    operator: StringAttr
    attrs: DictAttr
    types: Attr
