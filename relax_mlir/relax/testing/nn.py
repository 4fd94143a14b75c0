"""Small networks whose weights are variables: ``tvm.relax.testing.nn``.

What a module computes is emitted to the builder whose function is open::

    builder = relax.BlockBuilder()
    with builder.function("main"):
        model, x = nn.Linear(4, 2), nn.Placeholder((3, 4), name="x")
        builder.emit_func_output(model(x), [x, *model.parameters()])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from relax_mlir import topi
from relax_mlir.errors import BuilderError, shown
from relax_mlir.module import IRModule
from relax_mlir.nn.subroutine import SubroutineMixin
from relax_mlir.objects import prim
from relax_mlir.objects.expr import Expr, ShapeExpr, Var
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.runtime.ndarray import NDArray, array

__all__ = [
    "Linear",
    "LogSoftmax",
    "Module",
    "Parameter",
    "Placeholder",
    "ReLU",
    "Sequential",
    "emit",
    "emit_te",
    "init_params",
]


def emit(expr: Expr, name_hint: str = "") -> Var:
    """Bind an expression in the open function.

    Raises:
        RuntimeError: none is open.
    """
    return _builder().emit(expr, name_hint)


def emit_te(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
    """Bind a call of the program that ``func`` makes, in the open function.

    Raises:
        RuntimeError: none is open.
    """
    return _builder().emit_te(func, *args, **kwargs)


def _builder() -> BlockBuilder:
    builder = BlockBuilder.current()
    if builder is None:
        raise BuilderError("emit: expected an open `BlockBuilder.function`, got none")
    return builder


class _Input(Var):
    """A tensor that is given; its name is its own in the open function."""

    default_name: ClassVar[str] = "data"

    def __init__(
        self, shape: Sequence[Any], dtype: str = "float32", name: str | None = None
    ) -> None:
        if not isinstance(shape, (list, tuple)):
            raise TypeError(
                f"`{type(self).__name__}`: expected a list or a tuple of sizes, "
                f"got {shown(shape)}"
            )
        wish, builder = name or self.default_name, BlockBuilder.current()
        unique = wish if builder is None else builder.get_unique_name(wish)
        super().__init__(unique, TensorStructInfo(shape, dtype))


class Placeholder(_Input):
    """An input of a network."""


class Parameter(_Input):
    """A weight of a network."""

    default_name = "param"

    def as_expr(self) -> Var:
        """The variable that it is now."""
        return Var(self.vid, self.struct_info)

    def stand_for(self, var: Var) -> None:
        """Be another variable, such as a parameter of the function that is open."""
        self.vid, self._struct_info = var.vid, var.struct_info


class Module(SubroutineMixin):
    """A network, or a part of one; ``forward`` says what it computes."""

    def parameters(self) -> list[Parameter]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """All weights in it, in the order in which they were set."""
        return _parameters_in(vars(self))

    def forward(self, input: Expr) -> Expr:
        """What it computes."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What ``forward`` gives."""
        return self.forward(*args, **kwargs)


def _parameters_in(value: object) -> list[Parameter]:
    if isinstance(value, Parameter):
        return [value]
    if isinstance(value, Module):
        return value.parameters()
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [found for part in value for found in _parameters_in(part)]
    return []


def init_params(mod: IRModule) -> list[NDArray]:
    """Zeros for the parameters of ``main`` that are not called ``data...``.

    Raises:
        TypeError: a size is not known.
    """
    weights = [p for p in mod["main"].params if not p.name_hint.startswith("data")]
    return [array(np.zeros(_sizes(p), np.float32)) for p in weights]


def _sizes(param: Var) -> list[int]:
    shape = getattr(param.struct_info, "shape", None)
    sizes = list(shape) if isinstance(shape, ShapeExpr) else [None]
    known = [size.value for size in sizes if isinstance(size, prim.IntImm)]
    if len(known) < len(sizes):
        raise TypeError(
            f"init_params: `{param.name_hint}`: expected a tensor of sizes that are "
            f"numbers, got {param.struct_info}"
        )
    return known


class Sequential(Module):
    """Modules one after the other."""

    def __init__(self, *modules: Module) -> None:
        self.modules = modules

    def forward(self, input: Expr) -> Expr:
        """What the last one makes of what the others make."""
        for module in self.modules:
            input = module(input)
        return input


class ReLU(Module):
    """The larger of an element and zero."""

    def forward(self, input: Expr) -> Var:
        """The rectified elements."""
        return emit_te(topi.nn.relu, input)


class LogSoftmax(Module):
    """The logarithm of softmax along the last axis."""

    def forward(self, input: Expr) -> Var:
        """Logarithms of what adds up to one."""
        return emit_te(topi.nn.log_softmax, input)


class Linear(Module):
    """A product with weights, and a bias.

    Shapes:
        weight: [in_features, out_features]; bias: [out_features].
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((in_features, out_features), name="linear_weight")
        self.bias = Parameter((out_features,), name="linear_bias") if bias else None

    def forward(self, input: Expr) -> Var:
        """``input @ weight + bias``."""
        product = emit_te(topi.matmul, input, self.weight)
        return product if self.bias is None else emit_te(topi.add, product, self.bias)
