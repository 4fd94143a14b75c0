"""``relax-legalize``: every operation becomes a call of its tensor program."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import shapes, tensors
from relax_mlir.dialects.relax.core import CallTirOp, RelaxOperation, TupleGetItemOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.dialects.tir import Builder
from relax_mlir.errors import PassError
from relax_mlir.module import IRModule
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
    results = [r.type for r in op.results]
    names = _canonical_names([*(o.type for o in operands), *results])
    builder = Builder(
        name,
        operands,
        [tensors.substitute_type(o.type, names) for o in operands],
        [tensors.substitute_type(t, names) for t in results],
    )
    function = builder.finish(op.legalize(builder))
    return function, tuple(shapes.symbol(n) for n in names)


def flat_operands(op: RelaxOperation) -> list[ir.Value]:
    """The operands of an operation, tuples taken apart."""
    flat: list[ir.Value] = []
    for operand in op.unpacked_operands():
        flat += [operand] if isinstance(operand, ir.Value) else operand
    return flat


def _canonical_names(types: Sequence[ir.Type]) -> dict[str, Dim]:
    names: dict[str, Dim] = {}
    for type_ in types:
        for dim in tensors.shape_of(type_):
            for name in () if isinstance(dim, int) else shapes.symbols_of(dim):
                names.setdefault(name, shapes.symbol(f"s{len(names)}"))
    return names


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
    names = _canonical_names(
        [*(o.type for o in operands), *(r.type for r in op.results)]
    )
    key = _key(op, operands, names)
    if key not in programs:
        callee = table.unique(op.OPERATION_NAME.split(".", 1)[1])
        with ir.InsertionPoint(module.mlir.body), op.location:
            try:
                emit_program(op, callee)
            except ValueError as error:
                raise PassError(
                    f"{op.location}: `{op.OPERATION_NAME}`: {error}"
                ) from error
        programs[key] = (callee, ())
    replace_by_call(op, operands, programs[key][0], [shapes.symbol(n) for n in names])


def _key(
    op: RelaxOperation, operands: list[ir.Value], names: dict[str, Dim]
) -> tuple[str, ...]:
    types = [
        str(tensors.substitute_type(v.type, names)) for v in (*operands, *op.results)
    ]
    attrs = [f"{n}={op.attributes[n]}" for n in op.attribute_fields]
    return (op.OPERATION_NAME, *types, *attrs)


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
