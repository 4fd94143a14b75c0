"""Operators on tensors; each emits a binding in the function being built."""

from relax_mlir.nn.op import (
    calls,
    create,
    elementwise,
    layers,
    movement,
    reduce,
    sampling,
)
from relax_mlir.nn.op.calls import *  # noqa: F403  it has __all__
from relax_mlir.nn.op.create import *  # noqa: F403
from relax_mlir.nn.op.elementwise import *  # noqa: F403
from relax_mlir.nn.op.layers import *  # noqa: F403
from relax_mlir.nn.op.movement import *  # noqa: F403
from relax_mlir.nn.op.reduce import *  # noqa: F403
from relax_mlir.nn.op.sampling import *  # noqa: F403
from relax_mlir.nn.tensor import wrap_nested
from relax_mlir.support.argument_types import check_exports

__all__ = ["wrap_nested"]
__all__ += calls.__all__
__all__ += create.__all__
__all__ += elementwise.__all__
__all__ += layers.__all__
__all__ += movement.__all__
__all__ += reduce.__all__
__all__ += sampling.__all__

check_exports(globals())
