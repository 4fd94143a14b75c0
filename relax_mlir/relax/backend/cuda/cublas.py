"""Products that cuBLAS computes: their patterns, and what becomes of matches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import PassError
from relax_mlir.objects.expr import Call, Constant, Expr, Op
from relax_mlir.objects.function import Function
from relax_mlir.relax.backend.pattern_registry import register_patterns
from relax_mlir.relax.dpl.shorthand import is_op, wildcard
from relax_mlir.relax.dpl.structure import DFPattern
from relax_mlir.runtime.cuda.library_function import LibraryFunction
from relax_mlir.runtime.registry import register_func

if TYPE_CHECKING:
    from relax_mlir.relax.transform.fusion_pattern import PatternCheckContext

__all__ = ["cublas_compiler"]

_TYPES = ("float16", "bfloat16", "float32", "float64")
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
    found: dict[str, Any] = {  # Any: of tensors, which all operands are
        name: e.struct_info for name, e in context.annotated_expr.items()
    }
    lhs, rhs, root = found["lhs"], found["rhs"], found["root"]
    dtypes = {info.dtype for info in found.values()}
    is_product = lhs.ndim >= 2 and rhs.ndim == 2 and len(dtypes) == 1
    if not is_product or not dtypes.issubset(_TYPES):
        return False
    sizes = [found[name].shape for name in ("turned", "bias") if name in found]
    if any(shape is None for shape in (root.shape, rhs.shape, *sizes)):
        return False
    if "turned" in found and _sizes(found["turned"]) != _sizes(rhs)[::-1]:
        return False  # neither rows nor columns are exchanged
    return "bias" not in found or _sizes(found["bias"]) == _sizes(root)[-1:]


def _sizes(info: Any) -> list[str]:  # Any: of a tensor
    return [str(size) for size in info.shape]


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
    return [_compiled(function) for function in functions]


def _compiled(function: Function) -> LibraryFunction:
    name = str(function.attrs["global_symbol"])
    inner, call = (b.value for b in function.body.blocks[0].bindings[:2])
    assert isinstance(inner, Function)
    assert isinstance(call, Call)
    places: dict[Expr, int] = {p: n for n, p in enumerate(function.params)}
    numbers: dict[Expr, int] = {
        param: places[argument]
        for param, argument in zip(inner.params, call.args, strict=True)
    }
    calls = [b.value for block in inner.body.blocks for b in block.bindings]
    called = {
        c.op.name: c.args for c in calls if isinstance(c, Call) and isinstance(c.op, Op)
    }

    def number(expr: Expr) -> int:
        if expr not in numbers:
            raise PassError(
                f"`{name}`: expected arguments alone, got a constant. Hint: "
                "`FuseOpsByPattern(..., bind_constants=False)`"
            )
        return numbers[expr]

    lhs, rhs = called["relax.matmul"]
    turned = called.get("relax.permute_dims")
    added = called.get("relax.add")
    return LibraryFunction(
        name,
        number(lhs),
        number(rhs if turned is None else turned[0]),
        is_turned=turned is not None,
        bias=None if added is None else number(added[1]),
        activation="relu" if "relax.nn.relu" in called else "none",
    )
