"""Conversion of a torch.fx graph to a Relax function."""

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
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Expr, Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo

__all__ = [
    "Custom",
    "GraphImporter",
    "NodeError",
    "boxed",
    "is_getitem",
    "is_size",
    "operator_name",
    "uncovered",
]

Custom = Callable[[Any, "GraphImporter"], Any]
"""A user-defined rule: maps a node and the importer, with its ``env`` and
``block_builder``, to the node's value."""


class NodeError(UnsupportedError):
    """A node of a graph cannot be imported.

    Attributes:
        node: its name.
    """

    def __init__(self, message: str, node: str) -> None:
        super().__init__(message)
        self.node = node


_SHOWN = 3  # nodes listed per operator without a rule


def operator_name(target: Any) -> str:  # Any: the target of a call
    """The qualified name of a call's operator, such as ``aten.add.Tensor``."""
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.namespace}.{target.__name__}"
    return getattr(target, "__name__", str(target))


def boxed(call: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """A call in torch's boxed calling convention: one list of inputs."""

    def run(inputs: list[Any]) -> Any:
        return call(inputs)

    run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
    return run


class GraphImporter:
    """Importer of one graph.

    Args:
        block_builder: the builder of the module.
        custom: user-defined rules by operator name, with or without namespace.

    Attributes:
        env: values by node.
        sizes: symbolic sizes of the graph.
    """

    def __init__(
        self, block_builder: BlockBuilder, custom: Mapping[str, Custom] | None = None
    ) -> None:
        self.block_builder = block_builder
        self.custom = dict(custom or {})
        self.env: dict[Any, Any] = {}
        self.sizes = Sizes()

    def retrieve_args(self, node: Any) -> Any:
        """Arguments with nodes replaced by their values, recursively."""
        if isinstance(node, fx.Node) and node in self.env:
            return self.env[node]
        if isinstance(node, (list, tuple)):
            return type(node)(map(self.retrieve_args, node))
        return node

    def parameter(self, node: Any, name: str) -> Var:
        """A function parameter for an input of the graph.

        A symbolic size becomes an array of shape [0, size].
        """
        try:
            return self._parameter(node, name)
        except NotImplementedError as error:
            raise NodeError(f"input `{name}`: {error}", node.name) from error

    def _parameter(self, node: Any, name: str) -> Var:
        found = node.meta["val"]
        if isinstance(found, torch.SymInt):
            shape = (0, self.sizes.convert(found))
            return Var(name, TensorStructInfo(shape, "float32"))
        if not isinstance(found, torch.Tensor):
            raise NotImplementedError(
                f"expected a tensor, got `{type(found).__name__}`"
            )
        info = TensorStructInfo(
            self.sizes.convert_shape(found.shape), dtype_name(found.dtype)
        )
        self.env[node] = Var(name, info)
        return self.env[node]

    def bind_constant(self, node: Any, tensor: Any) -> None:
        """Bind a node to a constant tensor.

        Raises:
            UnsupportedError: its element type is not supported.
        """
        try:
            self.env[node] = constant_of(tensor)
        except NotImplementedError as error:
            raise NodeError(f"weight `{node.name}`: {error}", node.name) from error

    def check_covered(self, graph: Any) -> None:
        """Check that every operator has a rule.

        Raises:
            UnsupportedError: some have none; the message lists all of them.
        """
        missing: dict[str, list[str]] = {}
        for node in uncovered(graph, self.custom):
            missing.setdefault(operator_name(node.target), []).append(node.name)
        if not missing:
            return
        lines = [_uncovered(name, nodes) for name, nodes in sorted(missing.items())]
        many = "an operator" if len(lines) == 1 else f"{len(lines)} operators"
        raise UnsupportedError(
            f"graph: {many} without a rule: {'; '.join(lines)}. Hint: "
            "`custom_convert_map` takes rules of your own."
        )

    def run(self, graph: Any, owner: Any) -> Any:
        """Emit all calls of a graph; its inputs are bound already.

        Args:
            graph: the graph.
            owner: the module that has the graph's attributes.

        Returns:
            The nodes that the graph returns.

        Raises:
            ModelError: a call is invalid.
        """
        returned: Sequence[Any] = ()
        for node in graph.nodes:
            if node.op == "call_function" and not is_size(node):
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
            return  # a subgraph operand; its call has no rule
        node.meta.setdefault("val", value)
        self.bind_constant(node, value)

    def _called(self, node: Any) -> Any:
        try:
            custom = _custom_rule(node, self.custom)
            if custom is not None:
                return custom(node, self)
            if is_getitem(node):
                return self.env[node.args[0]][node.args[1]]
            rule = rules()[operator_name(node.target)]
            return self._emitted(rule, node)
        except NotImplementedError as error:
            raise NodeError(f"{_location(node)}: {error}", node.name) from error
        except (RelaxError, ValueError, TypeError) as error:
            raise ModelError(f"{_location(node)}: {error}") from error

    def _emitted(self, rule: Rule, node: Any) -> Any:
        result = rule(TorchNode(node, self))
        if isinstance(result, Expr):
            return self.block_builder.emit(result)
        return [None if r is None else self.block_builder.emit(r) for r in result]


def uncovered(graph: Any, custom: Mapping[str, Custom] | None) -> list[Any]:
    """The calls of a graph whose operators have no rule."""
    return [
        node
        for node in graph.nodes
        if node.op == "call_function"
        and not (is_size(node) or is_getitem(node))
        and _custom_rule(node, custom or {}) is None
        and operator_name(node.target) not in rules()
    ]


def _custom_rule(node: Any, custom: Mapping[str, Custom]) -> Custom | None:
    name = operator_name(node.target)
    short = getattr(node.target, "__name__", name)
    return custom.get(name) or custom.get(short)


def is_size(node: Any) -> bool:
    """Whether a node computes a number from sizes, or asserts one; it needs no code."""
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


def is_getitem(node: Any) -> bool:
    """Whether a node takes an element of the results of another."""
    return operator_name(node.target) == "getitem"


def _uncovered(name: str, nodes: Sequence[str]) -> str:
    shown = ", ".join(f"`{n}`" for n in nodes[:_SHOWN])
    more = ", ..." if len(nodes) > _SHOWN else ""
    many = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    hint = near_misses(name, rules()).rstrip("?").strip()
    return f"`{name}`: {many}, {shown}{more}{f' ({hint}?)' if hint else ''}"


def _location(node: Any) -> str:
    """The location of a node for errors: name, operator and line of the model's source."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    frames = [line.strip() for line in lines if line.strip().startswith("File ")]
    source = f" at {frames[-1]}" if frames else ""
    return f"node `{node.name}` ({operator_name(node.target)}){source}"
