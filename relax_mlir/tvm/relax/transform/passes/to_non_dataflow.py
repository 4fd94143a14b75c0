"""``relax-to-non-dataflow``: dissolves dataflow blocks."""

from dataclasses import dataclass

from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.rewrite.functions import graph_functions
from relax_mlir.rewrite.patterns import Pass

__all__ = ["ToNonDataflow"]


@dataclass(frozen=True)
class ToNonDataflow(Pass):
    """Dissolves dataflow blocks: all variables become visible in the whole function."""

    def run(self, module: IRModule) -> None:
        outside = to_attribute(-1)
        for function in graph_functions(module):
            for op in operations_of(function):
                attributes = op.operation.attributes
                if len(op.operation.results) and function_attributes.NAME in attributes:
                    attributes[function_attributes.BLOCK] = outside
                if function_attributes.OUTPUT in attributes:
                    del attributes[function_attributes.OUTPUT]
