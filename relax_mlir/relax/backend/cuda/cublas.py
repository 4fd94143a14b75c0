"""Products that cuBLAS computes: their patterns, and what becomes of matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.argument_types import check_exports
from relax_mlir.objects.expr import Constant
from relax_mlir.objects.function import Function
from relax_mlir.relax.backend.cuda.matches import Match, sizes_of, tensors_in
from relax_mlir.relax.backend.pattern_registry import register_patterns
from relax_mlir.relax.dpl.shorthand import is_op, wildcard
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.runtime.cuda.library_function import LibraryFunction
from relax_mlir.runtime.registry import register_func

if TYPE_CHECKING:
    from relax_mlir.relax.transform.fusion_pattern import PatternCheckContext

__all__ = ["cublas_compiler"]

_TAILS = ("", "_bias", "_bias_relu")


def _patterns() -> Iterator[tuple[Any, ...]]:  # Any: fields of patterns
    """``cublas.matmul`` to ``cublas.matmul_transposed_bias_relu``, the largest last."""
    for turned in ("", "_transposed"):
        for tail in _TAILS:
            lhs, rhs, bias = wildcard(), wildcard(), wildcard()
            named: dict[str, DFPattern] = {"lhs": lhs, "rhs": rhs}
            if turned:
                named["turned"] = rhs = is_op("relax.permute_dims")(rhs)
            named["root"] = found = is_op("relax.matmul")(lhs, rhs)
            if tail:
                named["bias"] = bias
                found = is_op("relax.add")(found, bias)
            if tail == "_bias_relu":
                found = is_op("relax.nn.relu")(found)
            yield f"cublas.matmul{turned}{tail}", found, named, _is_taken


def _is_taken(context: PatternCheckContext) -> bool:
    """Whether cuBLAS multiplies numbers of these types, by one matrix."""
    found = tensors_in(context)
    if found is None:
        return False
    lhs, rhs, root = found["lhs"], found["rhs"], found["root"]
    if lhs.ndim < 2 or rhs.ndim != 2:
        return False
    sizes = [found[name].shape for name in ("turned", "bias") if name in found]
    if any(shape is None for shape in (root.shape, rhs.shape, *sizes)):
        return False
    if "turned" in found and sizes_of(found["turned"]) != sizes_of(rhs)[::-1]:
        return False  # neither rows nor columns are exchanged
    return "bias" not in found or sizes_of(found["bias"]) == sizes_of(root)[-1:]


register_patterns(list(_patterns()))


@register_func("relax.ext.cublas", override=True)
def cublas_compiler(
    functions: Sequence[Function],
    options: Mapping[str, Any],
    constant_names: Mapping[Constant, str],
) -> list[LibraryFunction]:
    """What models call in place of functions that patterns of cuBLAS have matched.

    Raises:
        PassError: a constant stands in one of them.
    """
    return [_compiled(Match.of(function)) for function in functions]


def _compiled(match: Match) -> LibraryFunction:
    lhs, rhs = match.calls["relax.matmul"].args
    turned = match.calls.get("relax.permute_dims")
    return LibraryFunction(
        match.name,
        match.number(lhs),
        match.number(rhs if turned is None else turned.args[0]),
        is_turned=turned is not None,
        bias=match.bias,
        activation=match.activation,
    )


check_exports(globals())
