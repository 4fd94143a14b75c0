"""Traversals of regions, on one operation of each kind of nesting."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mlir import ir

from relax_mlir.ir.traversal import (
    blocks_of,
    only_store,
    operations_named,
    operations_of,
    own_operations,
    values_read,
    walk,
)

_NESTED = """
func.func @f(%m: memref<4xf32>, %c: i1, %x: f32) {
  %a = arith.constant 0 : index
  %r = scf.if %c -> f32 {
    %l = memref.load %m[%a] : memref<4xf32>
    %s = arith.addf %l, %x : f32
    scf.yield %s : f32
  } else {
    scf.yield %x : f32
  }
  memref.store %r, %m[%a] : memref<4xf32>
  return
}
"""


@contextmanager
def parsed(text: str) -> Iterator[ir.Operation]:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        yield next(iter(module.body.operations)).operation


def names(ops: Iterator[ir.OpView]) -> list[str]:
    return [op.operation.name for op in ops]


def test_walk_is_in_pre_order_without_the_root() -> None:
    with parsed(_NESTED) as function:
        inside = ["memref.load", "arith.addf", "scf.yield", "scf.yield"]
        expected = ["arith.constant", "scf.if", *inside, "memref.store", "func.return"]

        assert names(walk(function)) == expected
        assert names(walk(function.regions[0].blocks[0])) == expected
        assert names(iter(own_operations(function.regions[0].blocks[0]))) == [
            *("arith.constant", "scf.if", "memref.store", "func.return")
        ]


def test_operations_of_a_block_are_before_those_inside_and_may_be_erased() -> None:
    with parsed(_NESTED) as function:
        own = ["arith.constant", "scf.if", "memref.store", "func.return"]
        then = ["memref.load", "arith.addf", "scf.yield"]
        assert names(operations_of(function)) == [*own, *then, "scf.yield"]

        (branch,) = operations_named(function, "scf.if")
        visited: list[str] = []
        for op in operations_of(function):
            visited.append(op.operation.name)
            if visited[-1] == "memref.store":
                op.operation.erase()
            elif visited[-1] == "func.return":
                branch.operation.erase()

        assert visited == own
        assert names(walk(function)) == ["arith.constant", "func.return"]


def test_operations_that_a_walk_inserts_are_not_visited() -> None:
    with parsed(_NESTED) as function:
        expected = names(walk(function))
        visited: list[str] = []
        for op in walk(function):
            visited.append(op.operation.name)
            if op.operation.name == "memref.load":
                op.operation.clone(
                    ip=ir.InsertionPoint(op.operation.block.operations[1])
                )
        assert visited == expected
        assert len(operations_named(function, "memref.load")) == 2


def test_blocks_are_in_pre_order() -> None:
    with parsed(_NESTED) as function:
        (branch,) = operations_named(function, "scf.if")
        found = list(blocks_of(function))

        assert [len(list(b.operations)) for b in found] == [4, 3, 1]
        assert list(blocks_of(branch)) == found[1:]


def test_named_finds_branches_too() -> None:
    with parsed(_NESTED) as function:
        assert len(operations_named(function, "scf.yield")) == 2
        assert operations_named(function, "memref.copy") == []


def test_values_read_are_operands_and_what_regions_capture() -> None:
    with parsed(_NESTED) as function:
        memref, condition, x = function.regions[0].blocks[0].arguments
        (branch,) = operations_named(function, "scf.if")
        (constant,) = operations_named(function, "arith.constant")
        (store,) = operations_named(function, "memref.store")
        expected = [condition, memref, constant.operation.results[0], x, x]

        assert values_read(branch) == expected
        assert values_read(store) == list(store.operands)
        assert values_read(function) == []


_STORE = "memref.store %x, %m[%a] : memref<4xf32>\n"


@pytest.mark.parametrize(
    ("body", "is_found"),
    [
        (_STORE, True),
        (f"scf.if %c {{ {_STORE} }}", False),
        ("", False),
        (_STORE + _STORE, False),
        (f"{_STORE} scf.if %c {{ {_STORE} }}", False),
    ],
)
def test_the_only_store_is_one_and_unconditional(body: str, is_found: bool) -> None:
    text = f"""func.func @f(%m: memref<4xf32>, %c: i1, %x: f32, %a: index) {{
      {body}
      return }}"""
    with parsed(text) as function:
        store = only_store(function.regions[0].blocks[0])
        assert (store is not None) is is_found
        assert store is None or store.operation.name == "memref.store"
