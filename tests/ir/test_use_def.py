"""Use-def chains through tuple packs, unnamed and named."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mlir import ir

from relax_mlir.ir.context import shared_context
from relax_mlir.ir.traversal import own_operations
from relax_mlir.ir.use_def import (
    named_tuple_of,
    packed_operation,
    users_of,
    users_through,
)

_T = "tensor<2xf32>"
# An unnamed pack inside of another, a named one, and the users of each.
_PACKS = f"""
func.func @f(%x: {_T}, %y: {_T}) -> {_T} {{
  %0 = "relax.exp"(%x) : ({_T}) -> {_T}
  %1 = builtin.unrealized_conversion_cast %x, %y : {_T}, {_T} to tuple<{_T}, {_T}>
  %2 = builtin.unrealized_conversion_cast %1, %y : tuple<{_T}, {_T}>, {_T} to tuple<tuple<{_T}, {_T}>, {_T}>
  %3 = "relax.call"(%2) {{callee = @g}} : (tuple<tuple<{_T}, {_T}>, {_T}>) -> {_T}
  %4 = builtin.unrealized_conversion_cast %0 : {_T} to tuple<{_T}> {{relax.name = "t"}}
  %5 = "relax.call"(%4) {{callee = @h}} : (tuple<{_T}>) -> {_T}
  return %3 : {_T}
}}
"""
# Two results, and a tuple of them.
_RESULTS = """
func.func @f(%x: i32) -> i32 {
  %0:2 = arith.mulsi_extended %x, %x : i32
  PACK
  return %x : i32
}
"""


@contextmanager
def parsed(text: str) -> Iterator[ir.Block]:
    with shared_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        yield next(iter(module.body.operations)).operation.regions[0].blocks[0]


@contextmanager
def packed(text: str) -> Iterator[tuple[ir.OpView, ir.OpView]]:
    """The operation of two results, and the one after it."""
    with parsed(_RESULTS.replace("PACK", text)) as block:
        op, pack, *_ = own_operations(block)
        yield op, pack


def test_users_are_found_through_unnamed_packs() -> None:
    with parsed(_PACKS) as block:
        (x, y) = block.arguments
        exp, inner, outer, call, named, other, _ = own_operations(block)

        assert set(users_of(x)) == {exp, call}
        assert list(users_of(exp.results[0])) == [named]
        assert list(users_of(y)) == [call, call]
        assert list(users_of(named.results[0])) == [other]
        assert list(users_through(inner)) == [call]
        assert list(users_through(outer)) == [call]
        assert list(users_through(named)) == [named]
        assert list(users_through(exp)) == [exp]
        assert list(users_through(other)) == [other]


_PACK = (
    "%1 = builtin.unrealized_conversion_cast %0#0, %0#1 : i32, i32 to tuple<i32, i32>"
)
_NAMED = f'{_PACK} {{relax.name = "t"}}'


def test_all_results_in_a_tuple_are_one_binding_if_it_is_named() -> None:
    with packed(_NAMED) as (op, pack):
        assert named_tuple_of(op) == pack
        assert packed_operation(pack) == op
    with packed(_PACK) as (op, pack):
        assert named_tuple_of(op) is None
        assert packed_operation(pack) == op
    with packed("") as (op, _):
        assert named_tuple_of(op) is None


@pytest.mark.parametrize("order", ["%0#1, %0#0", "%0#0, %x", "%x, %0#1"])
def test_a_tuple_of_other_values_is_none_of_its_results(order: str) -> None:
    with packed(_NAMED.replace("%0#0, %0#1", order)) as (op, pack):
        assert named_tuple_of(op) is None
        assert packed_operation(pack) is None


def test_one_value_in_a_tuple_is_no_packed_operation() -> None:
    with parsed(_PACKS) as block:
        (named,) = (o for o in own_operations(block) if "relax.name" in o.attributes)

        assert packed_operation(named) is None
        assert named_tuple_of(named.operands[0].owner) == named
