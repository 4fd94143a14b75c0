"""BYOC backend for cuBLAS matmuls: fusion patterns and code generator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.objects.expr import Constant
from relax_mlir.objects.function import Function
from relax_mlir.runtime.cuda.library_function import LibraryMatmulFunction
from relax_mlir.runtime.registry import register_func
from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relax.backend.cuda.matches import (
    CompositeMatch,
    shape_text,
    tensors_of_match,
)
from relax_mlir.tvm.relax.backend.pattern_registry import register_patterns
from relax_mlir.tvm.relax.dpl.shorthand import is_op, wildcard
from relax_mlir.tvm.relax.dpl.structure import DFPattern

if TYPE_CHECKING:
    from relax_mlir.tvm.relax.transform.fusion_pattern import PatternCheckContext

__all__ = ["cublas_compiler"]

_EPILOGUE_SUFFIXES = ("", "_bias", "_bias_relu")


def _patterns() -> Iterator[tuple[Any, ...]]:  # Any: fields of `FusionPattern`
    """Yields the patterns of matmul, optionally transposed, with bias and with relu."""
    for transposed in ("", "_transposed"):
        for suffix in _EPILOGUE_SUFFIXES:
            lhs, rhs, bias = wildcard(), wildcard(), wildcard()
            named: dict[str, DFPattern] = {"lhs": lhs, "rhs": rhs}
            if transposed:
                named["transposed"] = rhs = is_op("relax.permute_dims")(rhs)
            named["root"] = pattern = is_op("relax.matmul")(lhs, rhs)
            if suffix:
                named["bias"] = bias
                pattern = is_op("relax.add")(pattern, bias)
            if suffix == "_bias_relu":
                pattern = is_op("relax.nn.relu")(pattern)
            yield f"cublas.matmul{transposed}{suffix}", pattern, named, _is_supported


def _is_supported(context: PatternCheckContext) -> bool:
    """Returns whether cuBLAS supports the element types and ranks of a match."""
    tensors = tensors_of_match(context)
    if tensors is None:
        return False
    lhs, rhs, root = tensors["lhs"], tensors["rhs"], tensors["root"]
    if lhs.ndim < 2 or rhs.ndim != 2:
        return False
    sizes = [tensors[name].shape for name in ("transposed", "bias") if name in tensors]
    if any(shape is None for shape in (root.shape, rhs.shape, *sizes)):
        return False
    if (
        "transposed" in tensors
        and shape_text(tensors["transposed"]) != shape_text(rhs)[::-1]
    ):
        return False  # the permutation does not swap rows and columns
    return "bias" not in tensors or shape_text(tensors["bias"]) == shape_text(root)[-1:]


register_patterns(list(_patterns()))


@register_func("relax.ext.cublas", override=True)
def cublas_compiler(
    functions: Sequence[Function],
    options: Mapping[str, Any],
    constant_names: Mapping[Constant, str],
) -> list[LibraryMatmulFunction]:
    """Returns a cuBLAS call for each function that a pattern of cuBLAS has matched.

    Raises:
        PassError: a function contains a constant.
    """
    return [_library_call(CompositeMatch.of(function)) for function in functions]


def _library_call(match: CompositeMatch) -> LibraryMatmulFunction:
    lhs, rhs = match.calls["relax.matmul"].args
    permute = match.calls.get("relax.permute_dims")
    return LibraryMatmulFunction(
        match.name,
        match.param_index(lhs),
        match.param_index(rhs if permute is None else permute.args[0]),
        is_transposed=permute is not None,
        bias=match.bias,
        activation=match.activation,
    )


check_exports(globals())
