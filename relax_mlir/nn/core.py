"""What networks are made of, by the module that TVM has it in."""

from relax_mlir.argument_types import check_exports
from relax_mlir.nn.effect import Effect
from relax_mlir.nn.module import (
    Module,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
)
from relax_mlir.nn.tensor import (
    Object,
    Parameter,
    Tensor,
    get_default_dtype,
    set_default_dtype,
    wrap_nested,
)

__all__ = [
    "Effect",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Object",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Tensor",
    "get_default_dtype",
    "set_default_dtype",
    "wrap_nested",
]

check_exports(globals())
