"""Partition of a captured graph: operators without a rule stay in torch.

Connected operators that have rules become subgraphs, by torch's partitioner; each is compiled.
What is left runs in torch between them.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from relax_mlir.errors import RelaxError
from relax_mlir.frontends.torch.graph import (
    Custom,
    NodeError,
    boxed,
    is_getitem,
    is_size,
    operator_name,
    uncovered,
)
from relax_mlir.support.log import WARNING, log

__all__ = ["CompileGraph", "partitioned"]

_PREFIX = "relax_mlir_subgraph_"

CompileGraph: TypeAlias = Callable[[Any, Mapping[int, Any]], Callable[..., Any]]
"""Compiles a graph, with constant tensors in place of inputs by index, to a function of a
list of tensors."""


def partitioned(
    graph: Any,  # Any: torch.fx.GraphModule
    frozen: Mapping[int, Any],
    custom: Mapping[str, Custom] | None,
    compile_graph: CompileGraph,
) -> Callable[..., Any]:
    """Compile what has rules; the function of a list of inputs runs it, and the rest in torch.

    Args:
        graph: a graph of ATen operators.
        frozen: constant tensors in place of inputs, by index.
        custom: user-defined rules by operator name.
        compile_graph: compiles a subgraph.
    """
    left = {node.name for node in uncovered(graph.graph, custom)}
    constants = dict(_constants(graph, frozen))
    reasons: list[str] = []
    while True:
        whole = fx.GraphModule(graph, copy.deepcopy(graph.graph))
        parts = _subgraphs(whole, left)
        failure = _replace(whole, parts, constants, compile_graph)
        if failure is None:
            break
        part, error = failure
        reasons.append(str(error))
        left |= part.nodes_of(error)
    _report(graph, left, reasons)

    def run(inputs: list[Any]) -> Any:
        with torch.no_grad():
            return whole(*inputs)

    return boxed(run)


def _replace(
    whole: Any,
    parts: Sequence[_Subgraph],
    constants: Mapping[str, Any],
    compile_graph: CompileGraph,
) -> tuple[_Subgraph, RelaxError] | None:
    """Replace subgraphs by compiled functions; returns the first that cannot be compiled."""
    part = None
    try:
        for part in parts:
            function = compile_graph(part.module, part.frozen(constants))
            setattr(whole, part.name, _Compiled(function))
    except RelaxError as error:
        assert part is not None
        return part, error
    return None


@dataclass(frozen=True)
class _Subgraph:
    """A part of a graph to compile.

    Attributes:
        name: of the call in the whole graph.
        module: its graph.
        inputs: names of the whole graph's nodes that it takes.
    """

    name: str
    module: Any  # Any: torch.fx.GraphModule
    inputs: Sequence[str]

    def frozen(self, constants: Mapping[str, Any]) -> dict[int, Any]:
        """The inputs that are constant tensors, by index."""
        return {
            number: constants[name]
            for number, name in enumerate(self.inputs)
            if name in constants
        }

    def nodes_of(self, error: RelaxError) -> set[str]:
        """The nodes to leave to torch: that of the error, or all."""
        calls = {n.name: n for n in self.module.graph.nodes if n.op == "call_function"}
        if not isinstance(error, NodeError):
            return set(calls)
        if error.node in calls:
            return {error.node}
        users = {
            name
            for name, call in calls.items()
            if error.node in [source.name for source in call.all_input_nodes]
        }
        return users or set(calls)


class _Support(OperatorSupportBase):
    """What the partitioner may put into a subgraph."""

    def __init__(self, left: set[str]) -> None:
        self._left = left

    def is_node_supported(self, submodules: Mapping[str, Any], node: Any) -> bool:
        """Whether a node can be compiled; elements of results go with their call."""
        if node.op != "call_function" or is_size(node):
            return False
        if is_getitem(node):
            return self.is_node_supported(submodules, node.args[0])
        return node.name not in self._left


def _subgraphs(whole: Any, left: set[str]) -> list[_Subgraph]:
    """Make calls of subgraphs of what is not left to torch."""
    partitioner = CapabilityBasedPartitioner(
        whole, _Support(left), allows_single_node_partition=True
    )
    partitions = [p.nodes for p in partitioner.propose_partitions()]
    fuse_by_partitions(whole, partitions, _PREFIX, always_return_tuple=True)
    return [
        _Subgraph(node.target, getattr(whole, node.target), [str(a) for a in node.args])
        for node in whole.graph.nodes
        if node.op == "call_module" and node.target.startswith(_PREFIX)
    ]


def _constants(graph: Any, frozen: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    """Constant tensors by the name of their node: frozen inputs, and attributes."""
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    for number, tensor in frozen.items():
        yield placeholders[number].name, tensor
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            value = graph
            for part in node.target.split("."):
                value = getattr(value, part)
            if isinstance(value, torch.Tensor):
                node.meta.setdefault("val", value)
                yield node.name, value


class _Compiled(torch.nn.Module):
    """A compiled subgraph as a module that torch's graph calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: Any) -> Any:
        """Run the compiled function."""
        return self._function(list(inputs))


def _report(graph: Any, left: set[str], reasons: Sequence[str]) -> None:
    """Log what is left to torch, and why, in one line."""
    nodes = (node for node in graph.graph.nodes if node.name in left)
    names = Counter(operator_name(node.target) for node in nodes)
    shown = ", ".join(
        f"`{name}`" + (f" ({count} times)" if count > 1 else "")
        for name, count in sorted(names.items())
    )
    why = f": {'; '.join(reasons)}" if reasons else ""
    log(WARNING, "torch", "torch.compile: left to torch: %s%s", shown, why)
