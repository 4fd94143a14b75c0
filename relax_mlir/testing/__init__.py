"""What tests share: of operators and models, and of programs written for TVM."""

from relax_mlir.testing import comparison, env, fixtures, requirements
from relax_mlir.testing.cases import assert_same_numbers, case_module, flat_inputs
from relax_mlir.testing.comparison import *  # noqa: F403  it has __all__
from relax_mlir.testing.fixtures import *  # noqa: F403
from relax_mlir.testing.requirements import *  # noqa: F403

__all__ = ["assert_same_numbers", "case_module", "env", "flat_inputs"]
__all__ += comparison.__all__
__all__ += fixtures.__all__
__all__ += requirements.__all__
