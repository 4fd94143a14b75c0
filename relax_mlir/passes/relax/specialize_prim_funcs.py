"""``relax-specialize-prim-funcs``: copies of tensor programs for static call sizes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import func

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import CallTirOp
from relax_mlir.dialects.shapes import Dim
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import operations_of
from relax_mlir.objects.function import copy_function
from relax_mlir.objects.name_supply import UniqueNameSupply
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.passes.relax.dead_code_elimination import erase_unreachable
from relax_mlir.rewrite.functions import graph_functions
from relax_mlir.rewrite.patterns import Pass

__all__ = ["SpecializePrimFuncs", "specialize_calls"]


@dataclass(frozen=True)
class SpecializePrimFuncs(Pass):
    """Specialize tensor programs for the static sizes of their calls.

    Loops and buffers of static size get better schedules. Calls of equal sizes share a copy.
    A program that the script syntax cannot express stays as it is.
    """

    def run(self, module: IRModule) -> None:
        if specialize_calls(module, graph_functions(module)):
            erase_unreachable(module, ())


def specialize_calls(module: IRModule, functions: Iterable[func.FuncOp]) -> bool:
    """Redirects calls in graph functions to copies of programs for their static sizes.

    Returns:
        Whether any call was specialized.
    """
    copies = _Copies(module)
    for function in functions:
        for op in operations_of(function):
            if isinstance(op, CallTirOp):
                copies.call(op)
    return bool(copies.made)


# The name of a copy, and the indices of the original's sizes that are still passed.
_Copy = tuple[str, tuple[int, ...]]


@dataclass
class _Copies:
    """Specialized copies of programs, by callee and static sizes."""

    module: IRModule
    names: UniqueNameSupply = field(default_factory=UniqueNameSupply)
    made: dict[tuple[str, tuple[int | None, ...]], _Copy | None] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        for function in self.module.func_ops():
            self.names.reserve_name(function.name.value, add_prefix=False)

    def call(self, op: CallTirOp) -> None:
        """Redirects a call to the copy for its static sizes, if it has any."""
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
        # A copy outside of the module needs no symbol lookups in it.
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
        except ValueError:  # the script syntax cannot express it
            return None
        name = self.names.fresh_name(callee)
        copy_function(made, self.module, name)
        numbers = {id(var): number for number, var in enumerate(variables)}
        return name, tuple(numbers[id(var)] for var in made.size_vars())
