"""Contexts load the dialects that the package builds operations of."""

import re
from pathlib import Path

from mlir import ir

import relax_mlir
from relax_mlir.context import new_context

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
    context, names = new_context(), _named_operations()

    assert len(names) > 100
    assert [n for n in sorted(names) if not context.is_registered_operation(n)] == []


def test_texts_load_other_dialects() -> None:
    text = """
      func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = tosa.abs %x : (tensor<2xf32>) -> tensor<2xf32>
        return %y : tensor<2xf32>
      }
    """

    with new_context():
        ir.Module.parse(text).operation.verify()
