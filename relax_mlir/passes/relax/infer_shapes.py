"""``relax-infer-shapes``: re-derives result types from argument types."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.prim_func_verifier import argument_shape
from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.relax.core import CallTirOp, RelaxOperation
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations, walk
from relax_mlir.objects.expr.struct_info_types import from_mlir
from relax_mlir.objects.prim.symbolic_sizes import Symbols
from relax_mlir.passes.relax.inline_calls import match_symbols
from relax_mlir.passes.relax.legalize import symbols_of
from relax_mlir.rewrite.functions import substituted_type, symbols_in
from relax_mlir.rewrite.patterns import Pass
from relax_mlir.symbolic.constraints import are_assumed_equal, current_equalities

__all__ = ["InferShapes", "derived_types", "program_call"]


@dataclass(frozen=True)
class InferShapes(Pass):
    """Re-infer the type of every relax value from the types of the function arguments.

    A result takes the inferred type, whether more or less precise than the stated one, even
    with unnamed dimensions (``tensor<?xf32>``); a static size, rank or element type that
    contradicts it is an error. Function types and their callers follow the returned types.
    Operations without ``infer``, such as constants, keep their types, and calls of tensor
    programs keep the ``sizes`` that they pass.
    """

    # The verifier before the first pass skips the type errors that this pass repairs.
    repairs_types = True

    def run(self, module: IRModule) -> None:
        functions = {f.name.value: f for f in module.func_ops()}
        done: set[str] = set()
        for function in functions.values():
            _update(function, functions, done)


def _update(
    function: func.FuncOp, functions: Mapping[str, func.FuncOp], done: set[str]
) -> None:
    """Updates a function after its callees."""
    is_program = function_attributes.is_prim_func(function)
    if function.name.value in done or is_program or function.is_external:
        return
    done.add(function.name.value)
    for op in walk(function):
        callee = _callee(op, functions)
        if callee is not None:
            _update(callee, functions, done)
        try:
            _set_types(op, functions)
        except ValueError as error:
            name = op.operation.name
            raise PassError(
                f"{function_attributes.location_of(op)}: `{name}`: {error}"
            ) from error
    _set_function_type(function)


def _callee(op: ir.OpView, functions: Mapping[str, func.FuncOp]) -> func.FuncOp | None:
    """The callee of a ``relax.call``."""
    if not isinstance(op, graph.CallOp):
        return None
    return functions.get(op.attributes["callee"].value)


def _set_types(op: ir.OpView, functions: Mapping[str, func.FuncOp]) -> None:
    derived = derived_types(op, functions)
    if derived is None:
        return
    for number, (result, type_) in enumerate(zip(op.results, derived, strict=True)):
        if result.type == type_:
            continue
        if _contradict(type_, result.type):
            raise ValueError(
                f"result {number}: expected `{type_}`, got `{result.type}`. "
                "Hint: the operands imply the expected type."
            )
        result.set_type(type_)


def derived_types(
    op: ir.OpView, functions: Mapping[str, func.FuncOp]
) -> list[ir.Type] | None:
    """The result types inferred from the operands, or None if the operation has no inference.

    Args:
        functions: of the module, by name.

    Raises:
        ValueError: the operation does not accept these operands.
    """
    callee = _callee(op, functions)
    if callee is not None:
        return _call_types(op, callee) if _is_graph(callee) else None
    if op.operation.name == tensors.TUPLE_PACK:
        return _packed_type(op)
    if isinstance(op, CallTirOp):
        return _program_types(op, functions)
    if isinstance(op, RelaxOperation) and op.has_infer():
        return op.infer_again()
    return None


def _is_graph(callee: func.FuncOp) -> bool:
    """Whether a callee's function type gives the call's result: a program has no results."""
    return not function_attributes.is_prim_func(callee)


def _packed_type(cast: ir.OpView) -> list[ir.Type] | None:
    """The tuple type of a cast that packs its operands; None for other casts."""
    if [type(r.type) for r in cast.results] != [ir.TupleType]:
        return None
    return [ir.TupleType.get_tuple([o.type for o in cast.operands])]


def _call_types(call: ir.OpView, callee: func.FuncOp) -> list[ir.Type] | None:
    """The result types of a call in the caller's sizes; checks the arguments."""
    operands = tensors.tuple_elements(call.operands[0])
    values = match_symbols(list(callee.type.inputs), [o.type for o in operands])
    for number, (param, operand) in enumerate(
        zip(callee.type.inputs, operands, strict=True)
    ):
        expected = substituted_type(param, values)
        if not _accepts(expected, operand.type):
            raise ValueError(
                f"argument {number} of `{callee.name.value}`: "
                f"expected `{expected}`, got `{operand.type}`"
            )
    results = list(callee.type.results)
    if any(name not in values for name in symbols_in(results)):
        return None  # symbols defined in the callee
    types = [substituted_type(type_, values) for type_ in results]
    return [tensors.packed_type(types)]


def _accepts(param: ir.Type, given: ir.Type) -> bool:
    """Whether a value of a type may be passed to a parameter; either may be less precise."""
    if param == given:
        return True
    symbols = Symbols()
    if from_mlir(param, symbols).is_base_of(from_mlir(given, symbols)):
        return True
    ranked = (ir.RankedTensorType, ir.TupleType)
    has_names = not isinstance(param, ranked) or _is_named(param)
    return isinstance(given, ranked) and has_names and not _contradict(param, given)


