"""``relax-legalize``: lowering of relax operations to calls of tensor programs."""

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.analysis.symbol_substitution import (
    SymbolSubstitution,
    dims_of,
    substitute_dims,
    substitute_symbols,
)
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import (
    CallTirOp,
    ConstantOp,
    RelaxOperation,
    TupleGetItemOp,
)
from relax_mlir.dialects.relax.elementwise import BinaryOp
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.dialects.tir import Builder
from relax_mlir.errors import PassError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.function_attributes import location_of
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.size_constraints import constraints_of, set_constraints
from relax_mlir.ir.symbol_table import SymbolTable
from relax_mlir.ir.traversal import blocks_of, operations_of
from relax_mlir.ir.use_def import named_tuple_of
from relax_mlir.objects.function import store_attrs
from relax_mlir.passes.relax.index_check_calls import call_index_checks
from relax_mlir.passes.relax.size_casts import (
    constraints_of_operator,
    insert_size_casts,
)
from relax_mlir.rewrite.functions import copy_script_attributes, graph_functions
from relax_mlir.rewrite.patterns import Pass, erase_dead, replace
from relax_mlir.symbolic import constraints

__all__ = ["Legalize", "SymbolTable", "emit_program"]

# A reshape moves no data: the memory planner makes it a view.
_VIEWS = frozenset({"relax.reshape"})


def emit_program(
    op: RelaxOperation,
    name: str,
    numbers: Mapping[ir.Value, float] = types.MappingProxyType({}),
    *,
    threads: bool = False,
) -> tuple[func.FuncOp, tuple[Dim, ...]]:
    """Emits the tensor program of ``op`` at the insertion point.

    Its symbols are ``s0``, ``s1``, ... in order of appearance, so that equal programs have
    equal text, regardless of the names of the caller's symbols.

    Args:
        op: the operation.
        name: of the program.
        numbers: scalar operands that are inlined into the program as constants.
        threads: whether the program may use GPU threads.

    Returns:
        The function, and the value of each symbol in terms of the caller's.
    """
    operands = [o for o in flat_operands(op) if o not in numbers]
    substitution = _substitution(op, operands)
    builder = Builder(
        name,
        operands,
        [substitution.type(o.type) for o in operands],
        [substitution.type(t) for t in flat_types(op.results)],
        substitution.symbols or None,
        _live_results(op),
        numbers,
        threads=threads,
    )
    function = builder.finish(op.legalize(builder))
    return function, tuple(substitution.sizes(builder.symbols))


def _substitution(
    op: RelaxOperation, operands: Sequence[ir.Value]
) -> SymbolSubstitution:
    """A symbol per distinct dimension if type inference succeeds on those, else per symbol.

    Dimensions are then opaque: the inferred type of the renamed operands is the renamed
    result type.
    """
    attrs = op.python_attrs()
    mentioned = [d for value in attrs.values() for d in _dims_in(value)]
    dims = dims_of([*(o.type for o in operands), *flat_types(op.results)])
    if all(isinstance(d, int) for d in dims) and not mentioned:
        return substitute_dims(dims)
    substitution = substitute_dims(dims)
    if not mentioned and _is_shape_generic(op, substitution, attrs):
        return substitution
    return substitute_symbols([*dims, *mentioned])


def _is_shape_generic(
    op: RelaxOperation, substitution: SymbolSubstitution, attrs: dict[str, Any]
) -> bool:
    """Whether type inference commutes with the substitution."""
    substituted = [
        substitution.type(o.type)
        if isinstance(o, ir.Value)
        else tuple(substitution.type(e.type) for e in o)
        for o in op.unpacked_operands()
    ]
    try:
        inferred = op.infer(*substituted, **attrs)
    except ValueError:
        return False
    if isinstance(inferred, ir.TupleType):
        inferred = tensors.tuple_types(inferred)
    inferred = inferred if isinstance(inferred, Sequence) else (inferred,)
    return list(inferred) == [substitution.type(t) for t in flat_types(op.results)]


def _dims_in(value: object) -> list[Dim]:
    """The symbolic sizes in an attribute's value."""
    if isinstance(value, tuple):
        return [d for item in value for d in _dims_in(item)]
    return [value] if isinstance(value, Expr) else []


def flat_operands(op: RelaxOperation) -> list[ir.Value]:
    """The operands of an operation, with tuples flattened."""
    flat: list[ir.Value] = []
    for operand in op.unpacked_operands():
        flat += [operand] if isinstance(operand, ir.Value) else operand
    return flat


def flat_types(values: Iterable[ir.Value]) -> list[ir.Type]:
    """The types of values, with tuples flattened."""
    return [part for value in values for part in tensors.tuple_types(value.type)]


