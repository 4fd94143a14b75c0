"""What a graph is made of beside operators: names, functions, choices, sizes as values.

The front ends write these; ``relax-normalize`` takes them away before a graph is
compiled. A value with the attribute ``relax.name`` is a variable of a script.
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


# Operators that have no operation of their own: all of them, and what each does.
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
    """A second name for a value."""

    value: Operand[ir.Type]
    result: Result[ir.Type]


class MatchCastOp(Relax.Operation, name="match_cast"):
    """A value whose type is from here on a more exact one; checked when it runs.

    Symbols that nothing above mentions get their values here.
    """

    effects = Effects.CHECKS

    value: Operand[ir.Type]
    result: Result[ir.Type]


class ShapeExprOp(Relax.Operation, name="shape_expr"):
    """Sizes as a value: what its type says."""

    result: Result[ir.Type]


class PrimValueOp(Relax.Operation, name="prim_value"):
    """A scalar as a value: a number, or what its type says.

    Attributes:
        value: the number, or ``unit`` where the type holds an expression.
    """

    result: Result[ir.Type]
    value: Attr


class StringOp(Relax.Operation, name="string"):
    """A string as a value."""

    result: Result[ir.Type]
    value: StringAttr


class DataTypeOp(Relax.Operation, name="data_type"):
    """An element type as a value, by its name."""

    result: Result[ir.Type]
    value: StringAttr


class GlobalVarOp(Relax.Operation, name="global_var"):
    """A function of the module as a value."""

    result: Result[ir.Type]
    callee: FlatSymbolRefAttr


class ExternFuncOp(Relax.Operation, name="extern_func"):
    """A registered function as a value, by its name."""

    result: Result[ir.Type]
    callee: StringAttr


class FreeVarOp(Relax.Operation, name="free_var"):
    """A variable that nothing around it defines, such as a function alone may mention.

    A program that is compiled has none.

    Attributes:
        called: its name.
    """

    result: Result[ir.Type]
    called: StringAttr


class FunctionOp(Relax.Operation, name="function"):
    """A function inside a function; it sees the values around it.

    The arguments of its region are its parameters; ``gpu.yield`` gives the result (IRDL
    cannot define a terminator).

    Attributes:
        attrs: the function's attributes, and ``is_pure``.
    """

    result: Result[ir.Type]
    attrs: DictAttr
    body: Region


class IfOp(Relax.Operation, name="if"):
    """One of two results; each region ends in the ``gpu.yield`` of its own."""

    condition: Operand[ir.Type]
    result: Result[ir.Type]
    then_branch: Region
    else_branch: Region


class CallOp(Relax.Operation, name="call"):
    """Call a function of the module.

    Attributes:
        callee: the function.
    """

    effects = Effects.UNKNOWN  # the callee has its own

    args: Operand[TupleType]
    result: Result[ir.Type]
    callee: FlatSymbolRefAttr


class CallValueOp(Relax.Operation, name="call_value"):
    """Call a function that is a value."""

    effects = Effects.UNKNOWN  # the type of the callee may say less

    function: Operand[ir.Type]
    args: Operand[TupleType]
    result: Result[ir.Type]


class CallExternOp(Relax.Operation, name="call_extern"):
    """Call a registered function that makes its own result.

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
    """An operator of Relax in a form that no operation of its own can have.

    It stands where the types of the operands are not known well enough, where a size is
    computed, and for operators that have no operation.

    Attributes:
        operator: Relax's name, such as ``relax.add``.
        attrs: its attributes.
        types: its type arguments.
    """

    effects = Effects.UNKNOWN  # those of the operator are its own

    args: Operand[TupleType]
    result: Result[ir.Type]
    operator: StringAttr
    attrs: DictAttr
    types: Attr
