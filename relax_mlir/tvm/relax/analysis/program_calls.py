"""Check of ``call_tir`` arguments and results against the signature of the PrimFunc."""

from __future__ import annotations

from collections.abc import Sequence

from relax_mlir.objects.expr import Call, ShapeExpr, Tuple
from relax_mlir.objects.expr.struct_info import (
    FuncStructInfo,
    PrimStructInfo,
    StructInfo,
    TupleStructInfo,
)
from relax_mlir.objects.infer.struct_info import (
    call_result_info,
    erase_unknown_shapes,
    size_vars_in,
)
from relax_mlir.objects.stmt.prim_func import PrimFunc

__all__ = ["check_call_tir_signature"]


def check_call_tir_signature(call: Call, prim_func: PrimFunc) -> None:
    """Check the arguments and the result of a ``call_tir`` or ``call_tir_inplace``.

    Raises:
        ValueError: they do not fit the parameters of the PrimFunc.
    """
    _, arguments, *tir_vars = call.args
    infos = [
        field.struct_info_or_none()
        for field in (arguments.fields if isinstance(arguments, Tuple) else ())
    ]
    known = [info for info in infos if info is not None]
    signature = prim_func.struct_info
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
    for expected, declared in zip(inferred, results, strict=True):
        if not expected.is_base_of(declared):
            raise ValueError(
                f"the result does not fit: expected {expected}, got {declared}"
            )


def _results(call: Call) -> Sequence[StructInfo]:
    """The result struct info that the call declares."""
    declared = call.sinfo_args
    first = declared[0] if len(declared) == 1 else None
    return first.fields if isinstance(first, TupleStructInfo) else declared


def _aliases(call: Call) -> list[int]:
    """The argument that each result overwrites; -1 for a new tensor."""
    indices = call.attrs.get("inplace_indices")
    return [-1] * len(_results(call)) if indices is None else [int(i) for i in indices]


def _inferred(
    params: list[StructInfo],
    arguments: list[StructInfo],
    sizes: list[StructInfo],
    aliases: list[int],
) -> Sequence[StructInfo]:
    """Result struct info inferred from the parameters of the PrimFunc and the arguments."""
    output_count = aliases.count(-1)
    if len(params) != len(arguments) + output_count + len(sizes):
        raise ValueError(
            f"the PrimFunc takes {len(params)} arguments: got {len(arguments)} arguments, "
            f"{output_count} results and {len(sizes)} sizes"
        )
    end = len(arguments) + output_count
    outputs = iter(params[len(arguments) : end])
    results = [params[i] if i >= 0 else next(outputs) for i in aliases]
    inputs = [*params[: len(arguments)], *params[end:]]
    signature = FuncStructInfo(inputs, TupleStructInfo(results))
    param_vars = {id(var) for param in params for var in size_vars_in(param)}
    returned = call_result_info(signature, [*arguments, *sizes])
    # Symbols of the PrimFunc that no argument binds are unknown to the caller.
    erased = erase_unknown_shapes(returned, lambda var: id(var) not in param_vars)
    assert isinstance(erased, TupleStructInfo)
    return erased.fields
