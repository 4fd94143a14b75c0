"""``tir-make-main``: a ``main`` entry point around one tensor program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.access_bounds import required_sizes
from relax_mlir.analysis.prim_func_verifier import argument_shape
from relax_mlir.dialects import dtypes, shapes
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import attribute_names
from relax_mlir.errors import PassError, near_misses
from relax_mlir.ir.function_attributes import is_prim_func
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.read.params import string_attr
from relax_mlir.passes.main_signature import (
    PLAN_ATTRIBUTES,
    Argument,
    arena_argument,
    array_argument,
    derived_sizes,
    set_signature,
    size_argument,
)
from relax_mlir.passes.shape_function import emit_shape_function
from relax_mlir.rewrite.patterns import Pass, erase
from relax_mlir.schedules.builder import op
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["MakeMain"]


@dataclass(frozen=True)
class MakeMain(Pass):
    """Emit a ``main`` on buffers that calls one tensor program, and remove the others.

    The inputs of ``main`` are the parameters of the program in the order of its script,
    including the buffers that it writes; it has no outputs. A scalar is passed as a rank-0
    array.

    Args:
        program: its name.
        integers: whether the program also loads from memory integers that are not buffer
            sizes, since GPU launches cannot compute with these.
    """

    program: str
    integers: bool = False

    def run(self, module: IRModule) -> None:
        programs = {f.name.value: f for f in module.func_ops() if is_prim_func(f)}
        if self.program not in programs:
            raise PassError(
                f"module has no tensor program `{self.program}`: expected one of "
                f"{', '.join(programs) or 'none'}.{near_misses(self.program, programs)}"
            )
        function = programs[self.program]
        for other in list(module.func_ops()):
            if other.name.value != self.program:
                erase(other)
        if self.program == "main":  # the name of the entry point
            function.attributes["sym_name"] = ir.StringAttr.get("main.program")
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        with function.location:
            if self.integers:
                _load_integers(function, self.program)
            _load_scalars(function)
            _write_main(module, function)


def _load_integers(function: func.FuncOp, program: str) -> None:
    """Makes a program load integer parameters that are not buffer sizes from memory.

    Args:
        program: its name, for errors.

    Raises:
        PassError: one bounds a loop at the top of the program.
    """
    attributes, entry = function.attributes, function.entry_block
    arguments = list(entry.arguments)
    buffers = [n for n, a in enumerate(arguments) if isinstance(a.type, ir.MemRefType)]
    dims = [dim for n in buffers for dim in argument_shape(function, n)]
    sizes = {s for d in dims if not isinstance(d, int) for s in shapes.symbols_of(d)}
    described = list(attributes.get("arg_attrs", ()))
    for number, argument in enumerate(arguments):
        own = _described(function, number)
        symbol = string_attr(own, attribute_names.SYMBOL, "")
        if attribute_names.PARAM not in own or not symbol or symbol in sizes:
            continue
        element = dtypes.dtype(
            string_attr(own, attribute_names.DTYPE, "int64")
        ).buffer_type
        readers = [(use.owner, use.operand_number) for use in argument.uses]
        if _bounds_loop(argument, entry, set()):
            name = string_attr(own, "relax.name", symbol)
            raise PassError(
                f"`{program}`: `{name}` is the trip count of a loop that may be bound to GPU "
                "threads: expected a constant or a buffer size"
            )
        argument.set_type(element)
        for reader, place in readers:
            with ir.InsertionPoint(reader), reader.location:
                index = op("arith.index_cast", ir.IndexType.get(), argument)
                reader.operands[place] = index
        kept = {a.name: a.attr for a in own if a.name != attribute_names.SYMBOL}
        described[number] = ir.DictAttr.get(kept)
    attributes["arg_attrs"] = ir.ArrayAttr.get(described)
    types = [argument.type for argument in entry.arguments]
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))


def _bounds_loop(value: ir.Value, entry: ir.Block, seen: set[ir.Value]) -> bool:
    """Whether a value, or one computed from it in the same block, bounds a loop.

    Args:
        seen: visited values; updated.
    """
    if value in seen:
        return False
    seen.add(value)
    readers = [use.owner.operation for use in value.uses]
    return any(
        reader.name == "scf.for"
        or any(_bounds_loop(r, entry, seen) for r in reader.results)
        for reader in readers
        if reader.block == entry
    )


def _load_scalars(function: func.FuncOp) -> None:
    """Makes a program load scalar parameters from memory."""
    arguments = list(function.entry_block.arguments)
    numbers = [
        number
        for number, argument in enumerate(arguments)
        if not isinstance(argument.type, (ir.MemRefType, ir.IndexType))
    ]
    for argument in (arguments[n] for n in numbers):
        element = argument.type
        stored = dtypes.from_mlir(element).buffer_type  # i1 is stored as a byte
        readers = [(use.owner, use.operand_number) for use in argument.uses]
        argument.set_type(ir.MemRefType.get([], stored))
        for reader, place in readers:
            with ir.InsertionPoint(reader), reader.location:
                value = op("memref.load", stored, argument)
                if stored != element:
                    value = op("arith.trunci", element, value)
                reader.operands[place] = value
    if numbers:
        _reorder(
            function,
            [*numbers, *(n for n in range(len(arguments)) if n not in numbers)],
        )


def _reorder(function: func.FuncOp, order: Sequence[int]) -> None:
    """Permutes the arguments, so that destinations are the last buffers."""
    block = function.entry_block
    arguments = list(block.arguments)
    for number in order:
        argument = arguments[number]
        made = block.add_argument(argument.type, argument.location)
        argument.replace_all_uses_with(made)
    for _ in arguments:
        block.erase_argument(0)
    attributes = function.attributes
    described = list(ir.ArrayAttr(attributes["arg_attrs"]))
    attributes["arg_attrs"] = ir.ArrayAttr.get([described[n] for n in order])
    types = [a.type for a in block.arguments]
    attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    listed: Sequence[int] = range(len(order))
    if attribute_names.ORDER in attributes:
        listed = list(ir.DenseI64ArrayAttr(attributes[attribute_names.ORDER]))
    moved = [order.index(n) for n in listed]
    attributes[attribute_names.ORDER] = ir.DenseI64ArrayAttr.get(moved)


@dataclass(frozen=True)
class _Parameter:
    """A parameter of the program: its argument's number, shape and attributes."""

    number: int
    dims: tuple[Dim, ...]
    argument: Argument


