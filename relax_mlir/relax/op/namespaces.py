"""The parts of Relax's operator names before a dot."""

from types import SimpleNamespace
from typing import Any

from relax_mlir.objects.operators import operator_names
from relax_mlir.relax.op.functions import operator_function
from relax_mlir.relax.op.shorthand import attention, relu6

__all__ = [
    "builtin",
    "ccl",
    "grad",
    "image",
    "inspect",
    "memory",
    "nn",
    "vision",
    "vm",
]


class Namespace(SimpleNamespace):
    """The operators ``relax.<name>.*`` as functions.

    Args:
        name: the part of their names before the dot.
        functions: those that are built of others.
    """

    def __init__(self, name: str, **functions: Any) -> None:
        super().__init__(**functions)
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:  # Any: a function of any signature
        if name.startswith("__"):
            raise AttributeError(name)
        return operator_function(f"relax.{self.__name__}.{name}")

    def __dir__(self) -> list[str]:
        prefix = f"relax.{self.__name__}."
        found = (
            n.removeprefix(prefix) for n in operator_names() if n.startswith(prefix)
        )
        return sorted(found)


builtin = Namespace("builtin")
ccl = Namespace("ccl")
grad = Namespace("grad")
image = Namespace("image")
inspect = Namespace("inspect")
memory = Namespace("memory")
nn = Namespace("nn", attention=attention, relu6=relu6)
vision = Namespace("vision")
vm = Namespace("vm")
