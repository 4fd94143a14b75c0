"""Accessors for the arguments and results of a torch.fx call node, for conversion rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import fx

from relax_mlir.frontends.torch.sizes import Size
from relax_mlir.frontends.torch.tensors import dtype_name
from relax_mlir.objects.expr import Expr, Tuple, const
from relax_mlir.tvm.relax import op

if TYPE_CHECKING:
    from relax_mlir.frontends.torch.graph import GraphImporter

__all__ = ["TorchNode"]


class TorchNode:
    """A call node of a torch.fx graph, as conversion rules receive it.

    Args:
        fx_node: the node.
        graph: the importer of its graph.
    """

    def __init__(self, fx_node: Any, graph: GraphImporter) -> None:
        self.fx_node = fx_node
        self.graph = graph

    @cached_property
    def _given(self) -> Mapping[str, Any]:
        """The arguments by name, as in the graph."""
        known = self.fx_node.target._schema.arguments
        given = {a.name: a.default_value for a in known if a.has_default_value()}
        names = [a.name for a in known]
        given.update(zip(names, self.fx_node.args, strict=False))
        return {**given, **self.fx_node.kwargs}

    def raw(self, name: str) -> Any:
        """An argument as in the graph: a node or a Python value."""
        return self._given.get(name)

    def meta(self, name: str) -> Any:
        """The fake tensor of an argument that is a node, else its value."""
        value = self.raw(name)
        return value.meta["val"] if isinstance(value, fx.Node) else value

    def attr(self, name: str) -> Any:
        """A non-tensor argument: a number, a symbolic size, a name, or a list of these."""
        return self._attr(self.raw(name))

    def _attr(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._attr(v) for v in value]
        if isinstance(value, fx.Node):
            value = value.meta["val"]
        if isinstance(value, torch.SymInt):
            return self.graph.sizes.convert(value)
        return dtype_name(value) if isinstance(value, torch.dtype) else value

    def has(self, name: str) -> bool:
        """Whether an argument is present and not None."""
        return self.raw(name) is not None

    def tensor(self, name: str, dtype: str | None = None) -> Expr:
        """An argument as a tensor; a number becomes a constant.

        Args:
            name: the name of the argument.
            dtype: the element type to cast to; None for no cast.
        """
        return self.value(self.raw(name), dtype)

    def tensors(self, name: str, dtype: str | None = None) -> list[Expr]:
        """An argument that is a list of tensors; see :meth:`tensor`."""
        return [self.value(v, dtype) for v in self.raw(name)]

    def value(self, given: Any, dtype: str | None = None) -> Expr:
        """A value of the graph as a tensor; see :meth:`tensor`."""
        if isinstance(given, fx.Node):
            found = given.meta["val"]
            if isinstance(found, torch.Tensor):
                old = dtype_name(found.dtype)
                expr = self.graph.env[given]
                return expr if dtype in (None, old) else op.astype(expr, dtype)
            given = found
        if isinstance(given, torch.SymInt):
            return self.size_tensor(self.graph.sizes.convert(given), dtype or "int64")
        if isinstance(given, (torch.SymFloat, torch.SymBool)):
            raise NotImplementedError(
                f"`{given}`: a number computed from sizes: expected an integer"
            )
        return const(np.asarray(given), dtype or dtype_name(torch.tensor(given).dtype))

    def size_tensor(self, size: Size, dtype: str) -> Expr:
        """A size as a scalar tensor."""
        if isinstance(size, int):
            return const(np.asarray(size), dtype)
        vector = op.arange(size, size + 1, 1, "int64")
        return op.astype(op.reshape(vector, ()), dtype)

    def shape_of(self, name: str) -> tuple[Size, ...]:
        """The shape of an argument."""
        found = self.meta(name)
        return self.graph.sizes.convert_shape(getattr(found, "shape", ()))

    def dtype_of(self, name: str) -> str:
        """The element type of an argument; for a number, the type that torch infers."""
        found = self.meta(name)
        return dtype_name(torch.result_type(found, found))

    def rank_of(self, name: str) -> int:
        """The number of axes of an argument."""
        return len(getattr(self.meta(name), "shape", ()))

    def axis(self, name: str, rank: int) -> int:
        """An argument that is an axis, as a nonnegative index."""
        return self.attr(name) % max(rank, 1)

    def axes(self, name: str, rank: int) -> list[int]:
        """Axes as nonnegative indices; all axes if the list is missing or empty."""
        found = self.attr(name)
        if isinstance(found, int):
            found = [found]
        return [a % max(rank, 1) for a in found] if found else list(range(rank))

    def promoted(self, *names: str) -> str:
        """The promoted element type of two arguments."""
        first, second = (self.meta(n) for n in names)
        return dtype_name(torch.result_type(_plain(first), _plain(second)))

    @property
    def result(self) -> Any:
        """The fake tensor of the result, or of the first of several."""
        found = self.fx_node.meta["val"]
        return found[0] if isinstance(found, (list, tuple)) else found

    @property
    def results(self) -> Sequence[Any]:
        """The fake tensors of several results."""
        return self.fx_node.meta["val"]

    @property
    def dtype(self) -> str:
        """The element type of the result, or of the first of several."""
        return dtype_name(self.result.dtype)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The shape of the result, or of the first of several."""
        return self.graph.sizes.convert_shape(self.result.shape)

    def emit(self, expr: Expr) -> Expr:
        """Bind an expression to a variable, so that it is computed once."""
        return self.graph.block_builder.emit(expr)

    def parts(self, expr: Expr, count: int) -> list[Expr]:
        """The ``count`` elements of a tuple expression, which is evaluated once."""
        tuple_ = self.emit(expr)
        return [self.emit(tuple_[i]) for i in range(count)]

    def packed(self, exprs: Sequence[Expr]) -> Tuple:
        """A tuple of values."""
        return Tuple(list(exprs))


def _plain(value: Any) -> Any:
    """A value for torch's type promotion; a symbolic size becomes an int."""
    if isinstance(value, torch.SymInt):
        return 1
    return value
