"""What patterns of libraries have matched: the operators, and which arguments they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import PassError
from relax_mlir.objects.expr import Call, Expr, Op
from relax_mlir.objects.function import Function

if TYPE_CHECKING:
    from relax_mlir.relax.transform.fusion_pattern import PatternCheckContext

__all__ = ["Match", "sizes_of", "tensors_in"]

_TYPES = ("float16", "bfloat16", "float32", "float64")


def tensors_in(context: PatternCheckContext) -> dict[str, Any] | None:
    """Types of the tensors that a pattern may match, by name; Any: all are of tensors.

    None if they are not of one element type that NVIDIA's libraries compute with.
    """
    found: dict[str, Any] = {
        name: expr.struct_info for name, expr in context.annotated_expr.items()
    }
    dtypes = {info.dtype for info in found.values()}
    return found if len(dtypes) == 1 and dtypes.issubset(_TYPES) else None


def sizes_of(info: Any) -> list[str]:  # Any: of a tensor
    """Its sizes as text, which tells equal ones."""
    return [str(size) for size in info.shape]


@dataclass(frozen=True)
class Match:
    """A function that a pattern has matched.

    Attributes:
        name: by which it is called.
        calls: of operators within, by their names.
        numbers: those of the arguments, by what stands for them within.
    """

    name: str
    calls: Mapping[str, Call]
    numbers: Mapping[Expr, int]

    @staticmethod
    def of(function: Function) -> Match:
        """What ``FuseOpsByPattern(..., annotate_codegen=True)`` has made."""
        blocks = function.body.blocks
        values = [b.value for b in blocks[0].bindings[:2]] if blocks else []
        inner, call = values if len(values) == 2 else (None, None)
        if not isinstance(inner, Function) or not isinstance(call, Call):
            raise PassError(
                "expected a function that `FuseOpsByPattern` with `annotate_codegen` "
                "made: one that it calls, and the call"
            )
        places: dict[Expr, int] = {p: n for n, p in enumerate(function.params)}
        numbers: dict[Expr, int] = {
            param: places[argument]
            for param, argument in zip(inner.params, call.args, strict=True)
        }
        values = [b.value for block in inner.body.blocks for b in block.bindings]
        calls = {
            value.op.name: value
            for value in values
            if isinstance(value, Call) and isinstance(value.op, Op)
        }
        return Match(str(function.attrs["global_symbol"]), calls, numbers)

    def number(self, expr: Expr) -> int:
        """Which argument is read.

        Raises:
            PassError: it is a constant.
        """
        if expr not in self.numbers:
            raise PassError(
                f"`{self.name}`: expected arguments alone, got a constant. Hint: "
                "`FuseOpsByPattern(..., bind_constants=False)`"
            )
        return self.numbers[expr]

    @property
    def bias(self) -> int | None:
        """Which argument is added, if one is; patterns match sums in either order."""
        added = self.calls.get("relax.add")
        if added is None:
            return None
        first, second = added.args
        return self.number(first if first in self.numbers else second)

    @property
    def activation(self) -> str:
        """``none`` or ``relu``."""
        return "relu" if "relax.nn.relu" in self.calls else "none"