def _is_named(type_: ir.Type) -> bool:
    """Whether every dimension in a type is static or symbolic."""
    if isinstance(type_, ir.TupleType):
        return all(map(_is_named, tensors.tuple_types(type_)))
    if not isinstance(type_, ir.RankedTensorType):
        return False
    return tensors.has_known_shape(type_)


def _program_types(
    call: CallTirOp, functions: Mapping[str, func.FuncOp]
) -> list[ir.Type]:
    """The types of a tensor program's outputs in the caller's sizes; checks its inputs."""
    program, sizes, expected = program_call(call, functions)
    name, operands = program.name.value, tensors.tuple_elements(call.args)
    derived = [
        _as_tensor(program, number, type_, sizes)
        for number, type_ in enumerate(expected)
    ]
    for number, operand in enumerate(operands):
        if operand.type != derived[number]:
            raise ValueError(
                f"argument {number} of `{name}`: "
                f"expected `{derived[number]}`, got `{operand.type}`"
            )
    types = derived[len(operands) :]
    if isinstance(call.result.type, ir.TupleType):
        return [ir.TupleType.get_tuple(types)]
    return types


def program_call(
    call: CallTirOp, functions: Mapping[str, func.FuncOp]
) -> tuple[func.FuncOp, dict[str, Dim], list[ir.Type]]:
    """The callee, its symbols in terms of the caller's sizes, and the types of its buffers.

    Raises:
        ValueError: there is no such program, or it takes other buffers or sizes.
    """
    name = call.attributes["callee"].value
    program = functions.get(name)
    if program is None or not function_attributes.is_prim_func(program):
        raise ValueError(f"module has no tensor program `{name}`")
    types = [o.type for o in tensors.tuple_elements(call.args)] + tensors.tuple_types(
        call.result.type
    )
    count = sum(isinstance(t, ir.MemRefType) for t in program.type.inputs)
    if len(types) != count:
        raise ValueError(
            f"`{name}` takes {count} buffers, got {len(types)} operands and results"
        )
    return program, _sizes(call, program), types


def _sizes(call: CallTirOp, program: func.FuncOp) -> dict[str, Dim]:
    """The values of the program's symbols, in terms of the caller's."""
    names = symbols_of(program)
    values = tensors.python_value(call.attributes["sizes"])
    if len(names) != len(values):
        raise ValueError(
            f"`{program.name.value}` has {len(names)} symbols, got {len(values)} sizes"
        )
    return dict(zip(names, values, strict=True))


def _as_tensor(
    program: func.FuncOp, number: int, type_: ir.Type, sizes: Mapping[str, Dim]
) -> ir.Type:
    """The tensor type of a program's buffer in the caller's sizes.

    The element type is the tensor's: that of a buffer is signless.
    """
    dtype = tensors.dtype_of(type_)
    element = program.type.inputs[number].element_type
    if dtype.buffer_type != element:
        raise ValueError(
            f"buffer {number} of `{program.name.value}` holds {element}, got {dtype}"
        )
    shape = [shapes.substitute(d, sizes) for d in argument_shape(program, number)]
    if current_equalities() and len(shape) == ir.RankedTensorType(type_).rank:
        stated = tensors.shape_of(type_)
        pairs = zip(shape, stated, strict=True)
        shape = [d if are_assumed_equal(d, ours) else ours for ours, d in pairs]
    made = tensors.tensor_type(shape, dtype)
    place = tensors.device_of(type_)  # the virtual device is the caller's, too
    if place is None:
        return made
    return ir.RankedTensorType.get(
        list(made.shape), made.element_type, tensors.shape_and_device_attr(shape, place)
    )


def _set_function_type(function: func.FuncOp) -> None:
    results = [
        value.type
        for block in function.regions[0].blocks
        for op in own_operations(block)
        if op.operation.name == "func.return"
        for value in op.operands
    ]
    signature = ir.FunctionType.get([a.type for a in function.arguments], results)
    if signature != function.type:
        function.attributes["function_type"] = ir.TypeAttr.get(signature)


def _contradict(derived: ir.Type, stated: ir.Type) -> bool:
    """Whether no values of the symbols make two types equal."""
    if isinstance(derived, ir.TupleType) and isinstance(stated, ir.TupleType):
        pairs = zip_longest(tensors.tuple_types(derived), tensors.tuple_types(stated))
        return any(a is None or b is None or _contradict(a, b) for a, b in pairs)
    both = (derived, stated)
    if not all(isinstance(type_, ir.RankedTensorType) for type_ in both):
        return derived != stated
    if derived.element_type != stated.element_type or derived.rank != stated.rank:
        return True
    dims = zip(tensors.shape_of(derived), _stated_dims(stated), strict=True)
    return any(d is not None and shapes.is_known_unequal(s, d) for s, d in dims)


def _stated_dims(type_: ir.RankedTensorType) -> list[Dim | None]:
    """The dimensions of a tensor, None for an unnamed dynamic one."""
    if type_.encoding is not None:
        return list(tensors.shape_of(type_))
    dynamic = ir.ShapedType.get_dynamic_size()
    return [None if size == dynamic else size for size in type_.shape]
