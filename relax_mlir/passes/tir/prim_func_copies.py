"""Function specialization: copies of tensor programs for individual calls."""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.name_supply import UniqueNameSupply
from relax_mlir.passes.tir.fuse import erase_unused_programs
from relax_mlir.rewrite.functions import graph_functions
from relax_mlir.rewrite.patterns import erase_dead

__all__ = ["PrimFuncCopies"]

_UNREAD = ("relax.call_tir", tensors.TUPLE_PACK, "relax.constant")


class PrimFuncCopies:
    """The tensor programs of a module, and specialized copies of them.

    Attributes:
        programs: the original programs, by name.
        made: number of names given to copies.
    """

    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._names = UniqueNameSupply()
        self.programs: dict[str, func.FuncOp] = {}
        self.made = 0
        for function in module.func_ops():
            name = function.name.value
            self._names.reserve_name(name, add_prefix=False)
            if function_attributes.is_defined_prim_func(function):
                self.programs[name] = function

    def callee(self, call: CallTirOp) -> func.FuncOp | None:
        """The callee; None if it is a copy, or external."""
        return self.programs.get(call.attributes["callee"].value)

    def copy(self, name: str) -> func.FuncOp:
        """A copy of a program under a fresh name."""
        original = self.programs[name]
        with ir.InsertionPoint(original), original.location:
            copied = original.operation.clone().opview
            assert isinstance(copied, func.FuncOp)
        fresh = ir.StringAttr.get(self.fresh_name(name))
        copied.attributes["sym_name"] = fresh
        return copied

    def fresh_name(self, name: str) -> str:
        """A name that is unused in the module."""
        self.made += 1
        return self._names.fresh_name(name)

    def functions(self) -> list[func.FuncOp]:
        """The functions whose calls may change."""
        found = graph_functions(self._module)
        return [f for f in found if not function_attributes.is_primitive(f)]

    def calls(self) -> Iterator[CallTirOp]:
        """The calls that may change, in program order."""
        for function in self.functions():
            for op in list(own_operations(function.entry_block)):
                if isinstance(op, CallTirOp):
                    yield op

    def erase_dead(self) -> None:
        """Erases dead calls, constants and programs."""
        for function in self.functions():
            erase_dead(function.entry_block, lambda op: op.name in _UNREAD)
        if self.made:
            erase_unused_programs(self._module)
