"""Attribute names and strings that abort MLIR, such as empty names, are rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from relax_mlir import IRModule
from relax_mlir.tvm import tir
from relax_mlir.tvm.script import relax as R  # noqa: N812  as scripts do
from relax_mlir.tvm.script import tir as T  # noqa: N812

# pyright: reportInvalidTypeForm=false


@T.prim_func
def _double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("double"):
            v = T.axis.spatial(4, i)
            y[v] = x[v] * 2.0


@R.function
def _same(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    return x


def _main() -> Any:
    return IRModule({"main": _same})["main"]


def _annotated_loop(attrs: dict[Any, Any]) -> object:
    buffer, i = tir.decl_buffer((4,), name="A"), tir.Var("i", "int32")
    store = tir.BufferStore(buffer, tir.const(1.0, "float32"), [i])
    loop = tir.For(i, 0, 4, tir.ForKind.SERIAL, store, annotations=attrs)
    handle = tir.Var("a", "handle")
    return str(
        IRModule({"main": tir.PrimFunc([handle], loop, buffer_map={handle: buffer})})
    )


def _annotated_block(attrs: dict[Any, Any]) -> None:
    schedule = tir.Schedule(IRModule({"main": _double}))
    block = schedule.get_block("double")
    for name, value in attrs.items():
        schedule.annotate(block, name, value)


_WAYS: tuple[Callable[[dict[Any, Any]], object], ...] = (
    _main().with_only_attrs,
    lambda attrs: _main().with_attr("a", attrs),
    _double.with_attrs,
    lambda attrs: IRModule({"main": _same}).with_attrs(attrs),
    _annotated_loop,
    _annotated_block,
)


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"": 3}, "expected names of attributes, got an empty one"),
        ({"a": "\ud800"}, "expected text in UTF-8"),
        ({"a": 2**63}, "expected an integer of 64 bits"),
    ],
)
def test_names_that_abort_mlir_are_rejected(
    way: Callable[[dict[Any, Any]], object], attrs: dict[Any, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        way(attrs)


def test_integers_of_64_bits_are_kept() -> None:
    for value in (2**63 - 1, -(2**63)):
        assert _main().with_attr("a", value).attrs["a"] == value
