"""The relax dialect: one class per operator, by family.

An operator's class is ``relax.AddOp`` from here, or from its family's module.
"""

from relax_mlir.dialects.relax import (
    activation,
    arg_reduce,
    arithmetic,
    bitwise,
    cast,
    compare,
    conv,
    conv_transpose,
    cumulative,
    exponential,
    global_pool,
    indexing,
    instance_norm,
    layer_norm,
    local_norm,
    log_reduce,
    matmul,
    movement,
    norm,
    padding,
    pool,
    rectifier,
    reduce,
    resize,
    scatter,
    slicing,
    trigonometry,
)
from relax_mlir.dialects.relax.core import Relax, RelaxOperation, relax_ops

__all__ = [
    "Relax",
    "RelaxOperation",
    "activation",
    "arg_reduce",
    "arithmetic",
    "bitwise",
    "cast",
    "compare",
    "conv",
    "conv_transpose",
    "cumulative",
    "exponential",
    "global_pool",
    "indexing",
    "instance_norm",
    "layer_norm",
    "local_norm",
    "log_reduce",
    "matmul",
    "movement",
    "norm",
    "padding",
    "pool",
    "rectifier",
    "reduce",
    "relax_ops",
    "resize",
    "scatter",
    "slicing",
    "trigonometry",
]


def __getattr__(name: str) -> type[RelaxOperation]:
    """The class of an operator, whichever family it belongs to."""
    for op in Relax.operations:
        if op.__name__ == name:
            return op
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
