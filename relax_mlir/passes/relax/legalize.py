"""``relax-legalize``: every operation becomes a call of its tensor program."""

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import constraints, tensors
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
from relax_mlir.graphs import (
    PACK,
    blocks_of,
    copy_script_attributes,
    graph_functions,
    operations_of,
)
from relax_mlir.module import IRModule
from relax_mlir.objects.function import store_attrs
from relax_mlir.objects.names import place_of
from relax_mlir.passes.relax.index_check_calls import call_index_checks
from relax_mlir.passes.relax.size_casts import assumed_by, write_size_casts
from relax_mlir.renaming import Renaming, by_symbol, dims_of, whole
from relax_mlir.rewriting import Pass, erase_dead, replace
from relax_mlir.size_constraints import constraints_of, set_constraints

__all__ = ["Legalize", "SymbolTable", "emit_program"]

# A reshape moves nothing: the memory plan makes it a view.
_VIEWS = frozenset({"relax.reshape"})


class SymbolTable:
    """The names taken in a module; built once a pass, because a look-up is O(module)."""

    def __init__(self, module: IRModule) -> None:
        self._taken = {f.name.value for f in module.func_ops()}

    def unique(self, name: str) -> str:
        """``name``, or ``name1``, ``name2``, ... and from now on it is taken."""
        candidate, count = name, 0
        while candidate in self._taken:
            count += 1
            candidate = f"{name}{count}"
        self._taken.add(candidate)
        return candidate


def emit_program(
    op: RelaxOperation,
    name: str,
    numbers: Mapping[ir.Value, float] = types.MappingProxyType({}),
    *,
    threads: bool = False,
) -> tuple[func.FuncOp, tuple[Dim, ...]]:
    """Write the tensor program of ``op`` at the insertion point.

    Its symbols are ``s0``, ``s1``, ... in order of appearance, so that equal programs
    are equal text whatever the caller calls its sizes.

    Args:
        op: the operation.
        name: of the program.
        numbers: operands that the program does not read: they stand in it.
        threads: whether it may be written for threads of a GPU.

    Returns:
        The function, and the value of each symbol in terms of the caller's.
    """
    operands = [o for o in flat_operands(op) if o not in numbers]
    renaming = _renaming(op, operands)
    builder = Builder(
        name,
        operands,
        [renaming.type(o.type) for o in operands],
        [renaming.type(t) for t in flat_types(op.results)],
        renaming.symbols or None,
        _wanted(op),
        numbers,
        threads=threads,
    )
    function = builder.finish(op.legalize(builder))
    return function, tuple(renaming.sizes(builder.symbols))


def _renaming(op: RelaxOperation, operands: Sequence[ir.Value]) -> Renaming:
    """Names for whole dimensions if the operation does not look into them, else symbols.

    It does not if it infers the renamed result from the renamed operands.
    """
    attrs = op.python_attrs()
    mentioned = [d for value in attrs.values() for d in _dims_in(value)]
    dims = dims_of([*(o.type for o in operands), *flat_types(op.results)])
    if all(isinstance(d, int) for d in dims) and not mentioned:
        return whole(dims)
    renaming = whole(dims)
    if not mentioned and _infers(op, renaming, attrs):
        return renaming
    return by_symbol([*dims, *mentioned])


def _infers(op: RelaxOperation, renaming: Renaming, attrs: dict[str, Any]) -> bool:
    renamed = [
        renaming.type(o.type)
        if isinstance(o, ir.Value)
        else tuple(renaming.type(e.type) for e in o)
        for o in op.unpacked_operands()
    ]
    try:
        inferred = op.infer(*renamed, **attrs)
    except ValueError:
        return False
    if isinstance(inferred, ir.TupleType):
        inferred = _parts(inferred)
    inferred = inferred if isinstance(inferred, Sequence) else (inferred,)
    return list(inferred) == [renaming.type(t) for t in flat_types(op.results)]


