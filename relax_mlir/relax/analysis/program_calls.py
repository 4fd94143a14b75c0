"""Whether a call of a tensor program passes what the program takes."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.objects.expr import Call, ShapeExpr, Tuple
from relax_mlir.objects.infer import erase_unknown, returned_info, variables_in
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.objects.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    StructInfo,
    TupleStructInfo,
)

__all__ = ["check_program_call"]


def check_program_call(call: Call, program: PrimFunc) -> None:
    """Check the arguments and the result of a ``call_tir`` or ``call_tir_inplace``.

    Raises:
        ValueError: they are not what the program takes.
    """
    _, arguments, *tir_vars = call.args
    infos = [
        field.struct_info_or_none()
        for field in (arguments.fields if isinstance(arguments, Tuple) else ())
    ]
    known = [info for info in infos if info is not None]
    signature = program.struct_info
    if not isinstance(arguments, Tuple) or len(known) < len(infos):
        return
    assert isinstance(signature, FuncStructInfo)
    sizes: list[StructInfo] = []
    if tir_vars and isinstance(tir_vars[0], ShapeExpr):
        sizes = [PrimStructInfo(size.dtype, size) for size in tir_vars[0].values]
    results = _results(call)
    inferred = _inferred(list(signature.params or ()), known, sizes, _aliases(call))
    if len(inferred) != len(results):
        raise ValueError(f"expected {len(inferred)} results, got {len(results)}")
    for expected, said in zip(inferred, results, strict=True):
        if not expected.is_base_of(said):
            raise ValueError(
                f"the result does not fit: expected {expected}, got {said}"
            )


def _results(call: Call) -> Sequence[StructInfo]:
    """What the call says of the results."""
    said = call.sinfo_args
    first = said[0] if len(said) == 1 else None
    return first.fields if isinstance(first, TupleStructInfo) else said


def _aliases(call: Call) -> list[int]:
    """Which argument each result is written to; -1 for memory of its own."""
    found = call.attrs.get("inplace_indices")
    return [-1] * len(_results(call)) if found is None else [int(i) for i in found]


def _inferred(
    params: list[StructInfo],
    arguments: list[StructInfo],
    sizes: list[StructInfo],
    aliases: list[int],
) -> Sequence[StructInfo]:
    """What the program makes of its arguments, as far as its parameters tell."""
    own = aliases.count(-1)
    if len(params) != len(arguments) + own + len(sizes):
        raise ValueError(
            f"the program takes {len(params)} arguments: got {len(arguments)} arguments, "
            f"{own} results and {len(sizes)} sizes"
        )
    end = len(arguments) + own
    written = iter(params[len(arguments) : end])
    made = [params[i] if i >= 0 else next(written) for i in aliases]
    inputs = [*params[: len(arguments)], *params[end:]]
    signature = FuncStructInfo(inputs, TupleStructInfo(made))
    own = {id(var) for param in params for var in variables_in(param)}
    returned = returned_info(signature, [*arguments, *sizes])
    found = erase_unknown(returned, lambda var: id(var) not in own)
    assert isinstance(found, TupleStructInfo)
    return found.fields
