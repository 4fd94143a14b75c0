"""Size arguments of calls of tensor programs."""

from collections.abc import Mapping

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.prim_func_verifier import argument_shape
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.objects.expr.struct_info import PrimStructInfo, ShapeStructInfo
from relax_mlir.objects.expr.struct_info_types import from_mlir
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.passes.relax.legalize import flat_types
from relax_mlir.rewrite.functions import copy_script_attributes, erase_unused_inline
from relax_mlir.rewrite.patterns import replace

__all__ = ["in_place_arguments", "infer_call_sizes", "lower_in_place_calls"]


def infer_call_sizes(module: IRModule, function: func.FuncOp) -> None:
    """Fills in the values of the callee's symbols in every call of a tensor program.

    Raises:
        PassError: an operand or a result does not fit the program.
    """
    programs = {
        f.name.value: f
        for f in module.func_ops()
        if function_attributes.is_prim_func(f)
    }
    for op in operations_of(function):
        if isinstance(op, CallTirOp):
            callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
            if callee not in programs:
                raise PassError(
                    f"{op.location}: module has no tensor program `{callee}`"
                )
            _fill(op, programs[callee])


def lower_in_place_calls(function: func.FuncOp) -> None:
    """Rewrites ``call_tir_inplace`` as ``call_tir`` with an attribute for in-place results.

    Only the fusion of tensor programs reads the attribute; other calls stay operators.
    """
    for op in operations_of(function):
        is_in_place = (
            isinstance(op, graph.CallOperatorOp)
            and op.operator.value == "relax.call_tir_inplace"
        )
        if not is_in_place:
            continue
        callee, arguments, *sizes = tensors.tuple_elements(op.args)
        places = from_attribute(op.attrs)["inplace_indices"]
        with ir.InsertionPoint(op), op.location:
            call = CallTirOp(
                tensors.tuple_elements(arguments),
                callee=ir.FlatSymbolRefAttr(callee.owner.attributes["callee"]).value,
                sizes=tensors.shape_attr([]),
                results=[op.result.type],
            )
        call.attributes[function_attributes.IN_PLACE] = to_attribute(places)
        if sizes:
            symbols = Symbols()
            info = from_mlir(sizes[0].type, symbols)
            assert isinstance(info, ShapeStructInfo)
            dims = symbols.dims(info.values or ())
            call.attributes[function_attributes.TIR_VARS] = tensors.shape_attr(dims)
        copy_script_attributes(op, call)
        replace(op, call.result)
    erase_unused_inline(function)


def _fill(op: CallTirOp, program: func.FuncOp) -> None:
    symbols = _symbols(program)
    stated = op.attributes["sizes"]
    if len(tensors.python_value(stated)) == len(symbols):
        _drop_explicit(op)
        return
    _move_scalars_to_tir_vars(op)
    values = _explicit(op, symbols)
    operands = [v.type for v in tensors.tuple_elements(op.args)]
    results = [
        type_
        for type_, place in zip(
            flat_types([op.result]), in_place_arguments(op), strict=True
        )
        if place < 0
    ]
    for number, type_ in enumerate([*operands, *results]):
        _match(op, program, number, type_, values)
    missing = [name for name in symbols if name not in values]
    if missing:
        raise PassError(
            f"{op.location}: `{program.name.value}`: no argument or result determines the "
            f"size `{missing[0]}`"
        )
    sizes = [values[name] for name in symbols]
    op.attributes["sizes"] = tensors.shape_attr(sizes)
    _drop_explicit(op)


def in_place_arguments(op: CallTirOp) -> list[int]:
    """Per result of a call, the argument that it overwrites; -1 for a new tensor."""
    if function_attributes.IN_PLACE not in op.attributes:
        return [-1] * len(flat_types([op.result]))
    return [
        int(place)
        for place in from_attribute(op.attributes[function_attributes.IN_PLACE])
    ]


def _move_scalars_to_tir_vars(op: CallTirOp) -> None:
    """Moves the scalar arguments of a call from its tensor list to ``tir_vars``.

    Raises:
        PassError: a scalar is neither an integer nor an expression of sizes.
    """
    given = tensors.tuple_elements(op.args)
    kept = [v for v in given if not str(v.type).startswith(_SCALAR)]
    if len(kept) == len(given):
        return
    scalars = [_dim_of(op, v) for v in given if v not in kept]
    if function_attributes.IN_PLACE in op.attributes:
        moved = [p if p < 0 else kept.index(given[p]) for p in in_place_arguments(op)]
        op.attributes[function_attributes.IN_PLACE] = to_attribute(moved)
    if function_attributes.TIR_VARS in op.attributes:
        scalars += tensors.python_value(op.attributes[function_attributes.TIR_VARS])
    op.attributes[function_attributes.TIR_VARS] = tensors.shape_attr(scalars)
    with ir.InsertionPoint(op), op.location:
        op.operation.operands[0] = tensors.pack_tuple(kept)


_SCALAR = "!relax.prim<"


def _dim_of(op: CallTirOp, scalar: ir.Value) -> Dim:
    symbols = Symbols()
    info = from_mlir(scalar.type, symbols)
    is_size = isinstance(info, PrimStructInfo) and info.value is not None
    if not is_size or not info.value.is_integer:
        raise PassError(
            f"{op.location}: scalar argument: expected an integer, or an expression of "
            f'sizes, got {info}. Hint: `R.Prim(value="n")` names the value of a parameter.'
        )
    return symbols.dim(info.value)


def _symbols(program: func.FuncOp) -> dict[str, bool]:
    """The symbols of a program in order, and whether calls pass them explicitly."""
    if "arg_attrs" not in program.attributes:
        return {}
    attrs = map(ir.DictAttr, ir.ArrayAttr(program.attributes["arg_attrs"]))
    return {
        ir.StringAttr(a[attribute_names.SYMBOL]).value: attribute_names.PARAM in a
        for a in attrs
        if attribute_names.SYMBOL in a
    }


def _explicit(op: CallTirOp, symbols: Mapping[str, bool]) -> dict[str, Dim]:
    """The sizes that the call passes explicitly."""
    if function_attributes.TIR_VARS not in op.attributes:
        return {}
    listed = tensors.python_value(op.attributes[function_attributes.TIR_VARS])
    params = [name for name, is_param in symbols.items() if is_param]
    if len(params) != len(listed):
        raise PassError(
            f"{op.location}: expected {len(params)} size arguments (`tir_vars`), got "
            f"{len(listed)}"
        )
    return dict(zip(params, listed, strict=True))


def _match(
    op: CallTirOp,
    program: func.FuncOp,
    number: int,
    type_: ir.Type,
    values: dict[str, Dim],
) -> None:
    """Binds symbols by matching the shape of one buffer."""
    try:
        buffer = argument_shape(program, number)
        actual = tensors.shape_of(type_)
    except ValueError as error:
        raise PassError(f"{op.location}: `{program.name.value}`: {error}") from error
    if len(buffer) != len(actual):
        raise PassError(
            f"{op.location}: `{program.name.value}`: buffer {number}: expected "
            f"{len(buffer)} dimensions, got `{type_}`"
        )
    for size, given in zip(buffer, actual, strict=True):
        name = str(size)
        if shapes.symbols_of(size) == (name,):
            values.setdefault(name, given)


def _drop_explicit(op: CallTirOp) -> None:
    if function_attributes.TIR_VARS in op.attributes:
        del op.attributes[function_attributes.TIR_VARS]
