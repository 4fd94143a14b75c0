"""Test utilities: ``tvm.testing``: fixtures, requirements and comparisons."""

from relax_mlir.tvm.testing import comparison, env, fixtures, requirements
from relax_mlir.tvm.testing.comparison import *  # noqa: F403  it has __all__
from relax_mlir.tvm.testing.fixtures import *  # noqa: F403
from relax_mlir.tvm.testing.requirements import *  # noqa: F403

__all__ = ["env"]
__all__ += comparison.__all__
__all__ += fixtures.__all__
__all__ += requirements.__all__
