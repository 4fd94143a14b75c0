"""Contexts load the dialects that the package builds operations of."""

import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlir import ir

import relax_mlir
from relax_mlir.ir.context import borrowed_context, new_context
from relax_mlir.ir.module import IRModule
from relax_mlir.pipeline import Pipeline
from relax_mlir.rewrite.patterns import Pass

_NAME = re.compile(r'"([a-z0-9_]+\.[a-z0-9_.]+)"')


def _named_operations() -> set[str]:
    """Every string of the package that names an operation of MLIR's."""
    everything = ir.Context()
    root = Path(relax_mlir.__file__).parent
    names: set[str] = set()
    for path in root.rglob("*.py"):
        names.update(_NAME.findall(path.read_text(encoding="utf-8")))
    return {name for name in names if everything.is_registered_operation(name)}


def test_operations_that_the_package_names_are_registered() -> None:
    names = _named_operations()

    assert len(names) > 100
    with borrowed_context() as context:
        missing = [n for n in names if not context.is_registered_operation(n)]
    assert sorted(missing) == []


_TEXT = """
  func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
    %y = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>
    return %y : tensor<2xf32>
  }
"""


def test_texts_load_other_dialects() -> None:
    with borrowed_context() as context, context:
        ir.Module.parse(_TEXT).operation.verify()


@dataclass(frozen=True)
class _Includes(Pass):
    """A user's pass that creates an operation of a dialect that the package's do not use."""

    def run(self, module: IRModule) -> None:
        body = module.mlir.body
        with (
            module.context,
            ir.Location.unknown(),
            ir.InsertionPoint.at_block_begin(body),
        ):
            header = {"include": ir.StringAttr.get("math.h")}
            ir.Operation.create("emitc.include", attributes=header)


@pytest.mark.parametrize("makes", [new_context, borrowed_context])
def test_passes_of_users_create_operations_of_all_dialects(makes: Any) -> None:
    """Where its dialect is not loaded, an operation that is created ends the process."""
    made = makes()
    with made if makes is borrowed_context else nullcontext(made) as context:
        module = IRModule.parse("func.func @main() { return }", context=context)
        Pipeline.of(_Includes()).run(module)

        assert "emitc.include" in str(module)
