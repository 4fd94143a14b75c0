"""``relax-legalize``: every operation becomes a call of its tensor program."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp, RelaxOperation, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim, Expr
from relax_mlir.dialects.tir import Builder
from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
from relax_mlir.renaming import Renaming, by_symbol, dims_of, whole
from relax_mlir.rewriting import Pass, replace

__all__ = ["Legalize", "SymbolTable", "emit_program"]

# A reshape moves nothing: the memory plan makes it a view.
_VIEWS = frozenset({"relax.reshape"})


class SymbolTable:
    """The names taken in a module; built once a pass, because a look-up is O(module)."""

    def __init__(self, module: IRModule) -> None:
        self._taken = {f.name.value for f in module.functions()}

    def unique(self, name: str) -> str:
        """``name``, or ``name_1``, ``name_2``, ... and from now on it is taken."""
        candidate, count = name, 0
        while candidate in self._taken:
            count += 1
            candidate = f"{name}_{count}"
        self._taken.add(candidate)
        return candidate


def emit_program(op: RelaxOperation, name: str) -> tuple[func.FuncOp, tuple[Dim, ...]]:
    """Write the tensor program of ``op`` at the insertion point.

    Its symbols are ``s0``, ``s1``, ... in order of appearance, so that equal programs
    are equal text whatever the caller calls its sizes.

    Returns:
        The function, and the value of each symbol in terms of the caller's.
    """
    operands = flat_operands(op)
    renaming = _renaming(op, operands)
    builder = Builder(
        name,
        operands,
        [renaming.type(o.type) for o in operands],
        [renaming.type(r.type) for r in op.results],
        renaming.symbols or None,
    )
    function = builder.finish(op.legalize(builder))
    return function, tuple(renaming.sizes(builder.symbols))


def _renaming(op: RelaxOperation, operands: Sequence[ir.Value]) -> Renaming:
    """Names for whole dimensions if the operation does not look into them, else symbols.

    It does not if it infers the renamed result from the renamed operands.
    """
    attrs = op.python_attrs()
    mentioned = [d for value in attrs.values() for d in _dims_in(value)]
    dims = dims_of([*(o.type for o in operands), *(r.type for r in op.results)])
    if all(isinstance(d, int) for d in dims) and not mentioned:
        return whole(dims)
    renaming = whole(dims)
    if not mentioned and _infers(op, renaming, attrs):
        return renaming
    return by_symbol([*dims, *mentioned])


def _infers(op: RelaxOperation, renaming: Renaming, attrs: dict[str, Any]) -> bool:
    types = [
        renaming.type(o.type)
        if isinstance(o, ir.Value)
        else tuple(renaming.type(e.type) for e in o)
        for o in op.unpacked_operands()
    ]
    try:
        inferred = op.infer(*types, **attrs)
    except ValueError:
        return False
    inferred = inferred if isinstance(inferred, tuple) else (inferred,)
    return list(inferred) == [renaming.type(r.type) for r in op.results]


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


@dataclass(frozen=True)
class Legalize(Pass):
    """Turn relax operations into calls of tensor programs.

    An operation without ``legalize`` stays, and so does a reshape, which the memory
    plan turns into a view. Equal operations share one program.
    """

    def run(self, module: IRModule) -> None:
        table = SymbolTable(module)
        programs: dict[tuple[str, ...], tuple[str, tuple[str, ...]]] = {}
        for function in module.functions():
            if "tir.prim_func" in function.attributes:
                continue
            for block in function.regions[0].blocks:
                for op in list(block.operations):
                    if _has_program(op):
                        _legalize(op, module, table, programs)


def _has_program(op: ir.OpView) -> bool:
    return (
        isinstance(op, RelaxOperation)
        and hasattr(op, "legalize")
        and op.OPERATION_NAME not in _VIEWS
    )


def _legalize(
    op: RelaxOperation,
    module: IRModule,
    table: SymbolTable,
    programs: dict[tuple[str, ...], tuple[str, tuple[str, ...]]],
) -> None:
    operands = flat_operands(op)
    renaming = _renaming(op, operands)
    key = _key(op, operands, renaming)
    if key not in programs:
        callee = table.unique(op.program_name())
        with ir.InsertionPoint(module.mlir.body), op.location:
            try:
                function, _ = emit_program(op, callee)
            except ValueError as error:
                raise PassError(
                    f"{op.location}: `{op.OPERATION_NAME}`: {error}"
                ) from error
        programs[key] = (callee, symbols_of(function))
    callee, names = programs[key]
    replace_by_call(op, operands, callee, renaming.sizes(names))


def symbols_of(function: func.FuncOp) -> tuple[str, ...]:
    """The names of a tensor program's symbols, in order."""
    if "arg_attrs" not in function.attributes:
        return ()
    attrs = map(ir.DictAttr, function.attributes["arg_attrs"])
    return tuple(a["tir.symbol"].value for a in attrs if "tir.symbol" in a)


def _key(
    op: RelaxOperation, operands: list[ir.Value], renaming: Renaming
) -> tuple[str, ...]:
    types = [str(renaming.type(v.type)) for v in (*operands, *op.results)]
    attrs = [f"{n}={op.attributes[n]}" for n in op.attribute_fields]
    # Attributes may mention symbols: what they are called inside is part of the program.
    names = [f"{theirs}={ours}" for theirs, ours in renaming.symbols.items()]
    # A program reads one buffer for operands that are one value.
    places = [str(operands.index(v)) for v in operands]
    return (op.OPERATION_NAME, *types, *attrs, *names, *places)


def replace_by_call(
    op: ir.OpView, operands: Sequence[ir.Value], callee: str, sizes: Sequence[Dim]
) -> None:
    """Put ``relax.call_tir @callee`` in place of ``op``."""
    types = [r.type for r in op.results]
    single = len(types) == 1
    with ir.InsertionPoint(op), op.location:
        call = CallTirOp(
            list(operands),
            callee=callee,
            sizes=tensors.shape_attr(sizes),
            results=types if single else [ir.TupleType.get_tuple(types)],
        )
        values = [call.result]
        if not single:
            values = [
                TupleGetItemOp(call.result, index=i).result for i in range(len(types))
            ]
    replace(op, values)
