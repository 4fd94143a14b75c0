"""``relax-annotate-tir-op-pattern``: tensor programs say what kind they are."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import from_attribute, to_attribute
from relax_mlir.op_patterns import pattern_of
from relax_mlir.rewriting import Pass

__all__ = ["AnnotateTirOpPattern", "annotated_pattern"]


@dataclass(frozen=True)
class AnnotateTirOpPattern(Pass):
    """Give every tensor program the attribute ``op_pattern``, if it has none."""

    known_as = "AnnotateTIROpPattern"

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            if not names.is_prim_func(function) or function.is_external:
                continue
            attrs = _attrs(function)
            if "op_pattern" not in attrs:
                attrs["op_pattern"] = int(pattern_of(function))
                function.attributes[names.ATTRS] = to_attribute(attrs)


def _attrs(function: ir.OpView) -> dict[str, object]:
    if names.ATTRS not in function.attributes:
        return {}
    return dict(from_attribute(function.attributes[names.ATTRS]))


def annotated_pattern(function: ir.OpView) -> int | None:
    """The kind that a tensor program says it is, or None."""
    found = _attrs(function).get("op_pattern")
    return found if isinstance(found, int) else None
