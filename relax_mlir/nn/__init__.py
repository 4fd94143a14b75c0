"""PyTorch-like frontend: modules, layers and operators that build Relax functions.

Subclass :class:`Module` and define ``forward``; ``export_tvm`` returns the functions and
the parameters, ``jit`` compiles them.
"""

from relax_mlir.nn import core, exporter, modules, op, spec, visitor
from relax_mlir.nn.core import (
    Effect,
    Module,
    ModuleDict,
    ModuleList,
    Object,
    Parameter,
    ParameterDict,
    ParameterList,
    Tensor,
)
from relax_mlir.nn.exporter import add_extern
from relax_mlir.nn.extern import ExternModule, ObjectModule, SourceModule
from relax_mlir.nn.modules import (
    GELU,
    Attention,
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    Embedding,
    GroupNorm,
    Identity,
    IOEffect,
    KVCache,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    SiLU,
    Softmax,
    TimestepEmbedding,
    Timesteps,
)
from relax_mlir.nn.op import *  # noqa: F403  it has __all__
from relax_mlir.nn.subroutine import SubroutineMixin
from relax_mlir.nn.visitor import Mutator
from relax_mlir.support.argument_types import check_exports

__all__ = [
    "GELU",
    "Attention",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "ConvTranspose1D",
    "Effect",
    "Embedding",
    "ExternModule",
    "GroupNorm",
    "IOEffect",
    "Identity",
    "KVCache",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Mutator",
    "Object",
    "ObjectModule",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RMSNorm",
    "ReLU",
    "SiLU",
    "Softmax",
    "SourceModule",
    "SubroutineMixin",
    "Tensor",
    "TimestepEmbedding",
    "Timesteps",
    "add_extern",
    "core",
    "exporter",
    "modules",
    "op",
    "spec",
    "visitor",
]
__all__ += op.__all__

check_exports(globals())
