"""What a graph is made of beside operators: names, functions, choices, sizes as values.

The front ends write these; ``relax-normalize`` takes them away before a graph is
compiled. A value with the attribute ``relax.name`` is a variable of a script.
"""

from mlir import ir
from mlir.ir import DictAttr, FlatSymbolRefAttr, StringAttr, TupleType

from relax_mlir.dialects.ext import Attr, Operand, Region, Result
from relax_mlir.dialects.relax.core import Relax

__all__ = [
    "IMPURE_OPERATORS",
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


# Operators that do more than compute their result.
IMPURE_OPERATORS = frozenset(
    f"relax.{name}"
    for name in (
        *("assert_op", "call_builtin_with_ctx", "invoke_closure", "print"),
        *("memory.kill_storage", "memory.kill_tensor", "vm.call_tir_dyn"),
        "vm.kill_object",
    )
)


class BindOp(Relax.Operation, name="bind"):
    """A second name for a value."""

    value: Operand[ir.Type]
    result: Result[ir.Type]


class MatchCastOp(Relax.Operation, name="match_cast"):
    """A value whose type is from here on a more exact one; checked when it runs.

    Symbols that nothing above mentions get their values here.
    """

    is_pure = False  # it may fail

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

    is_pure = False  # its branches may hold calls that are not

    condition: Operand[ir.Type]
    result: Result[ir.Type]
    then_branch: Region
    else_branch: Region


class CallOp(Relax.Operation, name="call"):
    """Call a function of the module.

    Attributes:
        callee: the function.
    """

    is_pure = False  # not every function is

    args: Operand[TupleType]
    result: Result[ir.Type]
    callee: FlatSymbolRefAttr


class CallValueOp(Relax.Operation, name="call_value"):
    """Call a function that is a value."""

    is_pure = False

    function: Operand[ir.Type]
    args: Operand[TupleType]
    result: Result[ir.Type]


class CallExternOp(Relax.Operation, name="call_extern"):
    """Call a registered function that makes its own result.

    Attributes:
        callee: name of a tvm-ffi global function.
        attrs: named arguments.
    """

    is_pure = False

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

    @property
    def is_pure(self) -> bool:
        """Whether the operator does nothing but compute its result."""
        return StringAttr(self.attributes["operator"]).value not in IMPURE_OPERATORS

    args: Operand[TupleType]
    result: Result[ir.Type]
    operator: StringAttr
    attrs: DictAttr
    types: Attr