def _dims_in(value: object) -> list[Dim]:
    """The symbolic sizes in an attribute's value."""
    if isinstance(value, tuple):
        return [d for item in value for d in _dims_in(item)]
    return [value] if isinstance(value, Expr) else []


def flat_operands(op: RelaxOperation) -> list[ir.Value]:
    """The operands of an operation, tuples taken apart."""
    flat: list[ir.Value] = []
    for operand in op.unpacked_operands():
        flat += [operand] if isinstance(operand, ir.Value) else operand
    return flat


def flat_types(values: Iterable[ir.Value]) -> list[ir.Type]:
    """The types of values, tuples taken apart."""
    return [part for value in values for part in _parts(value.type)]


def _wanted(op: RelaxOperation) -> tuple[bool, ...]:
    """Which parts of the result a program computes.

    All of them, unless the operation can leave some out and nothing reads these.
    """
    count = len(flat_types(op.results))
    users = [use.owner for result in op.results for use in result.uses]
    is_whole = not all(isinstance(user, TupleGetItemOp) for user in users)
    if is_whole or not users or not getattr(op, "skips_parts", False):
        return (True,) * count
    read = {user.python_attrs()["index"] for user in users}
    return tuple(i in read for i in range(count))


def _parts(type_: ir.Type) -> list[ir.Type]:
    if not isinstance(type_, ir.TupleType):
        return [type_]
    return [type_.get_type(i) for i in range(type_.num_types)]


@dataclass(frozen=True)
class Legalize(Pass):
    """Turn relax operations into calls of tensor programs.

    An operation without ``legalize`` stays, but for checks of indices, which the runtime
    does; scripts keep these. Equal operations share one program.

    Args:
        keep_views: leave every reshape, which the memory plan turns into a view.
        inline_scalars: write the numbers that a binary operation takes into its program.
        threads: write programs whose steps follow each other for threads of a GPU.
        skip_ops: operators that stay, by Relax's names.
        before: is called first, and may replace what it wants to.
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
        self._keep_assumptions(module)
        if self.before is not None:
            self.before(module)
        # Another context, where the module became another.
        with module.context, ir.Location.unknown():
            self._legalize(module)

    def _legalize(self, module: IRModule) -> None:
        is_script = not self.keep_views
        legalizer = _Legalizer(module, is_script=is_script, threads=self.threads)
        for function in graph_functions(module):
            if "relax.primitive" in function.attributes:
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

    def _keep_assumptions(self, module: IRModule) -> None:
        """Write down what operators assume of sizes: no program says it any more."""
        if not self.keep_views:
            for function in graph_functions(module):
                if "relax.primitive" not in function.attributes:
                    write_size_casts(function, self._may_assume)
        elif "main" in module:
            with constraints.collect() as found:
                constraints.assume(constraints_of(module))
                for op in operations_of(module.func_op("main")):
                    if isinstance(op, RelaxOperation) and self._may_assume(op):
                        constraints.assume(assumed_by(op))
            set_constraints(module, found)

    def _may_assume(self, op: ir.OpView) -> bool:
        """Whether an operation that gets a program has symbolic sizes, all known."""
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
        """The operands that are numbers, if the program may hold them."""
        if not self.inline_scalars or not isinstance(op, BinaryOp):
            return {}
        found = {o: _number(o, constants) for o in op.operands}
        known = {o: n for o, n in found.items() if n is not None}
        return known if len(known) < len(found) else {}


def _has_known_sizes(op: ir.OpView) -> bool:
    """Whether every size is a number or has a name."""
    types = flat_types([*op.operands, *op.results])
    ranked = [t for t in types if isinstance(t, ir.RankedTensorType)]
    return all(map(tensors.has_known_sizes, ranked))


def _number(value: ir.Value, constants: Mapping[str, np.ndarray]) -> float | None:
    """The number that a constant of rank 0 holds; None for other values."""
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
        is_script: whether programs look as those of scripts do: private, and said not
            to have buffers that overlap.
        threads: as for the pass.
    """

    def __init__(self, module: IRModule, *, is_script: bool, threads: bool) -> None:
        self.module = module
        self.is_script, self._threads = is_script, threads
        self._table = SymbolTable(module)
        self._programs: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}

    def legalize(self, op: RelaxOperation, numbers: Mapping[ir.Value, float]) -> None:
        """Replace one operation."""
        operands = [o for o in flat_operands(op) if o not in numbers]
        renaming = _renaming(op, operands)
        key = (*_key(op, operands, renaming), str(list(numbers.values())))
        if key not in self._programs:
            self._programs[key] = self._program(op, numbers)
        callee, names = self._programs[key]
        wanted = _wanted(op)
        sizes = renaming.sizes(names)
        if all(wanted):
            replace_by_call(op, operands, callee, sizes)
        else:
            _replace_parts(op, operands, callee, sizes, wanted)

    def _program(
        self, op: RelaxOperation, numbers: Mapping[ir.Value, float]
    ) -> tuple[str, tuple[str, ...]]:
        """Write a new program; returns its name and its symbols."""
        callee = self._table.unique(op.program_name())
        with ir.InsertionPoint(self.module.mlir.body), op.location:
            try:
                function, _ = emit_program(op, callee, numbers, threads=self._threads)
            except ValueError as error:
                raise PassError(
                    f"{place_of(op)}: `{op.OPERATION_NAME}`: {error}"
                ) from error
            except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
                raise PassError(
                    f"{place_of(op)}: `{op.OPERATION_NAME}`: cannot be legalized: "
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
    op: RelaxOperation, operands: list[ir.Value], renaming: Renaming
) -> tuple[str, ...]:
    own = (*(v.type for v in operands), *flat_types(op.results))
    spelled = [str(renaming.type(type_)) for type_ in own]
    attrs = [f"{n}={op.attributes[n]}" for n in op.attribute_fields]
    # Attributes may mention symbols: what they are called inside is part of the program.
    names = [f"{theirs}={ours}" for theirs, ours in renaming.symbols.items()]
    # A program reads one buffer for operands that are one value.
    places = [
        str(operands.index(v)) if v in operands else "-" for v in flat_operands(op)
    ]
    return (op.OPERATION_NAME, *spelled, *attrs, *names, *places, str(_wanted(op)))


