"""Operator namespaces: ``relax.op.nn``, ``relax.op.vm`` and others."""

from types import SimpleNamespace
from typing import Any

from relax_mlir.objects.operators import operator_names
from relax_mlir.tvm.relax.op.functions import operator_function
from relax_mlir.tvm.relax.op.shorthand import attention, relu6

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


class OpNamespace(SimpleNamespace):
    """Namespace of the builder functions of operators ``relax.<name>.*``.

    Args:
        name: the namespace.
        functions: further functions, such as those that build several operators.
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
        names = (
            n.removeprefix(prefix) for n in operator_names() if n.startswith(prefix)
        )
        return sorted(names)


builtin = OpNamespace("builtin")
ccl = OpNamespace("ccl")
grad = OpNamespace("grad")
image = OpNamespace("image")
inspect = OpNamespace("inspect")
memory = OpNamespace("memory")
nn = OpNamespace("nn", attention=attention, relu6=relu6)
vision = OpNamespace("vision")
vm = OpNamespace("vm")
