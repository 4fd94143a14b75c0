"""``relax-normalize``: from Relax as scripts write it to the form that lowering expects."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of, set_constraints
from relax_mlir.ir.traversal import blocks_of, operations_of, own_operations
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.passes.relax.bind_sizes import BindSizes
from relax_mlir.passes.relax.check_indices import (
    drop_checks,
    insert_index_checks,
    keep_checks,
)
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.passes.relax.flatten_tuples import flatten_parameters, flatten_results
from relax_mlir.passes.relax.if_conversion import convert_ifs_to_selects
from relax_mlir.passes.relax.infer_shapes import InferShapes
from relax_mlir.passes.relax.inline_calls import inline_calls
from relax_mlir.passes.relax.program_sizes import infer_call_sizes
from relax_mlir.passes.relax.refine_operators import refine_operators
from relax_mlir.passes.relax.size_casts import sizes_in
from relax_mlir.rewrite.functions import (
    SCRIPT_ATTRIBUTES,
    dataflow_block_number,
    graph_functions,
    substitute_sizes,
    symbols_in,
)
from relax_mlir.rewrite.patterns import Pass, erase_dead, replace
from relax_mlir.symbolic import constraints, symbols
from relax_mlir.symbolic.constraints import Constraint

__all__ = ["Normalize", "is_script"]


@dataclass(frozen=True)
class Normalize(Pass):
    """Reduce graph functions to tensor operations and calls of tensor programs.

    Aliases are removed, calls between graph functions inlined, tuple parameters and results
    flattened, branches if-converted, casts turned into size constraints, operators of known
    types turned into operations, and the size arguments of tensor program calls filled in.

    Args:
        entry: the entry function, renamed to ``main``; functions that it does not reach are
            removed.
        keep_script: only turn operators into operations and merge adjacent dataflow blocks.
        check_indices: insert bounds checks of indices, as ``relax-check-indices`` does;
            otherwise existing checks are removed, unless an earlier run kept them.
    """

    # Hand-written types may be less precise than inference.
    repairs_types = True
    entry: str = "main"
    keep_script: bool = False
    check_indices: bool = False

    def run(self, module: IRModule) -> None:
        if self.keep_script:
            for function in graph_functions(module):
                refine_operators(module, function)
                for block in blocks_of(function):
                    _merge_dataflow_blocks(block)
            return
        if self.check_indices:
            keep_checks(module)
        else:
            drop_checks(module)
        if not is_script(module):
            self._check(module, graph_functions(module))
            return
        _set_input_names(module)
        inline_calls(module)
        if self.entry in module:
            _set_entry(module, self.entry)
        for function in graph_functions(module):
            flatten_parameters(function)
            self._simplify(module, function)
            flatten_results(function)
            infer_call_sizes(module, function)
            _drop_script_attributes(function)
        if "main" in module:
            BindSizes().run(module)
        with constraints.with_equalities(constraints_of(module)):
            InferShapes().run(module)

    def _check(self, module: IRModule, functions: Sequence[func.FuncOp]) -> None:
        for function in functions if self.check_indices else ():
            insert_index_checks(module, function)

    def _simplify(self, module: IRModule, function: func.FuncOp) -> None:
        _resolve_casts(module, function)
        _drop_aliases(function)
        refine_operators(module, function, keep_scalars=False)
        self._check(module, [function])  # if-conversion leaves no branch with a check
        convert_ifs_to_selects(function)
        _drop_aliases(function)
        effects = EffectAnalysis(module.mlir.operation)
        for block in blocks_of(function):
            erase_dead(block, effects.is_computation)


def _merge_dataflow_blocks(block: ir.Block) -> None:
    """Merges adjacent dataflow blocks."""
    number = -1
    for op in own_operations(block):
        attributes = op.operation.attributes
        if function_attributes.BLOCK not in attributes:
            continue
        if number >= 0 and dataflow_block_number(op) >= 0:
            attributes[function_attributes.BLOCK] = tensors.attr_of(
                number, ir.IntegerAttr
            )
        number = dataflow_block_number(op)


def _set_entry(module: IRModule, entry: str) -> None:
    """Removes the functions that ``entry`` does not reach, and renames it to ``main``."""
    for function in module.func_ops():
        if function.name.value != entry:
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    erase_unreachable(module, (entry,))
    function = module.func_op(entry)
    if entry != "main":
        function.attributes["sym_name"] = ir.StringAttr.get("main")
    if "sym_visibility" in function.attributes:
        del function.attributes["sym_visibility"]


def is_script(module: IRModule) -> bool:
    """Whether a module contains operations or attributes that only front ends emit."""
    return any(
        function_attributes.NAME in op.operation.attributes
        or op.operation.name in _SCRIPT_OPERATIONS
        or _lacks_sizes(op)
        for function in graph_functions(module)
        for op in operations_of(function)
    ) or any(
        function_attributes.arg_names(f) != [None] * len(f.type.inputs)
        for f in graph_functions(module)
    )


_SCRIPT_OPERATIONS = frozenset(
    f"relax.{name}"
    for name in (
        *(
            "bind",
            "match_cast",
            "call",
            "call_value",
            "call_operator",
            "if",
            "function",
        ),
        *("global_var", "shape_expr", "prim_value"),
    )
)


def _lacks_sizes(op: ir.OpView) -> bool:
    return function_attributes.TIR_VARS in op.operation.attributes


def _set_input_names(module: IRModule) -> None:
    """Sets the input names of ``main``'s signature to the parameter names of the script."""
    for function in graph_functions(module):
        names = function_attributes.arg_names(function)
        known = [name for name in names if name]
        if names and len(known) == len(set(known)) == len(names):
            attrs = ir.ArrayAttr.get([ir.StringAttr.get(n) for n in known])
            function.attributes["relax.input_names"] = attrs


