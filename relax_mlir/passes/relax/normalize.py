"""``relax-normalize``: what scripts write becomes what the compiler reads."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import constraints, shapes, symbols, tensors
from relax_mlir.dialects.constraints import Constraint
from relax_mlir.dialects.relax import graph
from relax_mlir.dialects.shapes import Dim
from relax_mlir.errors import PassError
from relax_mlir.graphs import (
    SCRIPT_ATTRIBUTES,
    block_number,
    blocks_of,
    graph_functions,
    operations_of,
    substitute_sizes,
    symbols_in,
)
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.effects import EffectAnalysis
from relax_mlir.passes.relax.bind_sizes import BindSizes
from relax_mlir.passes.relax.check_indices import (
    check_operands,
    drop_checks,
    keep_checks,
)
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.passes.relax.flatten_tuples import flatten_parameters, flatten_results
from relax_mlir.passes.relax.infer_shapes import InferShapes
from relax_mlir.passes.relax.inline_calls import inline_calls
from relax_mlir.passes.relax.known_operators import write_known_operators
from relax_mlir.passes.relax.program_sizes import fill_sizes
from relax_mlir.passes.relax.select_branches import select_branches
from relax_mlir.passes.relax.size_casts import sizes_in
from relax_mlir.rewriting import Pass, erase_dead, replace
from relax_mlir.size_constraints import constraints_of, set_constraints
from relax_mlir.traversal import own_operations

__all__ = ["Normalize", "is_script"]


@dataclass(frozen=True)
class Normalize(Pass):
    """Leave nothing but operations on tensors, and calls of kernels.

    Second names go away, calls between graph functions are inlined, tuples that a
    function takes or gives are taken apart, a choice computes both of its branches, a
    cast becomes a constraint, operators whose types are known become operations, and
    calls of tensor programs say the sizes that they pass.

    Args:
        entry: the function that is run, ``main`` from here on; what it does not lead to
            goes away.
        keep_script: only write operators as operations, and dataflow blocks that follow
            each other as one.
        check_indices: check the indices that operators read, as ``relax-check-indices``
            does; else checks that there are go away, unless this option kept them
            before.
    """

    # What is written by hand may know less than its operands tell.
    repairs_types = True
    entry: str = "main"
    keep_script: bool = False
    check_indices: bool = False

    def run(self, module: IRModule) -> None:
        if self.keep_script:
            for function in graph_functions(module):
                write_known_operators(module, function)
                for block in blocks_of(function):
                    _join_dataflow_blocks(block)
            return
        if self.check_indices:
            keep_checks(module)
        else:
            drop_checks(module)
        if not is_script(module):
            self._check(module, graph_functions(module))
            return
        _keep_names(module)
        inline_calls(module)
        if self.entry in module:
            _keep_one(module, self.entry)
        for function in graph_functions(module):
            flatten_parameters(function)
            self._simplify(module, function)
            flatten_results(function)
            fill_sizes(module, function)
            _forget_script(function)
        if "main" in module:
            BindSizes().run(module)
        with constraints.holding(constraints_of(module)):
            InferShapes().run(module)

    def _check(self, module: IRModule, functions: Sequence[func.FuncOp]) -> None:
        for function in functions if self.check_indices else ():
            check_operands(module, function)

    def _simplify(self, module: IRModule, function: func.FuncOp) -> None:
        _learn_sizes(module, function)
        _drop_second_names(function)
        write_known_operators(module, function, keep_scalars=False)
        self._check(module, [function])  # no branch that has a check is selected
        select_branches(function)
        _drop_second_names(function)
        effects = EffectAnalysis(module.mlir.operation)
        for block in blocks_of(function):
            erase_dead(block, effects.is_computation)


def _join_dataflow_blocks(block: ir.Block) -> None:
    """Write dataflow blocks with nothing between them as one."""
    number = -1
    for op in own_operations(block):
        attributes = op.operation.attributes
        if names.BLOCK not in attributes:
            continue
        if number >= 0 and block_number(op) >= 0:
            attributes[names.BLOCK] = tensors.attr_of(number, ir.IntegerAttr)
        number = block_number(op)


def _keep_one(module: IRModule, entry: str) -> None:
    """Drop the functions that ``entry`` does not lead to, and call it ``main``."""
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
    """Whether a module holds what only front ends write."""
    return any(
        names.NAME in op.operation.attributes
        or op.operation.name in _SCRIPT_OPERATIONS
        or _lacks_sizes(op)
        for function in graph_functions(module)
        for op in operations_of(function)
    ) or any(
        names.arg_names(f) != [None] * len(f.type.inputs)
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
    return names.TIR_VARS in op.operation.attributes


def _keep_names(module: IRModule) -> None:
    """Let the signature of ``main`` call its inputs what the script calls them."""
    for function in graph_functions(module):
        called = names.arg_names(function)
        known = [name for name in called if name]
        if len(known) == len(set(known)) == len(called) and called:
            attrs = ir.ArrayAttr.get([ir.StringAttr.get(n) for n in known])
            function.attributes["relax.input_names"] = attrs


def _forget_script(function: func.FuncOp) -> None:
    """Drop what only says how a script looks."""
    for op in operations_of(function):
        for name in SCRIPT_ATTRIBUTES:
            if name in op.operation.attributes:
                del op.operation.attributes[name]
    for name in ("arg_attrs", names.ATTRS):
        if name in function.attributes:
            del function.attributes[name]


def _drop_second_names(function: func.FuncOp) -> None:
    for op in operations_of(function):
        if isinstance(op, graph.BindOp):
            replace(op, op.value)


def _learn_sizes(module: IRModule, function: func.FuncOp) -> None:
    """Let casts say what sizes are: by their names, or as constraints."""
    values: dict[str, Dim] = {}
    defined = set(symbols_in(a.type for a in function.entry_block.arguments))
    found: list[Constraint] = []
    for op in operations_of(function):
        if isinstance(op, graph.MatchCastOp):
            _learn(op, defined, values, found)
    for op in operations_of(function):
        if isinstance(op, graph.MatchCastOp):
            _drop_cast(op)
    if values:
        substitute_sizes(function, values)
    if found:
        with constraints.collect() as assumed:
            constraints.assume([*constraints_of(module), *found])
        set_constraints(module, assumed)


def _learn(
    op: graph.MatchCastOp,
    defined: set[str],
    values: dict[str, Dim],
    found: list[Constraint],
) -> None:
    """Learn new symbols from one cast, and what else must hold."""
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
    """The sizes of a tensor, or of a shape as a value; None where they are not known."""
    if not isinstance(type_, ir.RankedTensorType):
        return sizes_in(type_)
    if not type_.has_static_shape and type_.encoding is None:
        return None
    return tensors.shape_of(type_)


def _drop_cast(op: graph.MatchCastOp) -> None:
    """Read the value itself; a parameter of which less was known takes the type."""
    source = op.value
    is_param = isinstance(source.owner, ir.Block)
    if is_param and _dims(source.type) is None:
        source.set_type(op.result.type)
    if _dims(source.type) is None:
        raise PassError(
            f"{op.location}: cast of a value whose sizes are not known before it runs: "
            "expected a parameter, or a tensor of known sizes"
        )
    replace(op, source)