def _replace_parts(
    op: ir.OpView,
    operands: Sequence[ir.Value],
    callee: str,
    sizes: Sequence[Dim],
    wanted: Sequence[bool],
) -> None:
    """Put a call that computes some parts of a tuple in place of ``op`` and what reads it."""
    parts = list(compress(flat_types(op.results), wanted))
    is_one = len(parts) == 1
    with ir.InsertionPoint(op), op.location:
        call = CallTirOp(
            list(operands),
            callee=callee,
            sizes=tensors.shape_attr(sizes),
            results=parts if is_one else [ir.TupleType.get_tuple(parts)],
        )
    for use in list(op.results[0].uses):
        user = use.owner
        place = sum(wanted[: user.python_attrs()["index"]])
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
    """Put ``relax.call_tir @callee`` in place of ``op``."""
    results = [r.type for r in op.results]
    single = len(results) == 1
    whole = None if single else _named_whole(op)
    with ir.InsertionPoint(op), op.location:
        call = CallTirOp(
            list(operands),
            callee=callee,
            sizes=tensors.shape_attr(sizes),
            results=results if single else [ir.TupleType.get_tuple(results)],
        )
        copy_script_attributes(op if whole is None else whole, call)
        if whole is not None:
            replace(whole, call.result)
        values = [call.result]
        if not single:
            values = [
                TupleGetItemOp(call.result, index=i).result for i in range(len(results))
            ]
    replace(op, values)


def _named_whole(op: ir.OpView) -> ir.OpView | None:
    """The tuple of all results, if a script binds it."""
    for use in op.results[0].uses:
        owner = use.owner
        if owner.operation.name == PACK and "relax.name" in owner.attributes:
            return owner if list(owner.operands) == list(op.results) else None
    return None
