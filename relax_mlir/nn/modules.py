"""All layers, by the module that TVM has them in."""

from relax_mlir.argument_types import check_exports
from relax_mlir.nn import attention, convolutions, layers
from relax_mlir.nn.attention import *  # noqa: F403  it has __all__
from relax_mlir.nn.convolutions import *  # noqa: F403
from relax_mlir.nn.effect import Effect, IOEffect, KVCache
from relax_mlir.nn.layers import *  # noqa: F403
from relax_mlir.nn.module import Module, ModuleList
from relax_mlir.nn.tensor import Parameter, Tensor, get_default_dtype

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
