"""Run-time compilation: JIT-compiled subgraphs, data-dependent nodes, host programs."""

from relax_mlir.compiler.host.host_ops import run_node
from relax_mlir.compiler.host.subgraph import run_subgraph

__all__ = ["run_node", "run_subgraph"]