def _write_main(module: IRModule, program: func.FuncOp) -> None:
    parameters = _parameters(program)
    symbols = list(
        dict.fromkeys(
            name
            for p in parameters
            for dim in p.dims
            if not isinstance(dim, int)
            for name in shapes.symbols_of(dim)
        )
    )
    arguments = [p.argument for p in parameters]
    arguments += [arena_argument(), *map(size_argument, symbols)]
    types = [type_ for type_, _ in arguments]
    with ir.InsertionPoint.at_block_begin(module.mlir.body):
        main = func.FuncOp("main", ir.FunctionType.get(types, []))
        main.attributes["relax.main"] = ir.UnitAttr.get()
        for name in PLAN_ATTRIBUTES:
            main.attributes[name] = ir.StringAttr.get("0")
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([a for _, a in arguments])
        _write_call(main.add_entry_block(), program, parameters, symbols)
        dims = [dim for p in parameters for dim in p.dims]
        required = _required(program, symbols)
        derived = derived_sizes(symbols, dims, required)
        emit_shape_function(symbols, derived)
    set_signature(module, (a for _, a in arguments), symbols, derived, required, "0")


def _required(program: func.FuncOp, symbols: Sequence[str]) -> list[Constraint]:
    """The constraints on array sizes under which all accesses are in bounds.

    Raises:
        PassError: the program accesses memory out of bounds for all sizes.
    """
    try:
        found = required_sizes(program)
    except ValueError as error:
        raise PassError(str(error)) from error
    return [
        c
        for c in found
        if all(name in symbols for d in (c.lhs, c.rhs) for name in shapes.symbols_of(d))
    ]


def _parameters(program: func.FuncOp) -> list[_Parameter]:
    """The arrays that a program takes, in the order of its script."""
    attributes = program.attributes
    arguments = list(program.entry_block.arguments)
    order = range(len(arguments))
    if attribute_names.ORDER in attributes:
        order = list(ir.DenseI64ArrayAttr(attributes[attribute_names.ORDER]))
    found = []
    for number in order:
        described = _described(program, number)
        type_ = arguments[number].type
        name = string_attr(described, "relax.name", f"arg{number}")
        if isinstance(type_, ir.MemRefType):
            element = dtypes.from_mlir(type_.element_type).name
            dtype = dtypes.dtype(string_attr(described, attribute_names.DTYPE, element))
            dims = argument_shape(program, number)
        elif attribute_names.PARAM in described:
            dtype = dtypes.dtype(string_attr(described, attribute_names.DTYPE, "int64"))
            dims = ()
        else:
            continue
        argument = array_argument(dims, dtype, {"relax.input": name})
        found.append(_Parameter(number, dims, argument))
    return found


def _described(program: func.FuncOp, number: int) -> ir.DictAttr:
    if "arg_attrs" not in program.attributes:
        return ir.DictAttr.get({})
    return ir.DictAttr(ir.ArrayAttr(program.attributes["arg_attrs"])[number])


def _write_call(
    block: ir.Block,
    program: func.FuncOp,
    parameters: Sequence[_Parameter],
    symbols: Sequence[str],
) -> None:
    places = {
        p.number: value for p, value in zip(parameters, block.arguments, strict=False)
    }
    sizes = dict(
        zip(symbols, list(block.arguments)[len(parameters) + 1 :], strict=True)
    )
    operands = []
    with ir.InsertionPoint(block):
        for number, argument in enumerate(program.entry_block.arguments):
            if isinstance(argument.type, ir.MemRefType):
                operands.append(places[number])
                continue
            name = ir.StringAttr(
                _described(program, number)[attribute_names.SYMBOL]
            ).value
            if name in sizes:
                operands.append(sizes[name])
            else:
                operands.append(_loaded(places[number]))
        func.CallOp([], program.name.value, operands)
        func.ReturnOp([])


def _loaded(memory: ir.Value) -> ir.Value:
    """A scalar loaded from memory, as an index."""
    value = op("memref.load", ir.MemRefType(memory.type).element_type, memory)
    return op("arith.index_cast", ir.IndexType.get(), value)
