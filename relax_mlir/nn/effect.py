"""Effects: state that is threaded through functions as values, such as a KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relax_mlir.errors import ArgumentValueError
from relax_mlir.nn.tensor import Tensor, current_builder, get_default_dtype
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import PrimValue, Var
from relax_mlir.objects.expr.struct_info import (
    ObjectStructInfo,
    ShapeExpr,
    TensorStructInfo,
)
from relax_mlir.tvm.relax import op

__all__ = ["Effect", "IOEffect", "KVCache"]


class Effect:
    """Base of effects: state that each function takes and returns."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        """Emit the creation of the initial state."""
        raise NotImplementedError

    def create(self, name_hint: str) -> list[Var]:
        """The function parameters for the state."""
        raise NotImplementedError

    def set_state(self, state_vars: list[Var]) -> None:
        """Replace the current state."""
        raise NotImplementedError

    def finalize(self) -> list[Var]:
        """Return and clear the state, at the end of a function."""
        raise NotImplementedError

    def to(self, dtype: str | None = None) -> None:
        """Change the element type, if the effect has one."""


class _OneValue(Effect):
    """An effect whose state is one opaque value."""

    state: Var | None = None

    def set_state(self, state_vars: list[Var]) -> None:
        if len(state_vars) != 1:
            raise ArgumentValueError(
                f"{type(self).__name__}.set_state: `state_vars`: expected one variable, "
                f"got {len(state_vars)}"
            )
        (self.state,) = state_vars

    def finalize(self) -> list[Var]:
        state, self.state = self.current, None
        return [state]

    @property
    def current(self) -> Var:
        """The current state.

        Raises:
            ValueError: no function is being built.
        """
        if self.state is None:
            raise ValueError(
                "effect was used outside of a graph: expected a call inside of "
                "`export_tvm`, with `effect_mode` not `none`"
            )
        return self.state


class IOEffect(_OneValue):
    """Input and output: orders printing."""

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        return [builder.emit(op.null_value(), f"{name_hint}.io")]

    def create(self, name_hint: str) -> list[Var]:
        return [Var(f"{name_hint}.io", ObjectStructInfo())]

    @property
    def effect(self) -> Var | None:
        """The current state, or None if no function is being built."""
        return self.state


class KVCache(_OneValue):
    """A KV cache: a tensor that grows along its first axis across calls.

    The elements are owned by the registered functions
    ``vm.builtin.attention_kv_cache_create``, ``_append`` and ``_view``.

    Args:
        init_seq_len: the initial capacity in rows.
        unit_shape: the shape of one row.
        dtype: element type.
    """

    def __init__(
        self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None
    ) -> None:
        self.init_seq_len = init_seq_len
        self.unit_shape = [int(size) for size in unit_shape]
        self.dtype = dtype or get_default_dtype()

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Var]:
        shape = ShapeExpr([self.init_seq_len, *self.unit_shape])
        created = op.call_pure_packed(
            "vm.builtin.attention_kv_cache_create",
            op.zeros(shape, self.dtype),
            shape,
            PrimValue(0),
            sinfo_args=ObjectStructInfo(),
        )
        return [builder.emit(created, name_hint)]

    def create(self, name_hint: str) -> list[Var]:
        return [Var(name_hint, ObjectStructInfo())]

    @property
    def cache(self) -> Var | None:
        """The current state, or None if no function is being built."""
        return self.state

    def to(self, dtype: str | None = None) -> None:
        """Change the element type."""
        self.dtype = dtype or self.dtype

    def view(self, seq_len: Any) -> Tensor:
        """The first ``seq_len`` rows."""
        shape = ShapeExpr([seq_len, *self.unit_shape])
        found = op.call_pure_packed(
            "vm.builtin.attention_kv_cache_view",
            self.current,
            shape,
            sinfo_args=TensorStructInfo(shape, self.dtype),
        )
        return Tensor(_expr=current_builder().emit(found))

    def append(self, new_element: Tensor) -> None:
        """Append rows.

        Raises:
            TypeError: the element type differs.
        """
        if new_element.dtype != self.dtype:
            raise TypeError(
                f"cache of {self.dtype}: expected rows of {self.dtype}, got "
                f"{new_element.dtype}"
            )
        appended = op.call_inplace_packed(
            "vm.builtin.attention_kv_cache_append",
            self.current,
            new_element.as_expr(),
            inplace_indices=[0],
            sinfo_args=ObjectStructInfo(),
        )
        self.state = current_builder().emit(appended)
