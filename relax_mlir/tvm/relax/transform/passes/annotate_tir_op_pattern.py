"""``relax-annotate-tir-op-pattern``: op pattern kinds as attributes of tensor programs."""

from dataclasses import dataclass

from mlir import ir

from relax_mlir.analysis.tvm_op_pattern import tvm_op_pattern_of
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.objects.mlir_attributes import from_attribute, to_attribute
from relax_mlir.rewrite.patterns import Pass

__all__ = ["AnnotateTirOpPattern", "annotated_pattern"]


@dataclass(frozen=True)
class AnnotateTirOpPattern(Pass):
    """Annotate every tensor program that lacks one with its op pattern kind, ``op_pattern``."""

    known_as = "AnnotateTIROpPattern"

    def run(self, module: IRModule) -> None:
        for function in module.func_ops():
            if not function_attributes.is_defined_prim_func(function):
                continue
            attrs = _attrs(function)
            if "op_pattern" not in attrs:
                attrs["op_pattern"] = int(tvm_op_pattern_of(function))
                function.attributes[function_attributes.ATTRS] = to_attribute(attrs)


def _attrs(function: ir.OpView) -> dict[str, object]:
    if function_attributes.ATTRS not in function.attributes:
        return {}
    return dict(from_attribute(function.attributes[function_attributes.ATTRS]))


def annotated_pattern(function: ir.OpView) -> int | None:
    """The op pattern kind in a tensor program's ``op_pattern`` attribute, or None."""
    found = _attrs(function).get("op_pattern")
    return found if isinstance(found, int) else None
