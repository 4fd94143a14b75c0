"""A call in a graph of torch, as a rule sees it."""

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
from relax_mlir.relax import op

if TYPE_CHECKING:
    from relax_mlir.frontends.torch.graph import GraphImporter

__all__ = ["TorchNode"]


class TorchNode:
    """One call of an operator.

    Args:
        fx_node: the call.
        graph: the import that it belongs to.
    """

    def __init__(self, fx_node: Any, graph: GraphImporter) -> None:
        self.fx_node = fx_node
        self.graph = graph

    @cached_property
    def _given(self) -> Mapping[str, Any]:
        """The arguments by name, as the graph has them."""
        known = self.fx_node.target._schema.arguments
        given = {a.name: a.default_value for a in known if a.has_default_value()}
        names = [a.name for a in known]
        given.update(zip(names, self.fx_node.args, strict=False))
        return {**given, **self.fx_node.kwargs}

    def raw(self, name: str) -> Any:
        """An argument as the graph has it."""
        return self._given.get(name)

    def meta(self, name: str) -> Any:
        """What is known of an argument: a tensor without memory, or the value itself."""
        value = self.raw(name)
        return value.meta["val"] if isinstance(value, fx.Node) else value

    def attr(self, name: str) -> Any:
        """An argument that is no tensor: numbers, sizes as terms, names, lists of these."""
        return self._attr(self.raw(name))

    def _attr(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._attr(v) for v in value]
        if isinstance(value, fx.Node):
            value = value.meta["val"]
        if isinstance(value, torch.SymInt):
            return self.graph.sizes.term(value)
        return dtype_name(value) if isinstance(value, torch.dtype) else value

    def has(self, name: str) -> bool:
        """Whether an argument is there, and not None."""
        return self.raw(name) is not None

    def tensor(self, name: str, dtype: str | None = None) -> Expr:
        """An argument as a tensor; a number becomes one.

        Args:
            name: of the argument.
            dtype: what it is cast to; None for what it is.
        """
        return self.value(self.raw(name), dtype)

    def tensors(self, name: str, dtype: str | None = None) -> list[Expr]:
        """A list of tensors."""
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
            return self.size_tensor(self.graph.sizes.term(given), dtype or "int64")
        if isinstance(given, (torch.SymFloat, torch.SymBool)):
            raise NotImplementedError(
                f"`{given}`: a number computed of sizes: expected whole numbers"
            )
        return const(np.asarray(given), dtype or dtype_name(torch.tensor(given).dtype))

    def size_tensor(self, size: Size, dtype: str) -> Expr:
        """A size as a tensor of rank 0."""
        if isinstance(size, int):
            return const(np.asarray(size), dtype)
        vector = op.arange(size, size + 1, 1, "int64")
        return op.astype(op.reshape(vector, ()), dtype)

    def shape_of(self, name: str) -> tuple[Size, ...]:
        """The shape of an argument."""
        found = self.meta(name)
        return self.graph.sizes.terms(getattr(found, "shape", ()))

    def dtype_of(self, name: str) -> str:
        """The element type of an argument; of a number that which torch gives it."""
        found = self.meta(name)
        return dtype_name(torch.result_type(found, found))

    def rank_of(self, name: str) -> int:
        """The number of axes of an argument."""
        return len(getattr(self.meta(name), "shape", ()))

    def axis(self, name: str, rank: int) -> int:
        """An argument that is an axis, counted from the front."""
        return self.attr(name) % max(rank, 1)

    def axes(self, name: str, rank: int) -> list[int]:
        """Axes, counted from the front; a list that is missing or empty stands for all."""
        found = self.attr(name)
        if isinstance(found, int):
            found = [found]
        return [a % max(rank, 1) for a in found] if found else list(range(rank))

    def promoted(self, *names: str) -> str:
        """The element type that torch computes with, of two arguments."""
        first, second = (self.meta(n) for n in names)
        return dtype_name(torch.result_type(_plain(first), _plain(second)))

    @property
    def result(self) -> Any:
        """What is known of the result: a tensor without memory; the first of several."""
        found = self.fx_node.meta["val"]
        return found[0] if isinstance(found, (list, tuple)) else found

    @property
    def results(self) -> Sequence[Any]:
        """What is known of several results."""
        return self.fx_node.meta["val"]

    @property
    def dtype(self) -> str:
        """The element type of the result; of the first of several."""
        return dtype_name(self.result.dtype)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The shape of the result; of the first of several."""
        return self.graph.sizes.terms(self.result.shape)

    def emit(self, expr: Expr) -> Expr:
        """Give a value a name, so that it is computed once."""
        return self.graph.block_builder.emit(expr)

    def parts(self, expr: Expr, count: int) -> list[Expr]:
        """The elements of a tuple, of which there are ``count``."""
        whole = self.emit(expr)
        return [self.emit(whole[i]) for i in range(count)]

    def packed(self, exprs: Sequence[Expr]) -> Tuple:
        """Values as one tuple."""
        return Tuple(list(exprs))


def _plain(value: Any) -> Any:
    """A value that torch promotes: a symbolic number as a number."""
    if isinstance(value, torch.SymInt):
        return 1
    return value