def _drop_script_attributes(function: func.FuncOp) -> None:
    """Removes attributes that only record a script's syntax."""
    for op in operations_of(function):
        for name in SCRIPT_ATTRIBUTES:
            if name in op.operation.attributes:
                del op.operation.attributes[name]
    for name in ("arg_attrs", function_attributes.ATTRS):
        if name in function.attributes:
            del function.attributes[name]


def _drop_aliases(function: func.FuncOp) -> None:
    for op in operations_of(function):
        if isinstance(op, graph.BindOp):
            replace(op, op.value)


def _resolve_casts(module: IRModule, function: func.FuncOp) -> None:
    """Turns casts into symbol definitions and size constraints, and removes them."""
    values: dict[str, Dim] = {}
    defined = set(symbols_in(a.type for a in function.entry_block.arguments))
    found: list[Constraint] = []
    for op in operations_of(function):
        if isinstance(op, graph.MatchCastOp):
            _read_cast(op, defined, values, found)
    for op in operations_of(function):
        if isinstance(op, graph.MatchCastOp):
            _drop_cast(op)
    if values:
        substitute_sizes(function, values)
    if found:
        with constraints.collect() as assumed:
            constraints.assume([*constraints_of(module), *found])
        set_constraints(module, assumed)


def _read_cast(
    op: graph.MatchCastOp,
    defined: set[str],
    values: dict[str, Dim],
    found: list[Constraint],
) -> None:
    """Collects the symbols that a cast defines and the constraints that it states."""
    known = _dims(op.value.type)
    if known is None:
        defined.update(symbols_in([op.result.type]))
        return
    for size, stated in zip(known, _dims(op.result.type) or (), strict=True):
        size, stated = (shapes.substitute(d, values) for d in (size, stated))
        name = str(stated)
        if size == stated:
            continue
        if shapes.symbols_of(stated) == (name,) and name not in defined:
            values[name] = size
        else:
            if symbols.is_known_unequal(size, stated):
                raise PassError(
                    f"{op.location}: cast: expected size `{stated}`, got `{size}`"
                )
            found.append(Constraint.of_equality(size, stated))


def _dims(type_: ir.Type) -> tuple[Dim, ...] | None:
    """The sizes of a tensor or shape type; None if they are not all known."""
    if not isinstance(type_, ir.RankedTensorType):
        return sizes_in(type_)
    if not type_.has_static_shape and type_.encoding is None:
        return None
    return tensors.shape_of(type_)


def _drop_cast(op: graph.MatchCastOp) -> None:
    """Replaces a cast by its operand; a parameter of unknown shape takes the cast's type."""
    source = op.value
    is_param = isinstance(source.owner, ir.Block)
    if is_param and _dims(source.type) is None:
        source.set_type(op.result.type)
    if _dims(source.type) is None:
        raise PassError(
            f"{op.location}: cast of a value of data-dependent shape: expected a "
            "parameter, or a tensor of known sizes"
        )
    replace(op, source)
