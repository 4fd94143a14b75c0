"""What passes share that call other versions of tensor programs."""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.graphs import graph_functions
from relax_mlir.module import IRModule
from relax_mlir.objects.name_supply import UniqueNameSupply
from relax_mlir.passes.tir.fuse import drop_unused
from relax_mlir.rewriting import erase_dead
from relax_mlir.traversal import own_operations

__all__ = ["ProgramCopies"]

_UNREAD = ("relax.call_tir", "builtin.unrealized_conversion_cast", "relax.constant")


class ProgramCopies:
    """The tensor programs of a module, and copies of them for some of their calls.

    Attributes:
        programs: by name, as they were at first.
        made: how many copies there are.
    """

    def __init__(self, module: IRModule) -> None:
        self._module = module
        self._names = UniqueNameSupply()
        self.programs: dict[str, func.FuncOp] = {}
        self.made = 0
        for function in module.func_ops():
            name = function.name.value
            self._names.reserve_name(name, add_prefix=False)
            if "tir.prim_func" in function.attributes and not function.is_external:
                self.programs[name] = function

    def called(self, call: CallTirOp) -> func.FuncOp | None:
        """The program of a call; None if it is a copy, or defined elsewhere."""
        return self.programs.get(call.attributes["callee"].value)

    def copy(self, name: str) -> func.FuncOp:
        """A copy of a program, beside it, under a name of its own."""
        original = self.programs[name]
        with ir.InsertionPoint(original), original.location:
            copied = original.operation.clone().opview
            assert isinstance(copied, func.FuncOp)
        fresh = ir.StringAttr.get(self.fresh_name(name))
        copied.attributes["sym_name"] = fresh
        return copied

    def fresh_name(self, name: str) -> str:
        """A name that nothing in the module has, for another version of a program."""
        self.made += 1
        return self._names.fresh_name(name)

    def functions(self) -> list[func.FuncOp]:
        """The functions whose calls may change."""
        found = graph_functions(self._module)
        return [f for f in found if "relax.primitive" not in f.attributes]

    def calls(self) -> Iterator[CallTirOp]:
        """The calls that may change, in order."""
        for function in self.functions():
            for op in list(own_operations(function.entry_block)):
                if isinstance(op, CallTirOp):
                    yield op

    def drop_unread(self) -> None:
        """Erase calls, constants and programs that nothing needs any more."""
        for function in self.functions():
            erase_dead(function.entry_block, lambda op: op.name in _UNREAD)
        if self.made:
            drop_unused(self._module)