def _live_results(op: RelaxOperation) -> tuple[bool, ...]:
    """Which elements of the result a program computes.

    All, unless the operation can omit some and these have no users.
    """
    count = len(flat_types(op.results))
    users = [use.owner for result in op.results for use in result.uses]
    is_tuple_used = not all(isinstance(user, TupleGetItemOp) for user in users)
    if is_tuple_used or not users or not getattr(op, "skips_unused_results", False):
        return (True,) * count
    read = {user.python_attrs()["index"] for user in users}
    return tuple(i in read for i in range(count))


@dataclass(frozen=True)
class Legalize(Pass):
    """Lower relax operations to calls of tensor programs.

    An operation without ``legalize`` stays; index checks become runtime calls, except in
    scripts. Equal operations share one program.

    Args:
        keep_views: keep every reshape, which the memory planner turns into a view.
        inline_scalars: inline scalar constant operands of binary operations into the program.
        threads: emit programs for GPU threads where steps depend on each other.
        skip_ops: operators that stay, by their Relax names.
        before: a callback that runs first and may replace operations.
    """

    known_as = "LegalizeOps"
    keep_views: bool = True
    inline_scalars: bool = False
    threads: bool = False
    skip_ops: tuple[str, ...] = ()
    before: Callable[[IRModule], None] | None = field(
        default=None, repr=False, metadata={"text": False}
    )

    def run(self, module: IRModule) -> None:
        self._record_constraints(module)
        if self.before is not None:
            self.before(module)
        # The callback may have replaced the module, and its context.
        with module.context, ir.Location.unknown():
            self._legalize(module)

    def _legalize(self, module: IRModule) -> None:
        is_script = not self.keep_views
        legalizer = _Legalizer(module, is_script=is_script, threads=self.threads)
        for function in graph_functions(module):
            if function_attributes.is_primitive(function):
                continue
            if not is_script:
                call_index_checks(module, function)
            for op in operations_of(function):
                if self._has_program(op):
                    numbers = self._numbers(op, module.constants)
                    legalizer.legalize(op.operation.opview, numbers)
        if legalizer.is_script:
            for function in graph_functions(module):
                for block in blocks_of(function):
                    erase_dead(block, _is_unused_number)

    def _record_constraints(self, module: IRModule) -> None:
        """Records the operators' constraints on sizes, which tensor programs do not express."""
        if not self.keep_views:
            for function in graph_functions(module):
                if not function_attributes.is_primitive(function):
                    insert_size_casts(function, self._has_constraints)
        elif "main" in module:
            with constraints.collect() as found:
                constraints.assume(constraints_of(module))
                for op in operations_of(module.func_op("main")):
                    if isinstance(op, RelaxOperation) and self._has_constraints(op):
                        constraints.assume(constraints_of_operator(op))
            set_constraints(module, found)

    def _has_constraints(self, op: ir.OpView) -> bool:
        """Whether an operation that is lowered has symbolic sizes, all of them named."""
        if not isinstance(op, RelaxOperation) or not op.has_infer():
            return False
        if f"relax.{op.script_name()}" in self.skip_ops or not _has_known_sizes(op):
            return False
        types = flat_types([*op.operands, *op.results])
        return any(getattr(type_, "encoding", None) is not None for type_ in types)

    def _has_program(self, op: ir.OpView) -> bool:
        if not isinstance(op, RelaxOperation) or not hasattr(op, "legalize"):
            return False
        if f"relax.{op.script_name()}" in self.skip_ops:
            return False
        if not self.keep_views and not _has_known_sizes(op):
            return False
        return not self.keep_views or op.OPERATION_NAME not in _VIEWS

    def _numbers(
        self, op: RelaxOperation, constants: Mapping[str, np.ndarray]
    ) -> dict[ir.Value, float]:
        """The scalar constant operands that the program inlines."""
        if not self.inline_scalars or not isinstance(op, BinaryOp):
            return {}
        found = {o: _number(o, constants) for o in op.operands}
        known = {o: n for o, n in found.items() if n is not None}
        return known if len(known) < len(found) else {}


def _has_known_sizes(op: ir.OpView) -> bool:
    """Whether every dimension is static or symbolic."""
    types = flat_types([*op.operands, *op.results])
    ranked = [t for t in types if isinstance(t, ir.RankedTensorType)]
    return all(map(tensors.has_known_shape, ranked))


def _number(value: ir.Value, constants: Mapping[str, np.ndarray]) -> float | None:
    """The value of a rank-0 constant; None for other values."""
    owner = value.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, ConstantOp):
        return None
    type_ = ir.RankedTensorType(value.type)
    is_there = owner.opview.key is None or owner.opview.key in constants
    if type_.rank or not is_there:
        return None
    return owner.opview.array(constants).item()


def _is_unused_number(op: ir.Operation) -> bool:
    return isinstance(op.opview, ConstantOp) and "relax.name" not in op.attributes


