"""All layers, re-exported under TVM's module name."""

from relax_mlir.nn import attention, convolutions, layers
from relax_mlir.nn.attention import *  # noqa: F403  it has __all__
from relax_mlir.nn.convolutions import *  # noqa: F403
from relax_mlir.nn.effect import Effect, IOEffect, KVCache
from relax_mlir.nn.layers import *  # noqa: F403
from relax_mlir.nn.module import Module, ModuleList
from relax_mlir.nn.tensor import Parameter, Tensor, get_default_dtype
from relax_mlir.support.argument_types import check_exports

__all__ = [
    "Effect",
    "IOEffect",
    "KVCache",
    "Module",
    "ModuleList",
    "Parameter",
    "Tensor",
    "get_default_dtype",
]
__all__ += attention.__all__
__all__ += convolutions.__all__
__all__ += layers.__all__

check_exports(globals())
