"""Passes and modules for the pipeline tests."""

PASSES = '''
"""Passes that exist only while these tests run."""

from dataclasses import dataclass
from typing import Literal

from mlir import ir

from relax_mlir.rewrite.patterns import Pass


@dataclass(frozen=True)
class ZzOptions(Pass):
    """Has an option of every type."""

    count: int = 1
    share: float = 0.5
    is_on: bool = False
    some_text: str = "x"
    sizes: tuple[int, ...] = (1, 2)
    texts: tuple[str, ...] = ()
    pair: tuple[int, float] = (1, 2.0)
    limit: int | None = None
    label: str | None = "none"
    mode: Literal["fast", "small"] = "fast"

    def run(self, module):
        if self.count < 0:
            raise KeyError("count")


@dataclass(frozen=True)
class ZzRequired(Pass):
    """Needs an option."""

    count: int

    def __post_init__(self):
        if self.count > 9:
            raise ValueError("count must be at most 9")


@dataclass(frozen=True)
class ZzRename(Pass):
    """Works per function."""

    per_function = True
    name: str = "seen"

    def run_on_function(self, function, module):
        function.attributes[self.name] = ir.UnitAttr.get()


@dataclass(frozen=True)
class ZzBreak(Pass):
    """Leaves an invalid module: a value is used before it exists."""

    def run(self, module):
        ops = list(module.func_ops()[0].entry_block.operations)
        ops[0].move_after(ops[-2])


@dataclass(frozen=True)
class ZzMlirError(Pass):
    """Triggers an MLIR error."""

    def run(self, module):
        ir.Module.parse("func.func @f(", module.context)
'''


SOURCE = """
func.func @twice(%x: i32) -> i32 {
  %0 = arith.addi %x, %x : i32
  %1 = arith.addi %x, %x : i32
  %2 = arith.muli %0, %1 : i32
  return %2 : i32
}
func.func private @external(i32)
"""
