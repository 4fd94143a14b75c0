"""From a graph of torch to a function of Relax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from relax_mlir.errors import ModelError, RelaxError, UnsupportedError, near_misses
from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import Rule, rules
from relax_mlir.frontends.torch.sizes import Sizes
from relax_mlir.frontends.torch.tensors import constant_of, dtype_name
from relax_mlir.objects.expr import Expr, Var
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.block_builder import BlockBuilder

__all__ = ["Custom", "GraphImporter", "operator_name"]

Custom = Callable[[Any, "GraphImporter"], Any]
"""A rule of the user's: the node and the import, whose ``env`` and ``block_builder`` it
reads; what it returns is the node's value."""

_SHOWN = 3  # nodes of an operator without a rule


def operator_name(target: Any) -> str:  # Any: whatever a node calls
    """The operator that a node calls: ``aten.add.Tensor``."""
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.namespace}.{target.__name__}"
    return getattr(target, "__name__", str(target))


class GraphImporter:
    """The import of one graph.

    Args:
        block_builder: of the module.
        custom: rules of the user's, by the operator's name with or without namespace.

    Attributes:
        env: the values of nodes.
        sizes: the symbols of the graph.
    """

    def __init__(
        self, block_builder: BlockBuilder, custom: Mapping[str, Custom] | None = None
    ) -> None:
        self.block_builder = block_builder
        self.custom = dict(custom or {})
        self.env: dict[Any, Any] = {}
        self.sizes = Sizes()

    def retrieve_args(self, node: Any) -> Any:
        """The arguments of a node with the values of nodes in their places."""
        if isinstance(node, fx.Node) and node in self.env:
            return self.env[node]
        if isinstance(node, (list, tuple)):
            return type(node)(map(self.retrieve_args, node))
        return node

    def parameter(self, node: Any, name: str) -> Var:
        """A parameter of the function for an input of the graph.

        A symbolic size becomes an array [0, size]: its dimension tells it.
        """
        try:
            return self._parameter(node, name)
        except NotImplementedError as error:
            raise UnsupportedError(f"input `{name}`: {error}") from error

    def _parameter(self, node: Any, name: str) -> Var:
        found = node.meta["val"]
        if isinstance(found, torch.SymInt):
            shape = (0, self.sizes.term(found))
            return Var(name, TensorStructInfo(shape, "float32"))
        if not isinstance(found, torch.Tensor):
            raise NotImplementedError(
                f"expected a tensor, got `{type(found).__name__}`"
            )
        info = TensorStructInfo(self.sizes.terms(found.shape), dtype_name(found.dtype))
        self.env[node] = Var(name, info)
        return self.env[node]

    def bind_constant(self, node: Any, tensor: Any) -> None:
        """Let a tensor of torch be the value of a node.

        Raises:
            UnsupportedError: its element type is none of ours.
        """
        try:
            self.env[node] = constant_of(tensor)
        except NotImplementedError as error:
            raise UnsupportedError(f"weight `{node.name}`: {error}") from error

    def check_covered(self, graph: Any) -> None:
        """Check that there is a rule for every operator.

        Raises:
            UnsupportedError: there is none for some; all of them are named.
        """
        missing: dict[str, list[str]] = {}
        for node in graph.nodes:
            if node.op == "call_function" and not self._is_known(node):
                missing.setdefault(operator_name(node.target), []).append(node.name)
        if not missing:
            return
        lines = [_uncovered(name, nodes) for name, nodes in sorted(missing.items())]
        many = "an operator" if len(lines) == 1 else f"{len(lines)} operators"
        raise UnsupportedError(
            f"graph: {many} without a rule: {'; '.join(lines)}. Hint: "
            "`custom_convert_map` takes rules of your own."
        )

    def _is_known(self, node: Any) -> bool:
        if _is_size(node) or _is_getitem(node) or self._custom_of(node) is not None:
            return True
        return operator_name(node.target) in rules()

    def _custom_of(self, node: Any) -> Custom | None:
        name = operator_name(node.target)
        short = getattr(node.target, "__name__", name)
        return self.custom.get(name) or self.custom.get(short)

    def run(self, graph: Any, owner: Any) -> Any:
        """Emit all calls of a graph whose inputs have values.

        Args:
            graph: the graph.
            owner: the module that it belongs to, with what its nodes name.

        Returns:
            What the graph returns: the nodes.

        Raises:
            ModelError: a call does not fit.
        """
        returned: Sequence[Any] = ()
        for node in graph.nodes:
            if node.op == "call_function" and not _is_size(node):
                self.env[node] = self._called(node)
            elif node.op == "get_attr":
                self._set_attribute(node, owner)
            elif node.op == "output":
                returned = node.args[0]
        return returned

    def _set_attribute(self, node: Any, owner: Any) -> None:
        value = owner
        for part in node.target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            return  # a graph that a call takes; the call has no rule
        node.meta.setdefault("val", value)
        self.bind_constant(node, value)

    def _called(self, node: Any) -> Any:
        try:
            custom = self._custom_of(node)
            if custom is not None:
                return custom(node, self)
            if _is_getitem(node):
                return self.env[node.args[0]][node.args[1]]
            rule = rules()[operator_name(node.target)]
            return self._emitted(rule, node)
        except NotImplementedError as error:
            raise UnsupportedError(f"{_place(node)}: {error}") from error
        except (RelaxError, ValueError, TypeError) as error:
            raise ModelError(f"{_place(node)}: {error}") from error

    def _emitted(self, rule: Rule, node: Any) -> Any:
        made = rule(TorchNode(node, self))
        if isinstance(made, Expr):
            return self.block_builder.emit(made)
        return [None if m is None else self.block_builder.emit(m) for m in made]


def _is_size(node: Any) -> bool:
    """Whether a node computes a size or another number, of which the sizes tell all."""
    found = node.meta.get("val")
    if isinstance(found, (torch.SymInt, torch.SymFloat, torch.SymBool, int, bool)):
        return True
    name = operator_name(node.target)
    return found is None and name in _CHECKS


_CHECKS = frozenset(
    {
        "aten._assert_scalar.default",
        "aten._assert_async.msg",
        "aten._assert_tensor_metadata.default",
        "aten.sym_constrain_range_for_size.default",
        "aten.sym_constrain_range.default",
        "_enter_autocast",
        "_exit_autocast",
        "_set_grad_enabled",
    }
)


def _is_getitem(node: Any) -> bool:
    return operator_name(node.target) == "getitem"


def _uncovered(name: str, nodes: Sequence[str]) -> str:
    shown = ", ".join(f"`{n}`" for n in nodes[:_SHOWN])
    more = ", ..." if len(nodes) > _SHOWN else ""
    many = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    hint = near_misses(name, rules()).rstrip("?").strip()
    return f"`{name}`: {many}, {shown}{more}{f' ({hint}?)' if hint else ''}"


def _place(node: Any) -> str:
    """Where a node comes from: its name, its operator, its line in the model's source."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    frames = [line.strip() for line in lines if line.strip().startswith("File ")]
    source = f" at {frames[-1]}" if frames else ""
    return f"node `{node.name}` ({operator_name(node.target)}){source}"
