"""``tvm.relax.testing.nn``: small neural network modules whose weights are Relax variables.

``forward`` emits bindings to the current ``BlockBuilder`` function::

    builder = relax.BlockBuilder()
    with builder.function("main"):
        model, x = nn.Linear(4, 2), nn.Placeholder((3, 4), name="x")
        builder.emit_func_output(model(x), [x, *model.parameters()])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from relax_mlir.errors import BuilderError, short_repr
from relax_mlir.ir.module import IRModule
from relax_mlir.nn.subroutine import SubroutineMixin
from relax_mlir.objects import prim
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Expr, ShapeExpr, Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo
from relax_mlir.runtime.ndarray import NDArray, array
from relax_mlir.tvm import topi

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
    """Bind an expression in the function under construction.

    Raises:
        RuntimeError: no function is under construction.
    """
    return _builder().emit(expr, name_hint)


def emit_te(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Var:
    """Bind a ``call_tir`` of the tensor expressions of ``func``.

    Raises:
        RuntimeError: no function is under construction.
    """
    return _builder().emit_te(func, *args, **kwargs)


def _builder() -> BlockBuilder:
    builder = BlockBuilder.current()
    if builder is None:
        raise BuilderError(
            "emit: expected an enclosing `BlockBuilder.function`, got none"
        )
    return builder


class _Input(Var):
    """Input tensor, with a name that is unique in the function under construction."""

    default_name: ClassVar[str] = "data"

    def __init__(
        self, shape: Sequence[Any], dtype: str = "float32", name: str | None = None
    ) -> None:
        if not isinstance(shape, (list, tuple)):
            raise TypeError(
                f"`{type(self).__name__}`: expected a list or a tuple of sizes, "
                f"got {short_repr(shape)}"
            )
        hint, builder = name or self.default_name, BlockBuilder.current()
        unique = hint if builder is None else builder.get_unique_name(hint)
        super().__init__(unique, TensorStructInfo(shape, dtype))


class Placeholder(_Input):
    """Data input of a network."""


class Parameter(_Input):
    """Weight of a network."""

    default_name = "param"

    def as_expr(self) -> Var:
        """The Relax variable that it currently represents."""
        return Var(self.vid, self.struct_info)

    def bind(self, var: Var) -> None:
        """Represent another variable, such as a parameter of the current function."""
        self.vid, self._struct_info = var.vid, var.struct_info


class Module(SubroutineMixin):
    """Base class of network modules; subclasses implement ``forward``."""

    def parameters(self) -> list[Parameter]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """All weights of it and of its submodules, in order of assignment."""
        return _parameters_in(vars(self))

    def forward(self, input: Expr) -> Expr:
        """Compute the module's result."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward``."""
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
    """Zero arrays for the parameters of ``main`` whose names do not start with ``data``.

    Raises:
        TypeError: a size is not a constant.
    """
    weights = [p for p in mod["main"].params if not p.name_hint.startswith("data")]
    return [array(np.zeros(_sizes(p), np.float32)) for p in weights]


def _sizes(param: Var) -> list[int]:
    shape = getattr(param.struct_info, "shape", None)
    sizes = list(shape) if isinstance(shape, ShapeExpr) else [None]
    known = [size.value for size in sizes if isinstance(size, prim.IntImm)]
    if len(known) < len(sizes):
        raise TypeError(
            f"init_params: `{param.name_hint}`: expected a tensor of static shape, got "
            f"{param.struct_info}"
        )
    return known


class Sequential(Module):
    """Composition of modules."""

    def __init__(self, *modules: Module) -> None:
        self.modules = modules

    def forward(self, input: Expr) -> Expr:
        """Apply the modules in order."""
        for module in self.modules:
            input = module(input)
        return input


class ReLU(Module):
    """ReLU activation."""

    def forward(self, input: Expr) -> Var:
        """``max(input, 0)``."""
        return emit_te(topi.nn.relu, input)


class LogSoftmax(Module):
    """Log-softmax along the last axis."""

    def forward(self, input: Expr) -> Var:
        """``log(softmax(input))``."""
        return emit_te(topi.nn.log_softmax, input)


class Linear(Module):
    """Linear layer with an optional bias.

    Shapes:
        weight: [in_features, out_features]; bias: [out_features].
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter((in_features, out_features), name="linear_weight")
        self.bias = Parameter((out_features,), name="linear_bias") if bias else None

    def forward(self, input: Expr) -> Var:
        """``input @ weight + bias``."""
        matmul = emit_te(topi.matmul, input, self.weight)
        return matmul if self.bias is None else emit_te(topi.add, matmul, self.bias)
