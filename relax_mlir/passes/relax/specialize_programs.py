"""``relax-specialize-programs``: programs of symbolic sizes become those of known ones."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.graphs import graph_functions, operations_of
from relax_mlir.module import IRModule
from relax_mlir.objects.function import copy_function
from relax_mlir.objects.name_supply import UniqueNameSupply
from relax_mlir.objects.prim_func import PrimFunc
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.rewriting import Pass

__all__ = ["SpecializePrograms", "specialize_calls"]


@dataclass(frozen=True)
class SpecializePrograms(Pass):
    """Call a copy of a tensor program for the sizes that a call knows.

    Loops and buffers of known sizes get better schedules. Calls that know the same sizes
    share a copy. A program that holds what scripts have no spelling for stays as it is.
    """

    def run(self, module: IRModule) -> None:
        if specialize_calls(module, graph_functions(module)):
            erase_unreachable(module, ())


def specialize_calls(module: IRModule, functions: Iterable[func.FuncOp]) -> bool:
    """Let calls in graph functions name copies of programs for the sizes that they know.

    Returns:
        Whether any call knows one.
    """
    copies = _Copies(module)
    for function in functions:
        for op in operations_of(function):
            if isinstance(op, CallTirOp):
                copies.call(op)
    return bool(copies.made)


# A name, and which of the sizes of the original are still passed.
_Copy = tuple[str, tuple[int, ...]]


@dataclass
class _Copies:
    """Copies of programs by the sizes that they are for."""

    module: IRModule
    names: UniqueNameSupply = field(default_factory=UniqueNameSupply)
    made: dict[tuple[str, tuple[int | None, ...]], _Copy | None] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        for function in self.module.func_ops():
            self.names.reserve_name(function.name.value, add_prefix=False)

    def call(self, op: CallTirOp) -> None:
        """Let a call name the copy for its sizes, if it knows any."""
        sizes: tuple[Dim, ...] = tuple(tensors.python_value(op.attributes["sizes"]))
        if not any(isinstance(size, int) for size in sizes):
            return
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        known = tuple(size if isinstance(size, int) else None for size in sizes)
        if (callee, known) not in self.made:
            self.made[callee, known] = self._copy(callee, known)
        copy = self.made[callee, known]
        if copy is not None:
            name, passed = copy
            op.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
            op.attributes["sizes"] = tensors.shape_attr([sizes[i] for i in passed])

    def _copy(self, callee: str, known: tuple[int | None, ...]) -> _Copy | None:
        # Alone, it is found without a search through the module.
        program: PrimFunc = self.module[callee].copy()
        variables = program.size_vars()
        if len(variables) != len(known):
            return None
        sizes = {
            var: size
            for var, size in zip(variables, known, strict=True)
            if size is not None
        }
        try:
            made = program.with_sizes(sizes).without_attr("global_symbol")
        except ValueError:  # no script can say what it holds
            return None
        name = self.names.fresh_name(callee)
        copy_function(made, self.module, name)
        numbers = {id(var): number for number, var in enumerate(variables)}
        return name, tuple(numbers[id(var)] for var in made.size_vars())
