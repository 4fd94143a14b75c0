"""Matched composite functions: their operator calls and the parameters that these read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import PassError
from relax_mlir.objects.expr import Call, Expr, Op
from relax_mlir.objects.function import Function

if TYPE_CHECKING:
    from relax_mlir.tvm.relax.transform.fusion_pattern import PatternCheckContext

__all__ = ["CompositeMatch", "shape_text", "tensors_of_match"]

_SUPPORTED_DTYPES = ("float16", "bfloat16", "float32", "float64")


def tensors_of_match(context: PatternCheckContext) -> dict[str, Any] | None:
    """Returns the struct info of the tensors that a pattern names; Any: all are of tensors.

    None unless all have one element type that cuBLAS and cuDNN support.
    """
    infos: dict[str, Any] = {
        name: expr.struct_info for name, expr in context.annotated_expr.items()
    }
    dtypes = {info.dtype for info in infos.values()}
    return infos if len(dtypes) == 1 and dtypes.issubset(_SUPPORTED_DTYPES) else None


def shape_text(info: Any) -> list[str]:  # Any: struct info of a tensor
    """Returns the dimensions of a tensor as text, for comparison."""
    return [str(size) for size in info.shape]


@dataclass(frozen=True)
class CompositeMatch:
    """A function that a pattern has matched.

    Attributes:
        name: its ``global_symbol``.
        calls: the operator calls in it, by operator name.
        param_indices: the parameter index of each variable of the composite function.
    """

    name: str
    calls: Mapping[str, Call]
    param_indices: Mapping[Expr, int]

    @staticmethod
    def of(function: Function) -> CompositeMatch:
        """Reads a function made by ``FuseOpsByPattern(..., annotate_codegen=True)``."""
        blocks = function.body.blocks
        values = [b.value for b in blocks[0].bindings[:2]] if blocks else []
        inner, call = values if len(values) == 2 else (None, None)
        if not isinstance(inner, Function) or not isinstance(call, Call):
            raise PassError(
                "expected a function that `FuseOpsByPattern` with `annotate_codegen` "
                "produced: an inner function and its call"
            )
        outer_indices: dict[Expr, int] = {p: n for n, p in enumerate(function.params)}
        param_indices: dict[Expr, int] = {
            param: outer_indices[argument]
            for param, argument in zip(inner.params, call.args, strict=True)
        }
        values = [b.value for block in inner.body.blocks for b in block.bindings]
        calls = {
            value.op.name: value
            for value in values
            if isinstance(value, Call) and isinstance(value.op, Op)
        }
        return CompositeMatch(
            str(function.attrs["global_symbol"]), calls, param_indices
        )

    def param_index(self, expr: Expr) -> int:
        """Returns the index of the parameter that an operand is.

        Raises:
            PassError: the operand is a constant.
        """
        if expr not in self.param_indices:
            raise PassError(
                f"`{self.name}`: expected only parameters, got a constant. Hint: "
                "`FuseOpsByPattern(..., bind_constants=False)`"
            )
        return self.param_indices[expr]

    @property
    def bias(self) -> int | None:
        """Returns the parameter index of the bias, if any; it may be either operand."""
        add = self.calls.get("relax.add")
        if add is None:
            return None
        lhs, rhs = add.args
        return self.param_index(lhs if lhs in self.param_indices else rhs)

    @property
    def activation(self) -> str:
        """The activation of the epilogue: ``none`` or ``relu``."""
        return "relu" if "relax.nn.relu" in self.calls else "none"
