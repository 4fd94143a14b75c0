"""Core classes of the frontend, re-exported under TVM's module name."""

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
from relax_mlir.support.argument_types import check_exports

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