class _Legalizer:
    """Replaces operations of one module by calls.

    Args:
        module: the module.
        is_script: whether programs are as in scripts: private and ``tir.noalias``.
        threads: as for the pass.
    """

    def __init__(self, module: IRModule, *, is_script: bool, threads: bool) -> None:
        self.module = module
        self.is_script, self._threads = is_script, threads
        self._table = SymbolTable(module)
        self._programs: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}

    def legalize(self, op: RelaxOperation, numbers: Mapping[ir.Value, float]) -> None:
        """Replaces one operation."""
        operands = [o for o in flat_operands(op) if o not in numbers]
        substitution = _substitution(op, operands)
        key = (*_key(op, operands, substitution), str(list(numbers.values())))
        if key not in self._programs:
            self._programs[key] = self._program(op, numbers)
        callee, names = self._programs[key]
        live = _live_results(op)
        sizes = substitution.sizes(names)
        if all(live):
            replace_by_call(op, operands, callee, sizes)
        else:
            _replace_by_partial_call(op, operands, callee, sizes, live)

    def _program(
        self, op: RelaxOperation, numbers: Mapping[ir.Value, float]
    ) -> tuple[str, tuple[str, ...]]:
        """Emits a new program; returns its name and its symbols."""
        callee = self._table.unique(op.program_name())
        with ir.InsertionPoint(self.module.mlir.body), op.location:
            try:
                function, _ = emit_program(op, callee, numbers, threads=self._threads)
            except ValueError as error:
                raise PassError(
                    f"{location_of(op)}: `{op.OPERATION_NAME}`: {error}"
                ) from error
            except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
                raise PassError(
                    f"{location_of(op)}: `{op.OPERATION_NAME}`: cannot be legalized: "
                    f"{type(error).__name__}: {error}"
                ) from error
            if self.is_script:
                store_attrs(function, {"tir.noalias": True})
        return callee, symbols_of(function)


def symbols_of(function: func.FuncOp) -> tuple[str, ...]:
    """The names of a tensor program's symbols, in order."""
    if "arg_attrs" not in function.attributes:
        return ()
    attrs = map(ir.DictAttr, function.attributes["arg_attrs"])
    return tuple(a["tir.symbol"].value for a in attrs if "tir.symbol" in a)


def _key(
    op: RelaxOperation, operands: list[ir.Value], substitution: SymbolSubstitution
) -> tuple[str, ...]:
    own = (*(v.type for v in operands), *flat_types(op.results))
    spelled = [str(substitution.type(type_)) for type_ in own]
    attrs = [f"{n}={op.attributes[n]}" for n in op.attribute_fields]
    # Attributes may mention symbols, whose names in the program are part of the key.
    names = [f"{theirs}={ours}" for theirs, ours in substitution.symbols.items()]
    # Operands that are the same value share one buffer of the program.
    places = [
        str(operands.index(v)) if v in operands else "-" for v in flat_operands(op)
    ]
    return (
        op.OPERATION_NAME,
        *spelled,
        *attrs,
        *names,
        *places,
        str(_live_results(op)),
    )


def _replace_by_partial_call(
    op: ir.OpView,
    operands: Sequence[ir.Value],
    callee: str,
    sizes: Sequence[Dim],
    live: Sequence[bool],
) -> None:
    """Replaces ``op`` and its users by a call that computes the live elements of its tuple."""
    parts = list(compress(flat_types(op.results), live))
    is_one = len(parts) == 1
    with ir.InsertionPoint(op), op.location:
        call = CallTirOp(
            list(operands),
            callee=callee,
            sizes=tensors.shape_attr(sizes),
            results=[tensors.packed_type(parts)],
        )
    for use in list(op.results[0].uses):
        user = use.owner
        place = sum(live[: user.python_attrs()["index"]])
        with ir.InsertionPoint(user), user.location:
            part = (
                call.result
                if is_one
                else TupleGetItemOp(call.result, index=place).result
            )
        replace(user, part)
    op.operation.erase()


def replace_by_call(
    op: ir.OpView, operands: Sequence[ir.Value], callee: str, sizes: Sequence[Dim]
) -> None:
    """Replaces ``op`` by ``relax.call_tir @callee``."""
    results = [r.type for r in op.results]
    single = len(results) == 1
    bound_tuple = None if single else named_tuple_of(op)
    with ir.InsertionPoint(op), op.location:
        call = CallTirOp(
            list(operands),
            callee=callee,
            sizes=tensors.shape_attr(sizes),
            results=[tensors.packed_type(results)],
        )
        copy_script_attributes(op if bound_tuple is None else bound_tuple, call)
        if bound_tuple is not None:
            replace(bound_tuple, call.result)
        values = [call.result]
        if not single:
            values = [
                TupleGetItemOp(call.result, index=i).result for i in range(len(results))
            ]
    replace(op, values)
