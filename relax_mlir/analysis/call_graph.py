"""Call graph of a module."""

from collections.abc import Iterable, Iterator, Mapping

from mlir import ir

from relax_mlir.dialects.tir import attribute_names
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk

__all__ = ["CallGraph", "calls_function"]


class CallGraph:
    """The functions of a module and the functions that each calls or refers to.

    Edges are the symbol references in the attributes of a function and of all operations
    inside it (calls by graph functions, arguments of ``call_tir`` and of packed calls, nested
    functions and branches), and the subroutines that tensor programs call.

    Args:
        module: a snapshot is analysed; later changes are not reflected.
    """

    def __init__(self, module: IRModule) -> None:
        functions = {f.name.value: f for f in module.func_ops()}
        self._callees: Mapping[str, list[str]] = {
            name: [n for n in dict.fromkeys(_references(function)) if n in functions]
            for name, function in functions.items()
        }
        self._callers: dict[str, list[str]] = {name: [] for name in functions}
        for caller, callees in self._callees.items():
            for callee in callees:
                self._callers[callee].append(caller)

    def callees(self, name: str) -> list[str]:
        """The functions that one refers to, each once, in order."""
        return self._callees[name]

    def callers(self, name: str) -> list[str]:
        """The functions that refer to one, in order."""
        return self._callers[name]

    def reachable(self, roots: Iterable[str]) -> set[str]:
        """The functions reachable from the roots, including the roots."""
        found: set[str] = set()
        todo = list(roots)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self._callees[name]
        return found

    def is_recursive(self, name: str) -> bool:
        """Whether a function refers to itself, directly or indirectly."""
        return name in self.reachable(self._callees[name])

    def cycles(self) -> list[list[str]]:
        """The recursive groups of functions (strongly connected components), in order."""
        reached = {n: self.reachable(self._callees[n]) for n in self._callees}
        groups: dict[tuple[str, ...], None] = {}
        for name in self._callees:
            if name in reached[name]:
                component = (
                    n for n in reached if n in reached[name] and name in reached[n]
                )
                groups[tuple(component)] = None
        return list(map(list, groups))


def calls_function(op: ir.OpView, name: str) -> bool:
    """Whether an operation, excluding nested ones, refers to a function."""
    return name in _references_of(op)


def _references(function: ir.OpView) -> Iterator[str]:
    yield from _references_of(function)
    for op in walk(function):
        yield from _references_of(op)


def _references_of(op: ir.OpView) -> Iterator[str]:
    attributes = op.operation.attributes
    for name in attributes:
        yield from _symbols_in(attributes[name])
    if attribute_names.SUBROUTINE in attributes:
        yield ir.StringAttr(attributes["callee"]).value


def _symbols_in(attribute: ir.Attribute) -> Iterator[str]:
    """The symbol references in an attribute."""
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        yield attribute.value
    elif isinstance(attribute, ir.ArrayAttr):
        for inner in attribute:
            yield from _symbols_in(inner)
    elif isinstance(attribute, ir.DictAttr):
        for named in attribute:
            yield from _symbols_in(named.attr)
