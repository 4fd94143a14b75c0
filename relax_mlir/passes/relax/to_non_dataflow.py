"""``relax-to-non-dataflow``: no binding stands in a dataflow block any more."""

from dataclasses import dataclass

from relax_mlir.graphs import graph_functions, operations_of
from relax_mlir.module import IRModule
from relax_mlir.objects import names
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.rewriting import Pass

__all__ = ["ToNonDataflow"]


@dataclass(frozen=True)
class ToNonDataflow(Pass):
    """Let all variables be seen in the whole function."""

    def run(self, module: IRModule) -> None:
        outside = to_attribute(-1)
        for function in graph_functions(module):
            for op in operations_of(function):
                attributes = op.operation.attributes
                if len(op.operation.results) and names.NAME in attributes:
                    attributes[names.BLOCK] = outside
                if names.OUTPUT in attributes:
                    del attributes[names.OUTPUT]
